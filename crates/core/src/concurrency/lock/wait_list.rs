//! The lock wait list: parking, wound-wait, and hand-off.
//!
//! All waiters of a database are in one list, behind one mutex, with what they wait for and with the locks that they
//! hold. A transaction comes here only after a conflict, when it is about to give up the processor, which costs far
//! more than a search of the list.
//!
//! # Deadlock avoidance (wound-wait)
//! A cycle of transactions that wait for each other consists of waiters only, as a running transaction releases its
//! locks in the end. Among waiters, one may wait for another only if that other has the higher [`Rank`]. A new waiter
//! compares itself with all others: it is *wounded* if it holds what a higher rank waits for, and it wounds those of
//! lower rank that hold what it waits for. Both happen under the mutex, and a waiter's locks do not change. So ranks
//! rise along every path of waiting, and no path returns to its start.
//!
//! One exception: transactions that have acquired all their locks in the one order of all records, the one that they
//! wait for last, wait for each other whatever their ages. A cycle of them would have to descend somewhere. They are
//! a class of their own between the others, so that no path leaves it and returns.
//!
//! # Starvation avoidance
//! Ages are kept over retries, and a transaction that was wounded [`BOOST_AFTER_WOUNDS`](crate::concurrency::contention::policy::BOOST_AFTER_WOUNDS) times outranks all that were
//! not. A released lock is free for any transaction, which may overtake the waiters that it wakes (barging): handing it
//! to a thread that has no processor yet would keep it locked for as long. A waiter that has waited for
//! [`HANDOFF_AFTER`] marks the record *fair*: it requests FIFO hand-off and disables barging, and from then on the lock
//! goes to the highest rank among its waiters. A waiter that has waited for [`BOOST_AFTER`] is boosted above all that
//! have not, and leaves its class: transactions that lock in order yield to it, too, and to no other of their kind.

use std::time::Duration;

use namiki_platform::WorkerId;
use namiki_platform::sync::{Ordering, Parker};
use smallvec::SmallVec;

use super::held_locks::HeldLocks;
use super::word::{LockMode, LockWord};
use crate::concurrency::contention::policy::{BOOST_AFTER, HANDOFF_AFTER, RECHECK_AFTER};
use crate::concurrency::contention::wait_age::{Ages, Rank, WaitAge};
use crate::concurrency::contention::wait_list::{RequestId, WaitList, Waiters};
use crate::storage::record::RecordRef;

/// A transaction's request for a lock.
struct LockRequest {
    rank: Rank,
    record: RecordRef,
    wanted: LockMode,
    /// The locks that it holds, including that of the record for which it waits.
    held: HeldLocks,
    wounded: bool,
    /// Requests FIFO hand-off; disables barging.
    wants_handoff: bool,
}

/// The parked transactions of one database, each with what it waits for and what it holds.
pub(crate) struct LockWaitList {
    requests: WaitList<LockRequest, Ages>,
}

type Requests = Waiters<LockRequest, Ages>;

/// The outcome of a lock wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The lock is the transaction's.
    Acquired,
    /// The transaction has to release its locks for one of higher rank.
    Wounded,
    /// The wait timed out.
    TimedOut,
    /// The wait was cancelled.
    Stopped,
}

/// The operations of the database that a waiter needs.
pub(crate) trait WaitContext {
    /// The list of all that wait for locks of the same records.
    fn lock_wait_list(&self) -> &LockWaitList;

    /// Whether transactions can still run; if not, waits end.
    fn may_go_on(&self) -> bool;

    /// A group of commits on this stream has the lock that is waited for: returns when it is flushed. A failure
    /// shows as [`WaitContext::may_go_on`].
    fn flush(&self, stream: WorkerId);

    /// A waiter was boosted after a long wait.
    fn promoted(&self) {}
}

impl Default for LockWaitList {
    fn default() -> Self {
        Self {
            requests: WaitList::new(Ages::default()),
        }
    }
}

impl LockWaitList {
    /// Parks until `wanted` is granted, or the wait ends otherwise. `held` is what the transaction holds; what it
    /// acquires is not added there.
    pub(super) fn wait(
        &self,
        record: RecordRef,
        wanted: LockMode,
        held: &mut HeldLocks,
        wait_age: &mut WaitAge,
        longest: Duration,
        context: &impl WaitContext,
    ) -> WaitOutcome {
        let ordered = held.would_be_ordered(record);
        let parker = Parker::new();
        let mut requests = self.requests.lock();
        let request = LockRequest {
            rank: wait_age.rank(ordered, &mut requests.state),
            record,
            wanted,
            held: std::mem::take(held),
            wounded: false,
            wants_handoff: false,
        };
        let own = requests.enter(&parker, request);
        // First, so that a release from now on finds the waiter.
        requests.mark(record);
        let mut wait_state = match requests.try_grant(own) {
            WaitState::LockMode(_) if requests.give_way(own) => {
                WaitState::Ended(WaitOutcome::Wounded)
            }
            wait_state => wait_state,
        };
        loop {
            if let WaitState::Ended(ended) = wait_state {
                *held = requests.leave(own);
                requests.mark(record);
                if ended != WaitOutcome::Acquired {
                    // It may have been woken for a lock that it does not take now.
                    requests.wake(record);
                }
                if ended == WaitOutcome::Wounded {
                    wait_age.note_wound();
                }
                return ended;
            }
            requests.mark(record);
            drop(requests);
            let guard = WaiterGuard {
                list: self,
                own,
                held,
            };
            match wait_state {
                WaitState::LockMode(Some(group)) => context.flush(group),
                _ => {
                    let slept = parker.age();
                    let next = [HANDOFF_AFTER, BOOST_AFTER]
                        .into_iter()
                        .find(|at| *at > slept);
                    let limit = next.map_or(RECHECK_AFTER, |at| at - slept);
                    parker.park(limit.min(longest.saturating_sub(slept)));
                }
            }
            let may_go_on = context.may_go_on();
            std::mem::forget(guard);
            let slept = parker.age();
            requests = self.requests.lock();
            let me = &mut requests[own];
            me.wants_handoff |= slept >= HANDOFF_AFTER;
            let is_wounded = me.wounded;
            if slept >= BOOST_AFTER && !me.rank.is_boosted() {
                wait_age.boost();
                requests.boost(own);
                context.promoted();
            }
            wait_state = match () {
                () if is_wounded => WaitState::Ended(WaitOutcome::Wounded),
                () if !may_go_on => WaitState::Ended(WaitOutcome::Stopped),
                () => requests.try_grant(own),
            };
            if matches!(wait_state, WaitState::LockMode(_)) && slept >= longest {
                wait_state = WaitState::Ended(WaitOutcome::TimedOut);
            }
        }
    }

    /// After the release of a record with waiters: wakes those that could be granted it now.
    #[cold]
    pub(crate) fn wake(&self, record: RecordRef) {
        self.requests.lock().wake(record.place());
    }
}

#[cfg(test)]
impl LockWaitList {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.lock().len() == 0
    }
}

/// Takes the waiter out of the list if a disk panics in a flush, and returns its locks to the transaction that
/// releases them.
struct WaiterGuard<'a> {
    list: &'a LockWaitList,
    own: RequestId,
    held: &'a mut HeldLocks,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut requests = self.list.requests.lock();
        let record = requests[self.own].record;
        *self.held = requests.leave(self.own);
        requests.mark(record);
        requests.wake(record);
    }
}

/// The state of the lock for which a waiter waits.
#[derive(Clone, Copy)]
enum WaitState {
    Ended(WaitOutcome),
    /// It is locked, perhaps by the group of commits on this stream.
    LockMode(Option<WorkerId>),
}

impl Requests {
    /// Takes a transaction out of the list. Returns its locks.
    fn leave(&mut self, own: RequestId) -> HeldLocks {
        let request = self.withdraw(own);
        request.expect("a lock is taken, not granted").held
    }

    /// Acquires the lock for a waiter if it is free.
    fn try_grant(&self, own: RequestId) -> WaitState {
        let me = &self[own];
        let own = me.held.of(me.record);
        let mut word = load(me.record);
        loop {
            let passed_over = word.wants_handoff()
                && self
                    .on(me.record)
                    .any(|other| other.rank < me.rank && other.wanted.excludes(me.wanted));
            let granted = if passed_over {
                None
            } else {
                word.granted(me.wanted, own)
            };
            let Some(granted) = granted else {
                return WaitState::LockMode(word.group());
            };
            match exchange(me.record, word, granted) {
                Ok(()) => return WaitState::Ended(WaitOutcome::Acquired),
                Err(now) => word = now,
            }
        }
    }

    /// Whether the waiter must yield; if not, wounds the waiters that have to yield to it. Either way no other
    /// transaction may take what was yielded in between.
    fn give_way(&mut self, own: RequestId) -> bool {
        // No rank wounds itself, so the waiter is not among the others.
        let me = &self[own];
        let rank = me.rank;
        let outranks = |other: &LockRequest| {
            !other.wounded
                && other.rank.wounds(rank)
                && me.held.of(other.record).excludes(other.wanted)
        };
        let gives_way: SmallVec<[(RequestId, RecordRef); 4]> = (self.iter())
            .filter(|other| outranks(&other.request))
            .map(|other| (other.id(), other.request.record))
            .collect();
        for (other, _) in &gives_way {
            self[*other].wants_handoff = true;
        }
        for (_, record) in &gives_way {
            self.mark(*record);
        }
        let yields = !gives_way.is_empty();
        if !yields && self.wound_holders(own) {
            self[own].wants_handoff = true;
        }
        yields
    }

    /// Boosts a waiter after a long wait above all that have not waited as long, and wounds those of them that hold
    /// what it waits for.
    fn boost(&mut self, own: RequestId) {
        self[own].rank.boost();
        self.wound_holders(own);
    }

    /// Wounds the waiters of lower rank that hold what this one waits for. Returns whether there are any.
    fn wound_holders(&mut self, own: RequestId) -> bool {
        let LockRequest {
            rank,
            record,
            wanted,
            ..
        } = self[own];
        let mut any = false;
        for other in self.iter_mut() {
            let request = &mut other.request;
            if rank.wounds(request.rank) && request.held.of(record).excludes(wanted) {
                request.wounded = true;
                any = true;
                other.wake();
            }
        }
        any
    }

    fn on(&self, record: RecordRef) -> impl Iterator<Item = &LockRequest> {
        let requests = self.iter().map(|it| &it.request);
        requests.filter(move |it| it.record == record)
    }

    /// Records in the record's word whether there are waiters.
    fn mark(&self, record: RecordRef) {
        let waits = self.on(record).next().is_some();
        let handoff = self.on(record).any(|it| it.wants_handoff);
        let mut word = load(record);
        loop {
            let marked = word.with_waiters(waits, handoff);
            if marked == word {
                return;
            }
            match exchange(record, word, marked) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Wakes the waiters that could be granted the record now, by their rank, except those that exclude an earlier
    /// one that could not.
    fn wake(&self, record: RecordRef) {
        let mut word = load(record);
        let mut waiting: Vec<_> = (self.iter())
            .filter(|it| it.request.record == record)
            .collect();
        waiting.sort_unstable_by_key(|it| it.request.rank);
        let mut before = LockMode::default();
        for waiter in waiting {
            let request = &waiter.request;
            let free = !before.excludes(request.wanted);
            match word.granted(request.wanted, request.held.of(record)) {
                Some(granted) if free => {
                    word = granted;
                    waiter.wake();
                }
                _ => before = before.and(request.wanted),
            }
        }
    }
}

fn load(record: RecordRef) -> LockWord {
    LockWord(record.word().load(Ordering::Relaxed))
}

fn exchange(record: RecordRef, from: LockWord, to: LockWord) -> Result<(), LockWord> {
    // Acquire: pairs with the Release of the holder before.
    record
        .word()
        .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
        .map(drop)
        .map_err(LockWord)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::concurrency::lock::{Locks, hand_over, release};
    use crate::storage::arena::Arena;

    /// A database on a disk with a bug.
    #[derive(Default)]
    struct Buggy(LockWaitList);

    impl WaitContext for Buggy {
        fn lock_wait_list(&self) -> &LockWaitList {
            &self.0
        }

        fn may_go_on(&self) -> bool {
            true
        }

        fn flush(&self, _: WorkerId) {
            panic!("a bug in the disk");
        }
    }

    #[test]
    fn a_panic_in_a_waiters_flush_leaves_its_locks() {
        let arena = Arena::default();
        let buggy = Buggy::default();
        let [own, groups] = [0; 2].map(|_| arena.record(8, LockWord::FREE.0));
        assert!(Locks::default().try_acquire(groups, LockMode::EXCLUSIVE));
        hand_over(groups, WorkerId(0));
        let [mut waiter, mut next] = [(); 2].map(|()| Locks::default());
        assert!(waiter.try_acquire(own, LockMode::EXCLUSIVE));
        let mut age = WaitAge::default();
        let wait = || waiter.wait(groups, LockMode::EXCLUSIVE, &mut age, Duration::MAX, &buggy);
        catch_unwind(AssertUnwindSafe(wait)).unwrap_err();

        assert!(buggy.0.is_empty());
        assert!(!load(groups).waits());
        assert!(!next.try_acquire(own, LockMode::EXCLUSIVE));
        waiter.release_all(&buggy.0);
        assert!(next.try_acquire(own, LockMode::EXCLUSIVE));
        assert!(!release(groups, LockMode::EXCLUSIVE));
        assert!(next.try_acquire(groups, LockMode::EXCLUSIVE));
    }
}
