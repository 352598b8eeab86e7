//! Locks and waiters under a model checker. No wait ends by a timeout here, so a lost wake-up hangs, and the checker
//! reports it: in production, a lost wake-up costs time only, until the next periodic check.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki --lib --release model
//! ```

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use namiki_platform::WorkerId;
use namiki_platform::model_checker::explore;
use namiki_platform::sync::{Mutex, Ordering, SeqCstU64 as AtomicU64};

use super::{LockMode, LockWaitList, Locks, WaitContext, WaitOutcome, hand_over, release};
use crate::concurrency::contention::wait_age::WaitAge;
use crate::storage::arena::Arena;
use crate::storage::record::RecordRef;

const STREAM: WorkerId = WorkerId(7);

/// Records, and a number for each that its lock is for.
struct World {
    records: Vec<RecordRef>,
    numbers: Vec<AtomicU64>,
    /// Records that a group of commits holds.
    group: Mutex<Vec<RecordRef>>,
    waiters: LockWaitList,
    /// Owns the records.
    _arena: Arena,
}

impl World {
    fn new(records: usize) -> Arc<Self> {
        let arena = Arena::default();
        Arc::new(Self {
            records: (0..records).map(|_| arena.record(8, 0)).collect(),
            numbers: (0..records).map(|_| AtomicU64::new(0)).collect(),
            group: Mutex::new(Vec::new()),
            waiters: LockWaitList::default(),
            _arena: arena,
        })
    }

    /// The critical section under an exclusive lock. Only the lock prevents a lost increment.
    fn increment(&self, at: usize) {
        let number = self.numbers[at].load(Ordering::Relaxed);
        self.numbers[at].store(number + 1, Ordering::Relaxed);
    }

    /// As a stream does it: when this returns, the group holds nothing, whichever thread has flushed it.
    fn flush_group(&self) {
        for record in self.group.lock().drain(..) {
            if release(record, LockMode::EXCLUSIVE) {
                self.waiters.wake(record);
            }
        }
    }

    fn assert_free(&self) {
        for record in &self.records {
            assert_eq!(record.word().load(Ordering::Relaxed), 0, "all is released");
        }
        assert!(self.waiters.is_empty());
    }
}

/// The waiter's callbacks, with counts of its wake-ups and of flushes that returned.
struct TestContext {
    world: Arc<World>,
    looks: Cell<u32>,
}

impl WaitContext for TestContext {
    fn lock_wait_list(&self) -> &LockWaitList {
        &self.world.waiters
    }

    fn may_go_on(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        true
    }

    fn flush(&self, stream: WorkerId) {
        assert_eq!(stream, STREAM);
        self.world.flush_group();
    }
}

/// A transaction that requests locks.
struct Party {
    around: TestContext,
    locks: Locks,
    wait_age: WaitAge,
}

impl Party {
    fn of(world: &Arc<World>) -> Self {
        let around = TestContext {
            world: Arc::clone(world),
            looks: Cell::new(0),
        };
        Self {
            around,
            locks: Locks::default(),
            wait_age: WaitAge::default(),
        }
    }

    fn lock(&mut self, at: usize, wanted: LockMode) -> WaitOutcome {
        let record = self.around.world.records[at];
        if self.locks.try_acquire(record, wanted) {
            WaitOutcome::Acquired
        } else {
            self.locks.wait(
                record,
                wanted,
                &mut self.wait_age,
                Duration::MAX,
                &self.around,
            )
        }
    }

    fn release_all(&mut self) {
        self.locks.release_all(&self.around.world.waiters);
    }

    /// Acquires these locks one after the other, runs the body, and releases them; restarts if it was wounded.
    /// Returns how often it was.
    fn run(&mut self, wanted: &[(usize, LockMode)], body: impl Fn(&World)) -> u32 {
        let mut wounds = 0;
        loop {
            let ended = (wanted.iter())
                .map(|&(at, locked)| self.lock(at, locked))
                .find(|waited| *waited != WaitOutcome::Acquired);
            match ended {
                None => break body(&self.around.world),
                Some(WaitOutcome::Wounded) => wounds += 1,
                Some(other) => panic!("{other:?}"),
            }
            self.release_all();
        }
        self.release_all();
        self.wait_age = WaitAge::default();
        wounds
    }
}

/// Runs two parties, each on a thread of its own, and then checks that nothing is held, marked, or waited for.
fn two(
    preemptions: usize,
    records: usize,
    one: impl Fn(Party) + Send + Sync + Clone + 'static,
    other: impl Fn(Party) + Send + Sync + 'static,
    after: impl Fn(&World) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let world = World::new(records);
        let thread = {
            let (world, one) = (Arc::clone(&world), one.clone());
            thread::spawn(move || one(Party::of(&world)))
        };
        other(Party::of(&world));
        thread.join().expect("the thread of a model ends");
        world.assert_free();
        after(&world);
    });
}

const X: LockMode = LockMode::EXCLUSIVE;
const S: LockMode = LockMode::SHARED;

#[test]
fn an_exclusive_lock_has_one_holder_and_wakes_its_waiter() {
    let twice = |mut party: Party| {
        for _ in 0..2 {
            party.run(&[(0, X)], |world| world.increment(0));
        }
    };
    two(3, 1, twice, twice, |world| {
        assert_eq!(world.numbers[0].load(Ordering::Relaxed), 4);
    });
}

/// Two waiters for the same lock are woken by one release if they are compatible, and one after the other if not.
#[test]
fn each_of_several_waiters_is_woken() {
    for wanted in [[S, S], [S, X], [X, X]] {
        explore(2, move || {
            let world = World::new(1);
            let mut holder = Party::of(&world);
            assert_eq!(holder.lock(0, X), WaitOutcome::Acquired);
            let others = wanted.map(|wanted| {
                let world = Arc::clone(&world);
                thread::spawn(move || Party::of(&world).run(&[(0, wanted)], |_| {}))
            });
            world.increment(0);
            holder.release_all();
            for other in others {
                assert_eq!(other.join().unwrap(), 0, "there are no conflicts");
            }
            world.assert_free();
        });
    }
}

/// All waiters that one release admits are woken by it: they do not wait for each other.
#[test]
fn waiting_readers_are_woken_together() {
    explore(2, || {
        let world = World::new(1);
        let mut writer = Party::of(&world);
        assert_eq!(writer.lock(0, X), WaitOutcome::Acquired);
        let inside = Arc::new((Mutex::new(0), loom::sync::Condvar::new()));
        let readers = [(); 2].map(|()| {
            let (world, inside) = (Arc::clone(&world), Arc::clone(&inside));
            thread::spawn(move || {
                Party::of(&world).run(&[(0, S)], |_| {
                    let (count, changed) = &*inside;
                    let mut count = count.lock();
                    *count += 1;
                    changed.notify_all();
                    while *count < 2 {
                        count = changed.wait(count).unwrap();
                    }
                })
            })
        });
        writer.release_all();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 0);
        }
        world.assert_free();
    });
}

/// The first of two waiters for a record is woken for it, and wounded for another one before it looks.
#[test]
fn a_wounded_waiter_wakes_the_next() {
    explore(2, || {
        let world = World::new(3);
        let mut first = Party::of(&world);
        assert_eq!(first.lock(0, X), WaitOutcome::Acquired);
        let sleep_for_first = |holding: usize| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut party = Party::of(&world);
                // Not in order, so that either yields to a transaction that holds nothing yet.
                assert_eq!(party.lock(holding, X), WaitOutcome::Acquired);
                let waited = party.lock(0, X);
                party.release_all();
                waited
            })
        };
        let wait_list = [1, 2].map(sleep_for_first);
        first.release_all();
        first.run(&[(1, X)], |_| {});
        for (waiter, may_be_wounded) in wait_list.into_iter().zip([true, false]) {
            match waiter.join().unwrap() {
                WaitOutcome::Acquired => {}
                WaitOutcome::Wounded => assert!(may_be_wounded),
                other => panic!("{other:?}"),
            }
        }
        world.assert_free();
    });
}

#[test]
fn readers_see_nothing_half_written() {
    let write = |mut party: Party| {
        party.run(&[(0, X)], |world| {
            world.increment(0);
            world.increment(1);
        });
    };
    let read = |mut party: Party| {
        for _ in 0..2 {
            party.run(&[(0, S)], |world| {
                let [first, second] = [0, 1].map(|at| world.numbers[at].load(Ordering::Relaxed));
                assert_eq!(first, second);
            });
        }
    };
    two(3, 2, write, read, |_| {});
}

/// Each waits for the other to stop reading: one is wounded, and comes again.
#[test]
fn two_upgrading_readers_do_not_hang() {
    let upgrade = |mut party: Party| {
        party.run(&[(0, S), (0, X)], |world| world.increment(0));
    };
    two(3, 1, upgrade, upgrade, |world| {
        assert_eq!(world.numbers[0].load(Ordering::Relaxed), 2);
    });
}

#[test]
fn opposite_orders_do_not_hang() {
    let up = |mut party: Party| {
        party.run(&[(0, X), (1, X)], |world| world.increment(0));
    };
    let down = |mut party: Party| {
        party.run(&[(1, X), (0, X)], |world| world.increment(0));
    };
    two(3, 2, up, down, |world| {
        assert_eq!(world.numbers[0].load(Ordering::Relaxed), 2);
    });
}

/// A gap's readers and the inserter of a key into it, concurrently with the record's own lock.
#[test]
fn a_gap_is_relied_on_or_filled() {
    let fill = |mut party: Party| {
        party.run(&[(0, LockMode::INSERT)], |world| {
            world.increment(0);
            world.increment(1);
        });
    };
    let rely = |mut party: Party| {
        party.run(&[(0, LockMode::SHARED_AND_GAP)], |world| {
            let [first, second] = [0, 1].map(|at| world.numbers[at].load(Ordering::Relaxed));
            assert_eq!(first, second);
        });
    };
    two(3, 2, fill, rely, |_| {});
}

/// One wants a hot key that another takes again and again: woken and too late once, it is let in next time.
#[test]
fn a_waiter_for_a_hot_key_is_admitted() {
    let hog = |mut party: Party| {
        for _ in 0..4 {
            party.run(&[(0, X)], |world| world.increment(0));
        }
    };
    let patient = |mut party: Party| {
        party.run(&[(0, X)], |world| world.increment(0));
        let looks = party.around.looks.get();
        assert!(looks <= LOOKS, "woken {looks} times");
    };
    two(3, 1, hog, patient, |world| {
        assert_eq!(world.numbers[0].load(Ordering::Relaxed), 5);
    });
}

/// How often a waiter for a hot key is woken at most: to find that another transaction was faster, for an unpark that
/// came before that, and to acquire it.
const LOOKS: u32 = 3;

/// A lock that a group of commits holds is released by a flush: of the thread that handed it over if there was a
/// waiter by then, else of a later waiter.
#[test]
fn a_group_with_a_lock_is_flushed_for_its_waiter() {
    let commit = |mut party: Party| {
        let world = Arc::clone(&party.around.world);
        let record = world.records[0];
        assert_eq!(party.lock(0, X), WaitOutcome::Acquired);
        world.increment(0);
        let is_wanted = {
            let mut group = world.group.lock();
            group.push(record);
            hand_over(record, STREAM)
        };
        party.locks.forget(record, X);
        if is_wanted {
            world.flush_group();
        }
    };
    let wait = |mut party: Party| {
        party.run(&[(0, X)], |world| world.increment(0));
        // Where the other came later, no other thread will flush.
        party.around.world.flush_group();
    };
    explore(3, move || {
        let world = World::new(1);
        let thread = {
            let world = Arc::clone(&world);
            thread::spawn(move || commit(Party::of(&world)))
        };
        wait(Party::of(&world));
        thread.join().unwrap();
        world.flush_group();
        world.assert_free();
        assert_eq!(world.numbers[0].load(Ordering::Relaxed), 2);
    });
}
