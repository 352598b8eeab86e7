//! The locks of a group, from the first that it takes until all are released.

use std::fmt;
use std::sync::Arc;

use super::Replica;
use super::row_lock::{self, GroupNumber};
use crate::storage::record::RecordRef;

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

    /// Releases the last locks down to the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        for record in self.records.drain(kept..) {
            row_lock::unlock(record);
        }
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
