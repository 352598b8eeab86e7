//! Skewed choice: Zipf's law, and the scattering of popular ranks over all keys.
//!
//! Rank k of N is drawn with probability `(1/k^s) / (1/1^s + … + 1/N^s)`, for any s ≥ 0: exactly
//! that, not the usual approximation that fails at s ≥ 1. A table of the distribution would do,
//! but at a million keys it is 8 to 16 MB that compete with the data for the cache; rejection
//! needs none (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", 1996): invert the integral of the density x^-s, round to a rank, and
//! reject with just the probability by which the integral overstates it.
//!
//! Paper: bwtree §5.1, formula (1)

use crate::seeded_random::{Random, mix};

/// Draws ranks from 1 to N by Zipf's law.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: u64,
    s: f64,
    /// The integral up to one half above the first rank, less the first rank's whole mass.
    low: f64,
    /// The integral up to one half above the last rank.
    high: f64,
    /// Below this distance from its rank a point is accepted without looking closer.
    squeeze: f64,
}

impl Zipf {
    /// Ranks 1 to `ranks` with skew `s`: 0 is uniform, larger is more skewed.
    ///
    /// # Panics
    /// If `ranks` is 0, or `s` is negative or no number.
    #[must_use]
    pub fn new(ranks: u64, s: f64) -> Self {
        assert!(ranks > 0, "there is no rank to draw");
        assert!(s >= 0.0 && s.is_finite(), "a skew is at least 0");
        let squeeze = 2.0 - integral_inverse(integral(2.5, s) - density(2.0, s), s);
        Self {
            ranks,
            s,
            low: integral(1.5, s) - 1.0,
            high: integral(ranks as f64 + 0.5, s),
            squeeze,
        }
    }

    /// A rank from 1 to N.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        if self.s == 0.0 {
            return 1 + random.below(self.ranks);
        }
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = integral_inverse(area, self.s);
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks);
            let k = rank as f64;
            if k - x <= self.squeeze || area >= integral(k + 0.5, self.s) - density(k, self.s) {
                return rank;
            }
        }
    }
}

/// x^-s.
fn density(x: f64, s: f64) -> f64 {
    (-s * x.ln()).exp()
}

/// The integral of x^-s from 1 to `x`: (x^(1-s) - 1) / (1 - s), ln x at s = 1.
fn integral(x: f64, s: f64) -> f64 {
    let ln = x.ln();
    ln * expm1_over((1.0 - s) * ln)
}

/// The x at which [`integral`] is `area`.
fn integral_inverse(area: f64, s: f64) -> f64 {
    let t = (area * (1.0 - s)).max(-1.0);
    (area * ln1p_over(t)).exp()
}

/// (e^x - 1) / x, which is 1 at 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// ln(1 + x) / x, which is 1 at 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

/// Gives every rank a place of its own among as many keys, in no visible order: popular ranks
/// then do not share pages and cache lines. One to one, without a table.
#[derive(Clone, Debug)]
pub struct Scatter {
    keys: u64,
    /// Keeps the bits of the next power of two.
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Scatter {
    /// An arrangement of 0 to `keys - 1` that depends on `seed`.
    ///
    /// # Panics
    /// If `keys` is 0.
    #[must_use]
    pub fn new(keys: u64, seed: u64) -> Self {
        assert!(keys > 0, "there is no key to scatter over");
        let bits = (u64::BITS - (keys - 1).leading_zeros()).max(1);
        Self {
            keys,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            seed: mix(seed),
        }
    }

    /// The key of `index`, which is below the number of keys (a rank less one).
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    #[must_use]
    pub fn key(&self, index: u64) -> u64 {
        assert!(index < self.keys, "index {index} of {}", self.keys);
        let mut key = index;
        // Each step permutes the numbers below the power of two. Walking on from those that are
        // no keys permutes the keys: the walk follows a cycle and ends at the latest where it
        // began.
        loop {
            key = self.step(key);
            if key < self.keys {
                return key;
            }
        }
    }

    /// One to one on the masked bits: additions, odd products and right-shifted xors all are.
    fn step(&self, bits: u64) -> u64 {
        let mut bits = bits.wrapping_add(self.seed) & self.mask;
        for factor in [0xBF58_476D_1CE4_E5B9_u64, 0x94D0_49BB_1331_11EB] {
            bits ^= bits >> self.shift;
            bits = bits.wrapping_mul(factor) & self.mask;
        }
        bits ^ (bits >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formula (1), computed plainly.
    fn law(ranks: u64, s: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=ranks).map(|k| (k as f64).powf(-s)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Chi-square over ranks expected at least 20 times, the rest as one class. With d classes
    /// the value is about d ± sqrt(2 d); six of those are allowed.
    ///
    /// Paper: bwtree §5.1, formula (1)
    #[test]
    fn ranks_are_drawn_by_zipfs_law() {
        const DRAWS: usize = 400_000;
        for (case, &(ranks, s)) in [
            (1, 0.99),
            (2, 0.5),
            (10, 0.0),
            (10, 1.0),
            (100, 0.2),
            (1000, 0.99),
            (1000, 1.0),
            (1000, 1.000_000_001),
            (1000, 1.5),
            (100_000, 0.9),
            (1_000_000, 3.0),
        ]
        .iter()
        .enumerate()
        {
            let zipf = Zipf::new(ranks, s);
            let mut random = Random::seeded(case as u64);
            let mut counts = vec![0_u32; ranks as usize];
            for _ in 0..DRAWS {
                counts[zipf.rank(&mut random) as usize - 1] += 1;
            }
            let (mut chi, mut classes) = (0.0, 0.0);
            let (mut rest_expected, mut rest_seen) = (0.0, 0.0);
            for (probability, &seen) in law(ranks, s).iter().zip(&counts) {
                let (expected, seen) = (probability * DRAWS as f64, f64::from(seen));
                if expected >= 20.0 {
                    chi += (seen - expected).powi(2) / expected;
                    classes += 1.0;
                } else {
                    rest_expected += expected;
                    rest_seen += seen;
                }
            }
            if rest_expected >= 20.0 {
                chi += (rest_seen - rest_expected).powi(2) / rest_expected;
                classes += 1.0;
            }
            let limit = classes + 6.0 * (2.0_f64 * classes).sqrt();
            assert!(chi < limit, "N={ranks} s={s}: {chi} of {limit}");
        }
    }

    #[test]
    fn extreme_skew_draws_the_first_rank() {
        let mut random = Random::seeded(0);
        let zipf = Zipf::new(1_000_000, 200.0);
        assert!((0..1000).all(|_| zipf.rank(&mut random) == 1));
    }

    #[test]
    fn scattering_is_one_to_one_and_leaves_no_order() {
        for keys in [1_u64, 2, 3, 5, 64, 1000, 65_537] {
            let scatter = Scatter::new(keys, 42);
            let mut seen = vec![false; keys as usize];
            let mut neighbours = 0;
            for index in 0..keys {
                let key = scatter.key(index);
                assert!(!seen[key as usize], "{keys}: {key} twice");
                seen[key as usize] = true;
                let next = scatter.key((index + 1) % keys);
                neighbours += u64::from(key.abs_diff(next) == 1);
            }
            assert!(neighbours <= 8 + keys / 50, "{keys}: {neighbours}");
        }
        let of = |seed| Scatter::new(1000, seed).key(0);
        assert!((1..20).any(|seed| of(seed) != of(0)));
    }
}
