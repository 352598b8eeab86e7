//! The handle of a table, and which transactions may use it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Error;
use crate::table::raw_table::{RawTable, TableId};
use crate::txn::Transaction;

/// A table that maps keys of type `K`, in order, to values of type `V`.
///
/// A handle: cloning it is cheap, and all clones are the same table. It is valid in transactions of
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
        write!(f, "Table({:?})", self.raw_table.name())
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

    /// The table's name: the present one, if it was renamed.
    #[must_use]
    pub fn name(&self) -> String {
        self.raw_table.name()
    }

    /// The table's number in the log.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.raw_table.id
    }

    /// Uses up the unused page numbers of the table's tree, so that it soon has no room for new
    /// keys: for tests of [`Error::TableFull`], which cannot write that number of keys.
    #[doc(hidden)]
    pub fn use_up(&self) {
        self.raw_table.use_up();
    }

    /// The bytes of its index and records in memory; values that do not fit into their record's
    /// own room are left out.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.raw_table.index_bytes() + self.raw_table.record_bytes()
    }
}

/// The raw table, which the transaction uses from now on.
#[inline]
pub(crate) fn own<'t, K: ?Sized, V: ?Sized>(
    tx: &mut Transaction,
    table: &'t Table<K, V>,
) -> Result<&'t Arc<RawTable>, Error> {
    tx.use_table(&table.raw_table)?;
    Ok(&table.raw_table)
}
