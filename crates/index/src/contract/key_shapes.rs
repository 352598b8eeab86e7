//! Seeded randomness and the shapes of keys that trees get wrong.

/// A small generator (SplitMix64), the same on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that repeats itself for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number less than `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// True with probability `part` in `whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }
}

/// Prints the seed of a random test when the test fails.
#[derive(Debug)]
pub struct Announcement {
    test: &'static str,
    seed: u64,
}

/// Keep the result alive during the test.
#[must_use]
pub const fn announce(test: &'static str, seed: u64) -> Announcement {
    Announcement { test, seed }
}

impl Drop for Announcement {
    #[expect(clippy::print_stderr, reason = "the seed of a failed random test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed with seed {}", self.test, self.seed);
        }
    }
}

/// How key number `n` is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// Eight bytes, big-endian, one after the other.
    Dense,
    /// Eight bytes, scattered over the whole range.
    Sparse,
    /// Numbers 0 to 255 as one byte, and so on: many keys are prefixes of others, one is empty.
    Nested,
    /// A shared prefix of 40 bytes, for two groups of keys, then a number.
    SharedPrefix,
    /// Like `SharedPrefix`, but some keys have 64 KiB.
    Huge,
    /// Like `Nested`, but with runs of equal bytes: what keys share ends anywhere. For tests of its own.
    Runs,
}

impl KeyShape {
    /// Shapes for indexes of eight-byte keys.
    pub const FIXED: &[Self] = &[Self::Dense, Self::Sparse];
    /// Shapes for indexes of byte strings.
    pub const VARIABLE: &[Self] = &[
        Self::Dense,
        Self::Sparse,
        Self::Nested,
        Self::SharedPrefix,
        Self::Huge,
    ];

    /// Key number `n`. Different numbers have different keys.
    #[must_use]
    pub fn key(self, n: u64) -> Vec<u8> {
        match self {
            Self::Dense => n.to_be_bytes().to_vec(),
            Self::Sparse => n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec(),
            // Bijective numeration in base 3 with zero bytes among the digits: every prefix of a
            // key is a key.
            Self::Nested => {
                let (mut n, mut key) = (n, Vec::new());
                while n > 0 {
                    key.push([0, 1, 255][((n - 1) % 3) as usize]);
                    n = (n - 1) / 3;
                }
                key.reverse();
                key
            }
            // Bytes of one value come in multiples of one length, so no two keys become one.
            Self::Runs => {
                let run = |byte: &u8| vec![*byte; [7, 3, 1][usize::from(*byte.min(&2))]];
                Self::Nested.key(n).iter().flat_map(run).collect()
            }
            Self::SharedPrefix => {
                let mut key = vec![if n.is_multiple_of(2) { b'a' } else { b'b' }; 40];
                key.extend(n.to_be_bytes());
                key
            }
            Self::Huge => {
                let mut key = Self::SharedPrefix.key(n);
                if n.is_multiple_of(8) {
                    key.resize(1 << 16, b'x');
                }
                key
            }
        }
    }
}
