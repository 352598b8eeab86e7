//! What `#[derive(Key)]` and `#[derive(Value)]` write their code with. Not for use by hand: it may change at any time.
//!
//! All that is done with a field is had from one function, which is bound by `Key` or `Value`. So a field that is neither gives
//! one error, which says so: the compiler tells the same error of the same place once.

use std::borrow::Cow;

use super::key::{AsKey, Key, KeyBytes};
pub use super::shape::{Field, Shape, Variant};
use super::value::{Value, ValueBytes};
pub use super::value::{
    decode_earlier, decode_versioned, encode_versioned, names_with_earlier, put_length, take_length,
};

/// What is done with a field of a key. Without bounds, so that the type of the field is asked for its trait in one place.
#[derive(Clone, Copy)]
pub struct KeyField<K> {
    /// [`Key::type_name`].
    pub name: fn() -> Cow<'static, str>,
    /// [`Key::EIGHT_BYTES`].
    pub eight_bytes: bool,
    /// [`AsKey::encode`].
    pub encode: fn(&K, &mut KeyBytes),
    /// [`AsKey::encode_component`].
    pub encode_component: fn(&K, &mut KeyBytes),
    /// [`Key::decode`].
    pub decode: fn(&[u8]) -> Option<K>,
    /// [`Key::decode_component`].
    pub decode_component: fn(&mut &[u8]) -> Option<K>,
}

/// What is done with a field of this type.
#[must_use]
pub const fn key_field<K: Key<Owned = K>>() -> KeyField<K> {
    KeyField {
        name: K::type_name,
        eight_bytes: K::EIGHT_BYTES,
        encode: <K as AsKey<K>>::encode,
        encode_component: <K as AsKey<K>>::encode_component,
        decode: K::decode,
        decode_component: K::decode_component,
    }
}

/// What is done with a field of a value, likewise.
#[derive(Clone, Copy)]
pub struct ValueField<V> {
    /// [`Value::type_name`].
    pub name: fn() -> Cow<'static, str>,
    /// [`Value::ROOM_BYTES`].
    pub room_bytes: usize,
    /// [`Value::encoded_bytes_min`].
    pub bytes_min: fn(&V) -> usize,
    /// [`Value::encode_component`].
    pub encode_component: fn(&V, &mut ValueBytes),
    /// [`Value::decode_component`].
    pub decode_component: fn(&mut &[u8]) -> Option<V>,
}

/// What is done with a field of this type.
#[must_use]
pub const fn value_field<V: Value<Owned = V>>() -> ValueField<V> {
    ValueField {
        name: V::type_name,
        room_bytes: V::ROOM_BYTES,
        bytes_min: V::encoded_bytes_min,
        encode_component: V::encode_component,
        decode_component: V::decode_component,
    }
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
