//! Text and bytes: alone as they are, as a component with a mark of their end.

use super::{AsKey, Key, KeyBytes};

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
        match *bytes.split_off_first()? {
            0 => match bytes.split_off_first()? {
                255 => out.push(0),
                1 => return Some(out),
                _ => return None,
            },
            byte => out.push(byte),
        }
    }
}

macro_rules! stands_for {
    ($([$($generics:tt)*] $type:ty => $key:ty;)*) => {$(
        impl $($generics)* AsKey<$key> for $type {
            fn encode(&self, into: &mut KeyBytes) {
                let bytes: &[u8] = self.as_ref();
                into.extend_from_slice(bytes);
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                read(self.as_ref())
            }
            fn encode_component(&self, into: &mut KeyBytes) {
                escape(self.as_ref(), into);
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
