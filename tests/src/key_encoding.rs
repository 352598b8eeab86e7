//! How tables spell the numbers that runs draw as keys: as they are, for indexes of eight-byte
//! keys, or as byte strings, which indexes store in another way.

use namiki::{AsKey, Key, KeyBytes};

/// A key that represents a number, in the same order.
pub trait Numbered:
    Key<Owned = Self> + From<u64> + Into<u64> + Copy + Send + Sync + 'static
{
    /// The number of a key's bytes.
    ///
    /// # Panics
    /// If the bytes are no such key.
    fn number(bytes: &[u8]) -> u64 {
        match Self::decode(bytes) {
            Some(key) => key.into(),
            None => panic!("{bytes:?} is no {}", Self::NAME),
        }
    }
}

impl Numbered for u64 {}
impl Numbered for Spelt {}

/// The spelling of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spelling {
    /// `u64`: eight bytes.
    Plain,
    /// [`Spelt`].
    Long,
}

impl Spelling {
    /// Both spellings.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Long];

    /// The spelling for this turn: the two alternate.
    #[must_use]
    pub const fn of(turn: u64) -> Self {
        Self::ALL[(turn % 2) as usize]
    }
}

/// The common prefix of all keys: longer than any index keeps in one node, and no multiple of
/// eight.
const SHARED: &[u8] = b"what all keys of the table have in common/";

/// A number as a byte string:
///
/// ```text
///  SHARED | number / 4, eight bytes, big-endian | 5 × (number % 4) bytes, all zero
/// ```
/// In each group of four keys, every key but the last is a prefix of the later ones.
#[derive(Clone, Copy, Debug)]
pub struct Spelt(u64);

const GROUP: u64 = 4;
const STEP: u64 = 5;

impl From<u64> for Spelt {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Spelt> for u64 {
    fn from(key: Spelt) -> Self {
        key.0
    }
}

impl AsKey<Self> for Spelt {
    fn encode(&self, into: &mut KeyBytes) {
        into.extend_from_slice(SHARED);
        into.extend_from_slice(&(self.0 / GROUP).to_be_bytes());
        into.resize(into.len() + (self.0 % GROUP * STEP) as usize, 0);
    }
}

impl Key for Spelt {
    type Owned = Self;
    const NAME: &'static str = "spelt number";

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (group, zeros) = bytes.strip_prefix(SHARED)?.split_first_chunk()?;
        let first = u64::from_be_bytes(*group).checked_mul(GROUP)?;
        let key = Self(first.checked_add(zeros.len() as u64 / STEP)?);
        key.with_bytes(|same| same == bytes).then_some(key)
    }

    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(std::mem::take(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelt_keys_keep_the_order_of_their_numbers() {
        let mut last = Vec::new();
        for number in (0..3000).chain(1 << 40..(1 << 40) + 9).chain([u64::MAX]) {
            let bytes = Spelt(number).with_bytes(<[u8]>::to_vec);
            assert!(last < bytes, "{number}");
            assert_eq!(Spelt::number(&bytes), number);
            last = bytes;
        }
    }
}
