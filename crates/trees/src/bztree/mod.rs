//! The BzTree: a lock-free B+-tree with nodes that are changed by multi-word compare-and-swap.
//!
//! ```text
//!            root word                     no mapping table: a parent's word is the child's address,
//!                |                         changed together with the parent's status
//!        +-------+-------+
//!        v               v
//!   leaf | status | slots, in order of arrival | sorted records |
//! ```
//! A leaf takes new records in its slots, in two changes of its status word: one reserves a slot,
//! one makes it visible. A leaf without free slots is frozen and replaced by one with all records
//! sorted, or by two. *In place*, the payload of a key that is present is replaced where it is. In
//! the *append* variant it is not: every write takes a slot, a `put` does not even look for the
//! key, and a read takes the newest record.
//!
//! | to learn about | read |
//! |---|---|
//! | multi-word compare-and-swap, helping | `mwcas` |
//! | nodes in memory | `node.rs`, `cache_line_search.rs` |
//! | the status word; the words of a leaf and when they may change | `status_word.rs`, `leaf_word_changes.rs` |
//! | searches | `search_and_descend.rs`, `leaf_lookup.rs` |
//! | the operations | `leaf_lookup.rs`, `batch.rs`, `write.rs`, `scan.rs`, `bulk.rs` |
//! | structure changes | `replace.rs`, `merge.rs` |
//! | leaf versions and stamps against phantoms | `leaf_table.rs` |
//!
//! Every operation is lock-free; reads of single keys take at most one step for each level, unless
//! they meet a change, which they help to complete. Memory is reclaimed by epochs.
//!
//! Paper: bwtree §2.3, §5.2; Arulraj et al., "BzTree: A high-performance latch-free range index for
//! non-volatile memory"

mod batch;
mod bulk;
mod leaf_lookup;
mod leaf_table;
mod leaf_word_changes;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod merge;
mod node;
mod replace;
mod scan;
mod search_and_descend;
mod statistics;
mod status_word;
mod write;

use std::fmt;
use std::marker::PhantomData;

use crossbeam_epoch as epoch;
use namiki_index::key::{Fixed8, Key, Variable};
use namiki_index::shared::counters::Counters;
use namiki_index::{
    Change, Changed, Expected, IndexError, LeafVersion, Lookup, OrderedIndex, PointIndex,
};

use self::leaf_table::{Leaves, version};
use self::node::{OwnedNode, RootWord, Shape};
use self::status_word::{RECORDS_MAX, SLOTS_MAX};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Append {}
    impl Sealed for super::InPlace {}
}

/// The treatment of a write to a key that is present. Implemented by [`Append`] and [`InPlace`]
/// only.
pub trait Variant: sealed::Sealed + Sized + Send + Sync + 'static {
    /// Whether it replaces the payload in place.
    const IN_PLACE: bool;
}

/// A write adds a record, whether the key is present or not.
#[derive(Debug)]
pub struct Append;

/// A write replaces the payload of a key that is present.
#[derive(Debug)]
pub struct InPlace;

impl Variant for Append {
    const IN_PLACE: bool = false;
}

impl Variant for InPlace {
    const IN_PLACE: bool = true;
}

/// Sizes that structure changes depend on. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BzConfig {
    /// A leaf that is replaced and has more records than this is split. 2 to 500.
    pub leaf_max: usize,
    /// An inner node with more children than this is split. 4 to 4096.
    pub inner_max: usize,
    /// Slots of a leaf: the number of records that it takes before it is replaced. 1 to 16, not
    /// more than `leaf_max`.
    pub slots: usize,
    /// How full a bulk load makes its nodes, in percent of the maximum.
    pub load_percent: usize,
}

impl Default for BzConfig {
    fn default() -> Self {
        Self {
            leaf_max: 64,
            inner_max: 256,
            slots: 16,
            load_percent: 80,
        }
    }
}

impl BzConfig {
    /// The smallest possible nodes, so that structure changes happen all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self {
            leaf_max: 4,
            inner_max: 4,
            slots: 2,
            load_percent: 75,
        }
    }

    fn checked(self) -> Self {
        let leaf_max = self.leaf_max.clamp(2, RECORDS_MAX / 2);
        Self {
            leaf_max,
            inner_max: self.inner_max.clamp(4, 1 << 12),
            slots: self.slots.clamp(1, SLOTS_MAX.min(leaf_max)),
            load_percent: self.load_percent.clamp(1, 100),
        }
    }

    /// A leaf with fewer records is merged if it fits.
    const fn leaf_min(&self) -> usize {
        self.leaf_max.div_ceil(4)
    }

    /// The most records that two leaves which are to be merged may have together.
    const fn merged_max(&self) -> usize {
        self.leaf_max - self.leaf_max / 4
    }

    /// An inner node with fewer children is merged if it fits.
    const fn inner_min(&self) -> usize {
        let quarter = self.inner_max / 4;
        if quarter < 2 { 2 } else { quarter }
    }
}

/// A BzTree over one kind of keys.
///
/// Payloads are less than 2⁶¹. Dropping the tree frees it; retired nodes go when the collector gets to
/// them.
pub struct BzTree<K: Key, V: Variant> {
    root: RootWord<K>,
    leaves: Leaves,
    config: BzConfig,
    counters: Counters,
    variant: PhantomData<V>,
}

/// A BzTree of eight-byte keys.
pub type FixedBzTree<V> = BzTree<Fixed8, V>;
/// A BzTree of byte strings up to 64 KiB.
pub type VariableBzTree<V> = BzTree<Variable, V>;

impl<K: Key, V: Variant> fmt::Debug for BzTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BzTree")
            .field("in_place", &V::IN_PLACE)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: Variant> Default for BzTree<K, V> {
    fn default() -> Self {
        Self::new(BzConfig::default())
    }
}

impl<K: Key, V: Variant> Drop for BzTree<K, V> {
    fn drop(&mut self) {
        self.root.free_all();
    }
}

impl<K: Key, V: Variant> BzTree<K, V> {
    /// An empty tree. Sizes out of range are clamped.
    #[must_use]
    pub fn new(config: BzConfig) -> Self {
        let config = config.checked();
        let leaves = Leaves::new();
        let Some((number, counter)) = leaves.take() else {
            unreachable!("a new table has free numbers")
        };
        let shape = Shape {
            level: 0,
            number,
            counter,
            slots: config.slots,
            low: K::min(),
            high: None,
        };
        let root = OwnedNode::build(&shape, &[]);
        let word = leaves.word(number);
        word.store(root.as_ref().address(), std::sync::atomic::Ordering::SeqCst);
        Self {
            root: RootWord::new(root),
            leaves,
            config,
            counters: Counters::default(),
            variant: PhantomData,
        }
    }

    /// Takes all page numbers that were never used, so that the tree soon has to refuse new keys:
    /// for tests.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.leaves.use_up();
    }
}

impl<K: Key, V: Variant> PointIndex for BzTree<K, V> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        Ok(self.leaf(key, guard).get::<V>(key, guard))
    }

    #[inline]
    fn change(
        &self,
        key: &[u8],
        expected: Expected,
        decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        self.change_key(key, expected, decide)
    }

    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        if V::IN_PLACE {
            return self.write(key, payload).map(drop);
        }
        self.append(key, payload)
    }

    fn leaf_rts(&self, leaf: u64) -> u64 {
        self.leaves.rts(leaf)
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        let guard = &epoch::pin();
        self.leaves.raise(seen.leaf, rts);
        while let Some((leaf, status)) = self.leaves.find::<K>(seen.leaf, guard) {
            if !status.is_frozen() {
                return version(leaf, status) == seen;
            }
            self.replace(leaf.low(), leaf, guard);
        }
        false
    }

    fn current(&self, leaf: u64) -> Option<LeafVersion> {
        let guard = &epoch::pin();
        let (leaf, status) = self.leaves.find::<K>(leaf, guard)?;
        Some(version(leaf, status))
    }

    namiki_index::methods_by_lanes_and_census!(K);
}

impl<K: Key, V: Variant> OrderedIndex for BzTree<K, V> {
    namiki_index::methods_by_fences!(K);
}
