//! Pacing of state hashes: one at a time, and a tenth of the time at most.
//!
//! A hash reads every row, in a view. A client that asks for hashes in a loop would take a processor,
//! and the versions that are kept for views; with the pause after each hash, commits have nine tenths
//! of the time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The pause after a hash, in multiples of the time that it took.
const PAUSE_FACTOR: u32 = 9;

/// Decides when a hash may be computed.
#[derive(Debug, Default)]
pub(crate) struct HashPacing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// A hash was requested at this time.
    Running(Instant),
    /// No hash before this time.
    Pause(Instant),
}

impl HashPacing {
    /// Whether a hash may be computed now. The caller reports its end by [`end`](Self::end).
    pub(crate) fn begin(&self) -> bool {
        self.begin_at(Instant::now())
    }

    /// The hash is computed.
    pub(crate) fn end(&self) {
        self.end_at(Instant::now());
    }

    fn begin_at(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        match *state {
            State::Running(_) => return false,
            State::Pause(until) if now < until => return false,
            State::Idle | State::Pause(_) => {}
        }
        *state = State::Running(now);
        true
    }

    fn end_at(&self, now: Instant) {
        let mut state = self.state.lock();
        let took = match *state {
            State::Running(since) => now.saturating_duration_since(since),
            State::Idle | State::Pause(_) => Duration::ZERO,
        };
        *state = State::Pause(now + took * PAUSE_FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_take_a_tenth_of_the_time() {
        let pacing = HashPacing::default();
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        assert!(pacing.begin_at(after(0)));
        assert!(!pacing.begin_at(after(50)), "one at a time");
        pacing.end_at(after(100));
        assert!(!pacing.begin_at(after(999)));
        assert!(pacing.begin_at(after(1000)));
    }
}
