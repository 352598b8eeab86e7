//! The tables that the transactions of these runs use.

use std::collections::BTreeMap;

use namiki::{Database, Error, Table};

use crate::key_encoding::Numbered;

/// Number of keys: few, so that transactions depend on each other.
pub(super) const KEYS: u64 = 7;

/// The tables of these runs.
pub struct Tables<K> {
    /// The rows that transactions read and write.
    pub(super) data: Table<K, [u8]>,
    /// Each transaction writes its id and the number of its writes here, before its data,
    pub(super) first: Table<K, u64>,
    /// and here, after it.
    pub(super) last: Table<K, u64>,
}

impl<K: Numbered> Tables<K> {
    /// The tables of a database, created if they do not exist yet.
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

/// The rows that a scan finds; if the table cannot be scanned, those of the given keys.
pub(super) fn rows<K: Numbered, V>(
    scanned: Result<Vec<(K, V)>, Error>,
    keys: &[u64],
    mut get: impl FnMut(&K) -> Result<Option<V>, Error>,
) -> Result<BTreeMap<u64, V>, Error> {
    match scanned {
        Ok(rows) => {
            let rows = rows.into_iter().map(|(key, value)| (key.into(), value));
            Ok(rows.collect())
        }
        Err(Error::Unordered { .. }) => {
            let mut rows = BTreeMap::new();
            for key in keys {
                let value = get(&K::from(*key))?;
                rows.extend(value.map(|value| (*key, value)));
            }
            Ok(rows)
        }
        Err(error) => Err(error),
    }
}
