//! How many transactions hold locks at once, while they keep meeting in deadlocks.
//!
//! Under strict two-phase locking, the chance that two transactions wait for each other grows with the square of
//! how many are open; and when a processor is there for two of them only, each of the others costs the locks that
//! it sleeps with, and is likely to be wounded for them. So while transactions are wounded, no more of them take
//! their first lock than there are processors, and the others wait with no lock at all (load control). Nobody has to
//! be told that the crowd is over: a limit that nobody is wounded under ends by itself.
//!
//! It is a hint, which nothing relies on. Who was let in may be waiting for something else than a processor, a
//! person perhaps; so nobody waits for long, and who has waited in vain ends the limit.
//!
//! Those who have just left may come in again, before those who wait: to change places costs more than most
//! transactions do. Who has waited for a while asks for the next place that becomes free, and gets it, in turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Bed, Bell, Mutex, Ordering, sleep};

/// For how many transactions there is a limit after one was wounded. It goes on, then, for as long as more than one of
/// so many is.
const AFTER_WOUND: usize = 256;
/// No number of wounds keeps the limit for more transactions than this.
const LONGEST: usize = 16 * AFTER_WOUND;
/// How long one waits before asking for the next place, for each of those who wait for the same one.
const PAUSE: Duration = Duration::from_micros(200);
/// How long one asks for it before going on without.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);

/// The way in, to a transaction's first lock.
pub(crate) struct Admission {
    /// For how many transactions more there is a limit.
    limited_for: CachePadded<AtomicUsize>,
    places: usize,
    patience: Duration,
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// How many places are taken.
    taken: usize,
    /// How many wait, those who ask included.
    waiting: usize,
    /// How many ever had to.
    held_back: u64,
    /// Those who ask for the next place.
    asking: VecDeque<Asking>,
    /// How many ever asked.
    asked: u64,
}

struct Asking {
    number: u64,
    bell: Bell,
}

/// A place among those who may take locks, until this is dropped.
pub(crate) struct Admitted(Arc<Admission>);

impl Admission {
    /// A way in for so many at once, and for whoever has asked for so long.
    pub(crate) fn new(places: usize, patience: Duration) -> Self {
        Self {
            limited_for: CachePadded::new(AtomicUsize::new(0)),
            places,
            patience,
            room: Mutex::new(Room::default()),
        }
    }

    /// Whether whoever holds no lock yet has to [ask](Self::admit).
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        // Relaxed, here and below: a hint.
        self.limited_for.load(Ordering::Relaxed) > 0
    }

    /// A transaction had to let go of its locks for the sake of another.
    pub(crate) fn has_wounded(&self) {
        let longer = self.limited_for.load(Ordering::Relaxed) + AFTER_WOUND;
        self.limited_for
            .store(longer.min(LONGEST), Ordering::Relaxed);
    }

    /// How often somebody had to wait.
    pub(crate) fn held_back(&self) -> u64 {
        self.room.lock().held_back
    }

    /// Waits for a place; returns without one if that takes too long.
    #[cold]
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Admitted> {
        let left = self.limited_for.load(Ordering::Relaxed);
        self.limited_for
            .store(left.saturating_sub(1), Ordering::Relaxed);
        let mut room = self.room.lock();
        if room.taken < self.places {
            return Some(self.enter(&mut room));
        }
        room.waiting += 1;
        room.held_back += 1;
        let share = room.waiting.div_ceil(self.places);
        drop(room);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        sleep(PAUSE.saturating_mul(share).min(self.patience));

        let bed = Bed::new();
        let mut room = self.room.lock();
        if room.taken < self.places {
            room.waiting -= 1;
            return Some(self.enter(&mut room));
        }
        let number = room.asked;
        room.asked += 1;
        room.asking.push_back(Asking {
            number,
            bell: bed.bell(),
        });
        loop {
            drop(room);
            bed.sleep(self.patience.saturating_sub(bed.age()));
            room = self.room.lock();
            let still_asks = room.asking.iter().position(|it| it.number == number);
            match still_asks {
                None => {
                    room.waiting -= 1;
                    return Some(Admitted(Arc::clone(self)));
                }
                Some(at) if bed.age() >= self.patience => {
                    room.asking.remove(at);
                    room.waiting -= 1;
                    self.limited_for.store(0, Ordering::Relaxed);
                    return None;
                }
                Some(_) => {}
            }
        }
    }

    fn enter(self: &Arc<Self>, room: &mut Room) -> Admitted {
        room.taken += 1;
        Admitted(Arc::clone(self))
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut room = self.0.room.lock();
        match room.asking.pop_front() {
            // It has the place now.
            Some(next) => next.bell.ring(),
            None => room.taken -= 1,
        }
    }
}

#[cfg(test)]
impl Admission {
    /// Whether nobody has a place, or waits for one.
    fn is_empty(&self) -> bool {
        let room = self.room.lock();
        room.taken == 0 && room.waiting == 0 && room.asking.is_empty()
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;
    use namiki_platform::model::explore;

    use super::*;

    /// Nobody is woken by time here: a place that is given to nobody would let somebody sleep for ever.
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

    #[test]
    fn a_wound_limits_some_transactions_and_more_wounds_no_more_than_the_most() {
        for (wounds, limited) in [
            (0, 0),
            (1, AFTER_WOUND),
            (2, 2 * AFTER_WOUND),
            (99, LONGEST),
        ] {
            let admission = Arc::new(Admission::new(1, Duration::MAX));
            (0..wounds).for_each(|_| admission.has_wounded());
            for _ in 0..limited {
                assert!(admission.is_limited());
                assert!(admission.admit().is_some());
            }
            assert!(!admission.is_limited());
            assert_eq!(admission.held_back(), 0);
        }
    }

    #[test]
    fn who_waits_in_vain_goes_on_and_ends_the_limit() {
        let admission = Arc::new(Admission::new(2, Duration::ZERO));
        (0..3).for_each(|_| admission.has_wounded());
        let inside = [(); 2].map(|()| admission.admit());
        assert!(inside.iter().all(Option::is_some));
        assert!(admission.admit().is_none());
        assert!(!admission.is_limited());
        assert_eq!(admission.held_back(), 1);
        drop(inside);
        assert!(admission.is_empty());
    }

    #[test]
    fn there_are_never_more_inside_than_places_and_everybody_gets_one() {
        const THREADS: usize = 6;
        let admission = Arc::new(Admission::new(2, Duration::MAX));
        let first = [(); 2].map(|()| admission.admit());
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let admitted = admission.admit();
                        assert!(admitted.is_some());
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
