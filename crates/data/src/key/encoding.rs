//! The encoding of keys: bytes that compare as the keys do.
//!
//! Typed keys ([`Key`](super::Key)) and the key columns of a schema
//! ([`key_codec`](crate::columns::key_codec)) are written by the functions of this module alone, so
//! a tuple and the same row under a schema have the same bytes.
//!
//! A key has two forms. Alone, it need not say where it ends. As a **component**, of a tuple, a
//! derived type or a key of several columns, it must:
//!
//! | type | column | alone | component |
//! |---|---|---|---|
//! | unsigned integers | u64 | big-endian | the same |
//! | signed integers | i64 | big-endian, the sign bit flipped | the same |
//! | as `i64`: the digits | decimal | | |
//! | as `i32`: the days | date | | |
//! | `bool` | bool | 0 or 1 | the same |
//! | `char` | | as `u32` | the same |
//! | `[u8; N]`, UUIDs | | the bytes | the same |
//! | text, bytes | text, bytes | the bytes | the bytes with 0 as 0 255, then 0 1 |
//! | `Option` | nullable | 0 for no value; 1, then the value | 0; 1, then the component |
//! | | nullable, [nulls last](crate::columns::NullOrder) | 2 for no value; 1, then the value | 2; 1, then the component |
//! | | f64 | its [ordered bits](crate::columns::Float::to_ordered_bits), big-endian | the same |
//! | as `i128`: the digits | long decimal | | |
//! | tuples | several columns | the components | the same |
//! | derived structs of one field | | the field | the field's component |
//! | other derived structs | several columns | the components | the same |
//! | derived enums | | the variant's number, then the components | the same |
//!
//! The number of a variant has one byte, or two (big-endian) if the enum has more than 256.
//! The end of a text as a component is less than any byte of a longer one, whatever follows in
//! either key.

use super::KeyBytes;

/// A buffer that keys are written to.
pub(crate) trait KeyBuffer {
    fn put(&mut self, bytes: &[u8]);
}

impl KeyBuffer for KeyBytes {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl KeyBuffer for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A key of `N` bytes, which is the same alone and as a component.
pub(crate) trait FixedKey<const N: usize>: Sized {
    fn to_key(self) -> [u8; N];
    /// `None` if no key has these bytes.
    fn from_key(bytes: [u8; N]) -> Option<Self>;
}

macro_rules! integers {
    ($($bytes:literal: $unsigned:ty, $signed:ty;)*) => {$(
        integers!($unsigned, $bytes, 0);
        integers!($signed, $bytes, <$signed>::MIN);
    )*};
    ($type:ty, $bytes:literal, $flip:expr) => {
        impl FixedKey<$bytes> for $type {
            #[inline]
            fn to_key(self) -> [u8; $bytes] {
                (self ^ $flip).to_be_bytes()
            }
            #[inline]
            fn from_key(bytes: [u8; $bytes]) -> Option<$type> {
                Some(<$type>::from_be_bytes(bytes) ^ $flip)
            }
        }
    };
}
integers! {
    1: u8, i8;
    2: u16, i16;
    4: u32, i32;
    8: u64, i64;
    16: u128, i128;
}

impl FixedKey<1> for bool {
    #[inline]
    fn to_key(self) -> [u8; 1] {
        [u8::from(self)]
    }
    #[inline]
    fn from_key([byte]: [u8; 1]) -> Option<bool> {
        match byte {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl FixedKey<4> for char {
    #[inline]
    fn to_key(self) -> [u8; 4] {
        u32::from(self).to_key()
    }
    #[inline]
    fn from_key(bytes: [u8; 4]) -> Option<char> {
        u32::from_key(bytes).and_then(char::from_u32)
    }
}

/// Takes a key of `N` bytes off the front.
#[inline]
pub(crate) fn take_fixed<K: FixedKey<N>, const N: usize>(bytes: &mut &[u8]) -> Option<K> {
    let (key, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    K::from_key(*key)
}

/// The byte before a value that may be missing, where there is one: all values come after it, and
/// nothing else.
pub const VALUE_MARK: u8 = 1;

/// The byte in place of a missing value that comes after all values: only in keys of columns
/// ([`NullOrder::Last`](crate::columns::NullOrder::Last)).
pub const LAST_NULL_MARK: u8 = 2;

/// Adds the byte before a value that may be missing.
#[inline]
pub(crate) fn put_mark(has_value: bool, into: &mut impl KeyBuffer) {
    into.put(&has_value.to_key());
}

/// Takes the byte before a value that may be missing off the front: whether there is a value.
#[inline]
pub(crate) fn take_mark(bytes: &mut &[u8]) -> Option<bool> {
    take_fixed(bytes)
}

/// Adds text or bytes as a component.
#[inline]
pub(crate) fn put_escaped(text: &[u8], into: &mut impl KeyBuffer) {
    let mut rest = text;
    while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
        let (part, after) = rest.split_at(zero + 1);
        into.put(part);
        into.put(&[255]);
        rest = after;
    }
    into.put(rest);
    into.put(&[0, 1]);
}

/// Text or bytes as a component, without the mark of their end.
#[derive(Clone, Copy)]
pub(crate) struct Escaped<'a> {
    bytes: &'a [u8],
    has_zeros: bool,
}

/// Takes text or bytes off the front, written by [`put_escaped`].
#[inline]
pub(crate) fn take_escaped<'a>(bytes: &mut &'a [u8]) -> Option<Escaped<'a>> {
    let all = *bytes;
    let (mut end, mut has_zeros) = (0, false);
    loop {
        end += all[end..].iter().position(|byte| *byte == 0)?;
        match *all.get(end + 1)? {
            1 => break,
            255 => (end, has_zeros) = (end + 2, true),
            _ => return None,
        }
    }
    *bytes = &all[end + 2..];
    let bytes = &all[..end];
    Some(Escaped { bytes, has_zeros })
}

impl<'a> Escaped<'a> {
    /// The text itself, in `scratch` if it contains zeros.
    #[inline]
    pub(crate) fn text_in(self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if !self.has_zeros {
            return self.bytes;
        }
        scratch.clear();
        self.unescape(scratch);
        scratch
    }

    /// The text itself.
    pub(crate) fn to_text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.bytes.len());
        self.unescape(&mut text);
        text
    }

    fn unescape(self, into: &mut Vec<u8>) {
        // The 255 after each zero is left out.
        let mut rest = self.bytes;
        while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
            into.extend_from_slice(&rest[..=zero]);
            rest = &rest[zero + 2..];
        }
        into.extend_from_slice(rest);
    }
}
