//! The locks of a group, from the first that it takes until all are released.

use std::fmt;
use std::sync::Arc;

use namiki_platform::{Epoch, Stamp};
use smallvec::SmallVec;

use super::Replica;
use super::row_lock::{self, GroupNumber};
use crate::commit::removed_keys::NewRecords;
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

/// How many records ahead are prefetched.
pub(super) const PREFETCHED: usize = 12;

/// The locks of a sealed group. They are released when the group is
/// [installed](HeldLocks::install), or when this is dropped: then the group is rolled back.
#[must_use = "the group's locks are released at once"]
pub struct HeldLocks {
    pub(super) replica: Arc<Replica>,
    pub(super) group: GroupNumber,
    /// All locked records, each once. In a sealed group, the records that it has changed come
    /// first, in the order of its changes.
    pub(super) records: Vec<RecordRef>,
    /// How many it has changed.
    pub(super) changed: usize,
    /// How many, from the first, were released already.
    pub(super) released: usize,
    /// The records that it has made. Those that get no version leave the index again.
    pub(super) new: NewRecords,
    /// The tables of a sealed group's records (`replica/mod.rs`, RG3).
    pub(super) tables: SmallVec<[Arc<RawTable>; 4]>,
}

impl HeldLocks {
    /// How many rows are locked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Releases the locks without installing anything: what dropping does.
    pub fn release(self) {}

    /// Releases the last locks down to the first `kept`, and gives up what was made after the first `kept_new` records.
    pub(super) fn truncate(&mut self, kept: usize, kept_new: usize) {
        for record in self.records.drain(kept..) {
            row_lock::unlock(record);
        }
        if self.new.len() > kept_new {
            self.note_left(kept_new);
            self.new.truncate(kept_new);
        }
    }

    /// How many records it has made before this one, which is the last if it has made it.
    pub(super) fn new_without(&self, record: RecordRef) -> usize {
        let is_new = self.new.last() == Some(record);
        self.new.len() - usize::from(is_new)
    }

    /// The keys of new records that are not locked any more, and have no version, may leave the index.
    fn note_left(&self, from: usize) {
        let removed_keys = &self.replica.engine().removed_keys;
        let has_version = |record: RecordRef| !record.has_version(Stamp(0));
        removed_keys.note(Epoch(0), self.new.left(from, has_version));
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        let records = std::mem::take(&mut self.records);
        let held = &records[self.released..];
        for (at, record) in held.iter().enumerate() {
            if let Some(ahead) = held.get(at + PREFETCHED) {
                ahead.prefetch();
            }
            row_lock::unlock(*record);
        }
        if !self.new.is_empty() {
            self.note_left(0);
        }
        self.replica
            .pool
            .lock()
            .give_back_number(self.group, records);
    }
}

impl fmt::Debug for HeldLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldLocks({} rows)", self.records.len())
    }
}
