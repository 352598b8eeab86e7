//! Values that contain others: `Option`, `Box` and tuples.

use std::borrow::Cow;

use super::lists::refuse_nesting;
use super::nesting::nested;
use super::{Value, ValueBytes};

/// 0 for no value; 1, and the value.
impl<T: Value<Owned = T>> Value for Option<T> {
    type Owned = Self;
    const NAME: &'static str = "option";
    const ROOM_BYTES: usize = 1 + T::ROOM_BYTES;

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("option<{}>", T::type_name()))
    }
    fn encoded_bytes_min(&self) -> usize {
        self.as_ref().map_or(0, T::encoded_bytes_min)
    }
    fn encode(&self, into: &mut ValueBytes) {
        self.encode_component(into);
    }
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        Self::decode_component(&mut bytes).filter(|_| bytes.is_empty())
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        into.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_component(into);
        }
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        match bytes.split_off_first()? {
            0 => Some(None),
            1 => T::decode_component(bytes).map(Some),
            _ => None,
        }
    }
}

/// The value in the box.
impl<T: Value<Owned = T>> Value for Box<T> {
    type Owned = Self;
    const NAME: &'static str = T::NAME;
    const ROOM_BYTES: usize = 8;

    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }
    fn earlier_type_names() -> Vec<Cow<'static, str>> {
        T::earlier_type_names()
    }
    fn encoded_bytes_min(&self) -> usize {
        T::encoded_bytes_min(self)
    }
    fn encode(&self, into: &mut ValueBytes) {
        T::encode(self, into);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        T::decode(bytes).map(Box::new)
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        if nested(|| T::encode_component(self, into)).is_none() {
            refuse_nesting(into);
        }
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        nested(|| T::decode_component(bytes).map(Box::new))?
    }
}

macro_rules! tuple_value {
    ($name:literal, $($part:ident $index:tt),*) => {
        impl<$($part: Value<Owned = $part>),*> Value for ($($part,)*) {
            type Owned = Self;
            const NAME: &'static str = $name;
            const ROOM_BYTES: usize = 0 $(+ $part::ROOM_BYTES)*;

            fn type_name() -> Cow<'static, str> {
                Cow::Owned(format!("({})", [$($part::type_name()),*].join(", ")))
            }
            fn encoded_bytes_min(&self) -> usize {
                0 $(+ self.$index.encoded_bytes_min())*
            }
            fn encode(&self, into: &mut ValueBytes) {
                self.encode_component(into);
            }
            fn decode(mut bytes: &[u8]) -> Option<Self> {
                Self::decode_component(&mut bytes).filter(|_| bytes.is_empty())
            }
            fn encode_component(&self, into: &mut ValueBytes) {
                $(self.$index.encode_component(into);)*
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode_component(bytes)?,)*))
            }
        }
    };
}
tuple_value!("tuple of 2", A 0, B 1);
tuple_value!("tuple of 3", A 0, B 1, C 2);
tuple_value!("tuple of 4", A 0, B 1, C 2, D 3);
tuple_value!("tuple of 5", A 0, B 1, C 2, D 3, E 4);
tuple_value!("tuple of 6", A 0, B 1, C 2, D 3, E 4, F 5);
