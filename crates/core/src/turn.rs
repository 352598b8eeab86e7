//! Whose turn it is: a transaction that has met too many conflicts commits while the others wait.
//!
//! An optimistic transaction that reads much can be overtaken again and again by short ones that write. After some
//! conflicts in a row its session asks for the turn, of which there is one; those who ask while somebody has it are
//! in a line, by the order in which they first asked (ageing). As long as somebody has it, whoever else wants to
//! commit a write waits before locking anything.
//!
//! That wait is bounded, because the one whose turn it is may itself wait for another (a body that runs a transaction
//! of another session, say). A bound that is shorter than the transaction would be of no help to it: each time that
//! it fails although it has the turn, and others have not waited long enough for it, they wait twice as long.
//!
//! It is a matter of who goes first, on which nothing else relies.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicUsize, Bed, Bell, Mutex, Ordering, sleep};

/// The longest that a commit waits for somebody else's turn to end, and that one is in the line for it at a time.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// So often that is doubled at most, to 1.6 seconds.
const DOUBLED_MAX: usize = 5;
/// How often it gives up the processor before it sleeps.
const YIELDS: u32 = 16;
const SLEEP: Duration = Duration::from_micros(100);

/// The turn of a database.
pub(crate) struct Turn {
    /// What [`Line::taken`] says, to be looked at without the mutex.
    taken: CachePadded<AtomicBool>,
    /// How often the time that others wait has been doubled for whoever has the turn.
    doubled: AtomicUsize,
    /// Somebody has not waited until its end.
    passed: AtomicBool,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    taken: bool,
    waiting: Vec<Waiting>,
    /// How many transactions ever asked.
    asked: u64,
}

struct Waiting {
    place: Place,
    bell: Bell,
}

/// A transaction's place in the line, which it keeps until it has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Turn {
    /// Nobody has it.
    pub(crate) fn new() -> Self {
        Self {
            taken: CachePadded::new(AtomicBool::new(false)),
            doubled: AtomicUsize::new(0),
            passed: AtomicBool::new(false),
            line: Mutex::new(Line::default()),
        }
    }

    /// Takes the turn, or waits for it for a while. Returns whether the caller has it; if not, it may run and ask
    /// again, with the place that it got the first time.
    pub(crate) fn take(&self, place: &mut Option<Place>) -> bool {
        let bed = Bed::new();
        let mut line = self.line.lock();
        let place = *place.get_or_insert_with(|| {
            line.asked += 1;
            Place(line.asked)
        });
        if !line.taken {
            line.taken = true;
            self.begin();
            return true;
        }
        line.waiting.push(Waiting {
            place,
            bell: bed.bell(),
        });
        loop {
            drop(line);
            bed.sleep(WAIT_MAX.saturating_sub(bed.age()));
            line = self.line.lock();
            match line.waiting.iter().position(|it| it.place == place) {
                None => return true,
                Some(at) if bed.age() >= WAIT_MAX => {
                    line.waiting.swap_remove(at);
                    return false;
                }
                Some(_) => {}
            }
        }
    }

    fn begin(&self) {
        self.doubled.store(0, Ordering::Relaxed);
        self.passed.store(false, Ordering::Relaxed);
        self.taken.store(true, Ordering::Relaxed);
    }

    /// Whoever has the turn has failed all the same.
    pub(crate) fn failed(&self) {
        if self.passed.swap(false, Ordering::Relaxed) {
            let doubled = self.doubled.load(Ordering::Relaxed) + 1;
            self.doubled
                .store(doubled.min(DOUBLED_MAX), Ordering::Relaxed);
        }
    }

    /// Ends the turn, by whoever has it: it is that of the next one in the line.
    pub(crate) fn end(&self) {
        let mut line = self.line.lock();
        let places = line.waiting.iter().map(|it| it.place);
        match places.enumerate().min_by_key(|(_, place)| *place) {
            Some((first, _)) => {
                self.begin();
                line.waiting.swap_remove(first).bell.ring();
            }
            None => {
                line.taken = false;
                self.taken.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether somebody has the turn.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Relaxed: nothing depends on it but who goes first.
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits until nobody has the turn any more, for a while.
    pub(crate) fn wait(&self) {
        let bed = Bed::new();
        for round in 0.. {
            if round < YIELDS {
                std::thread::yield_now();
            } else {
                sleep(SLEEP);
            }
            if !self.is_taken() {
                return;
            }
            if bed.age() > WAIT_MAX * (1 << self.doubled.load(Ordering::Relaxed)) {
                self.passed.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model::explore;

    use super::*;

    /// A turn that ends while others ask for it is somebody's, and only one's.
    #[test]
    fn one_at_a_time_has_the_turn_and_it_is_not_lost() {
        explore(3, || {
            let turn = Arc::new(Turn::new());
            let inside = Arc::new(AtomicUsize::new(0));
            let visit = {
                let (turn, inside) = (Arc::clone(&turn), Arc::clone(&inside));
                move || {
                    let mut place = None;
                    while !turn.take(&mut place) {}
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    assert!(turn.is_taken());
                    inside.fetch_sub(1, Ordering::Relaxed);
                    turn.end();
                }
            };
            let others = [(); 2].map(|()| thread::spawn(visit.clone()));
            visit();
            for other in others {
                other.join().unwrap();
            }
            let line = turn.line.lock();
            assert!(!line.taken && line.waiting.is_empty() && !turn.is_taken());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_turn_goes_to_whoever_asked_first_even_if_others_wait_for_it_longer() {
        let turn = Turn::new();
        assert!(turn.take(&mut None));
        // Asks, and gives up for now.
        let mut oldest = None;
        assert!(!turn.take(&mut oldest));
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for mut place in [None, None, oldest] {
                let (turn, order) = (&turn, &order);
                scope.spawn(move || {
                    while !turn.take(&mut place) {}
                    order.lock().push(place);
                    turn.end();
                });
            }
            while turn.line.lock().waiting.len() < 3 {
                thread::yield_now();
            }
            turn.end();
        });
        let order = order.into_inner();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order[0], oldest);
        assert!(!turn.is_taken());
    }

    #[test]
    fn others_wait_twice_as_long_if_they_have_not_waited_long_enough_and_not_otherwise() {
        let turn = Turn::new();
        let doubled = || turn.doubled.load(Ordering::Relaxed);
        assert!(turn.take(&mut None));
        turn.failed();
        assert_eq!(doubled(), 0, "nobody had to wait");
        turn.wait();
        assert_eq!(doubled(), 0, "it has not failed");
        turn.failed();
        turn.failed();
        assert_eq!(doubled(), 1, "for each that passed");
        for _ in 0..2 * DOUBLED_MAX {
            turn.passed.store(true, Ordering::Relaxed);
            turn.failed();
        }
        assert_eq!(doubled(), DOUBLED_MAX);
        turn.end();
        assert!(turn.take(&mut None));
        assert_eq!(doubled(), 0, "it is another's");
    }
}
