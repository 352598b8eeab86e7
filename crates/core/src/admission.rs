//! How many transactions hold locks at once, while they keep meeting in deadlocks.
//!
//! Under strict two-phase locking, the chance that two transactions wait for each other grows with the square of how
//! many are open; and when there are processors for two of them only, each of the others occupies the locks with
//! which it waits, and is likely to be wounded for them. So while transactions are wounded, no more of them acquire
//! their first lock than there are processors, and the others wait with no lock at all. The limit ends by itself when
//! there are no more wounds.
//!
//! Permits are a hint, which nothing relies on. A holder may be waiting for something other than a processor, such as
//! user input: if no permit is released within the timeout of a request, all outstanding permits expire, and others
//! are admitted in their place.
//!
//! Barging is allowed: a transaction that has just released its permit may get one again, before the waiters, because
//! a hand-off to a parked thread costs more than most transactions do. A waiter that has slept for a while queues for
//! the next permit, which is handed over in FIFO order.
//!
//! Blind writes, which are locked together at the commit, in the one order of all records, need no permit:
//! transactions that lock in order are not wounded, except by boosted waiters. (Of others it is not known before the
//! first lock that they will lock in order.)

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, Bed, Bell, Mutex, Ordering, sleep};

/// For how many transactions there is a limit after one was wounded, at least. It goes on, then, for as long as more
/// than one of so many is.
const AFTER_WOUND: usize = 256;
/// And for how many for each place: all of them are taken before it ends.
const AFTER_WOUND_FOR_PLACE: usize = 4;
/// So many wounds count at most.
const WOUNDS_COUNTED_MAX: usize = 16;
/// The sleep before a waiter queues for a permit, times the waiters per permit.
const PAUSE: Duration = Duration::from_micros(200);
/// How long a waiter queues, while no permit is released, before outstanding permits expire; and the longest sleep
/// before it queues.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);

/// The way in, to a transaction's first lock.
pub(crate) struct Admission {
    /// What [`Room::limited_for`] says, to be looked at without the mutex.
    is_limited: CachePadded<AtomicBool>,
    places: usize,
    patience: Duration,
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// For how many transactions more there is a limit.
    limited_for: usize,
    /// The numbers of the permits.
    inside: Vec<u64>,
    /// The queue for the next permit.
    asking: VecDeque<Asking>,
    /// How many wait, the queue included.
    waiting: usize,
    /// How many ever came.
    came: u64,
    /// How often places became free.
    freed: u64,
    /// How often all permits expired.
    #[cfg(test)]
    cleared: u64,
    /// How many ever had to wait.
    held_back: u64,
}

struct Asking {
    number: u64,
    bell: Bell,
}

/// A permit to acquire locks, until this is dropped.
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    number: u64,
}

impl Admission {
    /// Admission control with so many permits. They expire if none is released for so long while a request queues.
    pub(crate) fn new(places: usize, patience: Duration) -> Self {
        Self {
            is_limited: CachePadded::new(AtomicBool::new(false)),
            places,
            patience,
            room: Mutex::new(Room::default()),
        }
    }

    /// Whether a transaction without locks has to [request a permit](Self::admit).
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        // Relaxed: a hint.
        self.is_limited.load(Ordering::Relaxed)
    }

    /// A transaction was wounded.
    pub(crate) fn note_wound(&self) {
        let each = self.after_wound();
        let mut room = self.room.lock();
        room.limited_for = (room.limited_for + each).min(WOUNDS_COUNTED_MAX * each);
        self.is_limited.store(true, Ordering::Relaxed);
    }

    fn after_wound(&self) -> usize {
        AFTER_WOUND.max(AFTER_WOUND_FOR_PLACE * self.places)
    }

    /// How many transactions ever had to wait.
    pub(crate) fn held_back(&self) -> u64 {
        self.room.lock().held_back
    }

    /// Waits for a place.
    #[cold]
    pub(crate) fn admit(self: &Arc<Self>) -> Admitted {
        let mut room = self.room.lock();
        room.limited_for = room.limited_for.saturating_sub(1);
        if room.limited_for == 0 {
            self.is_limited.store(false, Ordering::Relaxed);
        }
        let number = room.came;
        room.came += 1;
        let admitted = Admitted {
            admission: Arc::clone(self),
            number,
        };
        if room.inside.len() < self.places {
            room.inside.push(number);
            return admitted;
        }
        room.waiting += 1;
        room.held_back += 1;
        let share = room.waiting.div_ceil(self.places);
        drop(room);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        sleep(PAUSE.saturating_mul(share).min(self.patience));

        self.ask(number);
        admitted
    }

    /// Waits in the line for a place.
    fn ask(&self, number: u64) {
        let bed = Bed::new();
        let mut room = self.room.lock();
        room.asking.push_back(Asking {
            number,
            bell: bed.bell(),
        });
        room.fill(self.places);
        let (mut since, mut freed) = (Duration::ZERO, room.freed);
        while room.asking.iter().any(|it| it.number == number) {
            drop(room);
            let asked_for = bed.age().saturating_sub(since);
            bed.sleep(self.patience.saturating_sub(asked_for));
            room = self.room.lock();
            let now = bed.age();
            if room.freed != freed {
                // A permit was released: the timeout starts anew.
                (since, freed) = (now, room.freed);
            } else if now.saturating_sub(since) >= self.patience {
                room.inside.clear();
                room.freed += 1;
                #[cfg(test)]
                {
                    room.cleared += 1;
                }
                room.fill(self.places);
            }
        }
        room.waiting -= 1;
    }
}

impl Room {
    /// Grants free permits to the queue, in FIFO order.
    fn fill(&mut self, places: usize) {
        while self.inside.len() < places {
            let Some(next) = self.asking.pop_front() else {
                return;
            };
            self.inside.push(next.number);
            next.bell.ring();
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut room = self.admission.room.lock();
        let at = room.inside.iter().position(|it| *it == self.number);
        if let Some(at) = at {
            room.inside.swap_remove(at);
            room.freed += 1;
            room.fill(self.admission.places);
        }
    }
}

#[cfg(test)]
impl Admission {
    /// Whether no permit is held or requested.
    fn is_empty(&self) -> bool {
        let room = self.room.lock();
        room.inside.is_empty() && room.waiting == 0 && room.asking.is_empty()
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;
    use namiki_platform::model::explore;

    use super::*;
    use crate::sync::AtomicUsize;

    /// No wait ends by a timeout here: a permit that is granted to no request would hang a waiter.
    #[test]
    fn no_place_is_taken_twice_and_none_is_lost() {
        explore(3, || {
            let admission = Arc::new(Admission::new(1, Duration::MAX));
            let inside = Arc::new(AtomicUsize::new(0));
            let visit = {
                let (admission, inside) = (Arc::clone(&admission), Arc::clone(&inside));
                move || {
                    let admitted = admission.admit();
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    inside.fetch_sub(1, Ordering::Relaxed);
                    drop(admitted);
                }
            };
            let others = [(); 2].map(|()| thread::spawn(visit.clone()));
            visit();
            for other in others {
                other.join().unwrap();
            }
            assert!(admission.is_empty());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::sync::AtomicUsize;

    #[test]
    fn a_wound_limits_some_transactions_and_more_wounds_no_more_than_the_most() {
        for (places, each) in [(1, AFTER_WOUND), (1000, 4000)] {
            for (wounds, limited) in [
                (0, 0),
                (1, each),
                (2, 2 * each),
                (99, WOUNDS_COUNTED_MAX * each),
            ] {
                let admission = Arc::new(Admission::new(places, Duration::MAX));
                (0..wounds).for_each(|_| admission.note_wound());
                for _ in 0..limited {
                    assert!(admission.is_limited());
                    drop(admission.admit());
                }
                assert!(!admission.is_limited());
                assert_eq!(admission.held_back(), 0);
            }
        }
    }

    #[test]
    fn idle_holders_delay_others_once_whatever_the_wounds() {
        let admission = Arc::new(Admission::new(2, Duration::ZERO));
        let idle = [(); 2].map(|()| admission.admit());
        for wounds in 0..3 {
            admission.note_wound();
            let inside = [(); 2].map(|()| admission.admit());
            assert_eq!(admission.held_back(), 1, "after {wounds} wounds");
            drop(inside);
        }
        // Their places are others' now.
        let inside = [(); 2].map(|()| admission.admit());
        drop(idle);
        assert_eq!(admission.room.lock().inside.len(), 2);
        drop(inside);
        assert!(admission.is_empty());
    }

    /// And not the whole crowd at once.
    #[test]
    fn a_stall_lets_in_as_many_as_there_are_places_at_a_time() {
        const CROWD: u64 = 8;
        let admission = Arc::new(Admission::new(2, Duration::from_millis(1)));
        let idle = [(); 2].map(|()| admission.admit());
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..CROWD {
                scope.spawn(|| {
                    let admitted = admission.admit();
                    inside.fetch_add(1, Ordering::Relaxed);
                    // All stall until all are admitted.
                    while inside.load(Ordering::Relaxed) < CROWD as usize {
                        thread::yield_now();
                    }
                    drop(admitted);
                });
            }
        });
        // Two of the crowd each time.
        let room = admission.room.lock();
        assert!(room.cleared >= CROWD / 2, "only {} times", room.cleared);
        drop(room);
        drop(idle);
        assert!(admission.is_empty());
    }

    #[test]
    fn permits_are_granted_in_fifo_order() {
        const THREADS: usize = 3;
        // As good as never, so that no permit expires.
        let admission = Arc::new(Admission::new(1, Duration::MAX));
        let first = admission.admit();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (admission, order) = (&admission, &order);
                scope.spawn(move || {
                    let admitted = admission.admit();
                    order.lock().push(thread);
                    drop(admitted);
                });
                while admission.room.lock().asking.len() <= thread {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock(), [0, 1, 2]);
        assert_eq!(admission.held_back(), THREADS as u64);
        assert!(admission.is_empty());
    }

    #[test]
    fn permits_are_limited_and_every_request_gets_one() {
        const THREADS: usize = 6;
        let admission = Arc::new(Admission::new(2, Duration::MAX));
        let first = [(); 2].map(|()| admission.admit());
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let admitted = admission.admit();
                        assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::Relaxed);
                        drop(admitted);
                    }
                });
            }
            while admission.room.lock().asking.len() < THREADS {
                thread::yield_now();
            }
            drop(first);
        });
        assert!(admission.held_back() >= THREADS as u64);
        assert!(admission.is_empty());
    }
}
