//! Starvation avoidance: a transaction that was aborted repeatedly gets exclusive commit priority.
//!
//! An optimistic transaction that reads much can be overtaken again and again by short ones that write. After some
//! conflicts in a row its session requests the priority token, of which there is one. Requests queue while the token
//! is held, in the order in which they were first made (ageing), interrupted by retries. While it is held, all other
//! transactions wait before they lock the writes of a commit, and under [`NoWait`](crate::WaitPolicy::NoWait) before
//! their first lock.
//!
//! That wait is bounded, because the holder may itself wait for another transaction (a body that runs a transaction
//! of another session, say). A bound that is shorter than the holder's transaction would not help it. So each time
//! that the holder fails although another transaction timed out waiting for it, the bound is doubled.
//!
//! Priority is a hint, on which nothing else relies.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Bed, Bell, Mutex, Ordering, sleep};

/// The longest wait for the holder, and the longest wait in the queue at a time.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
/// So often that is doubled at most, to 1.6 seconds; no wait for several turns is longer.
const DOUBLED_MAX: usize = 5;
/// Yields before the first sleep.
const YIELDS: u32 = 16;
const SLEEP: Duration = Duration::from_micros(100);

/// The priority token of a database.
pub(crate) struct Turn {
    /// What [`Line::taken`] says, to be looked at without the mutex.
    taken: CachePadded<AtomicBool>,
    /// How many turns have begun.
    number: AtomicU64,
    /// How often the bound has been doubled for the current holder.
    doubled: AtomicUsize,
    /// The number of the last token that a wait timed out on.
    passed: AtomicU64,
    wait_max: Duration,
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

/// A transaction's position in the queue, which it keeps until it has committed, or the token was of no use to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Turn {
    /// A free token, for which no wait takes longer than this.
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self {
            taken: CachePadded::new(AtomicBool::new(false)),
            number: AtomicU64::new(0),
            doubled: AtomicUsize::new(0),
            passed: AtomicU64::new(0),
            wait_max,
            line: Mutex::new(Line::default()),
        }
    }

    /// Acquires the token, or queues for it for a bounded time. Returns whether the caller holds it; if not, it may
    /// run and request it again, with the position that it got the first time.
    pub(crate) fn take(&self, place: &mut Option<Place>) -> bool {
        let mut wait = Wait::new(self);
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
            bell: wait.bed.bell(),
        });
        loop {
            drop(line);
            let left = wait.left();
            wait.bed.sleep(left);
            line = self.line.lock();
            match line.waiting.iter().position(|it| it.place == place) {
                None => return true,
                Some(at) if wait.left().is_zero() => {
                    line.waiting.swap_remove(at);
                    wait.gives_up();
                    return false;
                }
                Some(_) => {}
            }
        }
    }

    fn begin(&self) {
        self.doubled.store(0, Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
        self.taken.store(true, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The holder was aborted nevertheless.
    pub(crate) fn failed(&self) {
        if self.passed.swap(0, Ordering::Relaxed) == self.number() {
            let doubled = self.doubled.load(Ordering::Relaxed) + 1;
            self.doubled
                .store(doubled.min(DOUBLED_MAX), Ordering::Relaxed);
        }
    }

    /// Releases the token: it goes to the next one in the queue.
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

    /// Whether the token is held.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Relaxed: nothing depends on it but the order of commits.
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits until the token is free, for a bounded time.
    pub(crate) fn wait(&self) {
        let mut wait = Wait::new(self);
        for round in 0.. {
            if round < YIELDS {
                std::thread::yield_now();
            } else {
                sleep(SLEEP);
            }
            if !self.is_taken() {
                return;
            }
            if wait.left().is_zero() {
                return wait.gives_up();
            }
        }
    }
}

/// Waiting for the release of a token, and of those after it.
struct Wait<'a> {
    turn: &'a Turn,
    bed: Bed,
    /// The token that is waited for, and since when.
    number: u64,
    since: Duration,
}

impl<'a> Wait<'a> {
    fn new(turn: &'a Turn) -> Self {
        Self {
            turn,
            bed: Bed::new(),
            number: turn.number(),
            since: Duration::ZERO,
        }
    }

    /// The time left: each token is waited for anew, within a total bound.
    fn left(&mut self) -> Duration {
        let (now, age) = (self.turn.number(), self.bed.age());
        if now != self.number {
            (self.number, self.since) = (now, age);
        }
        let times = |doubled: usize| self.turn.wait_max.saturating_mul(1 << doubled);
        let for_this = times(self.turn.doubled.load(Ordering::Relaxed));
        let for_all = times(DOUBLED_MAX);
        let waited = age.saturating_sub(self.since);
        for_this
            .saturating_sub(waited)
            .min(for_all.saturating_sub(age))
    }

    /// The wait timed out.
    fn gives_up(&self) {
        self.turn.passed.store(self.number, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model::explore;

    use super::*;

    /// A token that is released while others queue for it has exactly one next holder.
    #[test]
    fn one_at_a_time_has_the_turn_and_it_is_not_lost() {
        explore(3, || {
            let turn = Arc::new(Turn::new(Duration::MAX));
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
    fn the_token_goes_to_the_first_request() {
        let turn = Turn::new(Duration::MAX);
        assert!(turn.take(&mut None));
        // As if it had asked before, and made an attempt meanwhile.
        let oldest = Some(Place(0));
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for mut place in [None, None, oldest] {
                let (turn, order) = (&turn, &order);
                let before = turn.line.lock().waiting.len();
                scope.spawn(move || {
                    assert!(turn.take(&mut place));
                    order.lock().push(place);
                    turn.end();
                });
                while turn.line.lock().waiting.len() == before {
                    thread::yield_now();
                }
            }
            turn.end();
        });
        let order = order.into_inner();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order[0], oldest);
        assert!(!turn.is_taken());
    }

    #[test]
    fn a_timed_out_request_keeps_its_position() {
        let turn = Turn::new(Duration::ZERO);
        assert!(turn.take(&mut None));
        let mut place = None;
        assert!(!turn.take(&mut place));
        let kept = place;
        assert!(kept.is_some() && !turn.take(&mut place));
        assert_eq!(place, kept);
        assert!(turn.line.lock().waiting.is_empty());
    }

    #[test]
    fn others_wait_twice_as_long_if_they_have_not_waited_long_enough_and_not_otherwise() {
        let turn = Turn::new(Duration::ZERO);
        let doubled = || turn.doubled.load(Ordering::Relaxed);
        assert!(turn.take(&mut None));
        turn.failed();
        assert_eq!(doubled(), 0, "no wait timed out");
        turn.wait();
        assert_eq!(doubled(), 0, "it has not failed");
        turn.failed();
        turn.failed();
        assert_eq!(doubled(), 1, "for each that passed");
        for _ in 0..2 * DOUBLED_MAX {
            assert!(!turn.take(&mut None));
            turn.failed();
        }
        assert_eq!(doubled(), DOUBLED_MAX);
        turn.wait();
        turn.end();
        assert!(turn.take(&mut None));
        turn.failed();
        assert_eq!(doubled(), 0, "another holder, for which no wait timed out");
    }
}
