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
//! thread that has no processor yet would keep it locked for as long. A waiter that has waited for [`FAIR_AFTER`]
//! marks the record *fair*: it requests FIFO hand-off and disables barging, and from then on the lock goes to the
//! highest rank among its waiters. A waiter that has waited for [`VETERAN_AFTER`] is boosted above all that have not,
//! and leaves its class: transactions that lock in order yield to it, too, and to no other of their kind.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use namiki_platform::WorkerId;
use smallvec::SmallVec;

use super::held::Held;
use super::word::{LockWord, Locked};
use crate::record::RecordRef;
use crate::sync::{Bed, Bell, Mutex, Ordering, shared};

/// After so many wounds a transaction is wounded only by transactions with as many.
const WOUNDS: u32 = 8;
/// The wait after which barging is disabled.
const FAIR_AFTER: Duration = Duration::from_millis(1);
/// The wait after which a waiter is boosted.
const VETERAN_AFTER: Duration = Duration::from_millis(10);
/// The longest park before a waiter checks again whether the database is still open.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// The order of wounding: lower values go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    age: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Was wounded too often.
    Veteran,
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
pub(super) struct Seniority {
    age: Option<u64>,
    wounds: u32,
}

impl Seniority {
    fn rank(&mut self, ordered: bool) -> Rank {
        // Only a waiter draws one, so it is no counter that all commits share.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Rank {
            class: match (self.wounds >= WOUNDS, ordered) {
                (true, _) => Class::Veteran,
                (false, true) => Class::Ordered,
                (false, false) => Class::Other,
            },
            age: *self
                .age
                .get_or_insert_with(|| NEXT.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

struct Sleeper {
    number: u64,
    bell: Bell,
    rank: Rank,
    record: RecordRef,
    wanted: Locked,
    /// What it holds, the record that it waits for included.
    held: Held,
    wounded: bool,
    /// Requests FIFO hand-off; disables barging.
    impatient: bool,
}

#[derive(Default)]
struct Sleepers {
    list: Vec<Sleeper>,
    /// How many there ever were.
    count: u64,
}

shared!(
    SLEEPERS: Mutex<Sleepers> = Sleepers {
        list: Vec::new(),
        count: 0,
    }
);

/// How waiting for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
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
pub(crate) trait Surroundings {
    /// Whether there is anything left to wait for.
    fn may_go_on(&self) -> bool;

    /// A group of commits on this stream has the lock that is waited for: returns when it is flushed. A failure
    /// shows as [`Surroundings::may_go_on`].
    fn flush(&self, stream: WorkerId);

    /// A waiter was boosted after a long wait.
    fn promoted(&self) {}
}

/// Parks until `wanted` is granted, or the wait ends otherwise. `held` is what the transaction holds; what it
/// acquires is not added there.
pub(super) fn wait(
    record: RecordRef,
    wanted: Locked,
    held: &mut Held,
    seniority: &mut Seniority,
    longest: Duration,
    surroundings: &impl Surroundings,
) -> Waited {
    let ordered = held.would_be_ordered(record);
    let rank = seniority.rank(ordered);
    let bed = Bed::new();
    let mut sleepers = SLEEPERS.lock();
    let number = sleepers.enter(&bed, record, wanted, held, rank);
    // First, so that a release from now on finds the waiter.
    sleepers.mark(record);
    let mut at = sleepers.position(number);
    let mut seen = match sleepers.look(at) {
        Seen::Locked(_) if sleepers.give_way(at) => Seen::Ended(Waited::Wounded),
        seen => seen,
    };
    loop {
        if let Seen::Ended(ended) = seen {
            *held = sleepers.list.swap_remove(at).held;
            sleepers.mark(record);
            if ended != Waited::Acquired {
                // It may have been woken for what it does not take now.
                sleepers.wake(record);
            }
            if ended == Waited::Wounded {
                seniority.wounds += 1;
            }
            return ended;
        }
        sleepers.mark(record);
        drop(sleepers);
        let asleep = Asleep { number, held };
        match seen {
            Seen::Locked(Some(group)) => surroundings.flush(group),
            _ => {
                let slept = bed.age();
                let next = [FAIR_AFTER, VETERAN_AFTER]
                    .into_iter()
                    .find(|at| *at > slept);
                let limit = next.map_or(LOOK_AFTER, |at| at - slept);
                bed.sleep(limit.min(longest.saturating_sub(slept)));
            }
        }
        let may_go_on = surroundings.may_go_on();
        std::mem::forget(asleep);
        let slept = bed.age();
        sleepers = SLEEPERS.lock();
        at = sleepers.position(number);
        let me = &mut sleepers.list[at];
        me.impatient |= slept >= FAIR_AFTER;
        if slept >= VETERAN_AFTER && me.rank.class != Class::Veteran {
            seniority.wounds = seniority.wounds.max(WOUNDS);
            sleepers.promote(at);
            surroundings.promoted();
        }
        let me = &sleepers.list[at];
        seen = match () {
            () if me.wounded => Seen::Ended(Waited::Wounded),
            () if !may_go_on => Seen::Ended(Waited::Stopped),
            () => sleepers.look(at),
        };
        if matches!(seen, Seen::Locked(_)) && slept >= longest {
            seen = Seen::Ended(Waited::TimedOut);
        }
    }
}

/// Takes the waiter out of the list if a disk panics in a flush, and returns its locks to the transaction that
/// releases them.
struct Asleep<'a> {
    number: u64,
    held: &'a mut Held,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut sleepers = SLEEPERS.lock();
        let at = sleepers.position(self.number);
        let Sleeper { record, held, .. } = sleepers.list.swap_remove(at);
        *self.held = held;
        sleepers.mark(record);
        sleepers.wake(record);
    }
}

/// What a waiter sees of the lock that it waits for.
#[derive(Clone, Copy)]
enum Seen {
    Ended(Waited),
    /// It is locked, perhaps by the group of commits on this stream.
    Locked(Option<WorkerId>),
}

impl Sleepers {
    /// Takes a transaction into the list, with its locks.
    fn enter(
        &mut self,
        bed: &Bed,
        record: RecordRef,
        wanted: Locked,
        held: &mut Held,
        rank: Rank,
    ) -> u64 {
        let number = self.count;
        self.count += 1;
        self.list.push(Sleeper {
            number,
            bell: bed.bell(),
            rank,
            record,
            wanted,
            held: std::mem::take(held),
            wounded: false,
            impatient: false,
        });
        number
    }

    fn position(&self, number: u64) -> usize {
        let found = self.list.iter().position(|it| it.number == number);
        found.expect("only the sleeper itself takes it out")
    }

    /// Acquires the lock for a waiter if it is free.
    fn look(&self, at: usize) -> Seen {
        let me = &self.list[at];
        let own = me.held.of(me.record);
        let mut word = load(me.record);
        loop {
            let passed_over = word.is_fair()
                && self
                    .on(me.record)
                    .any(|other| other.rank < me.rank && other.wanted.excludes(me.wanted));
            let granted = match passed_over {
                true => None,
                false => word.granted(me.wanted, own),
            };
            let Some(granted) = granted else {
                return Seen::Locked(word.group());
            };
            match exchange(me.record, word, granted) {
                Ok(()) => return Seen::Ended(Waited::Acquired),
                Err(now) => word = now,
            }
        }
    }

    /// Whether the waiter must yield; if not, wounds the waiters that have to yield to it. Either way no other
    /// transaction may take what was yielded in between.
    fn give_way(&mut self, at: usize) -> bool {
        let waits_for = |waiter: &Sleeper, holder: &Sleeper| {
            holder.held.of(waiter.record).excludes(waiter.wanted)
        };
        let mut me = self.list.swap_remove(at);
        let mut gives_way = SmallVec::<[RecordRef; 4]>::new();
        for other in &mut self.list {
            if !other.wounded && other.rank.wounds(me.rank) && waits_for(other, &me) {
                other.impatient = true;
                gives_way.push(other.record);
            }
        }
        if gives_way.is_empty() {
            for other in &mut self.list {
                if me.rank.wounds(other.rank) && waits_for(&me, other) {
                    other.wounded = true;
                    other.bell.ring();
                    me.impatient = true;
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
    fn promote(&mut self, at: usize) {
        let (record, wanted) = (self.list[at].record, self.list[at].wanted);
        self.list[at].rank.class = Class::Veteran;
        let rank = self.list[at].rank;
        for other in &mut self.list {
            if rank.wounds(other.rank) && other.held.of(record).excludes(wanted) {
                other.wounded = true;
                other.bell.ring();
            }
        }
    }

    fn on(&self, record: RecordRef) -> impl Iterator<Item = &Sleeper> {
        self.list.iter().filter(move |it| it.record == record)
    }

    /// Records in the record's word whether there are waiters.
    fn mark(&self, record: RecordRef) {
        let waits = self.on(record).next().is_some();
        let fair = self.on(record).any(|it| it.impatient);
        let mut word = load(record);
        loop {
            let marked = word.with_sleepers(waits, fair);
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
        let mut waiting: Vec<&Sleeper> = self.on(record).collect();
        waiting.sort_unstable_by_key(|it| it.rank);
        let mut before = Locked::default();
        for sleeper in waiting {
            let free = !before.excludes(sleeper.wanted);
            match word.granted(sleeper.wanted, sleeper.held.of(record)) {
                Some(granted) if free => {
                    word = granted;
                    sleeper.bell.ring();
                }
                _ => before = before.and(sleeper.wanted),
            }
        }
    }
}

/// Called after the release of a record with waiters.
#[cold]
pub(super) fn wake(record: RecordRef) {
    SLEEPERS.lock().wake(record);
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
    use crate::arena::Arena;
    use crate::lock::{Locks, hand_over, release};

    /// A database on a disk with a bug.
    struct Buggy;

    impl Surroundings for Buggy {
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
        assert!(Locks::default().try_acquire(groups, Locked::EXCLUSIVE));
        hand_over(groups, WorkerId(0));
        let [mut sleeper, mut next] = [(); 2].map(|()| Locks::default());
        assert!(sleeper.try_acquire(own, Locked::EXCLUSIVE));
        let wait = || sleeper.wait(groups, Locked::EXCLUSIVE, Duration::MAX, &Buggy);
        catch_unwind(AssertUnwindSafe(wait)).unwrap_err();

        assert!(SLEEPERS.lock().on(groups).next().is_none());
        assert!(!load(groups).waits());
        assert!(!next.try_acquire(own, Locked::EXCLUSIVE));
        sleeper.release_all();
        assert!(next.try_acquire(own, Locked::EXCLUSIVE));
        release(groups, Locked::EXCLUSIVE);
        assert!(next.try_acquire(groups, Locked::EXCLUSIVE));
    }
}
