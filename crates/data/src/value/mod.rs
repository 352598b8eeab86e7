//! Values as bytes: integers and floats little-endian, byte strings as they are.
//!
//! Like a key, a value has two encodings: alone, and as a **component** of another value, where it
//! marks its end. Most types put their length before the value (`length.rs`); types of a fixed
//! length need none.
//!
//! A derived value and a serde value begin with their version when they are alone: `versions.rs`.

mod compound;
mod fixed;
mod length;
mod lists;
mod maps;
mod nesting;
#[cfg(feature = "serde")]
mod serde_shape;
#[cfg(feature = "serde")]
mod serde_value;
#[cfg(test)]
mod tests;
mod times;
mod value_bytes;
mod versions;
mod view;

use std::borrow::{Borrow, Cow};

pub use fixed::{AddError, Number, add};
pub use length::{put_length, take_length};
use lists::WITHOUT_BYTES_MAX;
#[cfg(feature = "serde")]
pub use serde_value::Serde;
pub use value_bytes::ValueBytes;
pub use versions::{
    Versioned, decode_earlier, decode_versioned, encode_versioned, names_with_earlier,
};
pub use view::ValueView;

/// A type that can be a table's value.
///
/// Derive it for types of your own, as long as their fields are values:
///
/// ```
/// use namiki::{Database, Value};
///
/// #[derive(Value, Debug, PartialEq)]
/// enum Payment {
///     Cash,
///     Card { number: u64, holder: String },
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("data"))?;
/// let payments = db.table::<u64, Payment>("payments")?;
/// db.transact(|tx| {
///     tx.put(&payments, &1, &Payment::Cash)?;
///     tx.put(&payments, &2, &Payment::Card { number: 4711, holder: "Alice".to_owned() })
/// })?;
/// assert_eq!(db.transact(|tx| tx.get(&payments, &1))?, Some(Payment::Cash));
/// # Ok(())
/// # }
/// ```
///
/// A type that has [serde](https://serde.rs)'s traits is a value as it is, inside `Serde` (feature
/// `serde`). Or implement this by hand, with whatever encoding you like.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a value of a table",
    label = "no value",
    note = "derive it for a struct or an enum of your own: `#[derive(namiki::Value)]`",
    note = "a type that implements `serde::Serialize` and `serde::Deserialize` is one inside `namiki::Serde<{Self}>`, \
            with the feature `serde`"
)]
pub trait Value {
    /// The type of a decoded value.
    type Owned: Borrow<Self>;
    /// The type's name.
    const NAME: &'static str;
    /// The usual length of encoded values, in bytes. `Database::table` reserves it in each record
    /// of a new table; above 64 bytes, it reserves 8. Reading a value that does not fit takes one
    /// more memory access.
    const ROOM_BYTES: usize = 8;

    /// The type's name in the manifest, which distinguishes it from other types.
    #[must_use]
    fn type_name() -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// The names of the types that this one was made from: it also decodes their values. See
    /// [`Versioned`].
    #[must_use]
    fn earlier_type_names() -> Vec<Cow<'static, str>> {
        Vec::new()
    }

    /// A lower bound of the encoded length, in bytes. Worth implementing for values that may be
    /// very long: a value that is too long for a table or the log is then refused before it is
    /// encoded.
    fn encoded_bytes_min(&self) -> usize {
        0
    }

    /// Adds the value's bytes.
    fn encode(&self, into: &mut ValueBytes);

    /// The value that has these bytes.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;

    /// Adds the value's bytes in a form that marks its end: their length before them, unless the
    /// type has a shorter form.
    fn encode_component(&self, into: &mut ValueBytes) {
        let before = into.len();
        self.encode(into);
        let after = into.len();
        put_length(after - before, into);
        into[before..].rotate_left(after - before);
    }

    /// Takes a value off the front of `bytes`, encoded by [`Value::encode_component`].
    #[must_use]
    fn decode_component(bytes: &mut &[u8]) -> Option<Self::Owned> {
        let length = take_length(bytes)?;
        Self::decode(bytes.split_off(..length)?)
    }

    /// Whether a list of the type is bytes. The following functions encode and decode lists and
    /// arrays: those of bytes are copied as a whole.
    #[doc(hidden)]
    const IS_BYTE: bool = false;

    /// See [`Value::IS_BYTE`].
    #[doc(hidden)]
    fn encode_items(items: &[Self], into: &mut ValueBytes)
    where
        Self: Sized,
    {
        let mut without_bytes = 0;
        for item in items {
            let before = into.len();
            item.encode_component(into);
            without_bytes += usize::from(before == into.len());
        }
        if without_bytes > WITHOUT_BYTES_MAX {
            into.refuse(format!(
                "a list has {without_bytes} items that take no bytes, and may have {WITHOUT_BYTES_MAX}"
            ));
        }
    }

    /// See [`Value::IS_BYTE`].
    #[doc(hidden)]
    #[must_use]
    fn decode_items(count: usize, bytes: &mut &[u8]) -> Option<Vec<Self>>
    where
        Self: Sized + Value<Owned = Self>,
    {
        // The count may be damaged: the bytes limit the first allocation. Most items have at least
        // one.
        let item_bytes = size_of::<Self>().max(1);
        let mut items = Vec::with_capacity(count.min(bytes.len() / item_bytes + 1));
        let mut without_bytes = 0;
        for _ in 0..count {
            let before = bytes.len();
            items.push(Self::decode_component(bytes)?);
            without_bytes += usize::from(before == bytes.len());
            if without_bytes > WITHOUT_BYTES_MAX {
                return None;
            }
        }
        Some(items)
    }

    /// See [`Value::IS_BYTE`].
    #[doc(hidden)]
    #[must_use]
    fn decode_array<const N: usize>(bytes: &mut &[u8]) -> Option<[Self; N]>
    where
        Self: Sized + Value<Owned = Self>,
    {
        Self::decode_items(N, bytes)?.try_into().ok()
    }
}
