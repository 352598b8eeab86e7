//! The handle of a table, and which transactions may use it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Error;
use crate::table::raw_table::{RawTable, TableId};
use crate::txn::Transaction;

/// A table that maps keys of type `K`, in order, to values of type `V`.
///
/// A handle: cloning it is cheap, and all clones are the same table. It is good for transactions of
/// the database that it came from, see [`Database::table`](crate::Database::table).
pub struct Table<K: ?Sized, V: ?Sized> {
    pub(super) raw_table: Arc<RawTable>,
    types: PhantomData<fn(&K) -> Box<V>>,
}

impl<K: ?Sized, V: ?Sized> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self {
            raw_table: Arc::clone(&self.raw_table),
            types: PhantomData,
        }
    }
}

impl<K: ?Sized, V: ?Sized> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({:?})", self.raw_table.info.name)
    }
}

impl<K: ?Sized, V: ?Sized> Table<K, V> {
    pub(crate) fn new(raw_table: Arc<RawTable>) -> Self {
        Self {
            raw_table,
            types: PhantomData,
        }
    }

    pub(crate) fn raw_table(&self) -> &Arc<RawTable> {
        &self.raw_table
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.raw_table.info.name
    }

    /// The table's number in the log.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.raw_table.info.id
    }

    /// Leaves the table's tree no page number that was never used, so that it soon has no room for new keys:
    /// for tests of [`Error::TableFull`], which cannot write so many.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.raw_table.use_up();
    }

    /// The bytes of its index and records in memory; values that do not fit into their record's
    /// own room are left out.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.raw_table.memory_bytes()
    }
}

/// The raw table, if the table belongs to the transaction's database.
pub(crate) fn own<'t, K: ?Sized, V: ?Sized>(
    tx: &Transaction,
    table: &'t Table<K, V>,
) -> Result<&'t Arc<RawTable>, Error> {
    check_own(tx, &table.raw_table)?;
    Ok(&table.raw_table)
}

pub(super) fn check_own(tx: &Transaction, raw_table: &RawTable) -> Result<(), Error> {
    if raw_table.owner == tx.engine().owner {
        Ok(())
    } else {
        Err(Error::ForeignTable {
            table: raw_table.info.name.clone(),
        })
    }
}
