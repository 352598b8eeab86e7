//! Tuples: their components, one after the other.

use std::borrow::Cow;

use super::{AsKey, Key, KeyBytes};

macro_rules! tuple_key {
    ($name:literal, $($part:ident $given:ident $index:tt),*) => {
        impl<$($part, $given: AsKey<$part>),*> AsKey<($($part,)*)> for ($($given,)*) {
            fn encode(&self, into: &mut KeyBytes) {
                $(self.$index.encode_component(into);)*
            }
        }

        impl<$($part: Key<Owned = $part>),*> Key for ($($part,)*) {
            type Owned = Self;
            const NAME: &'static str = $name;

            fn type_name() -> Cow<'static, str> {
                Cow::Owned(format!("({})", [$($part::type_name()),*].join(", ")))
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
tuple_key!("tuple of 2", A P 0, B Q 1);
tuple_key!("tuple of 3", A P 0, B Q 1, C R 2);
tuple_key!("tuple of 4", A P 0, B Q 1, C R 2, D S 3);
tuple_key!("tuple of 5", A P 0, B Q 1, C R 2, D S 3, E T 4);
tuple_key!("tuple of 6", A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5);
