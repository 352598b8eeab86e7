//! Keys as bytes that compare as the keys do.
//!
//! Two traits share the work. A table's key type is a [`Key`], which names the type and decodes
//! keys. A caller passes anything that is [`AsKey<K>`], which encodes the same bytes as a key of
//! type `K`: `&str` those of a `String`, `(&str, u64)` those of a `(String, u64)`. So a look-up
//! needs no owned key.
//!
//! The encoding: `encoding.rs`.

pub(crate) mod encoding;
mod fixed;
mod pointers;
mod prefix;
mod range;
#[cfg(test)]
mod tests;
mod text_and_bytes;
mod tuples;

use std::borrow::{Borrow, Cow};

pub use prefix::{KeyPrefix, after_prefix, range_of_prefix};
pub use range::KeyRange;

/// A key's bytes. Up to 32 are stored without an allocation.
pub type KeyBytes = smallvec::SmallVec<[u8; 32]>;

/// A type that can be a table's key.
///
/// Derive it for types of your own, as long as their fields are keys:
///
/// ```
/// use namiki::{Database, Key};
///
/// #[derive(Key, Debug, PartialEq)]
/// struct PaymentKey {
///     account: String,
///     number: u64,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("data"))?;
/// let payments = db.table::<PaymentKey, i64>("payments")?;
/// let key = PaymentKey { account: "alice".to_owned(), number: 7 };
/// db.transact(|tx| tx.put(&payments, &key, &100))?;
/// // A tuple of the fields, or of their borrowed forms, represents the key.
/// assert_eq!(db.transact(|tx| tx.get(&payments, &("alice", 7)))?, Some(100));
/// # Ok(())
/// # }
/// ```
///
/// Derived keys compare field by field, enums by their variants first, as `#[derive(Ord)]` does.
///
/// To implement it by hand, encode keys in [`AsKey`] for the type itself, and decode them here.
/// `a < b` must hold for keys if and only if it holds for their bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a table",
    label = "no key",
    note = "derive it for a struct or an enum of your own: `#[derive(namiki::Key)]`",
    note = "floats are no keys, nor are lists: use an integer, a text, bytes, or a tuple of keys",
    note = "what a table has is owned: `(String, u64)` in its type, and `(&str, u64)` to look it up"
)]
pub trait Key: AsKey<Self> {
    /// The type of a decoded key.
    type Owned: Borrow<Self> + AsKey<Self>;
    /// The type's name.
    const NAME: &'static str;
    /// Whether every key has exactly eight bytes.
    const EIGHT_BYTES: bool = false;

    /// The type's name in the manifest, with the types it is made of.
    #[must_use]
    fn type_name() -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// The key that has all of these bytes.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;

    /// Takes a key off the front of `bytes`, encoded by [`AsKey::encode_component`].
    fn decode_component(bytes: &mut &[u8]) -> Option<Self::Owned>;
}

/// A type with values that can represent keys of type `K`: they have the same bytes.
///
/// Every key represents itself. A reference or usual pointer represents a key if its target does.
/// Text represents text and bytes bytes, owned or borrowed. A tuple stands for a tuple or a
/// derived struct, part by part.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = namiki::Database::open(dir.path().join("data"))?;
/// let ages = db.table::<String, u32>("ages")?;
/// let visits = db.table::<(String, u64), u32>("visits")?;
/// db.transact(|tx| {
///     tx.put(&ages, "alice", &30)?;
///     tx.put(&visits, &("alice", 1), &7)
/// })?;
/// let name = String::from("alice");
/// assert_eq!(db.transact(|tx| tx.get(&ages, &name))?, Some(30));
/// assert_eq!(db.transact(|tx| tx.get(&visits, &(&name, 1)))?, Some(7));
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand for a key of type `{K}`",
    label = "not the key of this table, nor one with the same bytes",
    note = "text stands for text, bytes for bytes, a tuple for a tuple of as many parts; numbers have to be of the \
            key's own type",
    note = "a key type that is implemented by hand needs `impl AsKey<Itself> for Itself` beside `impl Key`"
)]
pub trait AsKey<K: ?Sized> {
    /// Adds the key's bytes.
    fn encode(&self, into: &mut KeyBytes);

    /// Passes the key's bytes to `read`. Worth implementing if they need no buffer.
    #[inline]
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = KeyBytes::new();
        self.encode(&mut bytes);
        read(&bytes)
    }

    /// Adds the key's bytes in a form that marks its end.
    fn encode_component(&self, into: &mut KeyBytes) {
        self.encode(into);
    }
}

/// The bytes of a key.
pub fn encoded<K: ?Sized, Q: AsKey<K> + ?Sized>(key: &Q) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    key.encode(&mut bytes);
    bytes
}
