//! The degree that a device can use, found while a query runs.
//!
//! Hill climbing over degrees that differ by half. A trial one step up is kept if it brings clearly more reads a second;
//! one step down, if it costs almost none. A device answers faster with more reads in flight up to its knee; beyond it
//! they only wait longer. So the degree comes to rest at the knee, and fewer tasks are preferred to more. After a trial
//! that was not kept the next one is later, because a device that changes is rare.

use super::options::{ADAPTIVE_DEGREE_MAX, FIRST_ADAPTIVE_DEGREE};

/// Of the rate before, what a step up has to bring, and a step down may cost.
const UP_MIN: f64 = 1.04;
const DOWN_MIN: f64 = 0.98;

/// Intervals between trials, at most.
const REST_MAX: u32 = 32;

/// Reads of an interval for each task of the degree, and in all: fewer tell little.
const READS_PER_TASK: u64 = 8;
const READS_MIN: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The base is measured, for so many intervals more.
    Rest(u32),
    /// One step from the base is measured.
    Trial { up: bool },
}

/// One thread's.
#[derive(Debug)]
pub(super) struct AdaptiveDegree {
    /// The best degree so far, and the reads a second that it brought.
    base: usize,
    base_rate: f64,
    phase: Phase,
    next_up: bool,
    rest: u32,
    /// When the interval began: the clock, and reads until then.
    since: Option<(u64, u64)>,
}

impl AdaptiveDegree {
    pub(super) fn new() -> Self {
        Self {
            base: FIRST_ADAPTIVE_DEGREE,
            base_rate: 0.0,
            phase: Phase::Rest(0),
            next_up: true,
            rest: 1,
            since: None,
        }
    }

    /// The degree from now on, given the clock in nanoseconds and the reads so far. `is_limited`: tasks wait for room
    /// now; without that the degree changes nothing, and nothing is learned.
    pub(super) fn look(&mut self, now_ns: u64, reads: u64, is_limited: bool) -> usize {
        let Some((since_ns, since_reads)) = self.since.filter(|_| is_limited) else {
            self.since = is_limited.then_some((now_ns, reads));
            return self.degree();
        };
        let done = reads - since_reads;
        if done < READS_MIN.max(READS_PER_TASK * self.degree() as u64) || now_ns == since_ns {
            return self.degree();
        }
        self.since = Some((now_ns, reads));
        self.learn(done as f64 * 1e9 / (now_ns - since_ns) as f64);
        self.degree()
    }

    fn degree(&self) -> usize {
        match self.phase {
            Phase::Rest(_) => self.base,
            Phase::Trial { up } => self.beside(up),
        }
    }

    fn beside(&self, up: bool) -> usize {
        if up {
            (self.base + self.base.div_ceil(2)).min(ADAPTIVE_DEGREE_MAX)
        } else {
            (self.base * 2 / 3).max(1)
        }
    }

    fn learn(&mut self, rate: f64) {
        match self.phase {
            Phase::Rest(left) => {
                // Old intervals fade.
                self.base_rate = if self.base_rate == 0.0 {
                    rate
                } else {
                    self.base_rate * 0.7 + rate * 0.3
                };
                self.phase = match left {
                    0 => Phase::Trial { up: self.next_up },
                    _ => Phase::Rest(left - 1),
                };
            }
            Phase::Trial { up } => {
                let needed = self.base_rate * if up { UP_MIN } else { DOWN_MIN };
                if rate >= needed && self.beside(up) != self.base {
                    self.base = self.beside(up);
                    self.base_rate = rate;
                    self.rest = 1;
                    self.phase = Phase::Trial { up };
                } else {
                    self.next_up = !up;
                    self.phase = Phase::Rest(self.rest);
                    self.rest = (self.rest * 2).min(REST_MAX);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    /// Where the degree comes to rest with a device of this knee; before it reads take 100 µs.
    fn degree_at_rest(knee: usize, seed: u64) -> usize {
        let mut random = Random::seeded(seed);
        let mut control = AdaptiveDegree::new();
        let (mut now_ns, mut reads) = (0, 0);
        let mut degree = control.look(now_ns, reads, true);
        let mut last = Vec::new();
        for _ in 0..400 {
            let noise = 0.99 + 0.02 * random.unit();
            let rate = degree.min(knee) as f64 / 100e-6 * noise;
            let done = READS_MIN.max(READS_PER_TASK * degree as u64);
            reads += done;
            now_ns += (done as f64 / rate * 1e9) as u64;
            degree = control.look(now_ns, reads, true);
            last.push(degree);
        }
        last.sort_unstable_by(|a, b| b.cmp(a));
        // A few intervals are trials.
        last[last.len() / 2]
    }

    #[test]
    fn the_degree_comes_to_rest_at_the_knee() {
        for knee in [1, 4, 32, 100, 400] {
            for seed in 0..5 {
                let degree = degree_at_rest(knee, seed);
                let range = knee * 4 / 5..=knee * 7 / 4 + 1;
                assert!(
                    range.contains(&degree),
                    "knee {knee}, seed {seed}: {degree}"
                );
            }
        }
    }

    #[test]
    fn without_a_limit_nothing_is_learned() {
        let mut control = AdaptiveDegree::new();
        for turn in 0..100 {
            let degree = control.look(turn * 1_000_000, turn * 10_000, turn % 2 == 0);
            assert_eq!(degree, FIRST_ADAPTIVE_DEGREE);
        }
    }
}
