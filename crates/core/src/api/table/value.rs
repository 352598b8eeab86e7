//! Values as bytes: integers and floats little-endian, byte strings as they are.

use std::borrow::{Borrow, Cow};

use crate::commit::access_set::AddError;

/// Where values are encoded.
pub type ValueBytes = Vec<u8>;

/// A type that can be a table's value. Implement it for types of your own with whatever encoding
/// you like.
pub trait Value {
    /// What reading a value gives.
    type Owned: Borrow<Self>;
    /// The type's name.
    const NAME: &'static str;

    /// The type's name in the manifest, with what else tells it apart.
    fn type_name() -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// A length in bytes that the encoding has at least. Worth implementing for values that may be very long: one that is
    /// longer than a table or the log can hold is then refused before it is encoded.
    fn encoded_bytes_min(&self) -> usize {
        0
    }

    /// Adds the value's bytes.
    fn encode(&self, into: &mut ValueBytes);

    /// The value that has these bytes.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;
}

macro_rules! number_value {
    ($($type:ty),*) => {$(
        impl Value for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);

            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(bytes: &[u8]) -> Option<$type> {
                Some(<$type>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
number_value!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// An integer that amounts can be added to, see [`Transaction::add`](crate::Transaction::add).
pub trait Number: Value<Owned = Self> + Copy + sealed::Sealed {
    /// Nothing.
    const ZERO: Self;

    /// The sum, if the type can say it.
    fn plus(self, amount: Self) -> Option<Self>;
}

/// Sums are made while records are locked, so no other code than this may run then.
mod sealed {
    pub trait Sealed {}
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}

        impl Number for $type {
            const ZERO: Self = 0;

            fn plus(self, amount: Self) -> Option<Self> {
                self.checked_add(amount)
            }
        }
    )*};
}
integer!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

/// Adds two values as bytes.
pub(crate) fn add<V: Number>(
    present: Option<&[u8]>,
    amount: &[u8],
    sum: &mut ValueBytes,
) -> Result<(), AddError> {
    // A value has at most 2³⁰ bytes.
    let decode = |bytes: &[u8]| V::decode(bytes).ok_or(AddError::Undecodable(bytes.len() as u32));
    let present = present.map_or(Ok(V::ZERO), decode)?;
    let both = present.plus(decode(amount)?).ok_or(AddError::Overflow)?;
    both.encode(sum);
    Ok(())
}

impl Value for bool {
    type Owned = bool;
    const NAME: &'static str = "bool";

    fn encode(&self, into: &mut ValueBytes) {
        into.push(u8::from(*self));
    }
    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Value for () {
    type Owned = ();
    const NAME: &'static str = "nothing";

    fn encode(&self, _: &mut ValueBytes) {}
    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl<const N: usize> Value for [u8; N] {
    type Owned = Self;
    const NAME: &'static str = "byte array";

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("[u8; {N}]"))
    }
    fn encoded_bytes_min(&self) -> usize {
        N
    }
    fn encode(&self, into: &mut ValueBytes) {
        into.extend_from_slice(self);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

macro_rules! bytes_value {
    ($($type:ty, $owned:ty, $name:literal, $from_bytes:expr;)*) => {$(
        impl Value for $type {
            type Owned = $owned;
            const NAME: &'static str = $name;

            fn encoded_bytes_min(&self) -> usize {
                self.len()
            }
            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(self.as_ref());
            }
            fn decode(bytes: &[u8]) -> Option<$owned> {
                $from_bytes(bytes.to_vec())
            }
        }
    )*};
}
bytes_value! {
    [u8], Vec<u8>, "bytes", Some;
    Vec<u8>, Vec<u8>, "bytes", Some;
    str, String, "string", |bytes| String::from_utf8(bytes).ok();
    String, String, "string", |bytes| String::from_utf8(bytes).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<V: Value + ?Sized>(value: &V) -> Option<V::Owned> {
        let mut bytes = ValueBytes::new();
        value.encode(&mut bytes);
        V::decode(&bytes)
    }

    #[test]
    fn values_come_back_and_wrong_bytes_are_none() {
        assert_eq!(there_and_back(&-7_i64), Some(-7));
        assert_eq!(there_and_back(&1.5_f64), Some(1.5));
        assert_eq!(there_and_back(&true), Some(true));
        assert_eq!(there_and_back("並木").as_deref(), Some("並木"));
        assert_eq!(there_and_back(&[1_u8, 2, 3]), Some([1, 2, 3]));
        assert_eq!(u64::decode(&[1]), None);
        assert_eq!(bool::decode(&[2]), None);
        assert_eq!(<str as Value>::decode(&[0xff]), None);
    }
}
