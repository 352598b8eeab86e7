//! The B-link tree: a B+-tree in which all nodes have a high key and a link to their right sibling, so that
//! readers need no latches and writers few.
//!
//! ```text
//!   root --> |        f         m        |               every node: its keys are less than its
//!              |        |         |                      high key, and from there on they are in
//!              v        v         v                      the sibling that its link leads to
//!         | a c d | f h k | m n p q |
//!           high f --> high m --> no link
//! ```
//!
//! Nodes are changed in place and have no indirection: a search costs one cache miss at the leaf,
//! as inner nodes are few and stay in the caches, and it prefetches all lines of the leaf that it
//! will need at once.
//!
//! | to learn about | read |
//! |---|---|
//! | the latch, and how readers do without | `latch.rs` |
//! | nodes in memory, kept byte strings | `node.rs`, `out_of_line_keys.rs` |
//! | the search in a node | `search.rs` |
//! | descent, and moves to the right | `descend.rs` |
//! | the operations | `write.rs`, `scan.rs`, `batch.rs`, `bulk.rs` |
//! | structure changes | `split.rs`, `merge.rs` |
//!
//! Progress: readers wait only for a writer that is storing a change of the very node that they
//! read; writers wait for each other's latches, which are taken in one order. Memory is reclaimed
//! by epochs (`crossbeam-epoch`). Leaf versions and stamps: `leaf_table.rs`.
//!
//! Paper: bwtree §2.2, figure 3; Lehman and Yao, *Efficient locking for concurrent operations on
//! B-trees* (1981)

mod batch;
mod bulk;
mod count_and_prefix_word;
mod descend;
#[cfg(test)]
mod invariant_tests;
mod latch;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod merge;
mod node;
mod out_of_line_keys;
mod scan;
mod search;
mod search_window;
mod split;
mod statistics;
mod write;

use std::fmt;

use crossbeam_epoch as epoch;
use namiki_index::key::{Fixed8, Key, Variable};
use namiki_index::shared::counters::Counters;
use namiki_index::shared::leaf_table::LeafTable;
use namiki_index::{Change, Changed, Expected, IndexError, Lookup, OrderedIndex, PointIndex};

use self::node::{Nodes, Root};

/// Sizes of nodes. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlinkConfig {
    /// Most records of a leaf. At least 2, at most 1024.
    pub leaf_max: usize,
    /// Most children of an inner node. At least 4, at most 1024.
    pub inner_max: usize,
    /// How full a bulk load makes the nodes, in percent of the maximum.
    pub load_percent: usize,
}

impl Default for BlinkConfig {
    /// With their headers, nodes of eight-byte keys are a little shorter than 2 and 4 KiB: sizes that an
    /// allocator has.
    fn default() -> Self {
        Self {
            leaf_max: 120,
            inner_max: 248,
            load_percent: 80,
        }
    }
}

impl BlinkConfig {
    /// The smallest possible nodes, so that structure changes happen all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self {
            leaf_max: 4,
            inner_max: 4,
            load_percent: 75,
        }
    }

    fn checked(self) -> Self {
        Self {
            leaf_max: self.leaf_max.clamp(2, 1024),
            inner_max: self.inner_max.clamp(4, 1024),
            load_percent: self.load_percent.clamp(1, 100),
        }
    }

    /// A leaf with fewer records is merged if it fits.
    const fn leaf_min(&self) -> usize {
        self.leaf_max.div_ceil(4)
    }

    /// An inner node with fewer children is merged if it fits.
    const fn inner_min(&self) -> usize {
        let quarter = self.inner_max / 4;
        if quarter < 2 { 2 } else { quarter }
    }
}

/// A B-link tree over one kind of keys.
///
/// Payloads may be any `u64`. Dropping the tree frees it; retired nodes go when the collector gets
/// to them.
pub struct BlinkTree<K: Key> {
    root: Root<K>,
    config: BlinkConfig,
    nodes: Nodes,
    table: LeafTable,
    counters: Counters,
}

/// A B-link tree of eight-byte keys.
pub type FixedBlinkTree = BlinkTree<Fixed8>;
/// A B-link tree of byte strings up to 64 KiB.
pub type VariableBlinkTree = BlinkTree<Variable>;

impl<K: Key> fmt::Debug for BlinkTree<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlinkTree")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: Key> Default for BlinkTree<K> {
    fn default() -> Self {
        Self::new(BlinkConfig::default())
    }
}

impl<K: Key> BlinkTree<K> {
    /// An empty tree. Sizes out of range are clamped.
    #[must_use]
    pub fn new(config: BlinkConfig) -> Self {
        let config = config.checked();
        let nodes = Nodes::new(config.leaf_max, config.inner_max);
        let table = LeafTable::new();
        let Some(mark) = table.mark() else {
            unreachable!("a new table has free numbers")
        };
        let leaf = nodes.leaf::<K>(out_of_line_keys::keep::<K>(K::min()), mark);
        nodes.publish(leaf, &table);
        Self {
            root: Root::new(leaf),
            config,
            nodes,
            table,
            counters: Counters::default(),
        }
    }

    #[inline]
    fn look_up(&self, key: K::Ref<'_>) -> Lookup {
        let guard = &epoch::pin();
        let mut path = self.descend::<false>(0, key, guard);
        match self.find(&mut path, key).payload {
            Ok(payload) => Lookup::Found(payload),
            Err(version) => Lookup::Missing(version),
        }
    }

    /// Takes all page numbers that were never used, so that the tree soon has to refuse new keys:
    /// for tests.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.table.use_up();
    }
}

impl<K: Key> PointIndex for BlinkTree<K> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        Ok(self.look_up(K::parse(key)?))
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

    namiki_index::methods_by_leaf_table!();

    namiki_index::methods_by_lanes_and_census!(K);
}

impl<K: Key> OrderedIndex for BlinkTree<K> {
    namiki_index::methods_by_fences!(K);
}
