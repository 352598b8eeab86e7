//! The result of a look-up: a key, a value and a creation stamp, all inside resident pages.

use std::cmp::Ordering;
use std::fmt;

use namiki_platform::Stamp;

use crate::long_value::LongValue;

/// A row of a segment, in the memory of its page.
#[derive(Clone, Copy, Debug)]
pub struct Row<'p> {
    /// The key.
    pub key: Key<'p>,
    /// The value, or where it is.
    pub value: Value<'p>,
    /// The stamp of the transaction that wrote the row.
    pub stamp: Stamp,
}

/// The value of a row.
#[derive(Clone, Copy, Debug)]
pub enum Value<'p> {
    /// The value itself.
    Inline(&'p [u8]),
    /// A value in pages of its own: read it with a [`LongReader`](crate::LongReader).
    Long(LongValue),
}

impl<'p> Value<'p> {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Long(long) => long.len_bytes(),
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value, unless it is long.
    #[must_use]
    pub fn inline(&self) -> Option<&'p [u8]> {
        match *self {
            Self::Inline(bytes) => Some(bytes),
            Self::Long(_) => None,
        }
    }
}

/// A key as it lies in a leaf: in three parts, because the page has its common beginning once and
/// the next four bytes of every key side by side.
#[derive(Clone, Copy)]
pub struct Key<'p> {
    pub(crate) parts: [&'p [u8]; 3],
}

impl<'p> Key<'p> {
    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether it is the empty key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parts, to be read one after the other. Some may be empty.
    #[must_use]
    pub fn parts(&self) -> [&'p [u8]; 3] {
        self.parts
    }

    /// Byte `at` of the key, if it is that long.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.parts.into_iter().flatten().nth(at).copied()
    }

    /// Adds the key at the end of `into`.
    #[inline]
    pub fn append_to(&self, into: &mut Vec<u8>) {
        for part in self.parts {
            into.extend_from_slice(part);
        }
    }

    /// The key in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts.concat()
    }

    /// Copies the key's bytes from `from` on, as many as there are and fit, and returns how many.
    #[inline]
    pub fn copy_from(&self, from: usize, into: &mut [u8]) -> usize {
        let (mut skip, mut done) = (from, 0);
        for part in self.parts {
            let rest = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            let now = rest.len().min(into.len() - done);
            into[done..done + now].copy_from_slice(&rest[..now]);
            done += now;
        }
        done
    }

    /// Compares as bytes.
    #[must_use]
    #[inline]
    pub fn cmp_bytes(&self, other: &[u8]) -> Ordering {
        let mut rest = other;
        for part in self.parts {
            let common = part.len().min(rest.len());
            match part[..common].cmp(&rest[..common]) {
                Ordering::Equal if part.len() > common => return Ordering::Greater,
                Ordering::Equal => rest = &rest[common..],
                decided => return decided,
            }
        }
        if rest.is_empty() {
            Ordering::Equal
        } else {
            Ordering::Less
        }
    }
}

impl PartialEq<[u8]> for Key<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.cmp_bytes(other).is_eq()
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |key: &Self| key.parts.into_iter().flatten().copied();
        self.len() == other.len() && bytes(self).eq(bytes(other))
    }
}

impl Eq for Key<'_> {}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::KeyBytes(self.to_vec()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_parts_compares_like_its_bytes() {
        let keys: [&[u8]; 8] = [b"", b"a", b"a\0", b"ab", b"abc", b"abcd", b"abd", b"b"];
        for whole in keys {
            for first in 0..=whole.len() {
                for second in first..=whole.len() {
                    let (a, rest) = whole.split_at(first);
                    let (b, c) = rest.split_at(second - first);
                    let key = Key { parts: [a, b, c] };
                    assert_eq!(key.to_vec(), whole);
                    assert_eq!(key.len(), whole.len());
                    for other in keys {
                        assert_eq!(
                            key.cmp_bytes(other),
                            whole.cmp(other),
                            "{whole:?} {other:?}"
                        );
                    }
                    for from in 0..=whole.len() {
                        let mut copied = [0; 3];
                        let len = key.copy_from(from, &mut copied);
                        let expected = &whole[from..];
                        let fits = expected.len().min(3);
                        assert_eq!(&copied[..len], &expected[..fits]);
                    }
                }
            }
        }
    }
}
