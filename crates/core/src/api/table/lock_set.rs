//! Keys of several tables that are locked together.

use std::sync::Arc;

use namiki_data::{AsKey, Key, KeyBytes, encoded};

use super::handle::Table;
use crate::error::Error;
use crate::table::raw_table::RawTable;
use crate::txn::Transaction;

/// Keys of any tables of one database, for [`Transaction::lock_all`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use namiki::{Database, LockSet};
///
/// let db = Database::builder()
///     .spec("S2PL(EPOCH)+PWAL(auto)".parse()?)
///     .open(dir.path().join("data"))?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// let history = db.table::<(u64, u64), str>("history")?;
/// let keys = LockSet::new()
///     .with(&accounts, [1, 2])
///     .with(&history, [(1, 7)]);
/// db.transact(|tx| {
///     tx.lock_all(&keys)?;
///     let from = tx.get(&accounts, &1)?.unwrap_or(0);
///     tx.put(&accounts, &1, &(from - 10))?;
///     tx.put(&history, &(1, 7), "paid 10 to 2")
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct LockSet {
    tables: Vec<(Arc<RawTable>, Vec<KeyBytes>)>,
}

impl LockSet {
    /// No keys yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With these keys, too.
    #[must_use]
    pub fn with<K: Key + ?Sized, V: ?Sized, Q: AsKey<K>>(
        mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
    ) -> Self {
        self.tables
            .push((Arc::clone(&table.raw_table), all_encoded::<K, Q>(keys)));
        self
    }
}

impl std::fmt::Debug for LockSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tables = self.tables.iter();
        f.debug_map()
            .entries(tables.map(|(raw_table, keys)| (raw_table.name(), keys)))
            .finish()
    }
}

fn all_encoded<K: Key + ?Sized, Q: AsKey<K>>(keys: impl IntoIterator<Item = Q>) -> Vec<KeyBytes> {
    let keys = keys.into_iter();
    keys.map(|key| encoded::<K, Q>(&key)).collect()
}

/// Locking before anything else.
impl Transaction {
    /// Locks keys for reading and writing, whether they are there or not, before the transaction
    /// does anything with them: for transactions that know all keys up front, under strict
    /// two-phase locking. All lock in the same order, so transactions that do only this, once, do
    /// not wound each other, except one that has waited for ten milliseconds. Under TicToc and
    /// Silo, which lock at the commit, it does nothing.
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`Error::TableFull`].
    ///
    /// Paper: raft-pwal §2.1 (locks in alphabetical order)
    pub fn lock_all(&mut self, keys: &LockSet) -> Result<(), Error> {
        for (raw_table, _) in &keys.tables {
            self.use_table(raw_table)?;
        }
        let tables = keys.tables.iter();
        self.lock_keys(
            tables.flat_map(|(raw_table, keys)| keys.iter().map(move |key| (raw_table, &key[..]))),
        )
    }

    /// [`Transaction::lock_all`] for keys of one table.
    ///
    /// # Errors
    /// As [`Transaction::lock_all`].
    pub fn lock_many<K: Key + ?Sized, V: ?Sized, Q: AsKey<K>>(
        &mut self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<(), Error> {
        self.use_table(&table.raw_table)?;
        let keys = all_encoded::<K, Q>(keys);
        self.lock_keys(keys.iter().map(|key| (&table.raw_table, &key[..])))
    }
}
