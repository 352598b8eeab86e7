//! Values that begin with the version of their type, so that a type can change and still read the
//! old ones.
//!
//! ```text
//! | version (as a length) | the fields, each as a component |
//! ```
//! Only a value alone begins with the version, not a component: a type that contains a changed one
//! has itself changed.
//!
//! The manifest names a table's types, and the names of derived types contain their version and a
//! hash of their shape. When a table is opened with a type that was made [from](Versioned) its
//! present one, the manifest gets the new name. From then on, the table contains values of both
//! versions, and the old type does not open it any more.

use std::borrow::Cow;

use super::{Value, ValueBytes, put_length, take_length};

/// A value that begins with its version.
///
/// Derived values do, and so does `Serde`. The version is 1, unless the type declares another:
///
/// ```
/// use namiki::{Database, Value};
///
/// # #[derive(Value)]
/// # struct Unused;
/// // The type of an earlier release, under its name then.
/// #[derive(Value)]
/// #[namiki(name = "Account")]
/// struct AccountV1 {
///     owner: String,
/// }
///
/// #[derive(Value, Debug, PartialEq)]
/// #[namiki(version = 2, from = AccountV1)]
/// struct Account {
///     owner: String,
///     limit: Option<u64>,
/// }
///
/// impl From<AccountV1> for Account {
///     fn from(old: AccountV1) -> Self {
///         Self { owner: old.owner, limit: None }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("data"))?;
/// let old = db.table::<u64, AccountV1>("accounts")?;
/// db.transact(|tx| tx.put(&old, &1, &AccountV1 { owner: "Alice".to_owned() }))?;
///
/// let accounts = db.table::<u64, Account>("accounts")?;
/// let read = db.transact(|tx| tx.get(&accounts, &1))?;
/// assert_eq!(read, Some(Account { owner: "Alice".to_owned(), limit: None }));
/// assert!(db.table::<u64, AccountV1>("accounts").is_err()); // it cannot decode new values
/// # Ok(())
/// # }
/// ```
///
/// An old value stays in the table as it is until it is overwritten, and is converted at each read.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` do not say which version they are",
    label = "no version",
    note = "a type can be made from a derived value or from a `namiki::Serde<T>`: only these begin with a version"
)]
pub trait Versioned: Value<Owned = Self> + Sized {
    /// The number of the type's shape, from 1 on.
    const VERSION: u32;
}

/// Adds the version of a value alone, and its encoding as a component.
pub fn encode_versioned<V: Versioned>(value: &V, into: &mut ValueBytes) {
    put_length(V::VERSION as usize, into);
    value.encode_component(into);
}

/// Decodes the bytes of [`encode_versioned`]; `earlier` decodes values of other versions.
#[must_use]
pub fn decode_versioned<V: Versioned>(
    bytes: &[u8],
    earlier: impl FnOnce(&[u8]) -> Option<V>,
) -> Option<V> {
    let mut rest = bytes;
    if take_length(&mut rest)? == V::VERSION as usize {
        V::decode_component(&mut rest).filter(|_| rest.is_empty())
    } else {
        earlier(bytes)
    }
}

/// A value of the type that another one is made from.
#[must_use]
pub fn decode_earlier<V: Versioned>(bytes: &[u8]) -> Option<V> {
    V::decode(bytes)
}

/// The names of the types that values are converted from: those that `V` is made from, and `V`.
#[must_use]
pub fn names_with_earlier<V: Versioned>() -> Vec<Cow<'static, str>> {
    let mut names = V::earlier_type_names();
    names.push(V::type_name());
    names
}
