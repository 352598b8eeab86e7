//! Text, bytes, and lists of other values.

use std::borrow::Cow;

use super::nesting::{NESTED_MAX, nested};
use super::{Value, ValueBytes, put_length, take_length};

macro_rules! text_value {
    ($($type:ty),*) => {$(
        impl Value for $type {
            type Owned = String;
            const NAME: &'static str = "string";

            #[inline]
            fn encoded_bytes_min(&self) -> usize {
                self.len()
            }
            #[inline]
            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(self.as_bytes());
            }
            #[inline]
            fn decode(bytes: &[u8]) -> Option<String> {
                String::from_utf8(bytes.to_vec()).ok()
            }
        }
    )*};
}
text_value!(str, String);

/// More items than the bytes of the longest value.
const ITEMS_MAX: usize = 1 << 30;

/// The most items of a list that take no bytes: a few damaged bytes could claim billions of them.
pub(super) const WITHOUT_BYTES_MAX: usize = 1 << 16;

fn encode_counted<T: Value>(items: &[T], into: &mut ValueBytes) {
    put_length(items.len(), into);
    if nested(|| T::encode_items(items, into)).is_none() {
        refuse_nesting(into);
    }
}

fn decode_counted<T: Value<Owned = T>>(bytes: &mut &[u8]) -> Option<Vec<T>> {
    let count = take_length(bytes).filter(|count| *count <= ITEMS_MAX)?;
    nested(|| T::decode_items(count, bytes))?
}

/// Refuses a value that is nested too deep.
#[cold]
pub(super) fn refuse_nesting(into: &mut ValueBytes) {
    into.refuse(format!("it is nested more than {NESTED_MAX} levels deep"));
}

macro_rules! list_value {
    ($($type:ty),*) => {$(
        /// A list of values: their number, then each as a component. A list of `u8` alone is its
        /// bytes.
        impl<T: Value<Owned = T>> Value for $type {
            type Owned = Vec<T>;
            const NAME: &'static str = if T::IS_BYTE { "bytes" } else { "list" };

            fn type_name() -> Cow<'static, str> {
                if T::IS_BYTE { Cow::Borrowed("bytes") } else { Cow::Owned(format!("list<{}>", T::type_name())) }
            }
            fn encoded_bytes_min(&self) -> usize {
                if T::IS_BYTE { self.len() } else { 0 }
            }
            fn encode(&self, into: &mut ValueBytes) {
                if T::IS_BYTE { T::encode_items(self, into) } else { encode_counted(self, into) }
            }
            fn decode(mut bytes: &[u8]) -> Option<Vec<T>> {
                let items = if T::IS_BYTE { T::decode_items(bytes.len(), &mut bytes) } else { decode_counted(&mut bytes) };
                items.filter(|_| bytes.is_empty())
            }
            fn encode_component(&self, into: &mut ValueBytes) {
                encode_counted(self, into);
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<Vec<T>> {
                decode_counted(bytes)
            }
        }
    )*};
}
list_value!([T], Vec<T>);

/// The values, each as a component; the type says how many.
impl<T: Value<Owned = T>, const N: usize> Value for [T; N] {
    type Owned = Self;
    const NAME: &'static str = "array";
    const ROOM_BYTES: usize = T::ROOM_BYTES * N;

    fn type_name() -> Cow<'static, str> {
        Cow::Owned(format!("[{}; {N}]", T::type_name()))
    }
    fn encoded_bytes_min(&self) -> usize {
        if T::IS_BYTE { N } else { 0 }
    }
    fn encode(&self, into: &mut ValueBytes) {
        T::encode_items(self, into);
    }
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        T::decode_array(&mut bytes).filter(|_| bytes.is_empty())
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        self.encode(into);
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        T::decode_array(bytes)
    }
}
