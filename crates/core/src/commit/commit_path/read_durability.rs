//! Release by epochs: whether what a transaction has read is durable already.
//!
//! Every version carries its creation stamp, and a stamp lies below the floor of epoch e+1 exactly if it
//! was given in e or before. So one comparison tells whether a version's epoch is durable.
//!
//! Blind writes do not count: if the overwritten version is lost in a crash, the new version is
//! valid nevertheless.

use namiki_log::Log;
use namiki_platform::{Epoch, Stamp};

use crate::commit::access_set::AccessSet;
use crate::commit::engine::{Engine, GroupLocks};
use crate::protocol_spec::LockRelease;
use crate::table::raw_table::RawTable;

impl Engine {
    /// Whether a transaction is independent: all versions that it has read are hardened. Its frame
    /// records the epoch through which that is known, so a recovery that finds the frame also finds
    /// those versions.
    pub(crate) fn has_read_durably(&self, access_set: &AccessSet) -> bool {
        let Some(log) = &self.log else { return false };
        let Some(largest) = largest_read(access_set) else {
            return true;
        };
        let is_below = |epoch| largest < self.epochs.floor_after(epoch);
        is_below(log.hardened_epoch()) || is_below(log.hardened_epoch_now())
    }

    /// Whether the presence of all keys in a table is durable, as far as the caller has seen it: a
    /// key that was present when the last epoch in which keys appeared or vanished was certified has
    /// been present since. So a row that is replaced again and again counts as durably present,
    /// although no version of it is durable for long.
    pub(crate) fn has_durable_presence(&self, raw_table: &RawTable) -> bool {
        match &self.log {
            Some(log) if self.spec.release == LockRelease::EpochEarly => {
                raw_table.presence_epoch() <= log.certified_epoch()
            }
            _ => false,
        }
    }

    /// The epoch for which a read-only transaction waits, if not all its reads are certified yet:
    /// it writes no frame that could record the hardened epoch.
    pub(crate) fn epoch_to_await(
        &self,
        log: &Log<GroupLocks>,
        access_set: &AccessSet,
    ) -> Option<Epoch> {
        let largest = largest_read(access_set)?;
        if self.epochs.is_certified(largest, log.certified_epoch()) {
            return None;
        }
        // The writer of what was read had registered before.
        let current = self.epochs.current();
        let before = Epoch(current.0 - 1);
        if largest < self.epochs.floor_after(before) {
            Some(before)
        } else {
            Some(current)
        }
    }
}

/// The latest of the versions that were read, and on which the transaction depends.
fn largest_read(access_set: &AccessSet) -> Option<Stamp> {
    let reads = access_set.reads.iter();
    reads
        .filter(|read| !read.is_known_durable)
        .map(|read| read.seen.creation)
        .max()
}
