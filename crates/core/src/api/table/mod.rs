//! Typed tables, and what their keys and values can be. What is done with them: `api/transaction.rs`.

mod handle;
mod key;
mod lock_set;
mod value;

pub use handle::Table;
pub(super) use handle::own;
pub(super) use key::encoded;
pub use key::{Key, KeyBytes};
pub use lock_set::LockSet;
pub(super) use value::add;
pub use value::{Number, Value, ValueBytes};
