//! Removal of deleted keys from the index while the database runs, and reuse of their records.
//!
//! A deletion leaves a record without a value, as does a transaction that has made a record for a
//! new key and fails. The transaction notes it at its end. Occasionally a committing transaction
//! takes out some of the noted ones; when no more transactions do so, a background thread takes out
//! the rest.
//!
//! ```text
//!   lock record and gap ─▶ still without a value, of the same deletion?
//!     ─▶ the leaf's rts: at least the record's ─▶ key ranges: one may have changed since the last image
//!     ─▶ the incarnation ends ─▶ the key leaves the index ─▶ unlock ─▶ the record is free
//! ```
//!
//! **Why a transaction that has met the record is correct.** It has the record's incarnation with
//! the reference, and compares it: after it has locked its writes, when it copies, and when it
//! validates. If it differs, the transaction fails and is retried. If it only reads, at a stamp at
//! which the record was known to be without a value, it may commit: the leaf's rts has taken over
//! the record's, so a later insert of the key gets a larger stamp. (Under strict two-phase locking
//! it holds a lock of the record or of the gap, and then nothing is taken out.)
//!
//! **When no other transaction runs** beside one that has met the record, it must not fail. One that
//! is run as a closure is retried; for one that is held between calls, the background thread pauses
//! (`removal_pause.rs`).
//!
//! **Why a transaction that misses the key is ordered correctly.** It notes the gap as for a key
//! that never existed. The gap does not show the stamp of the deletion, which the transaction has
//! to follow. A writer follows it: it registers in an epoch after the deletion's, which was closed
//! before the key was taken out (D1). A reader's stamp is at least [`RemovedKeys::through`], where
//! reads have stamps. And the deletion is durable (D1), so the transaction need not wait for it.
//!
//! # Invariants
//! - D1. A key leaves the index when the epoch of its deletion is finished, and where commits are released by epochs also
//!   certified. A later insert of the key registers in a later epoch, so its stamp is larger: replay by the highest stamp
//!   needs no deletion in memory, and the log keeps the one that it has until an image without the key is there.
//! - D2. No view is open with a stamp below that of the deletion. One that is opened later closes a
//!   later epoch. So a view that misses the key, or finds a record that is not current, correctly
//!   takes it for absent. The exception is a view that has ended because of the memory limit, and
//!   it reports that. Versions that were kept for views are identified by record and incarnation,
//!   and never belong to another key.
//! - D3. The table knows which ranges have lost keys before they are gone ([`RemovedRanges`]), so that the next image does
//!   not keep a file with their rows.
//!
//! [`RemovedRanges`]: crate::table::removed_ranges::RemovedRanges

use std::sync::Arc;

use namiki_log::EpochSource;
use namiki_platform::{Epoch, Stamp};

use crate::commit::engine::Engine;
use crate::commit::removed_keys::{MANY_REMOVED, REMOVED_BATCH, RemovedKey, Taken};
use crate::concurrency::cc::{CcProtocol, with_protocol};
use crate::protocol_spec::LockRelease;
use crate::table::raw_table::RawTable;

/// The outcome for one key.
enum Outcome {
    /// It was taken out, or need not be.
    Done,
    /// It is locked.
    Busy,
}

impl Engine {
    /// Takes some removable keys out of their indexes. Called by a transaction that has ended; it
    /// waits neither for locks of others nor for the device. Returns how many it has examined.
    pub(crate) fn take_out_removed(&self, most: usize, which: Taken) -> usize {
        if self.removed_keys.waiting(which) == 0 || !self.is_own() {
            return 0;
        }
        let taken = self
            .removed_keys
            .take(self.removable_through(), most, which);
        let looked_at = taken.len();
        let mut last: Option<Arc<RawTable>> = None;
        for removed in taken {
            if last.as_ref().is_none_or(|last| last.id != removed.table) {
                last = self.raw_tables.lock().get(&removed.table).cloned();
            }
            // The records of a dropped table are freed with it.
            let Some(raw_table) = &last else { continue };
            let outcome =
                with_protocol!(self.spec.concurrency, P => self.take_out::<P>(raw_table, &removed));
            if let Outcome::Busy = outcome {
                self.removed_keys.put_back(self.epochs.current(), removed);
            }
        }
        looked_at
    }

    /// Takes all removable keys out of their indexes, as the background thread does: not while a
    /// transaction is held, and no longer than `is_over` denies. Returns whether it was paused.
    pub(crate) fn take_out_in_background(&self, is_over: impl Fn() -> bool) -> bool {
        let is_paused = loop {
            let take_out = || self.take_out_removed(REMOVED_BATCH, Taken::All);
            match self.removal_pauses.unless_held(take_out) {
                None => break true,
                Some(0) => break false,
                Some(_) if is_over() => break false,
                Some(_) => {}
            }
        };
        let is_overdue = is_paused && self.removed_keys.waiting(Taken::All) > 0;
        self.removal_pauses.set_overdue(is_overdue);
        is_paused
    }

    /// Takes keys out of their indexes if the background thread was paused: called by a transaction
    /// that has committed, for each 64th of a session (`removal_pause.rs`).
    pub(crate) fn take_out_overdue(&self) {
        if self.removal_pauses.take_overdue() {
            self.take_out_removed(MANY_REMOVED, Taken::All);
            let many_wait = self.removed_keys.waiting(Taken::All) >= REMOVED_BATCH;
            self.removal_pauses.set_overdue(many_wait);
        }
    }

    /// Keys that were deleted in this epoch or before may be taken out (D1, D2).
    fn removable_through(&self) -> Epoch {
        let mut through = self.epochs.finished();
        // Commits append before they deregister: if nothing was appended, nothing was deleted.
        if let Some(log) = &self.log
            && self.spec.release == LockRelease::EpochEarly
            && !log.is_untouched()
        {
            through = through.min(log.certified_epoch());
        }
        // Only now: a view that is not in the list yet closes a later epoch.
        let oldest = self.views.oldest_epoch();
        oldest.map_or(through, |oldest| oldest.min(through))
    }

    fn take_out<P: CcProtocol>(&self, raw_table: &RawTable, removed: &RemovedKey) -> Outcome {
        let RemovedKey {
            record, creation, ..
        } = *removed;
        if !record.has_version(creation) {
            return Outcome::Done;
        }
        let Ok(before) = P::try_lock_whole(record) else {
            return Outcome::Busy;
        };
        let has_waiters =
            if record.has_version(creation) && record.is_absent() && !record.is_uncommitted() {
                self.removed_keys.begin(creation);
                if creation > Stamp(0) && self.log.is_some() {
                    raw_table.removed_ranges().note(&removed.key, creation);
                }
                let read_until = P::read_until(before);
                let gone = || self.removed_keys.count_taken_out();
                let reusable = match raw_table.take_out(&removed.key, record, read_until, gone) {
                    Ok(reusable) => reusable,
                    Err(error) => unreachable!("the index has taken the key: {error}"),
                };
                let has_waiters = P::release_retired(record, before);
                if let Some(record) = reusable {
                    raw_table.reuse(record);
                }
                has_waiters
            } else {
                P::unlock_whole(record, before)
            };
        if has_waiters {
            self.lock_wait_list.wake(record);
        }
        Outcome::Done
    }
}
