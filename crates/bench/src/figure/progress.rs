//! Progress on standard error: which run begins, and how long the rest takes.

use std::time::{Duration, Instant};

/// The runs of a command, whose lengths are planned in seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    /// Planned seconds of the runs that are over, and of those that are not.
    done: f64,
    left: f64,
}

impl Progress {
    /// Runs that take about this many seconds in all. Only the proportions of plans matter: what
    /// remains is estimated by the time that the first runs took.
    pub(crate) fn new(planned: f64) -> Self {
        Self {
            started: Instant::now(),
            done: 0.0,
            left: planned,
        }
    }

    /// A run is over that was planned to take this many seconds.
    pub(crate) fn ran(&mut self, planned: f64) {
        self.done += planned;
        self.left = (self.left - planned).max(0.0);
    }

    /// Replaces the planned seconds of all that remains.
    pub(crate) fn replan(&mut self, left: f64) {
        self.left = left;
    }

    /// The rest in words, once a run is over.
    pub(crate) fn rest(&self) -> String {
        match rest(self.started.elapsed(), self.done, self.left) {
            Some(rest) => format!("; about {} left", duration_text(rest)),
            None => String::new(),
        }
    }
}

fn rest(elapsed: Duration, done: f64, left: f64) -> Option<Duration> {
    let rest = elapsed.as_secs_f64() / done * left;
    if done <= 0.0 {
        return None;
    }
    Duration::try_from_secs_f64(rest).ok()
}

/// A duration in words, rounded up.
fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().ceil();
    if seconds < 90.0 {
        return format!("{seconds} s");
    }
    format!("{} min", (seconds / 60.0).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_is_done() {
        let second = Duration::from_secs(1);
        assert_eq!(rest(second, 0.0, 5.0), None);
        assert_eq!(rest(second, 2.0, 6.0), Some(3 * second));
        assert_eq!(rest(second, 2.0, 0.0), Some(Duration::ZERO));
        for (seconds, text) in [
            (0.2, "1 s"),
            (89.0, "89 s"),
            (91.0, "2 min"),
            (600.0, "10 min"),
        ] {
            assert_eq!(duration_text(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn what_is_over_no_longer_remains() {
        let mut progress = Progress::new(10.0);
        assert_eq!(progress.rest(), "");
        progress.ran(4.0);
        assert_eq!((progress.done, progress.left), (4.0, 6.0));
        assert!(progress.rest().starts_with("; about "));
        progress.replan(3.0);
        progress.ran(5.0);
        assert_eq!(progress.left, 0.0);
    }
}
