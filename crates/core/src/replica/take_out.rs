//! Removal of deleted keys from a replica's indexes, and reuse of their records: `commit/removal.rs` with a replica's locks.
//!
//! A key may leave when the group that has deleted it is applied, and no view is older. So may one for which a command that
//! was refused, or a group that was never applied, has made a record. The applier takes some out after each group.

use std::sync::Arc;

use namiki_platform::{Epoch, Stamp};

use super::Replica;
use super::row_lock::{self, Attempt, REMOVER};
use crate::commit::removed_keys::{RemovedKey, Taken};
use crate::table::raw_table::RawTable;

impl Replica {
    /// Takes some deleted keys out of the indexes, unless groups have them locked; returns how many it has examined. Called by
    /// the applier, between two groups.
    pub fn take_out_removed(&self, most: usize) -> usize {
        let engine = self.engine();
        if engine.removed_keys.waiting(Taken::All) == 0 {
            return 0;
        }
        // No view is pinned and no group installed meanwhile.
        let through = self.installed().write();
        let oldest = engine.views.oldest_epoch();
        let removable = Epoch(through.0).min(oldest.unwrap_or(Epoch(u64::MAX)));
        let taken = engine.removed_keys.take(removable, most, Taken::All);
        let examined = taken.len();
        for removed in taken {
            let raw_table = engine.raw_tables.lock().get(&removed.table).cloned();
            // The records of a dropped table are freed with it.
            let Some(raw_table) = raw_table else { continue };
            if !self.take_out(&raw_table, &removed) {
                engine.removed_keys.put_back(Epoch(through.0), removed);
            }
        }
        examined
    }

    /// How many deleted keys are still in the indexes.
    #[must_use]
    pub fn removed_waiting(&self) -> usize {
        self.engine().removed_keys.waiting(Taken::All)
    }

    /// False if a group has it locked.
    fn take_out(&self, raw_table: &Arc<RawTable>, removed: &RemovedKey) -> bool {
        let RemovedKey {
            record, creation, ..
        } = *removed;
        if !record.has_version(creation) {
            return true;
        }
        if row_lock::try_lock(record, REMOVER, 0) != Attempt::Acquired {
            return false;
        }
        if !(record.has_version(creation) && record.is_absent()) {
            row_lock::unlock(record);
            return true;
        }
        if creation > Stamp(0) {
            // Before it is gone (D3).
            raw_table.removed_ranges().note(&removed.key, creation);
        }
        // Reads leave no stamp: they are at an entry, or hold a lock.
        let taken = raw_table.take_out(&removed.key, record, Stamp(0), || {
            self.engine().removed_keys.count_taken_out();
        });
        let reusable = match taken {
            Ok(reusable) => reusable,
            Err(error) => unreachable!("the index has taken the key: {error}"),
        };
        row_lock::unlock(record);
        if let Some(record) = reusable {
            raw_table.reuse(record);
        }
        true
    }
}
