//! An ordered tree and a hash table over the same keys: look-ups go to the table, scans to the tree.
//!
//! # In which order the two are changed
//!
//! Writers of a key hold a lock that all writers of that key take, from before the first part is changed
//! until both are. Readers take none. An insert changes the tree first, then the table; a delete the table
//! first, then the tree. So the tree has at any time what the table has: **a key that a look-up found is
//! shown by every scan begun afterwards**, unless it was deleted since. The table decides whether a key is
//! there, and what a failed look-up or an insert reports as `before` and `after` is the table's.
//!
//! # What holds
//!
//! - *Point operations* are linearizable: all their answers are the table's, and it changes at one instant
//!   within each operation. *Scans* are as good as the tree's.
//! - Between the two, while an insert is between its parts, a scan finds the key and a look-up does
//!   not yet. A caller of both may see that for as long as the insert has not returned; afterwards
//!   both show it. A transaction is not affected. The new record is locked until the insert has
//!   returned, so no transaction reads it before both parts lead to it (core, `raw_table.rs`). And
//!   a transaction that writes the key, which locks nothing until it commits, finds the record
//!   through the table, or waits here for the thread that is inserting it: then its own scans show
//!   what it wrote. (In the other order they did not.)
//! - *Phantoms*. Each part has leaves of its own, told apart by the highest bit of their numbers. A reader
//!   that found a key absent relies on the part that was asked: a failed look-up on the table's stripe, a
//!   scan on the tree's leaf. An insert changes the versions of **both**, and then reads the rts of
//!   **both**. So for each reader the protocol of `traits.rs` runs on its part as if there were no other:
//!   either the reader finds the version changed or the inserter finds the rts raised.
//! - *Own inserts*. [`HybridIndex::add`] reports the change of each part, so that a transaction can carry over
//!   what it had read of either.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use namiki_index::{
    Change, Changed, Expected, IndexError, InsertOutcome, Inserted, LeafVersion, Lookup,
    OrderedIndex, PointIndex, ScanItem, ScanRange, Statistics,
};
use namiki_platform::hash::hash_of;

use super::hash_index::Point;
use super::tree_kind::Tree;

/// Marks the tree's leaves; the table's stripes are without it.
const OF_TREE: u64 = 1 << 63;

/// Writers of different keys seldom want the same lock.
const LOCKS: usize = 64;

/// See above.
#[derive(Debug)]
pub struct HybridIndex {
    point: Point,
    tree: Tree,
    locks: [Mutex<()>; LOCKS],
}

/// The effect of an insert on each part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HybridInserted {
    pub(crate) point: Inserted,
    pub(crate) tree: Inserted,
}

fn in_tree(leaf: LeafVersion) -> LeafVersion {
    LeafVersion {
        leaf: leaf.leaf | OF_TREE,
        ..leaf
    }
}

/// The part to which a leaf belongs, and its number there.
enum Part<'a> {
    Point(&'a Point, u64),
    Tree(&'a Tree, u64),
}

impl HybridIndex {
    pub(crate) fn new(point: Point, tree: Tree) -> Self {
        Self {
            point,
            tree,
            locks: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    pub(crate) const fn point(&self) -> &Point {
        &self.point
    }

    pub(crate) const fn tree(&self) -> &Tree {
        &self.tree
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let lock = &self.locks[hash_of(0, key) as usize % LOCKS];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, leaf: u64) -> Part<'_> {
        match leaf & OF_TREE {
            0 => Part::Point(&self.point, leaf),
            _ => Part::Tree(&self.tree, leaf & !OF_TREE),
        }
    }

    /// Adds a key that is absent, to both parts. `Err` inside: it is there, with this payload.
    pub(crate) fn add(
        &self,
        key: &[u8],
        payload: u64,
    ) -> Result<Result<HybridInserted, u64>, IndexError> {
        let _alone = self.lock(key);
        if let Lookup::Found(found) = self.point.get(key)? {
            return Ok(Err(found));
        }
        self.add_absent(key, payload).map(Ok)
    }

    /// Adds a key that neither part has; its lock is held, so no other thread can add it
    /// concurrently.
    fn add_absent(&self, key: &[u8], payload: u64) -> Result<HybridInserted, IndexError> {
        let InsertOutcome::Inserted(tree) = self.tree.insert(key, payload)? else {
            unreachable!("both parts hold the same keys")
        };
        // Scans may have shown the payload by now, so no later step may fail. None does: the tree
        // has taken the key, and the table has room for any number of keys.
        let point = match self.point.insert(key, payload) {
            Ok(InsertOutcome::Inserted(point)) => point,
            Ok(InsertOutcome::Exists(_)) => unreachable!("both parts hold the same keys"),
            Err(error) => unreachable!("the table takes every key that the tree takes: {error}"),
        };
        Ok(HybridInserted {
            point,
            tree: Inserted {
                before: in_tree(tree.before),
                after: in_tree(tree.after),
                split: tree
                    .split
                    .map(|(left, right)| (in_tree(left), in_tree(right))),
            },
        })
    }

    /// Fills both parts, which are empty and which no other thread uses. After an error both are
    /// unusable.
    pub(crate) fn fill<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        let mut refused = Ok(());
        let entries = sorted.into_iter().map_while(|(key, payload)| {
            refused = self.point.insert(key.as_ref(), payload).map(drop);
            refused.is_ok().then_some((key, payload))
        });
        let filled = self.tree.bulk_load(entries);
        refused?;
        filled
    }

    pub(crate) fn scan(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.tree.scan(range, |item| {
            visit(match item {
                ScanItem::Leaf(leaf) => ScanItem::Leaf(in_tree(leaf)),
                other => other,
            })
        })
    }
}

impl PointIndex for HybridIndex {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        self.point.get(key)
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        self.point.get_many(keys, out)
    }

    /// Reports what happened to the table.
    fn change(
        &self,
        key: &[u8],
        _: Expected,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let _alone = self.lock(key);
        let old = match self.point.get(key)? {
            Lookup::Found(payload) => Some(payload),
            Lookup::Missing(_) => None,
        };
        match (decide(old), old) {
            (Change::Keep, _) | (Change::Delete, None) => {}
            (Change::Put(payload), None) => {
                return Ok(Changed::added(self.add_absent(key, payload)?.point));
            }
            (Change::Put(payload), Some(_)) => {
                self.tree.update(key, payload)?;
                self.point.update(key, payload)?;
            }
            (Change::Delete, Some(_)) => {
                self.point.delete(key)?;
                self.tree.delete(key)?;
            }
        }
        Ok(Changed::from(old))
    }

    fn leaf_rts(&self, leaf: u64) -> u64 {
        match self.part(leaf) {
            Part::Point(point, leaf) => point.leaf_rts(leaf),
            Part::Tree(tree, leaf) => tree.leaf_rts(leaf),
        }
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        match self.part(seen.leaf) {
            Part::Point(point, leaf) => point.raise_and_check(LeafVersion { leaf, ..seen }, rts),
            Part::Tree(tree, leaf) => tree.raise_and_check(LeafVersion { leaf, ..seen }, rts),
        }
    }

    fn current(&self, leaf: u64) -> Option<LeafVersion> {
        match self.part(leaf) {
            Part::Point(point, leaf) => point.current(leaf),
            Part::Tree(tree, leaf) => tree.current(leaf).map(in_tree),
        }
    }

    /// The tree's.
    fn statistics(&self) -> Statistics {
        self.tree.statistics()
    }

    fn memory_bytes(&self) -> usize {
        self.point.memory_bytes() + self.tree.memory_bytes()
    }

    fn len(&self) -> usize {
        self.point.len()
    }
}
