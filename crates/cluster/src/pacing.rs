//! Pacing of what reads every row for a client, a state hash or an image: one at a time, and a tenth of the time at most.
//!
//! A client that asks for them in a loop would take a processor, and the versions that are kept for views; with the pause after
//! each of them, commits have nine tenths of the time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The pause after one, in multiples of the time that it took.
const PAUSE_FACTOR: u32 = 9;

/// Decides when one may begin.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// One was requested at this time.
    Running(Instant),
    /// None before this time.
    Pause(Instant),
}

impl Pacing {
    /// Whether one may begin now. The caller reports its end by [`end`](Self::end).
    pub(crate) fn begin(&self) -> bool {
        self.begin_at(Instant::now())
    }

    /// It is done.
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
        let pacing = Pacing::default();
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        assert!(pacing.begin_at(after(0)));
        assert!(!pacing.begin_at(after(50)), "one at a time");
        pacing.end_at(after(100));
        assert!(!pacing.begin_at(after(999)));
        assert!(pacing.begin_at(after(1000)));
    }
}
