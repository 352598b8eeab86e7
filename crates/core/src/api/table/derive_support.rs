//! What `#[derive(Key)]` and `#[derive(Value)]` write their code with. Not for use by hand: it may change at any time.
//!
//! The functions do what the traits' methods do. Each is bound by `Key` or `Value` alone, so that a field which is
//! neither gives one error, which says so.

use std::borrow::Cow;

use super::key::{AsKey, Key, KeyBytes};
pub use super::shape::{Field, Shape, Variant};
use super::value::{Value, ValueBytes};
pub use super::value::{
    decode_earlier, decode_versioned, encode_versioned, names_with_earlier, put_length, take_length,
};

/// See [`Key::type_name`].
#[must_use]
pub fn key_name<K: Key>() -> Cow<'static, str> {
    K::type_name()
}

/// See [`AsKey::encode`].
pub fn encode_key<K: Key>(key: &K, into: &mut KeyBytes) {
    <K as AsKey<K>>::encode(key, into);
}

/// See [`AsKey::encode_component`].
pub fn encode_key_component<K: Key>(key: &K, into: &mut KeyBytes) {
    <K as AsKey<K>>::encode_component(key, into);
}

/// See [`Key::decode`].
#[must_use]
pub fn decode_key<K: Key>(bytes: &[u8]) -> Option<K::Owned> {
    K::decode(bytes)
}

/// See [`Key::decode_component`].
#[must_use]
pub fn decode_key_component<K: Key>(bytes: &mut &[u8]) -> Option<K::Owned> {
    K::decode_component(bytes)
}

/// See [`Value::type_name`].
#[must_use]
pub fn value_name<V: Value>() -> Cow<'static, str> {
    V::type_name()
}

/// See [`Value::encoded_bytes_min`].
#[must_use]
pub fn value_bytes_min<V: Value>(value: &V) -> usize {
    value.encoded_bytes_min()
}

/// See [`Value::encode_component`].
pub fn encode_value_component<V: Value>(value: &V, into: &mut ValueBytes) {
    value.encode_component(into);
}

/// See [`Value::decode_component`].
#[must_use]
pub fn decode_value_component<V: Value>(bytes: &mut &[u8]) -> Option<V::Owned> {
    V::decode_component(bytes)
}

/// The largest of some numbers.
#[must_use]
pub const fn max(numbers: &[usize]) -> usize {
    let (mut largest, mut at) = (0, 0);
    while at < numbers.len() {
        if numbers[at] > largest {
            largest = numbers[at];
        }
        at += 1;
    }
    largest
}
