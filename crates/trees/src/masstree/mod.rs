//! Masstree: a trie of B+-trees over eight-byte slices of the keys.
//!
//! ```text
//!   first layer:        interior             slices of bytes 0 to 7
//!                      /        \
//!                 border  <-->  border       leaves are linked both ways
//!                                 |
//!                  a slice that several keys share and go on after
//!                                 |
//!   next layer:                border        their next eight bytes
//! ```
//!
//! | to learn about | read |
//! |---|---|
//! | versions and locks | `version.rs` |
//! | how keys are cut | `key_slices.rs` |
//! | nodes and blocks in memory | `node.rs`, `border.rs`, `interior.rs`, `suffix_block.rs` |
//! | descent | `descend.rs` |
//! | the operations | `get.rs`, `batch.rs`, `write.rs`, `scan.rs`, `bulk.rs` |
//! | structure changes and the order of locks | `split.rs`, `layers.rs`, `remove_empty.rs` |
//!
//! Readers take no lock and write nothing: they read a node's version before and after. Writers
//! lock the leaf, and for a structure change a few nodes more, for no longer than the change takes.
//! So operations are not lock-free, but wait only for the short critical sections of others. Memory
//! is reclaimed by epochs.
//!
//! Departures from the original are explained where they are: the shared prefix of a layer's keys
//! is stored once (`layers.rs`), suffixes are blocks with their payload (`suffix_block.rs`), leaves
//! are found and changed from their parents instead of by parent pointers (`split.rs`,
//! `remove_empty.rs`).
//!
//! Paper: bwtree §2.5

mod batch;
mod border;
mod bulk;
mod descend;
mod drop_tree;
mod get;
mod interior;
mod key_slices;
mod layers;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod node;
mod node_ref;
mod remove_empty;
mod scan;
mod split;
mod statistics;
mod suffix_block;
mod version;
mod write;

use std::fmt;
use std::ops::ControlFlow;

use crossbeam_epoch as epoch;
use namiki_index::key::{Fixed8, Variable};
use namiki_index::shared::counters::Counters;
use namiki_index::shared::leaf_table::LeafTable;
use namiki_index::{
    Change, Changed, Expected, IndexError, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange,
};

use self::border::Border;
use self::interior::FAN_OUT;
use self::key_slices::{Slicing, WIDTH};
use self::suffix_block::Layer;

/// Sizes that structure changes depend on. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MasstreeConfig {
    /// A leaf with this number of entries is split when another is added. At most a node's room; at
    /// least 2, or 10 for byte strings, as up to 10 entries may share a slice.
    pub leaf_max: usize,
    /// An interior node with this number of children is split before another is added. At least 4.
    pub inner_max: usize,
    /// How full a bulk load makes its nodes, in percent of the maximum.
    pub load_percent: usize,
}

impl Default for MasstreeConfig {
    fn default() -> Self {
        Self {
            leaf_max: WIDTH,
            inner_max: FAN_OUT,
            load_percent: 80,
        }
    }
}

impl MasstreeConfig {
    /// The smallest possible nodes, so that structure changes happen all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self {
            leaf_max: 2,
            inner_max: 4,
            load_percent: 75,
        }
    }

    fn checked<K: Slicing>(self) -> Self {
        // Markers 0 to 8, and one key or link that continues.
        let least = if K::INLINE { 2 } else { 10.min(WIDTH) };
        Self {
            leaf_max: self.leaf_max.clamp(least, WIDTH),
            inner_max: self.inner_max.clamp(4, FAN_OUT),
            load_percent: self.load_percent.clamp(1, 100),
        }
    }
}

/// A Masstree over one kind of keys.
///
/// Payloads may be any `u64`. Dropping the tree frees it; retired nodes go when the collector gets
/// to them.
pub struct Masstree<K: Slicing> {
    first: Layer,
    table: LeafTable,
    config: MasstreeConfig,
    counters: Counters,
    keys: std::marker::PhantomData<fn() -> K>,
}

/// A Masstree of eight-byte keys: it has one layer.
pub type FixedMasstree = Masstree<Fixed8>;
/// A Masstree of byte strings up to 64 KiB.
pub type VariableMasstree = Masstree<Variable>;

impl<K: Slicing> fmt::Debug for Masstree<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masstree")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: Slicing> Default for Masstree<K> {
    fn default() -> Self {
        Self::new(MasstreeConfig::default())
    }
}

impl<K: Slicing> Masstree<K> {
    /// An empty tree. Sizes out of range are clamped.
    #[must_use]
    pub fn new(config: MasstreeConfig) -> Self {
        let table = LeafTable::new();
        let Some(mark) = table.mark() else {
            unreachable!("a new table has free numbers")
        };
        let guard = &epoch::pin();
        let root = node::create(Border::<K>::new(mark, 0, true), guard);
        root.publish(&table);
        Self {
            first: Layer::first(node::pointer(root)),
            table,
            config: config.checked::<K>(),
            counters: Counters::default(),
            keys: std::marker::PhantomData,
        }
    }

    /// The first layer.
    #[inline]
    fn top(&self) -> &Layer {
        &self.first
    }

    #[inline]
    fn is_top(&self, layer: &Layer) -> bool {
        std::ptr::eq(layer, &raw const self.first)
    }

    /// Takes all page numbers that were never used, so that the tree soon has to refuse new keys:
    /// for tests.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.table.use_up();
    }
}

impl<K: Slicing> PointIndex for Masstree<K> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        self.get_key(key)
    }

    #[inline]
    fn change(
        &self,
        key: &[u8],
        _: Expected,
        decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        self.change_key(key, decide)
    }

    namiki_index::methods_by_leaf_table!();

    namiki_index::methods_by_lanes_and_census!(K);
}

impl<K: Slicing> OrderedIndex for Masstree<K> {
    fn scan(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan_range(range, visit)
    }

    fn bulk_load<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        self.load_sorted(sorted)
    }
}
