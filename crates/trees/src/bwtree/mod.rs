//! The Bw-tree: a lock-free B-tree with pages that are changed by prepending delta records.
//!
//! ```text
//!            root word --> page 7                 pages are named by ids; the mapping
//!                            |                    table leads from an id to the newest
//!              +-------------+-------------+      delta of the page's chain
//!              v             v             v
//!   leaf:   page 3  ----> page 9  ----> page 4    every page knows its right sibling and
//!            Put            base          Split    its upper fence, so a search that comes
//!            Put                          base     to a page that was split goes right
//!            base
//! ```
//!
//! | to learn about | read |
//! |---|---|
//! | nodes in memory, deltas, base nodes, long keys | `node.rs`, `base.rs`, `base/variable_keys.rs` |
//! | prefetching of children | `base/child_prefetch_hint.rs` |
//! | page ids, swaps, reclamation | `mapping_table.rs`, `retire.rs` |
//! | leaf stamps against phantoms | `leaf_stamps.rs` |
//! | descent, side links, parents | `descend.rs`, `root_word.rs` |
//! | the operations | `read.rs`, `batch.rs`, `write.rs`, `scan.rs`, `bulk.rs` |
//! | structure changes and cooperation | `consolidate.rs`, `split.rs`, `merge.rs` |
//! | the paper's two proposals | `variant.rs`, `consolidate_in_chain.rs`, `mutable_delta_pointers.rs` |
//! | the OpenBw-Tree's slabs of deltas | `slab_slots.rs`, `node/slab.rs` |
//! | the paper's own tree | `node/literal.rs`, `node_stack.rs` |
//!
//! Every operation is lock-free: a thread that meets a half-done change of another thread completes
//! it (paper §4.2.4) instead of waiting. Memory is reclaimed by epochs (`crossbeam-epoch`);
//! operations pin once each, and pinning again inside a pinned section costs next to nothing.
//!
//! Paper: bwtree §3, §4

mod base;
mod batch;
mod bulk;
mod consolidate;
mod consolidate_in_chain;
#[cfg(test)]
#[cfg(not(loom))]
mod cooperation_tests;
mod descend;
mod leaf_stamps;
#[cfg(test)]
#[cfg(not(loom))]
mod literal_tests;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod mapping_table;
mod merge;
mod mutable_delta_pointers;
mod node;
mod node_stack;
mod page_id;
mod read;
mod retire;
mod root_word;
mod scan;
mod slab_slots;
#[cfg(test)]
#[cfg(not(loom))]
mod slab_tests;
mod split;
mod statistics;
mod structure_change_types;
mod variant;
#[cfg(test)]
#[cfg(not(loom))]
mod variant_tests;
mod write;

use std::fmt;
use std::sync::Arc;

use crossbeam_epoch as epoch;
use namiki_index::key::{Fixed8, Key, Variable};
use namiki_index::shared::counters::Counters;
use namiki_index::{
    Change, Changed, Expected, IndexError, LeafVersion, Lookup, OrderedIndex, PointIndex,
};

use self::leaf_stamps::StampTable;
use self::mapping_table::Mapping;
use self::node::BaseHeader;
use self::page_id::PageId;
use self::root_word::Root;
pub use self::variant::{
    Both, InChain, OpenBw, Paper, PaperInChain, PaperSplitHead, Plain, SplitHead, Variant,
};

/// Sizes that structure changes depend on. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BwConfig {
    /// A leaf with more records than this is split. At least 2, at most 16,384.
    pub leaf_max: usize,
    /// An inner page with more children than this is split. At least 4, at most 16,384.
    pub inner_max: usize,
    /// A writer consolidates a leaf when its chain has reached this many deltas. At least 1. This
    /// default is for trees without slabs; the default of a tree depends on its [`Variant`].
    pub leaf_chain_max: u8,
    /// The same for an inner page.
    pub inner_chain_max: u8,
    /// How full a bulk load makes its pages, in percent of the maximum.
    pub load_percent: usize,
}

impl Default for BwConfig {
    fn default() -> Self {
        Self {
            leaf_max: 64,
            inner_max: 256,
            leaf_chain_max: 4,
            inner_chain_max: 4,
            load_percent: 80,
        }
    }
}

impl BwConfig {
    /// The smallest possible pages, so that structure changes happen all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self {
            leaf_max: 4,
            inner_max: 4,
            leaf_chain_max: 2,
            inner_chain_max: 2,
            load_percent: 75,
        }
    }

    fn checked(self) -> Self {
        Self {
            leaf_max: self.leaf_max.clamp(2, 1 << 14),
            inner_max: self.inner_max.clamp(4, 1 << 14),
            leaf_chain_max: self.leaf_chain_max.max(1),
            inner_chain_max: self.inner_chain_max.max(1),
            load_percent: self.load_percent.clamp(1, 100),
        }
    }

    /// A leaf with fewer records is merged if it fits.
    const fn leaf_min(&self) -> usize {
        self.leaf_max.div_ceil(4)
    }

    /// An inner page with fewer children is merged if it fits.
    const fn inner_min(&self) -> usize {
        let quarter = self.inner_max / 4;
        if quarter < 2 { 2 } else { quarter }
    }
}

/// A Bw-tree over one kind of keys, in one of its [variants](Variant).
///
/// Payloads may be any `u64`. Dropping the tree frees it; retired nodes go when the collector gets
/// to them.
pub struct BwTree<K: Key, V: Variant = Plain> {
    root: Root,
    mapping: Arc<Mapping<K, V>>,
    config: BwConfig,
    counters: Counters,
}

/// A Bw-tree of eight-byte keys.
pub type FixedBwTree = BwTree<Fixed8>;
/// A Bw-tree of byte strings up to 64 KiB.
pub type VariableBwTree = BwTree<Variable>;

impl<K: Key, V: Variant> fmt::Debug for BwTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BwTree")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: Variant> Default for BwTree<K, V> {
    fn default() -> Self {
        Self::new(BwConfig {
            leaf_chain_max: V::LEAF_CHAIN_MAX,
            ..BwConfig::default()
        })
    }
}

/// Number of slots in the slab of a page of this level: as many as a chain usually gets, and some
/// more for writers that come during its consolidation, or that leave their slot unused.
fn slots_of<V: Variant>(level: u8, config: &BwConfig) -> usize {
    if !V::SLAB || level > 0 {
        return 0;
    }
    let chain = config.leaf_chain_max;
    usize::from(
        chain
            .saturating_add(1 + chain / 8)
            .min(slab_slots::SLOTS_MAX),
    )
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// An empty tree. Sizes out of range are clamped.
    #[must_use]
    pub fn new(config: BwConfig) -> Self {
        let config = config.checked();
        let mapping = Mapping::new();
        let header = BaseHeader::<K> {
            level: 0,
            right: PageId::NONE,
            counter: 0,
            low: K::min(),
            high: None,
            slots: slots_of::<V>(0, &config),
        };
        let Some(root) = mapping.allocate() else {
            unreachable!("a new table has free pages")
        };
        mapping.fill(root, base::build(&header, &[]));
        Self {
            root: Root::new(root),
            mapping: Arc::new(mapping),
            config,
            counters: Counters::default(),
        }
    }

    /// Takes all page numbers that were never used, so that the tree soon has to refuse new keys:
    /// for tests.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.mapping.use_up();
    }
}

impl<K: Key, V: Variant> PointIndex for BwTree<K, V> {
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

    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        self.put_key(key, payload)
    }

    fn leaf_rts(&self, leaf: u64) -> u64 {
        u32::try_from(leaf).map_or(0, |leaf| self.mapping.resolve_rts(PageId(leaf)))
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        self.mapping.raise_and_check(seen, rts, &epoch::pin())
    }

    fn current(&self, leaf: u64) -> Option<LeafVersion> {
        self.mapping.version(leaf, &epoch::pin())
    }

    namiki_index::methods_by_lanes_and_census!(K);
}

impl<K: Key, V: Variant> OrderedIndex for BwTree<K, V> {
    namiki_index::methods_by_fences!(K);
}
