//! When a group departs that is not counted.
//!
//! Group-commit policy. Threads that commit one transaction after the other commit again soon after their
//! last one is hardened. A leader that seals immediately ([`Pace::AtOnce`]) takes the commits that came
//! during the flush before, so that two halves of the threads alternate. A leader that waits for the
//! commits of the threads which that flush acknowledged ([`Pace::Together`]) carries all of them, for the
//! price of that wait. Which hardens more commits in a second depends on the device and on what the threads
//! do in between; so the stream measures both, and goes on with the better one. No wait is longer than the
//! last flush took.

use std::time::{Duration, Instant};

/// Flights after a change of pace until what is measured means something.
const FLIGHTS_TO_SETTLE: u32 = 4;
/// Flights of a trial of the other pace, and before the first.
const TRIAL_FLIGHTS: u32 = 32;
/// Flights between two trials: so many at first, and up to the second while trials bring nothing.
const HOLD_FLIGHTS: [u32; 2] = [256, 4096];
/// How much better the other pace has to be.
const GAIN: f64 = 1.04;
/// Where flushes are shorter, a thread cannot be parked and woken in their time.
const SHORTEST_FLIGHT: Duration = Duration::from_micros(20);
/// How much of the time between two landings counts, in flights: if it is longer, there was nothing to
/// commit.
const LONGEST_PAUSE: u32 = 4;

/// When a leader departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// As soon as the flight before has landed.
    AtOnce,
    /// When as many commits are there as were on their way when it landed.
    Together,
}

impl Pace {
    fn other(self) -> Self {
        match self {
            Self::AtOnce => Self::Together,
            Self::Together => Self::AtOnce,
        }
    }
}

/// What a stream knows about its committers, under its lock.
#[derive(Debug)]
pub(super) struct Gathering {
    /// The better one so far.
    better: Pace,
    /// What it hardened per second when it was measured last.
    rate: f64,
    /// Whether the other one is tried right now.
    is_trial: bool,
    /// Flights between two trials.
    hold: u32,
    /// Flights since the pace changed, and with how many it changes again.
    flights: u32,
    flights_max: u32,
    /// What was hardened, and in what time, since it settled.
    commits: u64,
    elapsed: Duration,
    last_landing: Option<Instant>,
    /// Commits that were on their way when the last flight landed.
    crowd: u32,
    /// Until when the next flight waits for as many.
    until: Option<Instant>,
}

impl Default for Gathering {
    fn default() -> Self {
        Self {
            better: Pace::AtOnce,
            rate: 0.0,
            is_trial: false,
            hold: HOLD_FLIGHTS[0],
            flights: 0,
            flights_max: TRIAL_FLIGHTS,
            commits: 0,
            elapsed: Duration::ZERO,
            last_landing: None,
            crowd: 0,
            until: None,
        }
    }
}

/// A flight that has landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    pub(super) at: Instant,
    /// How long it was under way.
    pub(super) took: Duration,
    /// The commits that it carried.
    pub(super) carried: u32,
    /// The commits that are in the buffer for the next.
    pub(super) aboard: u32,
}

impl Gathering {
    /// A flush has completed; no leader waits for a group longer than `wait_max`.
    pub(super) fn landed(&mut self, landed: Landed, wait_max: Duration) {
        let Landed {
            at,
            took,
            carried,
            aboard,
        } = landed;
        let before = self.last_landing.replace(at);
        self.flights += 1;
        if self.flights > FLIGHTS_TO_SETTLE
            && let Some(before) = before
        {
            self.commits += u64::from(carried);
            let longest = took.saturating_mul(LONGEST_PAUSE);
            self.elapsed += at.saturating_duration_since(before).min(longest);
        }
        if self.flights == self.flights_max {
            self.change_pace();
        }
        if carried > 0 {
            // Marks say nothing about committers.
            self.crowd = carried.saturating_add(aboard);
        }
        self.until = match self.pace() {
            Pace::Together if took >= SHORTEST_FLIGHT => at.checked_add(took.min(wait_max)),
            _ => None,
        };
    }

    fn pace(&self) -> Pace {
        match self.is_trial {
            true => self.better.other(),
            false => self.better,
        }
    }

    /// Begins a trial of the other pace, or ends it and keeps the better one.
    fn change_pace(&mut self) {
        let rate = self.commits as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        if self.is_trial {
            let [shortest, longest] = HOLD_FLIGHTS;
            if rate > self.rate * GAIN {
                self.better = self.better.other();
                self.hold = shortest;
            } else {
                self.hold = (self.hold * 2).min(longest);
            }
            self.flights_max = self.hold;
        } else {
            self.rate = rate;
            self.flights_max = TRIAL_FLIGHTS;
        }
        self.is_trial = !self.is_trial;
        self.flights = 0;
        self.commits = 0;
        self.elapsed = Duration::ZERO;
    }

    /// Until when a group of `commits` waits for more; nothing if it is complete.
    pub(super) fn deadline(&self, commits: u32) -> Option<Instant> {
        self.until.filter(|_| commits < self.crowd)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const FLIGHT: Duration = Duration::from_micros(100);

    /// Threads that commit without end, and take `away` to come back: how many commits each flight carries,
    /// and how many of `flights` waited for them.
    struct Crowd {
        gathering: Gathering,
        now: Instant,
        threads: u32,
        away: Duration,
        flight: Duration,
        /// Threads that commit before the next flush is sealed.
        aboard: u32,
    }

    impl Crowd {
        fn new(threads: u32, away: Duration) -> Self {
            Self {
                gathering: Gathering::default(),
                now: Instant::now(),
                threads,
                away,
                flight: FLIGHT,
                aboard: threads / 2,
            }
        }

        /// Flies, and says how many of the flights waited for the crowd.
        fn fly(&mut self, flights: u32) -> u32 {
            let mut waited = 0;
            for _ in 0..flights {
                // All that have not committed yet are about to.
                let mut carried = self.aboard.max(1);
                let deadline = self.gathering.deadline(carried);
                if let Some(deadline) = deadline {
                    waited += 1;
                    let back = self.now + self.away;
                    (carried, self.now) = match back <= deadline {
                        true => (self.threads, back),
                        false => (carried, deadline),
                    };
                }
                self.now += self.flight;
                self.aboard = self.threads - carried;
                let landed = Landed {
                    at: self.now,
                    took: self.flight,
                    carried,
                    aboard: self.aboard,
                };
                self.gathering.landed(landed, Duration::from_secs(1));
            }
            waited
        }
    }

    #[test]
    fn threads_that_return_soon_share_flushes() {
        let mut crowd = Crowd::new(16, FLIGHT / 4);
        crowd.fly(TRIAL_FLIGHTS * 2);
        let flights = HOLD_FLIGHTS[0];
        assert_eq!(crowd.gathering.better, Pace::Together);
        assert!(crowd.fly(flights) > flights - 2);
        // And are left alone once they stay away: a trial of the other pace is not slower.
        crowd.away = FLIGHT * 10;
        crowd.fly(HOLD_FLIGHTS[1] * 4);
        assert_eq!(crowd.gathering.better, Pace::AtOnce);
    }

    #[test]
    fn absent_threads_are_waited_for_in_trials_only() {
        let mut crowd = Crowd::new(16, FLIGHT * 3);
        let flights = HOLD_FLIGHTS[1] * 16;
        let waited = crowd.fly(flights);
        assert_eq!(crowd.gathering.better, Pace::AtOnce);
        assert!(waited >= TRIAL_FLIGHTS - 2);
        assert!(waited < flights / 50, "{waited} of {flights}");
    }

    #[test]
    fn a_single_thread_waits_for_no_other() {
        let mut crowd = Crowd::new(1, FLIGHT / 4);
        assert_eq!(crowd.fly(HOLD_FLIGHTS[1] * 4), 0);
    }

    #[test]
    fn nothing_accumulates_for_a_fast_device() {
        let mut crowd = Crowd::new(16, Duration::ZERO);
        crowd.flight = SHORTEST_FLIGHT / 2;
        assert_eq!(crowd.fly(HOLD_FLIGHTS[1]), 0);
    }

    #[test]
    fn a_pause_says_nothing_about_a_pace() {
        let mut crowd = Crowd::new(16, FLIGHT / 4);
        crowd.fly(TRIAL_FLIGHTS * 2 + HOLD_FLIGHTS[0] / 2);
        assert_eq!(crowd.gathering.better, Pace::Together);
        // A thread returns after a second, in the middle of what is measured.
        crowd.now += Duration::from_secs(1);
        crowd.fly(HOLD_FLIGHTS[0] / 2 + TRIAL_FLIGHTS);
        assert_eq!(crowd.gathering.better, Pace::Together);
    }

    #[test]
    fn no_wait_exceeds_a_flush_or_the_limit() {
        let at = Instant::now();
        let mut gathering = Gathering {
            better: Pace::Together,
            ..Gathering::default()
        };
        let landed = Landed {
            at,
            took: FLIGHT,
            carried: 3,
            aboard: 2,
        };
        gathering.landed(landed, Duration::MAX);
        assert_eq!(gathering.deadline(4), Some(at + FLIGHT));
        assert_eq!(gathering.deadline(5), None);
        gathering.landed(landed, FLIGHT / 2);
        assert_eq!(gathering.deadline(0), Some(at + FLIGHT / 2));
    }

    #[test]
    fn a_flush_without_commits_predicts_nothing() {
        let at = Instant::now();
        let mut gathering = Gathering {
            better: Pace::Together,
            ..Gathering::default()
        };
        for carried in [16, 0] {
            let landed = Landed {
                at,
                took: FLIGHT,
                carried,
                aboard: 0,
            };
            gathering.landed(landed, Duration::MAX);
            assert_eq!(gathering.deadline(15), Some(at + FLIGHT));
            assert_eq!(gathering.deadline(16), None);
        }
    }
}
