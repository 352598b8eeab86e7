//! Keys as bytes that compare as the keys do.
//!
//! Two traits share the work. [`Key`] is what a table is made for: it names the type, and reads keys back. [`AsKey<K>`]
//! is what can be handed in where a key of type `K` is wanted: it writes the same bytes as that key. A `&str` writes
//! those of a `String`, and `(&str, u64)` those of `(String, u64)`, so a look-up needs no key of its own.
//!
//! A key has two encodings. Alone, it need not say where it ends: a text is its bytes. As a **component**, of a tuple
//! or of a derived type, it must:
//!
//! | type | alone | component |
//! |---|---|---|
//! | integers, `bool`, `char` | big-endian, the sign bit of signed ones flipped | the same |
//! | `[u8; N]`, UUIDs | the bytes | the same |
//! | text, bytes | the bytes | the bytes with 0 as 0 255, then 0 1 |
//! | `Option` | 0, or 1 and the value's | 0, or 1 and the component |
//! | tuples, derived types of several fields | the components | the same |
//! | derived types of one field | the field's | the field's |
//!
//! The end of a text as a component is less than any byte of a longer one, whatever follows in either key.

mod fixed;
mod pointers;
mod prefix;
mod range;
#[cfg(test)]
mod tests;
mod text_and_bytes;
mod tuples;

use std::borrow::{Borrow, Cow};

pub use prefix::KeyPrefix;
pub(crate) use prefix::range_of_prefix;
pub use range::KeyRange;

/// A key's bytes; up to 32 take no allocation.
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
/// // A tuple of the fields, or of what can stand for them, is as good as the key.
/// assert_eq!(db.transact(|tx| tx.get(&payments, &("alice", 7)))?, Some(100));
/// # Ok(())
/// # }
/// ```
///
/// Derived keys compare by their fields, one after the other, and those of enums by their variants first, as
/// `#[derive(Ord)]` does.
///
/// To implement it by hand, write the bytes in [`AsKey`] for the type itself, and read them here. For all keys,
/// `a < b` if and only if the bytes of `a` are less than those of `b`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a table",
    label = "no key",
    note = "derive it for a struct or an enum of your own: `#[derive(namiki::Key)]`",
    note = "floats are no keys, nor are lists: use an integer, a text, bytes, or a tuple of keys",
    note = "what a table has is owned: `(String, u64)` in its type, and `(&str, u64)` to look it up"
)]
pub trait Key: AsKey<Self> {
    /// What reading a key gives.
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

    /// Takes the key off the front of `bytes`, written by [`AsKey::encode_component`].
    fn decode_component(bytes: &mut &[u8]) -> Option<Self::Owned>;
}

/// What can stand for a key of type `K`: it has the same bytes.
///
/// Every key stands for itself; so do references and the usual pointers to what stands for it. Text stands for text,
/// and bytes for bytes, owned or borrowed; a tuple, for a tuple or a derived struct that its parts stand for.
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

    /// Hands the key's bytes to `read`. Worth implementing where they need no buffer.
    #[inline]
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = KeyBytes::new();
        self.encode(&mut bytes);
        read(&bytes)
    }

    /// Adds the key's bytes in a form that says where it ends.
    fn encode_component(&self, into: &mut KeyBytes) {
        self.encode(into);
    }
}

/// The bytes of a key by themselves.
pub(crate) fn encoded<K: ?Sized, Q: AsKey<K> + ?Sized>(key: &Q) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    key.encode(&mut bytes);
    bytes
}
