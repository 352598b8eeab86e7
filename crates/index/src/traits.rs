//! The two traits every tree implements, and the types of their answers.
//!
//! # Phantoms
//!
//! An answer that depends on absent keys names the leaf that was read and its version. At commit a
//! transaction calls [`PointIndex::raise_and_check`] for each: the leaf's *rts* is raised to the
//! transaction's stamp and **then** the version is read again. An inserter does the opposite: it
//! inserts (which changes the version) and **then** reads the rts to draw a larger stamp. The later
//! of the two in the single total order of these accesses sees the earlier one, so either the
//! reader finds a changed version or the inserter finds the raised rts.

use std::ops::{Bound, ControlFlow};

use serde::Serialize;

use crate::{IndexError, LeafVersion};

/// The result of a search for one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The key's payload.
    Found(u64),
    /// The key is absent in this state of the leaf that would hold it.
    Missing(LeafVersion),
}

/// The effect of an insertion on the leaf, as one atomic step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inserted {
    /// The leaf's version immediately before.
    pub before: LeafVersion,
    /// The leaf's version immediately after.
    pub after: LeafVersion,
    /// Set if this operation then split the leaf and no other operation changed its key set in
    /// between: the new versions of the left and the right half. A reader that relied on `before`
    /// may rely on both.
    pub split: Option<(LeafVersion, LeafVersion)>,
}

/// The decision of a caller of [`PointIndex::change`], made with knowledge of whether the key is
/// present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Set the key's payload, adding the key if it is absent.
    Put(u64),
    /// Remove the key, if it is present.
    Delete,
}

/// The result of [`PointIndex::change`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The payload before; the decision that took effect was made about this one.
    pub old: Option<u64>,
    /// Set if the key was added.
    pub inserted: Option<Inserted>,
}

impl Changed {
    /// The key had payload `old`, and no key was added.
    #[must_use]
    pub const fn from(old: Option<u64>) -> Self {
        let inserted = None;
        Self { old, inserted }
    }

    /// The key was absent and has been added.
    #[must_use]
    pub const fn added(inserted: Inserted) -> Self {
        Self {
            old: None,
            inserted: Some(inserted),
        }
    }
}

/// A hint of the caller of [`PointIndex::change`]; a wrong one costs time only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// The key is present.
    Present,
    /// The key will be added.
    Absent,
}

/// The result of [`PointIndex::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    /// The key was absent and is now present.
    Inserted(Inserted),
    /// The key was present with this payload; nothing was done.
    Exists(u64),
}

/// The result of [`PointIndex::get_or_insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GetOrInsert {
    /// The key was absent; it now has the payload that `make` returned.
    Inserted {
        /// The payload that `make` returned, now in the index.
        payload: u64,
        /// The effect on the leaf.
        inserted: Inserted,
    },
    /// The key was present; nothing was done.
    Exists {
        /// Its payload.
        payload: u64,
        /// A payload that `make` returned and that was not needed, because another thread inserted
        /// the key first. The caller disposes of it.
        unused: Option<u64>,
    },
}

/// Counts of an index's contents and events. Exact when no other thread uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Statistics {
    /// Records.
    pub records: u64,
    /// Leaf nodes.
    pub leaves: u64,
    /// Nodes above the leaves.
    pub inner_nodes: u64,
    /// Levels, leaves included.
    pub height: u64,
    /// Delta records on top of leaf nodes now; in trees without deltas, entries not yet sorted in.
    pub leaf_deltas: u64,
    /// Largest number of them on one leaf.
    pub longest_chain: u64,
    /// Nodes rebuilt without the leftovers of their updates.
    pub consolidations: u64,
    /// Failed consolidations: another thread changed the node first.
    pub consolidations_failed: u64,
    /// Nodes split.
    pub splits: u64,
    /// Nodes (in a hash table, buckets) merged into a neighbour.
    pub merges: u64,
    /// Times the tree grew by a level.
    pub root_splits: u64,
    /// Times the tree lost a level.
    pub root_collapses: u64,
    /// Compare-and-swaps that failed and were repeated or given up.
    pub cas_misses: u64,
    /// Searches restarted at the root.
    pub restarts: u64,
    /// Deltas of leaves that searches visited to learn the range of their page, in trees whose
    /// deltas do not have it.
    pub delta_visits: u64,
}

/// A map from keys to eight-byte payloads, shared by any number of threads.
///
/// Every operation is linearizable. None blocks another for ever; each tree documents its progress
/// guarantee.
pub trait PointIndex: Send + Sync {
    /// Looks one key up.
    ///
    /// # Errors
    /// Only if the key is not one this index can hold.
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError>;

    /// Looks many keys up, overlapping their cache misses where the tree can. `out` is cleared and
    /// receives one answer per key, in order. Each lookup is atomic, the batch is not.
    ///
    /// # Errors
    /// If any key is not one this index can hold; `out` is then empty.
    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        out.clear();
        for key in keys {
            match self.get(key) {
                Ok(lookup) => out.push(lookup),
                Err(error) => {
                    out.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Read-modify-write: looks a key up, asks `decide` what to do with its payload, and does it,
    /// all in one atomic step. All other operations that change a key are built on this one.
    ///
    /// `decide` is called again if another thread changed the key in between; its last answer takes
    /// effect. It may run with a part of the index locked, so it must be quick, use no index, and
    /// not panic.
    ///
    /// # Errors
    /// As [`get`](Self::get). Also if a payload with reserved bits would have to be stored, or if the key would
    /// have to be added and the index has used all of its page numbers ([`IndexError::OutOfPages`]).
    fn change(
        &self,
        key: &[u8],
        expected: Expected,
        decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError>;

    /// Adds a key that is absent.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn insert(&self, key: &[u8], payload: u64) -> Result<InsertOutcome, IndexError> {
        let changed = self.change(key, Expected::Absent, |old| match old {
            Some(_) => Change::Keep,
            None => Change::Put(payload),
        })?;
        Ok(match (changed.old, changed.inserted) {
            (_, Some(inserted)) => InsertOutcome::Inserted(inserted),
            (Some(payload), None) => InsertOutcome::Exists(payload),
            (None, None) => unreachable!("an absent key is inserted"),
        })
    }

    /// Finds a key or adds it with the payload that `make` returns. `make` is called at most once,
    /// and only when the key was seen to be absent; it may use the index.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    fn get_or_insert(
        &self,
        key: &[u8],
        make: impl FnOnce() -> u64,
    ) -> Result<GetOrInsert, IndexError> {
        if let Lookup::Found(payload) = self.get(key)? {
            let unused = None;
            return Ok(GetOrInsert::Exists { payload, unused });
        }
        let payload = make();
        Ok(match self.insert(key, payload)? {
            InsertOutcome::Inserted(inserted) => GetOrInsert::Inserted { payload, inserted },
            InsertOutcome::Exists(found) => GetOrInsert::Exists {
                payload: found,
                unused: Some(payload),
            },
        })
    }

    /// Sets a key's payload, adding the key if it is absent. Returns the payload it had.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn write(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let changed = self.change(key, Expected::Present, |_| Change::Put(payload))?;
        Ok(changed.old)
    }

    /// Sets a key's payload, adding the key if it is absent, without returning the payload it had,
    /// so that a tree need not look it up. It may change the version of the leaf even if the key
    /// was present.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        self.write(key, payload).map(drop)
    }

    /// Sets the payload of a key that is present and returns the one it had. `None`: it is absent
    /// and nothing was done.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let changed = self.change(key, Expected::Present, |old| match old {
            Some(_) => Change::Put(payload),
            None => Change::Keep,
        })?;
        Ok(changed.old)
    }

    /// Removes a key and returns the payload it had. `None`: it was absent.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let changed = self.change(key, Expected::Present, |_| Change::Delete)?;
        Ok(changed.old)
    }

    /// Removes a key if its payload is `expected`, and returns whether it did. Without this,
    /// removing a dead record from the index would race with the key's re-insertion.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    #[inline]
    fn remove_if(&self, key: &[u8], expected: u64) -> Result<bool, IndexError> {
        let changed = self.change(key, Expected::Present, |old| match old {
            Some(payload) if payload == expected => Change::Delete,
            _ => Change::Keep,
        })?;
        Ok(changed.old == Some(expected))
    }

    /// The stamp of a leaf: at least the stamp of every [`raise_and_check`] that succeeded on any
    /// part of the leaf's key range before this call. It never decreases for a given number.
    ///
    /// [`raise_and_check`]: Self::raise_and_check
    fn leaf_rts(&self, leaf: u64) -> u64;

    /// Raises the leaf's rts to at least `rts`, **then** reads its version again. True if it is
    /// still `seen`; false also for a leaf that is being merged away.
    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool;

    /// The version of a leaf now. `None`: no such leaf, or it is being merged away.
    fn current(&self, leaf: u64) -> Option<LeafVersion>;

    /// Counts; walks the whole index.
    fn statistics(&self) -> Statistics;

    /// Bytes that nodes and tables take; walks the whole index. Nodes that wait for reclamation
    /// are not counted.
    fn memory_bytes(&self) -> usize;

    /// Number of keys; walks the leaves. Exact when no thread is writing.
    fn len(&self) -> usize;

    /// Whether there are no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// The key range of a scan and its direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanRange<'a> {
    /// Lower end.
    pub start: Bound<&'a [u8]>,
    /// Upper end.
    pub end: Bound<&'a [u8]>,
    /// Direction of the scan.
    pub direction: Direction,
}

impl<'a> ScanRange<'a> {
    /// Ascending order.
    #[must_use]
    pub const fn forward(start: Bound<&'a [u8]>, end: Bound<&'a [u8]>) -> Self {
        Self {
            start,
            end,
            direction: Direction::Forward,
        }
    }

    /// Descending order.
    #[must_use]
    pub const fn backward(start: Bound<&'a [u8]>, end: Bound<&'a [u8]>) -> Self {
        Self {
            start,
            end,
            direction: Direction::Backward,
        }
    }

    /// Every key, ascending.
    #[must_use]
    pub const fn all() -> Self {
        Self::forward(Bound::Unbounded, Bound::Unbounded)
    }
}

/// An item that a scan reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanItem<'a> {
    /// The state of the leaf that the entries up to the next `Leaf` come from. It precedes them,
    /// and is reported even if the leaf has no entry in the range.
    Leaf(LeafVersion),
    /// Prefetch hint: the payload of an entry that will soon follow, unless the scan ends before.
    /// An index need not report any.
    Ahead(u64),
    /// A key and its payload.
    Entry(&'a [u8], u64),
}

/// An index that keeps its keys in byte order.
pub trait OrderedIndex: PointIndex {
    /// Visits the keys of a range in order until `visit` breaks.
    ///
    /// The reported leaves cover the visited part of the range without a gap. Each leaf is read at
    /// one instant; the scan as a whole is not. A key present throughout is visited exactly once. A
    /// range that holds no keys, even one with crossed ends, reports a leaf. `visit` may use the
    /// index.
    ///
    /// # Errors
    /// If a bound is not a key this index can hold.
    fn scan(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;

    /// Fills an empty index from strictly ascending keys and returns how many there were. All
    /// become visible at one instant, none after an error.
    ///
    /// # Errors
    /// [`IndexError::NotSorted`], [`IndexError::NotEmpty`], or as [`PointIndex::insert`].
    fn bulk_load<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError>;
}
