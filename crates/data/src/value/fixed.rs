//! Values of a fixed length: numbers, `bool`, `char`, `()`, UUIDs.

use std::marker::PhantomData;

use super::{Value, ValueBytes};

/// The encoding as a component of types with a fixed length: the same as alone.
macro_rules! fixed_component {
    ($bytes:expr) => {
        #[inline]
        fn encode_component(&self, into: &mut ValueBytes) {
            self.encode(into);
        }
        #[inline]
        fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
            Self::decode(bytes.split_off(..$bytes)?)
        }
    };
}

macro_rules! number_value {
    ($($type:ty { $($items:item)* })*) => {$(
        impl Value for $type {
            type Owned = $type;
            const NAME: &'static str = stringify!($type);
            const ROOM_BYTES: usize = size_of::<$type>();

            #[inline]
            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn decode(bytes: &[u8]) -> Option<$type> {
                Some(<$type>::from_le_bytes(bytes.try_into().ok()?))
            }
            fixed_component!(size_of::<$type>());
            $($items)*
        }
    )*};
}
number_value! {
    u8 {
        const IS_BYTE: bool = true;
        fn encode_items(items: &[Self], into: &mut ValueBytes) {
            into.extend_from_slice(items);
        }
        fn decode_items(count: usize, bytes: &mut &[u8]) -> Option<Vec<u8>> {
            bytes.split_off(..count).map(<[u8]>::to_vec)
        }
        fn decode_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            bytes.split_off(..N)?.try_into().ok()
        }
    }
    u16 {} u32 {} u64 {} u128 {}
    i8 {} i16 {} i32 {} i64 {} i128 {}
    f32 {} f64 {}
}

/// An integer that amounts can be added to, by `Transaction::add`.
#[diagnostic::on_unimplemented(
    message = "amounts cannot be added to `{Self}`",
    label = "no integer",
    note = "`Transaction::add` is for tables with values of one integer, `i64` or `u128` for example; others are changed \
            by `Transaction::update`"
)]
pub trait Number: Value<Owned = Self> + Copy + sealed::Sealed {
    /// The amount that a key without a value has.
    const ZERO: Self;

    /// The sum, if it fits the type.
    fn plus(self, amount: Self) -> Option<Self>;
}

/// Sums are made while records are locked, so the trait is sealed: no foreign code runs then.
mod sealed {
    pub trait Sealed {
        fn put(self, into: &mut Vec<u8>);
    }
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {
            fn put(self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl Number for $type {
            const ZERO: Self = 0;

            fn plus(self, amount: Self) -> Option<Self> {
                self.checked_add(amount)
            }
        }
    )*};
}
integer!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

/// The reason that an amount could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The sum does not fit the type.
    Overflow,
    /// The value has this length in bytes, which is not the type's.
    Undecodable(u32),
}

/// Adds two values as bytes. No value counts as zero.
///
/// # Errors
/// [`AddError`]; `sum` is unchanged.
pub fn add<V: Number>(
    present: Option<&[u8]>,
    amount: &[u8],
    sum: &mut Vec<u8>,
) -> Result<(), AddError> {
    // A value has at most 2³⁰ bytes.
    let decode = |bytes: &[u8]| V::decode(bytes).ok_or(AddError::Undecodable(bytes.len() as u32));
    let present = present.map_or(Ok(V::ZERO), decode)?;
    let both = present.plus(decode(amount)?).ok_or(AddError::Overflow)?;
    both.put(sum);
    Ok(())
}

impl Value for bool {
    type Owned = bool;
    const NAME: &'static str = "bool";
    const ROOM_BYTES: usize = 1;

    #[inline]
    fn encode(&self, into: &mut ValueBytes) {
        into.push(u8::from(*self));
    }
    #[inline]
    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
    fixed_component!(1);
}

impl Value for char {
    type Owned = char;
    const NAME: &'static str = "char";
    const ROOM_BYTES: usize = 4;

    #[inline]
    fn encode(&self, into: &mut ValueBytes) {
        u32::from(*self).encode(into);
    }
    #[inline]
    fn decode(bytes: &[u8]) -> Option<char> {
        char::from_u32(u32::decode(bytes)?)
    }
    fixed_component!(4);
}

impl Value for () {
    type Owned = ();
    const NAME: &'static str = "nothing";
    const ROOM_BYTES: usize = 0;

    #[inline]
    fn encode(&self, _: &mut ValueBytes) {}
    #[inline]
    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
    fixed_component!(0);
}

/// No bytes, for every type.
impl<T: ?Sized> Value for PhantomData<T> {
    type Owned = Self;
    const NAME: &'static str = "nothing";
    const ROOM_BYTES: usize = 0;

    #[inline]
    fn encode(&self, _: &mut ValueBytes) {}
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(PhantomData)
    }
    fixed_component!(0);
}

#[cfg(feature = "uuid")]
impl Value for uuid::Uuid {
    type Owned = Self;
    const NAME: &'static str = "uuid";
    const ROOM_BYTES: usize = 16;

    #[inline]
    fn encode(&self, into: &mut ValueBytes) {
        into.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_slice(bytes).ok()
    }
    fixed_component!(16);
}
