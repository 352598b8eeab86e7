//! Text and bytes: alone the bytes themselves, as a component with a mark of the end.

use super::encoding::{put_escaped, take_escaped};
use super::{AsKey, Key, KeyBytes, KeyPrefix};

macro_rules! stands_for {
    ($([$($generics:tt)*] $type:ty => $key:ty;)*) => {$(
        impl $($generics)* AsKey<$key> for $type {
            #[inline]
            fn encode(&self, into: &mut KeyBytes) {
                let bytes: &[u8] = self.as_ref();
                into.extend_from_slice(bytes);
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(self.as_ref())
            }
            fn encode_component(&self, into: &mut KeyBytes) {
                put_escaped(self.as_ref(), into);
            }
        }

        impl $($generics)* KeyPrefix<$key> for $type {
            fn encode_prefix(&self, into: &mut KeyBytes) {
                AsKey::<$key>::encode(self, into);
            }
        }
    )*};
}
stands_for! {
    [] str => str;
    [] str => String;
    [] String => str;
    [] String => String;
    [] [u8] => [u8];
    [] [u8] => Vec<u8>;
    [] Vec<u8> => [u8];
    [] Vec<u8> => Vec<u8>;
    [<const N: usize>] [u8; N] => [u8];
    [<const N: usize>] [u8; N] => Vec<u8>;
}

macro_rules! bytes_key {
    ($($type:ty, $owned:ty, $name:literal, $from_bytes:expr;)*) => {$(
        impl Key for $type {
            type Owned = $owned;
            const NAME: &'static str = $name;

            fn decode(bytes: &[u8]) -> Option<$owned> {
                $from_bytes(bytes.to_vec())
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<$owned> {
                $from_bytes(take_escaped(bytes)?.to_text())
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
