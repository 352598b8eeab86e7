//! Locks of records and of the gaps between them, for strict two-phase locking.
//!
//! A lock is a word in the record (`word.rs`), acquired and released by one atomic operation if there is no conflict.
//! Blocked transactions park in the wait list (`wait_list.rs`), where deadlocks are ruled out, too.
//!
//! Keys that are not there are locked by the gap that they would lie in: it belongs to the record of the next key, or
//! to the table's last record, which stands for the end of all keys (next-key locking). An inserted key divides a
//! gap; no other transaction relies on either part then, because the inserter holds the gap exclusively. A deleted key
//! leaves the index only when no lock of its record or of the gap below it is held, so the next key's gap takes that in
//! before another transaction can rely on it.
//!
//! Locks are identified by the record's address, whatever its incarnation: a waiter for a record
//! that has been reused during the wait gets the lock, and its caller then compares the incarnation
//! (`storage/record.rs`, R5).
//!
//! # Invariants
//! - K1. A transaction's [`Locks`] are exactly what its record's words count for it, except those that it has handed
//!   over to a group of commits.
//! - K2. A record's word says that there are waiters for as long as there are.
//!
//! Paper: pwal §5.4 (strict two-phase locking), raft-pwal §2.1 (locks in one order)

mod held_locks;
#[cfg(all(test, loom))]
mod loom_model;
mod wait_list;
mod word;

use std::time::Duration;

use namiki_platform::WorkerId;
use namiki_platform::sync::Ordering;

pub(crate) use self::wait_list::{LockWaitList, WaitContext, WaitOutcome};
pub(crate) use self::word::{LockMode, LockWord};

use self::held_locks::HeldLocks;
use crate::concurrency::contention::wait_age::WaitAge;
use crate::storage::arena::LockedWord;
use crate::storage::free_large_buffers::Sizes;
use crate::storage::record::RecordRef;

/// The locks of one transaction.
#[derive(Default)]
pub(crate) struct Locks {
    held: HeldLocks,
}

impl Locks {
    /// Acquires a lock if there is no conflict. Returns whether the transaction has it now.
    #[inline]
    pub(crate) fn try_acquire(&mut self, record: RecordRef, wanted: LockMode) -> bool {
        let record = record.place();
        let own = self.held.of(record);
        if own.has(wanted) {
            return true;
        }
        let mut word = LockWord(record.word().load(Ordering::Relaxed));
        loop {
            if word.wants_handoff() {
                return false;
            }
            let Some(granted) = word.granted(wanted, own) else {
                return false;
            };
            // SeqCst, like a leaf's counter: a reader that relies on a gap loads the counter after this, and an
            // inserter into the gap changes the counter after this. (And Acquire: pairs with the Release of the last
            // holder.)
            match record.word().compare_exchange_weak(
                word.0,
                granted.0,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.held.add(record, wanted);
                    return true;
                }
                Err(now) => word = LockWord(now),
            }
        }
    }

    /// Parks until the lock is granted, or the wait ends otherwise. It may take `longest`.
    #[cold]
    pub(crate) fn wait(
        &mut self,
        record: RecordRef,
        wanted: LockMode,
        wait_age: &mut WaitAge,
        longest: Duration,
        context: &impl WaitContext,
    ) -> WaitOutcome {
        let record = record.place();
        let (waiters, held) = (context.lock_wait_list(), &mut self.held);
        let waited = waiters.wait(record, wanted, held, wait_age, longest, context);
        if waited == WaitOutcome::Acquired {
            self.held.add(record, wanted);
        }
        waited
    }

    /// The stream of the group of commits that has the record locked.
    pub(crate) fn group_on(record: RecordRef) -> Option<WorkerId> {
        LockWord(record.word().load(Ordering::Relaxed)).group()
    }

    /// The word for a new record in the gap below `next`, of which this transaction is to hold `wanted`; and what it
    /// then holds. A transaction that relies on the gap relies on both parts of it.
    pub(crate) fn word_of_new(
        &self,
        wanted: LockMode,
        next: Option<RecordRef>,
    ) -> (LockedWord, LockMode) {
        let gap = next.is_some_and(|next| self.held.of(next.place()).has(LockMode::GAP));
        let locked = if gap {
            wanted.and(LockMode::GAP)
        } else {
            wanted
        };
        let word = LockWord::FREE.granted(locked, LockMode::default());
        let word = word.expect("a new record is not locked");
        (word.of_new_record(), locked)
    }

    /// Notes that a record has come into the index with such a word.
    pub(crate) fn made(&mut self, record: RecordRef, locked: LockMode) {
        self.held.add(record.place(), locked);
    }

    /// Releases one lock.
    pub(crate) fn release(&mut self, record: RecordRef, locked: LockMode, waiters: &LockWaitList) {
        self.held.remove(record.place(), locked);
        release_and_wake(record, locked, waiters);
    }

    /// Notes that a lock is another's now, or released.
    pub(crate) fn forget(&mut self, record: RecordRef, locked: LockMode) {
        self.held.remove(record.place(), locked);
    }

    /// The sizes of the buffers that are kept.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> Sizes {
        self.held.sizes()
    }

    /// Frees the buffers that have become large. No lock is held.
    pub(crate) fn free_large_buffers(&mut self, large_bytes: usize) {
        self.held.free_large_buffers(large_bytes);
    }

    /// Whether none is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Releases all locks.
    #[inline(always)]
    pub(crate) fn release_all(&mut self, waiters: &LockWaitList) {
        if !self.held.is_empty() {
            self.release_each(waiters);
        }
    }

    #[inline(never)]
    fn release_each(&mut self, waiters: &LockWaitList) {
        for (record, locked) in self.held.drain() {
            release_and_wake(record, locked, waiters);
        }
    }
}

#[inline]
fn release_and_wake(record: RecordRef, locked: LockMode, waiters: &LockWaitList) {
    if release(record, locked) {
        waiters.wake(record);
    }
}

/// Records that the exclusive lock of a record now belongs to a group of commits on this stream. Returns whether
/// there are waiters for it, which will not have seen that the group has it.
pub(crate) fn hand_over(record: RecordRef, stream: WorkerId) -> bool {
    let group = LockWord::FREE.held_by_group(stream);
    // Relaxed: it is a hint for waiters.
    let before = record.word().fetch_or(group.0, Ordering::Relaxed);
    LockWord(before).waits()
}

/// Releases what a transaction or a group holds of a record. Returns whether there are waiters for it, which the
/// caller [wakes](LockWaitList::wake).
#[inline]
#[must_use]
pub(crate) fn release(record: RecordRef, locked: LockMode) -> bool {
    let mut word = LockWord(record.word().load(Ordering::Relaxed));
    // Release: pairs with the Acquire of the next holder. SeqCst for a gap, see `try_acquire`.
    while let Err(now) = record.word().compare_exchange_weak(
        word.0,
        word.released(locked).0,
        Ordering::SeqCst,
        Ordering::Relaxed,
    ) {
        word = LockWord(now);
    }
    word.waits()
}
