//! Keys that all have the same number of bytes, so that they need no mark of their end; and [`Option`], with one byte
//! before them.

use std::borrow::Cow;

use super::{AsKey, Key, KeyBytes};

macro_rules! integer_key {
    ($($type:ty => $flip:expr),*) => {$(
        impl AsKey<$type> for $type {
            #[inline]
            fn encode(&self, into: &mut KeyBytes) {
                into.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(&(*self ^ $flip).to_be_bytes())
            }
        }

        impl Key for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);
            const EIGHT_BYTES: bool = size_of::<$type>() == 8;

            fn decode(bytes: &[u8]) -> Option<$type> {
                Some(<$type>::from_be_bytes(bytes.try_into().ok()?) ^ $flip)
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<$type> {
                Self::decode(bytes.split_off(..size_of::<$type>())?)
            }
        }
    )*};
}
integer_key!(u8 => 0, u16 => 0, u32 => 0, u64 => 0, u128 => 0);
integer_key!(i8 => i8::MIN, i16 => i16::MIN, i32 => i32::MIN, i64 => i64::MIN, i128 => i128::MIN);

/// Types that are written as an integer, not all of which stand for one.
macro_rules! by_integer_key {
    ($($type:ty, $integer:ty, $from_integer:expr;)*) => {$(
        impl AsKey<$type> for $type {
            fn encode(&self, into: &mut KeyBytes) {
                <$integer as AsKey<$integer>>::encode(&<$integer>::from(*self), into);
            }
        }

        impl Key for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);

            fn decode(bytes: &[u8]) -> Option<$type> {
                $from_integer(<$integer as Key>::decode(bytes)?)
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<$type> {
                $from_integer(<$integer as Key>::decode_component(bytes)?)
            }
        }
    )*};
}
by_integer_key! {
    bool, u8, |byte| match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    char, u32, char::from_u32;
}

impl AsKey<()> for () {
    fn encode(&self, _: &mut KeyBytes) {}
}

impl Key for () {
    type Owned = ();
    const NAME: &'static str = "nothing";

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
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

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_slice(bytes).ok()
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Self::decode(bytes.split_off(..16)?)
    }
}

impl<K, Q: AsKey<K>> AsKey<Option<K>> for Option<Q> {
    fn encode(&self, into: &mut KeyBytes) {
        into.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(into);
        }
    }
    fn encode_component(&self, into: &mut KeyBytes) {
        into.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_component(into);
        }
    }
}

/// Nothing comes before every value.
impl<K: Key<Owned = K>> Key for Option<K> {
    type Owned = Self;
    const NAME: &'static str = "option";

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("option<{}>", K::type_name()))
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(None),
            [1, key @ ..] => K::decode(key).map(Some),
            _ => None,
        }
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        match bytes.split_off_first()? {
            0 => Some(None),
            1 => K::decode_component(bytes).map(Some),
            _ => None,
        }
    }
}
