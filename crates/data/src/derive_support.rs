//! Support for the code of `#[derive(Key)]` and `#[derive(Value)]`. Not for use by hand: it may
//! change at any time.
//!
//! Derived code gets everything that it needs of a field from one function, bound by `Key` or
//! `Value`. So a field that is neither gives one error: the compiler reports the same error at the
//! same place once.

use std::borrow::Cow;

use crate::key::{AsKey, Key, KeyBytes};
pub use crate::shape::{Field, Shape, Variant};
use crate::value::{Value, ValueBytes};
pub use crate::value::{
    decode_earlier, decode_versioned, encode_versioned, names_with_earlier, put_length, take_length,
};

/// The functions of a key's field. Without bounds, so that derived code requires the trait in one
/// place.
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

/// The functions of a key's field of this type.
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

/// The functions of a value's field, likewise.
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

/// The functions of a value's field of this type.
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

/// The largest of these numbers, or 0.
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
