//! Rate limit of log lines that unauthenticated peers can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const LINES_PER_INTERVAL: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(60);

/// Counts lines of an interval.
pub(super) struct LogLimiter(Mutex<State>);

struct State {
    begin: Instant,
    lines: u32,
    suppressed: u64,
}

impl LogLimiter {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            begin: now,
            lines: 0,
            suppressed: 0,
        }))
    }

    /// Whether to log now; if so, the number of lines that were suppressed since the last one.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if now.saturating_duration_since(state.begin) >= INTERVAL {
            state.begin = now;
            state.lines = 0;
        }
        if state.lines == LINES_PER_INTERVAL {
            state.suppressed += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let begin = Instant::now();
        let limiter = LogLimiter::new(begin);
        let admitted = (0..100).filter_map(|_| limiter.admit(begin)).count();
        assert_eq!(admitted, 5);
        assert_eq!(limiter.admit(begin + INTERVAL), Some(95));
    }
}
