//! Typed tables, and what their keys and values can be. What is done with them: `api/transaction.rs`.

pub mod derive_support;
mod handle;
mod key;
mod layout;
mod lock_set;
mod shape;
mod value;

pub use handle::Table;
pub(crate) use handle::own;
pub(crate) use key::encoded;
pub(crate) use key::range_of_prefix;
pub use key::{AsKey, Key, KeyBytes, KeyPrefix, KeyRange};
pub(crate) use layout::row_layout;
pub use lock_set::LockSet;
#[cfg(feature = "serde")]
pub use value::Serde;
pub(crate) use value::add;
pub use value::{Number, Value, ValueBytes, ValueView, Versioned};
