//! Handles of typed tables, and sets of their keys. The types of keys and values are in
//! `namiki_data`.

mod handle;
mod lock_set;

pub use handle::Table;
pub(crate) use handle::own;
pub use lock_set::LockSet;
