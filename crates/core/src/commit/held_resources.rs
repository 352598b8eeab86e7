//! The shared resources that a transaction holds, and their release.
//!
//! The buffers behind it stay from one transaction to the next, so it is emptied at the end of each
//! attempt. Dropping it does the same at any point of a transaction.
//!
//! # Invariants
//! - T1. A resource is in here exactly while it is held: no resource is released twice.
//! - T2. Changes are undone before any lock is released (`undo.rs`, U1). The permit is released after the locks, since
//!   the next holder will want some of them. The priority token is released last, and the slot after all of these.
//! - T3. Resources that a commit hands over, to all transactions or to its group of commits, leave
//!   at that moment, under the stream's lock. If a disk panics in a flush after that, none of them
//!   is undone or unlocked.
//! - T4. A forked child releases nothing: a thread that the child does not have may have been
//!   changing the memory.

use std::sync::Arc;

use namiki_log::Stream;
use namiki_platform::{Stamp, WorkerId};

use crate::commit::access_set::AccessSet;
use crate::commit::engine::{Engine, GroupLocks};
use crate::commit::epoch::SlotId;
use crate::commit::removed_keys::{MANY_REMOVED, NewRecords, REMOVED_BATCH, Taken};
use crate::commit::undo::UndoList;
use crate::commit::views::uncommitted::Uncommitted;
use crate::concurrency::contention::admission::AdmissionPermit;
use crate::concurrency::contention::retry_state::RetryState;
use crate::concurrency::lock::{LockMode, LockWaitList, Locks};
use crate::storage::free_large_buffers::Sizes;
use crate::wal_format::aries_operation::OperationLog;

/// The resources of a transaction, and of its retries.
pub(crate) struct TxnResources {
    pub(crate) engine: Arc<Engine>,
    /// Selects the stream of its commits.
    pub(crate) worker: WorkerId,
    /// Its registration as a committer.
    pub(crate) slot: SlotId,
    pub(crate) held: HeldResources,
}

/// The resources that a transaction holds.
#[derive(Default)]
pub(crate) struct HeldResources {
    /// The changes in place, where records are changed before the commit.
    pub(crate) undo_list: UndoList,
    /// The locks, where reads are locked.
    pub(crate) locks: Locks,
    /// The permit to hold locks, while these are limited.
    pub(crate) permit: Option<AdmissionPermit>,
    /// The state that it carries over its attempts, including the priority token.
    pub(crate) retry: RetryState,
    /// The records that it has made for new keys.
    pub(crate) new_records: NewRecords,
    /// The removal of deleted keys in the background is paused for it.
    pub(crate) pauses_removal: bool,
}

impl TxnResources {
    /// Only the slot is held so far.
    pub(crate) fn new(engine: Arc<Engine>, worker: WorkerId, slot: SlotId) -> Self {
        Self {
            engine,
            worker,
            slot,
            held: HeldResources::default(),
        }
    }

    pub(crate) fn stream(&self) -> Option<&Stream<GroupLocks>> {
        self.engine.log.as_ref().map(|log| log.stream(self.worker))
    }

    /// Where operations are logged: the log for them, and the undo list.
    pub(crate) fn operation_log(
        &mut self,
    ) -> Option<(OperationLog<'_, GroupLocks>, &Uncommitted, &mut UndoList)> {
        let log = self.engine.log.as_ref()?;
        let operation_log = OperationLog {
            log,
            stream: log.stream(self.worker),
            format: self.engine.format,
        };
        let undo_list = &mut self.held.undo_list;
        undo_list.mark_in(&self.engine.live_operations);
        Some((operation_log, &self.engine.views.uncommitted, undo_list))
    }

    /// Undoes uncommitted changes, and releases locks and permit (T2): the transaction has ended,
    /// or will not continue. The priority token stays for a retry.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.held.undo_list.end().is_some() {
            self.roll_back();
        }
        self.held.release_locks(&self.engine.lock_wait_list);
        if !self.held.new_records.is_empty() {
            self.leave_new_records();
        }
        if self.held.pauses_removal {
            self.end_pause();
        }
    }

    /// Pauses the removal of deleted keys in the background until the transaction ends: it is held,
    /// and has begun just now.
    pub(crate) fn pause_removal(&mut self) {
        debug_assert!(!self.held.pauses_removal, "the one before has ended");
        self.engine.removal_pauses.begin();
        self.held.pauses_removal = true;
    }

    #[cold]
    fn end_pause(&mut self) {
        self.held.pauses_removal = false;
        self.engine.removal_pauses.end();
    }

    /// The transaction has not committed: the records that it has made stay without a version, unless others give them one.
    #[cold]
    fn leave_new_records(&mut self) {
        let (engine, new_records) = (&*self.engine, &mut self.held.new_records);
        let left = new_records.left(0, |_| false);
        engine.removed_keys.note(engine.epochs.current(), left);
        new_records.clear();
        // Otherwise other transactions would meet conflicts, leave new records, and so on.
        if engine.removed_keys.waiting(Taken::All) >= MANY_REMOVED {
            engine.take_out_removed(REMOVED_BATCH, Taken::All);
        }
    }

    /// The transaction has committed. Notes the keys that it has deleted, and records that it has
    /// made and given no version; and occasionally takes keys that were noted before out of the
    /// indexes.
    #[cold]
    pub(crate) fn leave_removed_keys(&mut self, access_set: &AccessSet, stamp: Stamp) {
        let (engine, new_records) = (&*self.engine, &mut self.held.new_records);
        let has_version = |record| access_set.writes_sorted(record).is_some();
        let deleted = access_set.deleted(stamp);
        let left = new_records.left(0, has_version);
        let noted = (engine.removed_keys).note(engine.epochs.current(), deleted.chain(left));
        new_records.clear();
        if engine.removed_keys.waiting(Taken::Deleted) >= REMOVED_BATCH {
            // Twice as many as come, so that those that wait become fewer.
            let most = (2 * noted).clamp(2 * REMOVED_BATCH, MANY_REMOVED);
            engine.take_out_removed(most, Taken::Deleted);
        }
    }

    #[inline(never)]
    fn roll_back(&mut self) {
        if let Some((log, uncommitted, undo_list)) = self.operation_log() {
            undo_list.roll_back(&log, uncommitted);
        }
    }

    /// Releases the priority token.
    pub(crate) fn release_priority(&mut self) {
        self.held.retry.release_priority(&self.engine.priority);
    }
}

impl Drop for TxnResources {
    fn drop(&mut self) {
        if !self.engine.is_own() {
            // T4.
            std::mem::forget(self.held.permit.take());
            return;
        }
        self.release();
        self.release_priority();
        self.engine.epochs.release(self.slot);
    }
}

impl HeldResources {
    /// The locks of the writes are released, or the group's, and no write is to be undone (T3).
    pub(crate) fn hand_over(&mut self, access_set: &AccessSet) {
        self.undo_list.clear();
        for write in &access_set.writes {
            self.locks.forget(write.record, LockMode::EXCLUSIVE);
        }
    }

    /// Releases all locks, and the permit to hold some. The undo list is empty.
    #[inline(always)]
    pub(crate) fn release_locks(&mut self, waiters: &LockWaitList) {
        debug_assert!(self.undo_list.end().is_none(), "it is undone first");
        self.locks.release_all(waiters);
        self.permit = None;
    }

    /// The sizes of the buffers that are kept.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> Sizes {
        let of_locks = self.undo_list.sizes().and(self.locks.sizes());
        of_locks.and(self.new_records.sizes())
    }

    /// Frees the buffers that have become large. No lock is held.
    pub(crate) fn free_large_buffers(&mut self, large_bytes: usize) {
        self.undo_list.free_large_buffers(large_bytes);
        self.locks.free_large_buffers(large_bytes);
        self.new_records.free_large_buffers(large_bytes);
    }
}
