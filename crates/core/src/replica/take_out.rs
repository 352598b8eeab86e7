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

/// Keys that are taken out while no view can be opened.
const BATCH: usize = 256;

impl Replica {
    /// Takes about `most` deleted keys out of the indexes, unless groups have them locked; returns how many it has examined.
    /// Called by the applier, between two groups. Views may be opened meanwhile.
    pub fn take_out_removed(&self, most: usize) -> usize {
        let engine = self.engine();
        if engine.removed_keys.waiting(Taken::All) == 0 {
            return 0;
        }
        let applier = self.applier.lock();
        let mut examined = 0;
        while examined < most {
            // No view is pinned and no group installed during a batch.
            let through = self.installed().write();
            let oldest = engine.views.oldest_epoch();
            let removable = Epoch(through.0).min(oldest.unwrap_or(Epoch(u64::MAX)));
            let batch = BATCH.min(most - examined);
            let taken = engine.removed_keys.take(removable, batch, Taken::All);
            examined += taken.len();
            let mut is_last = taken.len() < batch;
            for removed in taken {
                // The records of a dropped table are freed with it.
                let Some(raw_table) = applier.tables.get(&removed.table) else {
                    continue;
                };
                if !self.take_out(raw_table, &removed) {
                    // It would come again and again.
                    is_last = true;
                    engine.removed_keys.put_back(Epoch(through.0), removed);
                }
            }
            if is_last {
                break;
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
