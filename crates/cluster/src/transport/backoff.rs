//! Randomized exponential backoff before a connection is retried.
//!
//! The wait doubles after every failure, up to a maximum, and a part of it is random: nodes that
//! lost a peer at the same time do not reconnect at the same time.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The waits of one lane.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
    random: u64,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        // The standard library's hashers are seeded by the system.
        let seed = RandomState::new().build_hasher().finish();
        Self {
            first,
            longest,
            next: first,
            random: seed | 1,
        }
    }

    /// Resets the backoff after the connection was up.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }

    /// The wait after a failure: between half of the current step and the whole.
    pub(super) fn wait(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = 0.5 + 0.5 * (self.random % 1024) as f64 / 1024.0;
        let wait = self.next.mul_f64(part);
        self.next = (2 * self.next).min(self.longest);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_start_anew() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(100));
        for step in [10, 20, 40, 80, 100, 100] {
            let wait = backoff.wait();
            assert!((ms(step) / 2..=ms(step)).contains(&wait), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= ms(10));
    }
}
