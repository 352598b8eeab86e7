//! The two kinds of keys, as the trees store and compare them.
//!
//! A tree is compiled once for each. Keys of exactly eight bytes are read as big-endian numbers, which keep
//! the order of the bytes, and compared in one instruction. Others are byte strings. A node stores
//! their *heads* apart: the eight bytes of a key after the prefix that the whole node shares. So
//! most comparisons are between numbers, too.
//!
//! # Invariants
//! - K1. `head` is monotonic: if two keys share their first `skip` bytes, `a <= b` implies `head(a, skip)
//!   <= head(b, skip)`.
//! - K2. A `Raw` key borrows bytes without a lifetime. The place that stores one names the owner of the
//!   bytes (for nodes: invariant N3 in `bwtree/node.rs`).
#![expect(
    unsafe_code,
    reason = "a key stored in a node borrows from the node's delta chain"
)]

use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::slice;

use crate::IndexError;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fixed8 {}
    impl Sealed for super::Variable {}
}

/// How a tree stores and compares its keys. Implemented by [`Fixed8`] and [`Variable`] only.
pub trait Key: sealed::Sealed + Copy + Eq + Send + Sync + 'static {
    /// A key as it is compared.
    type Ref<'a>: Copy + Debug;
    /// A key as a node header holds it.
    type Raw: Copy + Debug;
    /// Whether the head is the whole key, so that no further bytes are stored.
    const INLINE: bool;

    /// The smallest key.
    fn min<'a>() -> Self::Ref<'a>;

    /// Reads a key from its bytes.
    ///
    /// # Errors
    /// If the length is not one this kind allows.
    fn parse(bytes: &[u8]) -> Result<Self::Ref<'_>, IndexError>;

    /// The bytes of a key; `buffer` is used if they are not in memory.
    fn encode<'a>(key: Self::Ref<'a>, buffer: &'a mut [u8; 8]) -> &'a [u8];

    /// Byte order.
    fn cmp(a: Self::Ref<'_>, b: Self::Ref<'_>) -> Ordering;

    /// Eight bytes from position `skip`, as a big-endian number, zeros where the key has ended.
    fn head(key: Self::Ref<'_>, skip: usize) -> u64;

    /// The bytes to store in addition to the head: all of them, or none if `INLINE`.
    fn tail(key: Self::Ref<'_>) -> &[u8];

    /// The key with this head and tail.
    fn from_parts(head: u64, tail: &[u8]) -> Self::Ref<'_>;

    /// A key, as short as possible, that is greater than `below` and not greater than `at`.
    fn separator<'a>(below: Self::Ref<'_>, at: Self::Ref<'a>) -> Self::Ref<'a>;

    /// The same key for a shorter time. (The compiler cannot see that `Ref` allows it.)
    fn shorten<'long: 'short, 'short>(key: Self::Ref<'long>) -> Self::Ref<'short>;

    /// Erases the lifetime.
    fn raw(key: Self::Ref<'_>) -> Self::Raw;

    /// Restores the lifetime.
    ///
    /// # Safety
    /// The bytes `raw` was made from are alive and unchanged throughout `'a`.
    unsafe fn from_raw<'a>(raw: Self::Raw) -> Self::Ref<'a>;
}

/// A key and its bytes.
#[doc(hidden)]
#[derive(Debug)]
pub struct OwnedKey<K> {
    head: u64,
    tail: Vec<u8>,
    kind: PhantomData<K>,
}

impl<K: Key> OwnedKey<K> {
    pub fn new(key: K::Ref<'_>) -> Self {
        Self::from_parts(K::head(key, 0), K::tail(key).to_vec())
    }

    /// As [`Key::from_parts`].
    pub const fn from_parts(head: u64, tail: Vec<u8>) -> Self {
        Self {
            head,
            tail,
            kind: PhantomData,
        }
    }

    pub fn get(&self) -> K::Ref<'_> {
        K::from_parts(self.head, &self.tail)
    }
}

/// Keys of exactly eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed8;

impl Key for Fixed8 {
    type Ref<'a> = u64;
    type Raw = u64;
    const INLINE: bool = true;

    fn min<'a>() -> Self::Ref<'a> {
        0
    }

    #[inline]
    fn parse(bytes: &[u8]) -> Result<u64, IndexError> {
        match bytes.try_into() {
            Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
            Err(_) => Err(IndexError::KeyLength {
                expected: 8,
                got: bytes.len(),
            }),
        }
    }

    #[inline]
    fn encode(key: u64, buffer: &mut [u8; 8]) -> &[u8] {
        *buffer = key.to_be_bytes();
        buffer
    }

    #[inline]
    fn cmp(a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }

    #[inline]
    fn head(key: u64, _skip: usize) -> u64 {
        key
    }

    #[inline]
    fn tail(_key: Self::Ref<'_>) -> &[u8] {
        &[]
    }

    #[inline]
    fn from_parts(head: u64, _tail: &[u8]) -> u64 {
        head
    }

    fn separator<'a>(_below: Self::Ref<'_>, at: Self::Ref<'a>) -> Self::Ref<'a> {
        at
    }

    #[inline]
    fn shorten<'long: 'short, 'short>(key: Self::Ref<'long>) -> Self::Ref<'short> {
        key
    }

    #[inline]
    fn raw(key: u64) -> u64 {
        key
    }

    #[inline]
    unsafe fn from_raw<'a>(raw: u64) -> Self::Ref<'a> {
        raw
    }
}

/// Keys of zero to [`Variable::LEN_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable;

impl Variable {
    /// Longest key, in bytes: 64 KiB.
    pub const LEN_MAX: usize = 1 << 16;
}

/// Where the bytes of a [`Variable`] key are.
#[derive(Clone, Copy, Debug)]
pub struct RawBytes {
    start: *const u8,
    len: usize,
}

impl Key for Variable {
    type Ref<'a> = &'a [u8];
    type Raw = RawBytes;
    const INLINE: bool = false;

    fn min<'a>() -> Self::Ref<'a> {
        &[]
    }

    #[inline]
    fn parse(bytes: &[u8]) -> Result<&[u8], IndexError> {
        if bytes.len() > Self::LEN_MAX {
            return Err(IndexError::KeyTooLong {
                len: bytes.len(),
                max: Self::LEN_MAX,
            });
        }
        Ok(bytes)
    }

    #[inline]
    fn encode<'a>(key: &'a [u8], _buffer: &'a mut [u8; 8]) -> &'a [u8] {
        key
    }

    #[inline]
    fn cmp(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn head(key: &[u8], skip: usize) -> u64 {
        let rest = key.get(skip..).unwrap_or(&[]);
        match rest.first_chunk::<8>() {
            Some(eight) => u64::from_be_bytes(*eight),
            None => {
                let mut eight = [0; 8];
                eight[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(eight)
            }
        }
    }

    #[inline]
    fn tail(key: Self::Ref<'_>) -> &[u8] {
        key
    }

    #[inline]
    fn from_parts(_head: u64, tail: &[u8]) -> &[u8] {
        tail
    }

    fn separator<'a>(below: Self::Ref<'_>, at: Self::Ref<'a>) -> Self::Ref<'a> {
        let shared = below.iter().zip(at).take_while(|(a, b)| a == b).count();
        &at[..at.len().min(shared + 1)]
    }

    #[inline]
    fn shorten<'long: 'short, 'short>(key: Self::Ref<'long>) -> Self::Ref<'short> {
        key
    }

    #[inline]
    fn raw(key: &[u8]) -> RawBytes {
        RawBytes {
            start: key.as_ptr(),
            len: key.len(),
        }
    }

    #[inline]
    unsafe fn from_raw<'a>(raw: RawBytes) -> &'a [u8] {
        // SAFETY: `raw` was made from a slice by `raw`, so `start` is non-null, aligned and good for
        // `len` bytes; the caller promises that they live and do not change during `'a`.
        unsafe { slice::from_raw_parts(raw.start, raw.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_parts_its_neighbours_and_is_short() {
        for (below, at, expected) in [
            (&b"abc"[..], &b"abd"[..], &b"abd"[..]),
            (b"abc", b"b", b"b"),
            (b"ab", b"abcdef", b"abc"),
            (b"", b"zzz", b"z"),
            (b"apple", b"banana", b"b"),
        ] {
            let separator = Variable::separator(below, at);
            assert_eq!(separator, expected);
            assert!(below < separator && separator <= at);
        }
    }

    #[test]
    fn heads_follow_key_order() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefghi"];
        for pair in keys.windows(2) {
            assert!(Variable::head(pair[0], 0) <= Variable::head(pair[1], 0));
        }
        assert_eq!(
            Variable::head(b"xxab", 2),
            u64::from_be_bytes(*b"ab\0\0\0\0\0\0")
        );
        assert_eq!(Variable::head(b"x", 2), 0);
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(
            Fixed8::parse(b"1234567"),
            Err(IndexError::KeyLength {
                expected: 8,
                got: 7
            })
        );
        assert!(Variable::parse(&vec![0; Variable::LEN_MAX]).is_ok());
        let long = vec![0; Variable::LEN_MAX + 1];
        assert_eq!(
            Variable::parse(&long),
            Err(IndexError::KeyTooLong {
                len: 65_537,
                max: 65_536
            })
        );
    }
}
