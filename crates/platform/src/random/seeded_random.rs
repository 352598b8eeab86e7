//! Seeded randomness: the same seed gives the same numbers on every machine.
//!
//! The generator is xoshiro256++ (Blackman and Vigna), its state filled by splitmix64, as its
//! authors recommend. It is fast and good, and no secret is safe behind it.

/// A seeded stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(counter)
        });
        Self { state }
    }

    /// The stream of number `stream` among those of one seed: for instance, a worker's.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::seeded(mix(seed) ^ mix(stream.wrapping_add(0x6A09_E667_F3BC_C909)))
    }

    /// Any 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number from 0 to `bound - 1`, all equally likely.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // Lemire's method: the high word of a product, rejecting the few low words that would
        // make some numbers likelier.
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// An index into something of `len` elements.
    ///
    /// # Panics
    /// If `len` is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from 0 (included) to 1 (excluded), in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Puts the elements into an order, all orders equally likely.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            let other = self.index(last + 1);
            elements.swap(last, other);
        }
    }

    /// Fills with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// A one-to-one mixing of 64 bits: splitmix64's.
#[inline]
#[must_use]
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published C program from the state 1, 2, 3, 4.
    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let first: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn equal_seeds_give_equal_streams_and_others_do_not() {
        let take = |mut random: Random| -> Vec<u64> { (0..8).map(|_| random.next_u64()).collect() };
        assert_eq!(take(Random::seeded(7)), take(Random::seeded(7)));
        assert_ne!(take(Random::seeded(7)), take(Random::seeded(8)));
        assert_ne!(take(Random::stream(7, 0)), take(Random::stream(7, 1)));
        assert_ne!(take(Random::stream(7, 1)), take(Random::stream(1, 7)));
    }

    #[test]
    fn every_number_below_the_bound_is_about_equally_likely() {
        let mut random = Random::seeded(1);
        for bound in [1_u64, 2, 3, 7, 10, 48] {
            let mut counts = vec![0_u64; bound as usize];
            let draws = 20_000 * bound;
            for _ in 0..draws {
                counts[random.below(bound) as usize] += 1;
            }
            for count in counts {
                assert!((19_000..21_000).contains(&count), "{bound}: {count}");
            }
        }
        assert!(random.below(u64::MAX) < u64::MAX);
    }

    /// Without the rejection every third of these numbers would be twice as likely as the others.
    #[test]
    fn large_bounds_are_as_fair() {
        let mut random = Random::seeded(2);
        let mut counts = [0; 3];
        for _ in 0..60_000 {
            counts[(random.below(3 << 62) % 3) as usize] += 1;
        }
        for count in counts {
            assert!((19_000..21_000).contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn a_shuffle_keeps_the_elements_and_reaches_every_order() {
        let mut random = Random::seeded(3);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut elements = [0, 1, 2, 3];
            random.shuffle(&mut elements);
            *seen.entry(elements).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|count| (800..1200).contains(count)));
    }

    #[test]
    fn all_bytes_of_a_buffer_are_filled() {
        let mut random = Random::seeded(5);
        let mut seen = [false; 21];
        for _ in 0..20 {
            let mut bytes = [0_u8; 21];
            random.fill(&mut bytes);
            for (at, byte) in bytes.iter().enumerate() {
                seen[at] |= *byte != 0;
            }
        }
        assert_eq!(seen, [true; 21]);
    }
}
