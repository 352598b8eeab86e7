//! The lock wait list: parking, wound-wait, and hand-off.
//!
//! All waiters are in one list, behind one mutex, with what they wait for and with the locks that they hold. A
//! transaction comes here only after a conflict, when it is about to give up the processor, which costs far more than
//! a search of the list.
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
//! Ages are kept over retries, and a transaction that was wounded [`WOUNDS`] times outranks all that were not. A
//! released lock is free for any transaction, which may overtake the waiters that it wakes (barging): handing it to a
//! thread that has no processor yet would keep it locked for as long. A waiter that has waited for [`HANDOFF_AFTER`]
//! marks the record *fair*: it requests FIFO hand-off and disables barging, and from then on the lock goes to the
//! highest rank among its waiters. A waiter that has waited for [`BOOST_AFTER`] is boosted above all that have not,
//! and leaves its class: transactions that lock in order yield to it, too, and to no other of their kind.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use namiki_platform::WorkerId;
use smallvec::SmallVec;

use super::held_locks::HeldLocks;
use super::word::{LockMode, LockWord};
use crate::storage::record::RecordRef;
use crate::sync::{Mutex, Ordering, Parker, Unparker, process_wide};

/// After so many wounds a transaction is wounded only by transactions with as many.
const WOUNDS: u32 = 8;
/// The wait after which barging is disabled.
const HANDOFF_AFTER: Duration = Duration::from_millis(1);
/// The wait after which a waiter is boosted.
const BOOST_AFTER: Duration = Duration::from_millis(10);
/// The longest park before a waiter checks again whether the database is still open.
const RECHECK_AFTER: Duration = Duration::from_millis(50);

/// The order of wounding: lower values go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    age: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Was wounded too often.
    Boosted,
    /// Has taken its locks in order.
    Ordered,
    Other,
}

impl Rank {
    /// Whether a waiter of this rank wounds one of that.
    fn wounds(self, other: Self) -> bool {
        let both_ordered = self.class == Class::Ordered && other.class == Class::Ordered;
        self < other && !both_ordered
    }
}

/// A transaction's place among all that have ever had to wait. It is kept from one attempt to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitAge {
    age: Option<u64>,
    wounds: u32,
}

impl WaitAge {
    fn rank(&mut self, ordered: bool) -> Rank {
        // Only a waiter draws one, so it is no counter that all commits share.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Rank {
            class: match (self.wounds >= WOUNDS, ordered) {
                (true, _) => Class::Boosted,
                (false, true) => Class::Ordered,
                (false, false) => Class::Other,
            },
            age: *self
                .age
                .get_or_insert_with(|| NEXT.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

struct Waiter {
    number: u64,
    unparker: Unparker,
    rank: Rank,
    record: RecordRef,
    wanted: LockMode,
    /// What it holds, the record that it waits for included.
    held: HeldLocks,
    wounded: bool,
    /// Requests FIFO hand-off; disables barging.
    wants_handoff: bool,
}

#[derive(Default)]
struct WaitList {
    list: Vec<Waiter>,
    /// How many there ever were.
    count: u64,
}

process_wide!(
    WAIT_LIST: Mutex<WaitList> = WaitList {
        list: Vec::new(),
        count: 0,
    }
);

/// How waiting for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The lock is the transaction's.
    Acquired,
    /// The transaction has to release its locks for the sake of another.
    Wounded,
    /// It took too long.
    TimedOut,
    /// The waiter was told to stop.
    Stopped,
}

/// What a waiter needs of the rest of the database.
pub(crate) trait WaitContext {
    /// Whether there is anything left to wait for.
    fn may_go_on(&self) -> bool;

    /// A group of commits on this stream has the lock that is waited for: returns when it is flushed. A failure
    /// shows as [`WaitContext::may_go_on`].
    fn flush(&self, stream: WorkerId);

    /// A waiter was boosted after a long wait.
    fn promoted(&self) {}
}

/// Parks until `wanted` is granted, or the wait ends otherwise. `held` is what the transaction holds; what it
/// acquires is not added there.
pub(super) fn wait(
    record: RecordRef,
    wanted: LockMode,
    held: &mut HeldLocks,
    wait_age: &mut WaitAge,
    longest: Duration,
    context: &impl WaitContext,
) -> WaitOutcome {
    let ordered = held.would_be_ordered(record);
    let rank = wait_age.rank(ordered);
    let parker = Parker::new();
    let mut wait_list = WAIT_LIST.lock();
    let number = wait_list.enter(&parker, record, wanted, held, rank);
    // First, so that a release from now on finds the waiter.
    wait_list.mark(record);
    let mut at = wait_list.position(number);
    let mut wait_state = match wait_list.try_grant(at) {
        WaitState::LockMode(_) if wait_list.give_way(at) => WaitState::Ended(WaitOutcome::Wounded),
        wait_state => wait_state,
    };
    loop {
        if let WaitState::Ended(ended) = wait_state {
            *held = wait_list.list.swap_remove(at).held;
            wait_list.mark(record);
            if ended != WaitOutcome::Acquired {
                // It may have been woken for what it does not take now.
                wait_list.wake(record);
            }
            if ended == WaitOutcome::Wounded {
                wait_age.wounds += 1;
            }
            return ended;
        }
        wait_list.mark(record);
        drop(wait_list);
        let guard = WaiterGuard { number, held };
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
        wait_list = WAIT_LIST.lock();
        at = wait_list.position(number);
        let me = &mut wait_list.list[at];
        me.wants_handoff |= slept >= HANDOFF_AFTER;
        if slept >= BOOST_AFTER && me.rank.class != Class::Boosted {
            wait_age.wounds = wait_age.wounds.max(WOUNDS);
            wait_list.boost(at);
            context.promoted();
        }
        let me = &wait_list.list[at];
        wait_state = match () {
            () if me.wounded => WaitState::Ended(WaitOutcome::Wounded),
            () if !may_go_on => WaitState::Ended(WaitOutcome::Stopped),
            () => wait_list.try_grant(at),
        };
        if matches!(wait_state, WaitState::LockMode(_)) && slept >= longest {
            wait_state = WaitState::Ended(WaitOutcome::TimedOut);
        }
    }
}

/// Takes the waiter out of the list if a disk panics in a flush, and returns its locks to the transaction that
/// releases them.
struct WaiterGuard<'a> {
    number: u64,
    held: &'a mut HeldLocks,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut wait_list = WAIT_LIST.lock();
        let at = wait_list.position(self.number);
        let Waiter { record, held, .. } = wait_list.list.swap_remove(at);
        *self.held = held;
        wait_list.mark(record);
        wait_list.wake(record);
    }
}

/// What a waiter sees of the lock that it waits for.
#[derive(Clone, Copy)]
enum WaitState {
    Ended(WaitOutcome),
    /// It is locked, perhaps by the group of commits on this stream.
    LockMode(Option<WorkerId>),
}

impl WaitList {
    /// Takes a transaction into the list, with its locks.
    fn enter(
        &mut self,
        parker: &Parker,
        record: RecordRef,
        wanted: LockMode,
        held: &mut HeldLocks,
        rank: Rank,
    ) -> u64 {
        let number = self.count;
        self.count += 1;
        self.list.push(Waiter {
            number,
            unparker: parker.unparker(),
            rank,
            record,
            wanted,
            held: std::mem::take(held),
            wounded: false,
            wants_handoff: false,
        });
        number
    }

    fn position(&self, number: u64) -> usize {
        let found = self.list.iter().position(|it| it.number == number);
        found.expect("only the sleeper itself takes it out")
    }

    /// Acquires the lock for a waiter if it is free.
    fn try_grant(&self, at: usize) -> WaitState {
        let me = &self.list[at];
        let own = me.held.of(me.record);
        let mut word = load(me.record);
        loop {
            let passed_over = word.wants_handoff()
                && self
                    .on(me.record)
                    .any(|other| other.rank < me.rank && other.wanted.excludes(me.wanted));
            let granted = match passed_over {
                true => None,
                false => word.granted(me.wanted, own),
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
    fn give_way(&mut self, at: usize) -> bool {
        let waits_for = |waiter: &Waiter, holder: &Waiter| {
            holder.held.of(waiter.record).excludes(waiter.wanted)
        };
        let mut me = self.list.swap_remove(at);
        let mut gives_way = SmallVec::<[RecordRef; 4]>::new();
        for other in &mut self.list {
            if !other.wounded && other.rank.wounds(me.rank) && waits_for(other, &me) {
                other.wants_handoff = true;
                gives_way.push(other.record);
            }
        }
        if gives_way.is_empty() {
            for other in &mut self.list {
                if me.rank.wounds(other.rank) && waits_for(&me, other) {
                    other.wounded = true;
                    other.unparker.unpark();
                    me.wants_handoff = true;
                }
            }
        }
        // Where it was: it is the last to have come.
        self.list.push(me);
        for record in &gives_way {
            self.mark(*record);
        }
        !gives_way.is_empty()
    }

    /// Boosts a waiter after a long wait above all that have not waited as long, and wounds those of them that hold
    /// what it waits for.
    fn boost(&mut self, at: usize) {
        let (record, wanted) = (self.list[at].record, self.list[at].wanted);
        self.list[at].rank.class = Class::Boosted;
        let rank = self.list[at].rank;
        for other in &mut self.list {
            if rank.wounds(other.rank) && other.held.of(record).excludes(wanted) {
                other.wounded = true;
                other.unparker.unpark();
            }
        }
    }

    fn on(&self, record: RecordRef) -> impl Iterator<Item = &Waiter> {
        self.list.iter().filter(move |it| it.record == record)
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
        let mut waiting: Vec<&Waiter> = self.on(record).collect();
        waiting.sort_unstable_by_key(|it| it.rank);
        let mut before = LockMode::default();
        for waiter in waiting {
            let free = !before.excludes(waiter.wanted);
            match word.granted(waiter.wanted, waiter.held.of(record)) {
                Some(granted) if free => {
                    word = granted;
                    waiter.unparker.unpark();
                }
                _ => before = before.and(waiter.wanted),
            }
        }
    }
}

/// Called after the release of a record with waiters.
#[cold]
pub(super) fn wake(record: RecordRef) {
    WAIT_LIST.lock().wake(record);
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
    struct Buggy;

    impl WaitContext for Buggy {
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
        let [own, groups] = [0; 2].map(|_| arena.record(8, LockWord::FREE.0));
        assert!(Locks::default().try_acquire(groups, LockMode::EXCLUSIVE));
        hand_over(groups, WorkerId(0));
        let [mut waiter, mut next] = [(); 2].map(|()| Locks::default());
        assert!(waiter.try_acquire(own, LockMode::EXCLUSIVE));
        let wait = || waiter.wait(groups, LockMode::EXCLUSIVE, Duration::MAX, &Buggy);
        catch_unwind(AssertUnwindSafe(wait)).unwrap_err();

        assert!(WAIT_LIST.lock().on(groups).next().is_none());
        assert!(!load(groups).waits());
        assert!(!next.try_acquire(own, LockMode::EXCLUSIVE));
        waiter.release_all();
        assert!(next.try_acquire(own, LockMode::EXCLUSIVE));
        release(groups, LockMode::EXCLUSIVE);
        assert!(next.try_acquire(groups, LockMode::EXCLUSIVE));
    }
}
