//! The keys of a benchmark: the encoding of key number *n* as bytes, and its inverse.
//!
//! Eight bytes, the *core*, distinguish the keys; a key of eight bytes is its core. A longer key
//! begins or ends with its core:
//! ```text
//! random-head     | core (8) | bytes of this key alone … |
//! shared-prefix   | the same bytes in every key … | core (8) |
//! ```
//! A dense core is the number itself, big-endian, so that keys are adjacent. A sparse core is the
//! number scrambled over all 2⁶⁴ values. Either way keys are in the order of their cores.
//!
//! Paper: bwtree §5.1 b), c)

use clap::{Args, ValueEnum};

/// The distribution of keys over the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeySpace {
    /// Adjacent: 0, 1, 2, …
    Dense,
    /// Anywhere in 2⁶⁴, in no visible order
    Sparse,
}

/// The part of a long key that differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyLayout {
    /// In its first eight bytes
    RandomHead,
    /// In its last eight bytes, after a common prefix
    SharedPrefix,
}

impl KeySpace {
    /// The flag's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        }
    }
}

impl KeyLayout {
    /// The flag's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RandomHead => "random-head",
            Self::SharedPrefix => "shared-prefix",
        }
    }
}

/// Length of the bytes that distinguish keys.
pub(crate) const CORE_BYTES: usize = 8;

/// The shape of the keys of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Number of keys.
    pub(crate) count: u64,
    /// Length of each; at least [`CORE_BYTES`].
    pub(crate) bytes: usize,
    pub(crate) space: KeySpace,
    pub(crate) layout: KeyLayout,
}

/// The shapes of keys, without their lengths.
#[derive(Args, Clone, Debug)]
pub(crate) struct LooksArgs {
    /// The distribution of keys over the key space
    #[arg(
        long,
        value_enum,
        value_name = "SPACE,…",
        value_delimiter = ',',
        default_value = "dense"
    )]
    key_space: Vec<KeySpace>,
    /// The part in which keys of more than 8 bytes differ
    #[arg(
        long,
        value_enum,
        value_name = "LAYOUT,…",
        value_delimiter = ',',
        default_value = "random-head"
    )]
    key_layout: Vec<KeyLayout>,
}

impl LooksArgs {
    /// `count` keys of each length in each shape; layouts change fastest.
    pub(crate) fn keys(&self, count: u64, lengths: &[usize]) -> Vec<Keys> {
        let mut all = Vec::new();
        for &bytes in lengths {
            for &space in &self.key_space {
                all.extend(self.key_layout.iter().map(|&layout| Keys {
                    count,
                    bytes,
                    space,
                    layout,
                }));
            }
        }
        all
    }
}

impl Keys {
    /// Appends the bytes of key `number`.
    pub(crate) fn append(&self, number: u64, to: &mut Vec<u8>) {
        let core = self.core(number);
        let more = self.bytes - CORE_BYTES;
        match self.layout {
            KeyLayout::RandomHead => {
                to.extend_from_slice(&core.to_be_bytes());
                append_filling(number.wrapping_add(1), more, to);
            }
            KeyLayout::SharedPrefix => {
                append_filling(0, more, to);
                to.extend_from_slice(&core.to_be_bytes());
            }
        }
    }

    /// The number of a key; `None` if it is not one of these.
    pub(crate) fn number(&self, key: &[u8]) -> Option<u64> {
        let core = match self.layout {
            KeyLayout::RandomHead => key.first_chunk(),
            KeyLayout::SharedPrefix => key.last_chunk(),
        };
        let core = u64::from_be_bytes(*core?);
        let number = match self.space {
            KeySpace::Dense => core,
            KeySpace::Sparse => unscramble(core),
        };
        if number >= self.count || key.len() != self.bytes {
            return None;
        }
        // Compares the remaining bytes, too.
        let mut same = Vec::with_capacity(self.bytes);
        self.append(number, &mut same);
        (same == key).then_some(number)
    }

    /// The numbers of all keys, in the order of the keys.
    pub(crate) fn ascending(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.count).collect();
        if self.space != KeySpace::Dense {
            numbers.sort_unstable_by_key(|number| self.core(*number));
        }
        numbers
    }

    /// Keys are in the order of their cores.
    pub(crate) const fn core(&self, number: u64) -> u64 {
        match self.space {
            KeySpace::Dense => number,
            KeySpace::Sparse => scramble(number),
        }
    }
}

/// Filling that looks like text, derived from `of` alone.
fn append_filling(of: u64, bytes: usize, to: &mut Vec<u8>) {
    let end = to.len() + bytes;
    let mut state = of;
    while to.len() < end {
        state = scramble(state);
        let left = (end - to.len()).min(8);
        to.extend_from_slice(&state.to_be_bytes()[..left]);
    }
}

/// Added first, so that 0 does not map to 0.
const ADDED: u64 = 0x9E37_79B9_7F4A_7C15;
const FACTORS: [u64; 2] = [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB];
/// The multiplicative inverses of the two factors.
const INVERSES: [u64; 2] = [0x96DE_1B17_3F11_9089, 0x3196_42B2_D24D_8EC3];
const _: () = assert!(FACTORS[0].wrapping_mul(INVERSES[0]) == 1);
const _: () = assert!(FACTORS[1].wrapping_mul(INVERSES[1]) == 1);

/// A bijection: splitmix64's mixing function, in which every step can be undone.
const fn scramble(number: u64) -> u64 {
    let bits = number.wrapping_add(ADDED);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(FACTORS[0]);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(FACTORS[1]);
    bits ^ (bits >> 31)
}

const fn unscramble(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 31) ^ (bits >> 62)).wrapping_mul(INVERSES[1]);
    let bits = (bits ^ (bits >> 27) ^ (bits >> 54)).wrapping_mul(INVERSES[0]);
    (bits ^ (bits >> 30) ^ (bits >> 60)).wrapping_sub(ADDED)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = Keys> {
        let spaces = [KeySpace::Dense, KeySpace::Sparse];
        let layouts = [KeyLayout::RandomHead, KeyLayout::SharedPrefix];
        let lengths = [8, 13, 16, 32, 64, 128];
        spaces.into_iter().flat_map(move |space| {
            layouts.into_iter().flat_map(move |layout| {
                lengths.into_iter().map(move |bytes| Keys {
                    count: 3000,
                    bytes,
                    space,
                    layout,
                })
            })
        })
    }

    fn encoded(keys: &Keys, number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        keys.append(number, &mut bytes);
        bytes
    }

    #[test]
    fn keys_are_unique_ordered_and_of_the_right_length() {
        for keys in all() {
            let mut seen = BTreeSet::new();
            for number in 0..keys.count {
                let key = encoded(&keys, number);
                assert_eq!(key.len(), keys.bytes, "{keys:?}");
                assert_eq!(keys.number(&key), Some(number), "{keys:?}");
                seen.insert((key, keys.core(number)));
            }
            assert_eq!(seen.len() as u64, keys.count);
            let cores: Vec<u64> = seen.iter().map(|(_, core)| *core).collect();
            assert!(cores.is_sorted(), "{keys:?}");
            let ascending = keys.ascending().into_iter();
            assert!(ascending.map(|number| keys.core(number)).eq(cores));
        }
    }

    #[test]
    fn long_keys_differ_where_their_layout_says() {
        for keys in all().filter(|keys| keys.bytes > 8) {
            let (one, other) = (encoded(&keys, 1), encoded(&keys, 2));
            let shared = keys.bytes - CORE_BYTES;
            match keys.layout {
                KeyLayout::SharedPrefix => assert_eq!(one[..shared], other[..shared]),
                KeyLayout::RandomHead => {
                    assert_ne!(one[..CORE_BYTES], other[..CORE_BYTES]);
                    assert_ne!(one[CORE_BYTES..], other[CORE_BYTES..]);
                }
            }
        }
    }

    #[test]
    fn dense_keys_are_adjacent_and_sparse_ones_not() {
        let core = |space, number| {
            let keys = Keys {
                count: 10,
                bytes: 8,
                space,
                layout: KeyLayout::RandomHead,
            };
            keys.core(number)
        };
        assert_eq!(core(KeySpace::Dense, 7), 7);
        let sparse: Vec<u64> = (0..10).map(|n| core(KeySpace::Sparse, n)).collect();
        let apart = |pair: &[u64]| pair[0].abs_diff(pair[1]) > 1 << 50;
        assert!(sparse.windows(2).all(apart), "{sparse:x?}");
    }

    #[test]
    fn scrambling_can_be_undone() {
        for number in (0..10_000).chain([u64::MAX, 1 << 63, 0x0123_4567_89AB_CDEF]) {
            assert_eq!(unscramble(scramble(number)), number);
        }
    }

    #[test]
    fn what_is_no_key_has_no_number() {
        for keys in all() {
            let mut key = encoded(&keys, 5);
            assert_eq!(keys.number(&key[1..]), None);
            assert_eq!(keys.number(&encoded(&keys, keys.count)), None);
            if keys.bytes > CORE_BYTES {
                let at = match keys.layout {
                    KeyLayout::RandomHead => keys.bytes - 1,
                    KeyLayout::SharedPrefix => 0,
                };
                key[at] ^= 1;
                assert_eq!(keys.number(&key), None, "{keys:?}");
            }
        }
    }
}
