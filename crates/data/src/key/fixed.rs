//! Keys of a fixed length, which need no mark of their end; and [`Option`], one byte before a key.

use std::borrow::Cow;

use super::encoding::{FixedKey, put_mark, take_fixed, take_mark};
use super::{AsKey, Key, KeyBytes};

macro_rules! fixed_key {
    ($($type:ty),*) => {$(
        impl AsKey<$type> for $type {
            #[inline]
            fn encode(&self, into: &mut KeyBytes) {
                into.extend_from_slice(&self.to_key());
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(&self.to_key())
            }
        }

        impl Key for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);
            const EIGHT_BYTES: bool = size_of::<$type>() == 8;

            #[inline]
            fn decode(bytes: &[u8]) -> Option<$type> {
                Self::from_key(bytes.try_into().ok()?)
            }
            #[inline]
            fn decode_component(bytes: &mut &[u8]) -> Option<$type> {
                take_fixed(bytes)
            }
        }
    )*};
}
fixed_key!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, bool, char);

impl AsKey<()> for () {
    #[inline]
    fn encode(&self, _: &mut KeyBytes) {}
}

impl Key for () {
    type Owned = ();
    const NAME: &'static str = "nothing";

    #[inline]
    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
    #[inline]
    fn decode_component(_: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    fn encode(&self, into: &mut KeyBytes) {
        into.extend_from_slice(self);
    }
    #[inline]
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    type Owned = Self;
    const NAME: &'static str = "byte array";
    const EIGHT_BYTES: bool = N == 8;

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("[u8; {N}]"))
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(bytes.split_off(..N)?)
    }
}

#[cfg(feature = "uuid")]
impl AsKey<uuid::Uuid> for uuid::Uuid {
    #[inline]
    fn encode(&self, into: &mut KeyBytes) {
        into.extend_from_slice(self.as_bytes());
    }
    #[inline]
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(self.as_bytes())
    }
}

#[cfg(feature = "uuid")]
impl Key for uuid::Uuid {
    type Owned = Self;
    const NAME: &'static str = "uuid";

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_slice(bytes).ok()
    }
    #[inline]
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(bytes.split_off(..16)?)
    }
}

impl<K, Q: AsKey<K>> AsKey<Option<K>> for Option<Q> {
    fn encode(&self, into: &mut KeyBytes) {
        put_mark(self.is_some(), into);
        if let Some(key) = self {
            key.encode(into);
        }
    }
    fn encode_component(&self, into: &mut KeyBytes) {
        put_mark(self.is_some(), into);
        if let Some(key) = self {
            key.encode_component(into);
        }
    }
}

/// `None` comes before every value.
impl<K: Key<Owned = K>> Key for Option<K> {
    type Owned = Self;
    const NAME: &'static str = "option";

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("option<{}>", K::type_name()))
    }
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        if take_mark(&mut bytes)? {
            K::decode(bytes).map(Some)
        } else {
            bytes.is_empty().then_some(None)
        }
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        if take_mark(bytes)? {
            K::decode_component(bytes).map(Some)
        } else {
            Some(None)
        }
    }
}
