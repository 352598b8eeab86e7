//! The adaptive degree: the number of tasks that a device can use, found while a query runs.
//!
//! A device answers faster with more reads in flight up to its knee; beyond it they only wait
//! longer. So the reads a second of each degree of a ladder are measured, averaged over the
//! intervals with it. The degree is the least that is nearly as fast as the best. At first each
//! interval is one rung up, as long as that is faster; later one in eight tries a neighbour, above
//! and below in turns. Old rates fade, so that a device may become slower.
//!
//! One interval decides nothing. (A climber that keeps or leaves a step after one look walks away
//! from the knee on a device that others use, because a step down costs little and luck makes it
//! cost nothing.)

/// The degrees to try.
const LADDER: [usize; 20] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
];

/// The first degree: 64.
const FIRST_RUNG: usize = 11;

/// Share of the best rate that is enough.
const ENOUGH: f64 = 0.97;

/// Weight of a new interval.
const NEW_SHARE: f64 = 0.4;

/// Factor by which a rate fades in each interval with another degree.
const FADE: f64 = 0.999;

/// Intervals from one trial of a neighbour to the next.
const INTERVALS_PER_TRIAL: u32 = 8;

/// Share of the looks in an interval in which tasks must wait for room.
const LIMITED_MIN: f64 = 0.75;

/// Least reads of an interval: for each task of the degree, and in all.
const READS_PER_TASK: u64 = 4;
const READS_MIN: u64 = 256;

/// The control of one thread.
#[derive(Debug)]
pub(crate) struct AdaptiveDegree {
    /// Reads a second at each rung; zero of those that were not tried.
    rates: [f64; LADDER.len()],
    /// The current rung.
    rung: usize,
    intervals: u32,
    /// When the interval began: the clock, and reads until then.
    since: Option<(u64, u64)>,
    /// Looks since then, and looks with tasks that waited for room.
    looks: u32,
    limited: u32,
}

impl AdaptiveDegree {
    /// The first degree of a thread.
    pub(crate) const FIRST: usize = LADDER[FIRST_RUNG];

    /// The greatest degree.
    pub(crate) const MAX: usize = LADDER[LADDER.len() - 1];

    pub(crate) fn new() -> Self {
        Self {
            rates: [0.0; LADDER.len()],
            rung: FIRST_RUNG,
            intervals: 0,
            since: None,
            looks: 0,
            limited: 0,
        }
    }

    /// The degree from now on, given the clock in nanoseconds and the reads so far. `is_limited`:
    /// tasks wait for room now. Nothing is learned from an interval in which they seldom did.
    #[inline]
    pub(crate) fn look(
        &mut self,
        clock: impl FnOnce() -> u64,
        reads: u64,
        is_limited: bool,
    ) -> usize {
        let degree = LADDER[self.rung];
        let Some((since_ns, since_reads)) = self.since else {
            self.since = is_limited.then(|| (clock(), reads));
            return degree;
        };
        self.looks += 1;
        self.limited += u32::from(is_limited);
        let done = reads - since_reads;
        if done < READS_MIN.max(READS_PER_TASK * degree as u64) {
            return degree;
        }
        let now_ns = clock();
        if now_ns > since_ns && f64::from(self.limited) >= f64::from(self.looks) * LIMITED_MIN {
            self.learn(done as f64 * 1e9 / (now_ns - since_ns) as f64);
        }
        self.since = is_limited.then_some((now_ns, reads));
        (self.looks, self.limited) = (0, 0);
        LADDER[self.rung]
    }

    fn learn(&mut self, rate: f64) {
        for (rung, known) in self.rates.iter_mut().enumerate() {
            if rung != self.rung {
                *known *= FADE;
            } else if *known == 0.0 {
                *known = rate;
            } else {
                *known += (rate - *known) * NEW_SHARE;
            }
        }
        let best = self.rates.iter().copied().fold(0.0, f64::max);
        let enough = |known: &f64| *known >= best * ENOUGH;
        let rung = self.rates.iter().position(enough).unwrap_or(self.rung);
        self.intervals += 1;
        let above = (rung + 1).min(LADDER.len() - 1);
        let below = rung.saturating_sub(1);
        self.rung = if self.rates[above] == 0.0 {
            above
        } else if !self.intervals.is_multiple_of(INTERVALS_PER_TRIAL) {
            rung
        } else if self.intervals.is_multiple_of(INTERVALS_PER_TRIAL * 2) {
            above
        } else {
            below
        };
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    /// The degree in the end with a device of this knee, where rates vary by `noise` from interval
    /// to interval. Before the knee reads take 100 µs.
    fn degree_at_rest(knee: usize, noise: f64, seed: u64) -> usize {
        let mut random = Random::seeded(seed);
        let mut control = AdaptiveDegree::new();
        let (mut now_ns, mut reads) = (0, 0);
        let mut degree = control.look(|| now_ns, reads, true);
        let mut degrees = Vec::new();
        for _ in 0..600 {
            let luck = 1.0 - noise + 2.0 * noise * random.unit();
            let rate = degree.min(knee) as f64 / 100e-6 * luck;
            let done = READS_MIN.max(READS_PER_TASK * degree as u64);
            reads += done;
            now_ns += (done as f64 / rate * 1e9) as u64;
            degree = control.look(|| now_ns, reads, true);
            degrees.push(degree);
        }
        let mut late = degrees.split_off(300);
        late.sort_unstable();
        late[late.len() / 2]
    }

    #[test]
    fn the_degree_comes_to_rest_at_the_knee() {
        for (knee, noise) in [
            (1, 0.01),
            (4, 0.05),
            (32, 0.1),
            (100, 0.05),
            (100, 0.15),
            (400, 0.1),
        ] {
            for seed in 0..5 {
                let degree = degree_at_rest(knee, noise, seed);
                let range = knee * 2 / 3..=knee * 2;
                assert!(
                    range.contains(&degree),
                    "knee {knee}, noise {noise}, seed {seed}: {degree}"
                );
            }
        }
    }

    #[test]
    fn without_a_limit_nothing_is_learned() {
        let mut control = AdaptiveDegree::new();
        for turn in 0..100 {
            let degree = control.look(|| turn * 1_000_000, turn * 10_000, turn % 2 == 0);
            assert_eq!(degree, AdaptiveDegree::FIRST);
        }
    }
}
