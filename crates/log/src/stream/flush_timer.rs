//! The time that flushes take: for statistics, and for the policy of automatic groups.
//!
//! Reading the clock twice takes as long as a flush to emulated NVM. So where no policy needs the
//! times, one in 16 short flushes is timed, and each of the others counts as long as that one.

use std::time::{Duration, Instant};

/// The longest flush that is short. A write to a device takes longer.
const SHORT: Duration = Duration::from_micros(10);
/// Flushes after a short one that are not timed.
const UNTIMED: u32 = 15;

/// Under the stream's lock.
pub(super) struct FlushTimer {
    times_all: bool,
    /// How many of the next flushes are not timed.
    untimed: u32,
    /// The last one that was.
    last: Duration,
}

/// A flush that was timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushTime {
    /// Its end.
    pub(super) at: Instant,
    /// The time that it was under way.
    pub(super) took: Duration,
}

impl FlushTimer {
    /// `times_all`: a policy needs the time of each flush.
    pub(super) fn new(times_all: bool) -> Self {
        Self {
            times_all,
            untimed: 0,
            last: Duration::ZERO,
        }
    }

    /// A flush begins; the time, if it is timed.
    pub(super) fn begin(&mut self) -> Option<Instant> {
        if self.untimed > 0 {
            self.untimed -= 1;
            return None;
        }
        Some(Instant::now())
    }

    /// The flush that began then has ended. Returns its time, if it was timed.
    pub(super) fn end(&mut self, began: Option<Instant>) -> Option<FlushTime> {
        let began = began?;
        let at = Instant::now();
        let took = at.saturating_duration_since(began);
        self.last = took;
        if took < SHORT && !self.times_all {
            self.untimed = UNTIMED;
        }
        Some(FlushTime { at, took })
    }

    /// The time that the last flush counts.
    pub(super) fn counted(&self) -> Duration {
        self.last
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whether each of some flushes is timed.
    fn timed(timer: &mut FlushTimer, flushes: usize, took: Duration) -> Vec<bool> {
        let mut timed = Vec::new();
        for _ in 0..flushes {
            let began = timer.begin();
            // Earlier instead of longer.
            let time = timer.end(began.and_then(|began| began.checked_sub(took)));
            timed.push(time.is_some());
        }
        timed
    }

    #[test]
    fn long_flushes_are_all_timed() {
        let mut timer = FlushTimer::new(false);
        assert_eq!(timed(&mut timer, 40, 2 * SHORT), [true; 40]);
        assert!(timer.counted() >= 2 * SHORT);
    }

    #[test]
    fn an_untimed_flush_counts_as_the_last_timed_one() {
        let mut timer = FlushTimer {
            untimed: 2,
            last: Duration::from_nanos(300),
            ..FlushTimer::new(false)
        };
        assert_eq!(timed(&mut timer, 2, 2 * SHORT), [false; 2]);
        assert_eq!(timer.counted(), Duration::from_nanos(300));
        assert_eq!(timed(&mut timer, 2, 2 * SHORT), [true; 2]);
        assert!(timer.counted() >= 2 * SHORT);
    }

    #[test]
    fn a_policy_gets_every_time() {
        let mut timer = FlushTimer::new(true);
        assert_eq!(timed(&mut timer, 40, Duration::ZERO), [true; 40]);
    }
}
