//! The kinds of keys that an index is compiled for.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use namiki_index::IndexError;
use namiki_index::key::{Fixed8, Key, Variable};

use super::unavailable_index_error::UnknownKind;

/// The kind of an index's keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyKind {
    /// Exactly eight bytes; compared as big-endian numbers.
    Fixed8,
    /// Zero to 65 536 bytes.
    Variable,
}

impl KeyKind {
    /// Whether these bytes are such a key.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`], [`IndexError::KeyTooLong`].
    #[inline]
    pub fn check(self, key: &[u8]) -> Result<(), IndexError> {
        match self {
            Self::Fixed8 => Fixed8::parse(key).map(drop),
            Self::Variable => Variable::parse(key).map(drop),
        }
    }

    /// The lower bound, made of such a key, of the same keys: `bound` may be any bytes.
    pub(crate) fn lower_bound<'b>(self, bound: Bound<&'b [u8]>) -> Bound<Cow<'b, [u8]>> {
        match (self.nearest(bound), bound) {
            (Some(Nearest::Above(key)), _) => Bound::Included(Cow::Owned(key)),
            (Some(Nearest::Below(key)), _) => Bound::Excluded(Cow::Borrowed(key)),
            (None, bound) => bound.map(Cow::Borrowed),
        }
    }

    /// The upper bound, made of such a key, of the same keys: `bound` may be any bytes.
    pub(crate) fn upper_bound<'b>(self, bound: Bound<&'b [u8]>) -> Bound<Cow<'b, [u8]>> {
        match (self.nearest(bound), bound) {
            (Some(Nearest::Above(key)), _) => Bound::Excluded(Cow::Owned(key)),
            (Some(Nearest::Below(key)), _) => Bound::Included(Cow::Borrowed(key)),
            (None, bound) => bound.map(Cow::Borrowed),
        }
    }

    /// The key nearest to bytes that are not such a key; `None` if they are one.
    fn nearest<'b>(self, bound: Bound<&'b [u8]>) -> Option<Nearest<'b>> {
        let (Bound::Included(bytes) | Bound::Excluded(bytes)) = bound else {
            return None;
        };
        let len_max = match self {
            Self::Fixed8 => size_of::<u64>(),
            Self::Variable => Variable::LEN_MAX,
        };
        match (self, bytes.len().cmp(&len_max)) {
            (_, Ordering::Greater) => Some(Nearest::Below(&bytes[..len_max])),
            (Self::Fixed8, Ordering::Less) => {
                let mut key = bytes.to_vec();
                key.resize(len_max, 0);
                Some(Nearest::Above(key))
            }
            _ => None,
        }
    }
}

/// The nearest key of one kind to bytes that are not a key of that kind.
enum Nearest<'b> {
    /// The greatest key below them: they go on behind it.
    Below(&'b [u8]),
    /// The least key above them: they are a prefix of it.
    Above(Vec<u8>),
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fixed8 => "fixed8",
            Self::Variable => "variable",
        })
    }
}

impl FromStr for KeyKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        match name {
            "fixed8" => Ok(Self::Fixed8),
            "variable" => Ok(Self::Variable),
            _ => Err(UnknownKind {
                what: "kind of key",
                name: name.to_owned(),
                expected: "fixed8, variable".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;

    /// Whatever bytes bound them, the same keys lie between the bounds before and after.
    #[test]
    fn bounds_that_are_no_keys_bound_the_same_keys() {
        let long = |last: u8| [vec![7; Variable::LEN_MAX - 1], vec![last]].concat();
        let fixed: Vec<Vec<u8>> = [
            0,
            1,
            0xff,
            0x100,
            0x7fff_ffff_ffff_ffff,
            u64::MAX - 1,
            u64::MAX,
        ]
        .map(|key: u64| key.to_be_bytes().to_vec())
        .into();
        let variable = vec![
            vec![],
            vec![0],
            vec![7; 9],
            long(6),
            long(7),
            long(8),
            vec![255; 9],
        ];
        let mut bounds = [fixed.clone(), variable.clone()].concat();
        for key in bounds.clone() {
            for end in [&[0][..], &[255], &[0; 9]] {
                bounds.push([&key, end].concat());
            }
            bounds.push(key[..key.len().saturating_sub(1)].to_vec());
        }
        for (kind, keys) in [(KeyKind::Fixed8, fixed), (KeyKind::Variable, variable)] {
            for bytes in &bounds {
                for bound in [Bound::Included(&bytes[..]), Bound::Excluded(bytes)] {
                    let (lower, upper) = (kind.lower_bound(bound), kind.upper_bound(bound));
                    for own in [&lower, &upper] {
                        if let Bound::Included(key) | Bound::Excluded(key) = own {
                            assert_eq!(kind.check(key), Ok(()), "{kind} {bytes:?}");
                        }
                    }
                    let own =
                        |bound| Bound::map(Bound::as_ref(bound), |key: &Cow<'_, [u8]>| &**key);
                    for key in &keys {
                        let within = |from, to| (from, to).contains(&key[..]);
                        let above = (
                            within(own(&lower), Bound::Unbounded),
                            within(bound, Bound::Unbounded),
                        );
                        let below = (
                            within(Bound::Unbounded, own(&upper)),
                            within(Bound::Unbounded, bound),
                        );
                        assert_eq!(
                            (above.0, below.0),
                            (above.1, below.1),
                            "{kind} {bytes:?} {key:?}"
                        );
                    }
                }
            }
        }
    }
}
