//! ART: an adaptive radix tree with optimistic lock coupling, over leaves that hold several records.
//!
//! ```text
//!                      top  --> Node16, path 00 00 00 00 00             inner nodes part the keys
//!                        |   0..  |  04..  |  07..                      by one byte each; a path is
//!              +---------+        |        +--------+                   compressed; they grow and
//!              v                  v                 v                   shrink through four kinds
//!       Node256, path ..03     bucket            Node4, path ..09
//!        | .. | 7a | 7b..     3 records           |      | 33..
//!              v    v                             v      v
//!           block  block                       bucket  bucket          leaves cover a range of keys
//! ```
//!
//! # How it differs from the paper, and why
//!
//! In the paper a leaf is one record, and a byte of an inner node that no key has leads nowhere. Here a
//! subtree with few records is **one leaf**: a bucket of sorted records, or, for eight-byte keys that
//! differ in the last byte only, a block with a place for each. A record is then one dependent miss
//! below the inner nodes, which stay small enough for the caches, instead of two. (The paper's lazy
//! expansion is the special case of one record, its multi-value leaf is the block.)
//!
//! The inner nodes hold *bounds*, not keys: leaf A covers the keys below a bound, leaf B those from
//! it on. A bound is the shortest byte string between two neighbouring keys. **Every key, present
//! or absent, has exactly one leaf that covers it.** Three things follow.
//!
//! - *Phantoms.* A leaf's mark (`leaf_table.rs`) answers for all absent keys of its range; inner nodes
//!   need no versions for it. A leaf splits in two and merges into one, as in a B-tree.
//! - *Keys that are prefixes of others, zero bytes, empty keys* need no escape and no end mark: leaves
//!   hold whole keys, and a key that ends at a node's path is less than all of the node's bounds.
//! - *Depth.* An inner node's path is a proper prefix of those below it, so a descent has at most
//!   as many steps as the longest bound has bytes; every walk is a loop.
//!
//! | to learn about | read |
//! |---|---|
//! | nodes, links and records in memory, and their end | `node.rs`, `out_of_line_keys.rs`, `retire.rs` |
//! | inner nodes, leaves | `kind.rs`, `inner.rs`, `multi_record_leaf.rs` |
//! | version locks | `lock.rs` |
//! | where a key goes at a node | `prefix_compare.rs` |
//! | descent | `descend.rs` |
//! | the operations | `read.rs`, `batch.rs`, `write.rs`, `scan.rs`, `bulk.rs` |
//! | structure changes | `split.rs`, `merge_leaves.rs` |
//! | walks over the whole tree | `statistics.rs` |
//!
//! # Invariants of the tree
//! - A1. The range of a leaf changes only under the locks of the leaf **and of every inner node between it
//!   and the node with the bounds that change**, and all their versions change. So a reader that
//!   saw the same version of each node before and after reading the next one's has reached the leaf
//!   that covers its key, and the leaf covers it as long as its version stays the same.
//! - A2. The path of an inner node begins with the path of the one above (I4).
//! - A3. A block's keys begin with the path of the inner node above it.
//! - A4. A leaf's mark is published before the leaf can be found, and withdrawn before it is retired.
//!
//! Readers write nothing. A writer locks the one leaf it changes; a structure change also the nodes of A1.
//! Locks are tried, never waited for, so there is no deadlock; a thread that loses restarts.
//!
//! Paper: bwtree §2 (its reference 3 is ART)

mod batch;
mod bulk;
mod descend;
mod inner;
mod key_window;
mod kind;
mod lock;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod merge_leaves;
mod multi_record_leaf;
mod node;
mod out_of_line_keys;
mod prefix_compare;
mod read;
mod retire;
mod scan;
mod split;
mod statistics;
mod write;

use std::fmt;

use crossbeam_epoch as epoch;

pub use self::prefix_compare::ArtKey;

use self::inner::Child;
use self::kind::Kind;
use self::node::LeafRef;
use self::prefix_compare::BEFORE;
use self::retire::Subtree;
use crate::key::{Fixed8, Variable};
use crate::shared::counters::Counters;
use crate::shared::leaf_table::LeafTable;
use crate::{Change, Changed, Expected, IndexError, Lookup, OrderedIndex, PointIndex};

/// Sizes that structure changes depend on. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArtConfig {
    /// A bucket with this number of records is split, or becomes a block, before it takes another.
    /// At least 4.
    pub leaf_max: usize,
}

impl Default for ArtConfig {
    /// With room for one more, a bucket of eight-byte keys takes eight cache lines.
    fn default() -> Self {
        Self { leaf_max: 29 }
    }
}

impl ArtConfig {
    /// The smallest possible leaves, so that structure changes happen all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self { leaf_max: 4 }
    }

    fn checked(self) -> Self {
        Self {
            leaf_max: self.leaf_max.clamp(4, 128),
        }
    }

    /// Records that a bucket can hold: one more than it does for long, see `split.rs`.
    const fn room(self) -> usize {
        self.leaf_max + 1
    }

    /// A leaf with no more records is merged if both fit well.
    const fn leaf_min(self) -> usize {
        self.leaf_max / 4
    }

    /// Most records of a bucket after a merge, and of a block that becomes a bucket again.
    const fn merged_max(self) -> usize {
        self.leaf_max * 3 / 4
    }
}

/// An adaptive radix tree over one kind of keys.
///
/// Payloads may be any `u64`. Dropping the tree frees it; retired nodes go when the collector gets
/// to them.
pub struct ArtTree<K: ArtKey> {
    /// A Node4 that never becomes obsolete; its one child is the whole tree.
    top: Subtree<K>,
    table: LeafTable,
    config: ArtConfig,
    counters: Counters,
}

/// An adaptive radix tree of eight-byte keys.
pub type FixedArtTree = ArtTree<Fixed8>;
/// An adaptive radix tree of byte strings up to 64 KiB.
pub type VariableArtTree = ArtTree<Variable>;

impl<K: ArtKey> fmt::Debug for ArtTree<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtTree")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: ArtKey> Default for ArtTree<K> {
    fn default() -> Self {
        Self::new(ArtConfig::default())
    }
}

impl<K: ArtKey> ArtTree<K> {
    /// An empty tree. Sizes out of range are clamped.
    #[must_use]
    pub fn new(config: ArtConfig) -> Self {
        let config = config.checked();
        let table = LeafTable::new();
        let Some(mark) = table.mark() else {
            unreachable!("a new table has free numbers")
        };
        let guard = &epoch::pin();
        let leaf = LeafRef::<K>::new_leaf(Kind::Bucket, config.room(), mark, guard);
        leaf.publish(&table);
        let root = Child {
            from: BEFORE,
            link: leaf.link(),
        };
        Self {
            top: Subtree::of(inner::build(&[], &[root], guard).link()),
            table,
            config,
            counters: Counters::default(),
        }
    }

    /// Takes all page numbers that were never used, so that the tree soon has to refuse new keys:
    /// for tests.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.table.use_up();
    }
}

impl<K: ArtKey> PointIndex for ArtTree<K> {
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

    crate::methods_by_leaf_table!();

    crate::methods_by_lanes_and_census!(K);
}

impl<K: ArtKey> OrderedIndex for ArtTree<K> {
    crate::methods_by_fences!(K);
}
