//! Keys as bytes that compare as the keys do.
//!
//! Integers are big-endian, with the sign bit flipped for signed ones. Byte strings stand as they
//! are; inside a tuple, they are escaped (0 becomes 0 255) and end with 0 1, so that a shorter first
//! component comes before a longer one whatever follows.

use std::borrow::{Borrow, Cow};

/// A key's bytes; up to 32 take no allocation.
pub type KeyBytes = smallvec::SmallVec<[u8; 32]>;

/// A type that can be a table's key.
///
/// For all keys, `a < b` if and only if the bytes of `a` are less than those of `b`.
pub trait Key {
    /// What reading a key gives.
    type Owned: Borrow<Self>;
    /// The type's name.
    const NAME: &'static str;
    /// Whether every key has exactly eight bytes.
    const EIGHT_BYTES: bool = false;

    /// The type's name in the manifest, with the types it is made of.
    fn type_name() -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// Adds the key's bytes.
    fn encode(&self, into: &mut KeyBytes);

    /// Hands the key's bytes to `read`. Worth implementing where they need no buffer.
    #[inline]
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = KeyBytes::new();
        self.encode(&mut bytes);
        read(&bytes)
    }

    /// The key that has all of these bytes.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;

    /// Adds the key's bytes in a form that says where it ends.
    fn encode_component(&self, into: &mut KeyBytes) {
        self.encode(into);
    }

    /// Takes the key off the front of `bytes`, written by [`Key::encode_component`].
    fn decode_component(bytes: &mut &[u8]) -> Option<Self::Owned>;
}

/// A key's bytes by themselves.
pub(crate) fn encoded<K: Key + ?Sized>(key: &K) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    key.encode(&mut bytes);
    bytes
}

macro_rules! integer_key {
    ($($type:ty => $flip:expr),*) => {$(
        impl Key for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);
            const EIGHT_BYTES: bool = size_of::<$type>() == 8;

            fn encode(&self, into: &mut KeyBytes) {
                into.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(&(*self ^ $flip).to_be_bytes())
            }
            fn decode(bytes: &[u8]) -> Option<$type> {
                Some(<$type>::from_be_bytes(bytes.try_into().ok()?) ^ $flip)
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<$type> {
                let (key, rest) = bytes.split_at_checked(size_of::<$type>())?;
                *bytes = rest;
                Self::decode(key)
            }
        }
    )*};
}
integer_key!(u8 => 0, u16 => 0, u32 => 0, u64 => 0, u128 => 0);
integer_key!(i8 => i8::MIN, i16 => i16::MIN, i32 => i32::MIN, i64 => i64::MIN, i128 => i128::MIN);

fn escape(bytes: &[u8], into: &mut KeyBytes) {
    for &byte in bytes {
        into.push(byte);
        if byte == 0 {
            into.push(255);
        }
    }
    into.extend_from_slice(&[0, 1]);
}

fn unescape(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if byte != 0 {
            out.push(byte);
            continue;
        }
        let (&mark, rest) = bytes.split_first()?;
        *bytes = rest;
        match mark {
            255 => out.push(0),
            1 => return Some(out),
            _ => return None,
        }
    }
}

macro_rules! bytes_key {
    ($($type:ty, $owned:ty, $name:literal, $from_bytes:expr;)*) => {$(
        impl Key for $type {
            type Owned = $owned;
            const NAME: &'static str = $name;

            fn encode(&self, into: &mut KeyBytes) {
                let bytes: &[u8] = self.as_ref();
                into.extend_from_slice(bytes);
            }
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(self.as_ref())
            }
            fn decode(bytes: &[u8]) -> Option<$owned> {
                $from_bytes(bytes.to_vec())
            }
            fn encode_component(&self, into: &mut KeyBytes) {
                escape(self.as_ref(), into);
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<$owned> {
                unescape(bytes).and_then($from_bytes)
            }
        }
    )*};
}
bytes_key! {
    [u8], Vec<u8>, "bytes", Some;
    Vec<u8>, Vec<u8>, "bytes", Some;
    str, String, "string", |bytes| String::from_utf8(bytes).ok();
    String, String, "string", |bytes| String::from_utf8(bytes).ok();
}

macro_rules! tuple_key {
    ($name:literal, $($part:ident $index:tt),*) => {
        impl<$($part: Key<Owned = $part>),*> Key for ($($part,)*) {
            type Owned = Self;
            const NAME: &'static str = $name;

            fn type_name() -> Cow<'static, str> {
                Cow::Owned(format!("({})", [$($part::type_name()),*].join(", ")))
            }
            fn encode(&self, into: &mut KeyBytes) {
                $(self.$index.encode_component(into);)*
            }
            fn decode(mut bytes: &[u8]) -> Option<Self> {
                let key = Self::decode_component(&mut bytes)?;
                bytes.is_empty().then_some(key)
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode_component(bytes)?,)*))
            }
        }
    };
}
tuple_key!("tuple of 2", A 0, B 1);
tuple_key!("tuple of 3", A 0, B 1, C 2);
tuple_key!("tuple of 4", A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn ordered<K: Key<Owned = K> + Ord + Debug>(mut keys: Vec<K>) {
        keys.sort();
        let encode = |key: &K| {
            let mut bytes = KeyBytes::new();
            key.encode(&mut bytes);
            assert_eq!(K::decode(&bytes).as_ref(), Some(key));
            assert_eq!(key.with_bytes(<[u8]>::to_vec), bytes.to_vec());
            bytes
        };
        for pair in keys.windows(2) {
            assert_eq!(
                encode(&pair[0]).cmp(&encode(&pair[1])),
                pair[0].cmp(&pair[1]),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn bytes_compare_as_keys_do_and_come_back() {
        ordered(vec![0_u64, 1, 255, 256, u64::MAX]);
        ordered(vec![i64::MIN, -256, -1, 0, 1, i64::MAX]);
        ordered(vec![i8::MIN, -1, 0, i8::MAX]);
        let strings = [
            "", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "b", "\u{ff}",
        ];
        ordered(strings.map(str::to_owned).to_vec());
        let pairs = strings
            .iter()
            .flat_map(|a| strings.iter().map(|b| ((*a).to_owned(), (*b).to_owned())));
        ordered(pairs.collect());
        ordered(vec![
            (-1_i32, 7_u8, vec![0_u8]),
            (-1, 7, vec![0, 0]),
            (0, 0, vec![]),
        ]);
    }

    #[test]
    fn tuples_are_told_apart_by_their_parts() {
        assert_eq!(<(u64, String)>::type_name(), "(u64, string)");
        assert_ne!(<(u64, u64)>::type_name(), <(String, u8)>::type_name());
    }

    #[test]
    fn wrong_bytes_are_not_a_key() {
        assert_eq!(u64::decode(&[1, 2]), None);
        assert_eq!(String::decode(&[0xff]), None);
        assert_eq!(<(u8, u8)>::decode(&[1, 2, 3]), None);
        assert_eq!(<(String, u8)>::decode(&[0, 7]), None);
    }
}
