//! Handles of typed tables, and sets of their keys. What can be a key or a value: `namiki_data`.

mod handle;
mod lock_set;

pub use handle::Table;
pub(crate) use handle::own;
pub use lock_set::LockSet;
