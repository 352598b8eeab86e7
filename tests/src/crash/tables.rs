//! The tables that transactions of these runs work on.

use namiki::{Database, Error, Table};

use crate::key_encoding::Numbered;

/// How many keys transactions choose from: few, so that transactions depend on each other.
pub(super) const KEYS: u64 = 7;

/// The tables of these runs.
pub struct Tables<K> {
    /// What transactions work on.
    pub(super) data: Table<K, [u8]>,
    /// Each writes its id and the number of its writes here, before its data,
    pub(super) first: Table<K, u64>,
    /// and here, after it.
    pub(super) last: Table<K, u64>,
}

impl<K: Numbered> Tables<K> {
    /// The tables of a database, made if they are not there yet.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn of(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            first: db.table("first")?,
            data: db.table_with_room("data", 24)?,
            last: db.table("last")?,
        })
    }
}
