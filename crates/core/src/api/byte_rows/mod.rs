//! Tables by bytes: keys and rows as they are stored, for programs that encode them themselves.
//!
//! Nothing is encoded, decoded or copied here: a row is borrowed from the transaction that has read
//! it, and a scan hands on slices. A scan that is to be resumed later is a [`RowScan`].

mod row_scan;

use std::ops::ControlFlow;

use namiki_index::ScanRange;

pub use row_scan::RowScan;

use crate::api::table::{Table, own};
use crate::api::view::View;
use crate::commit::late_changes::RowProgram;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::table::raw_table::BATCH_KEYS_MAX;
use crate::txn::Transaction;
use crate::txn::stage_value::check_length;

/// A table of which the program knows the bytes of keys and rows, and not the types: see
/// [`Database::create_untyped_table`](crate::Database::create_untyped_table). Keys are in the order
/// of their bytes.
pub type ByteTable = Table<[u8], [u8]>;

/// Reading and writing rows by their bytes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::{Bound, ControlFlow};
///
/// use namiki::{RowScan, ScanRange, UntypedTable};
///
/// let db = namiki::Database::in_memory()?;
/// let words = db.create_untyped_table(&UntypedTable {
///     name: "words",
///     key_type: "word",
///     value_type: "count",
///     ..UntypedTable::default()
/// })?;
/// db.transact(|tx| {
///     let inserted: [&[u8]; 3] = [b"one", b"three", b"two"];
///     for word in inserted {
///         assert!(tx.insert_row(&words, word, b"1")?);
///     }
///     // It is there, which is an answer and no error.
///     assert!(!tx.insert_row(&words, b"one", b"2")?);
///     Ok(())
/// })?;
/// // In parts, each of which may be read in a view or a transaction of its own.
/// let mut scan = RowScan::new(ScanRange::forward(Bound::Excluded(b"one"), Bound::Unbounded));
/// let mut found = Vec::new();
/// while !scan.is_finished() {
///     let view = db.view()?;
///     found.extend(view.resume_scan(&words, &mut scan, |word, _| ControlFlow::Break(word.to_vec()))?);
/// }
/// assert_eq!(found, [b"three".to_vec(), b"two".to_vec()]);
/// # Ok(())
/// # }
/// ```
impl Transaction {
    /// The row of a key, as this transaction sees it. It is borrowed until the next call.
    ///
    /// # Errors
    /// [`Error::Conflict`], to be passed on; errors that name a bad key.
    pub fn row(&mut self, table: &ByteTable, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        let raw_table = own(self, table)?;
        self.get_bytes(raw_table, key, LockMode::SHARED)
    }

    /// The row of a key that the transaction is going to write: as
    /// [`get_for_update`](Transaction::get_for_update).
    ///
    /// # Errors
    /// As [`Transaction::row`].
    pub fn row_for_update(
        &mut self,
        table: &ByteTable,
        key: &[u8],
    ) -> Result<Option<&[u8]>, Error> {
        let raw_table = own(self, table)?;
        self.get_bytes(raw_table, key, LockMode::EXCLUSIVE)
    }

    /// Visits the rows of many keys in their order, each with its position in `keys`. Equivalent to
    /// a [`row`](Transaction::row) of each, and faster: their cache misses overlap.
    ///
    /// # Errors
    /// As [`Transaction::row`]; the keys before the one that failed were visited.
    pub fn rows(
        &mut self,
        table: &ByteTable,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        let mut at = 0;
        for keys in keys.chunks(BATCH_KEYS_MAX) {
            self.get_batch(raw_table, keys, |row| {
                visit(at, row);
                at += 1;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Blind write: writes a row, whether the key exists or not. Nothing is read, as by
    /// [`put`](Transaction::put). If the transaction has just read the key, it is not looked up again.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_row(&mut self, table: &ByteTable, key: &[u8], row: &[u8]) -> Result<(), Error> {
        let raw_table = own(self, table)?;
        check_length(raw_table, key, row.len(), self.value_bytes_max())?;
        self.put_bytes(raw_table, key, |bytes| bytes.extend_from_slice(row))
    }

    /// Inserts a row for a key that does not exist, and returns true; if the key exists, it writes
    /// nothing and returns false, and the transaction continues. Either answer is a read of the key.
    ///
    /// # Errors
    /// [`Error::TableFull`]; otherwise as [`Transaction::row`] and [`Transaction::put_row`].
    pub fn insert_row(&mut self, table: &ByteTable, key: &[u8], row: &[u8]) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        check_length(raw_table, key, row.len(), self.value_bytes_max())?;
        self.insert_bytes(raw_table, key, |bytes| bytes.extend_from_slice(row))
    }

    /// Replaces a row by the bytes that `change` appends to the empty vector; returns whether the
    /// key existed.
    ///
    /// # Errors
    /// As [`Transaction::row`] and [`Transaction::put_row`].
    pub fn update_row(
        &mut self,
        table: &ByteTable,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut Vec<u8>),
    ) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        self.update_bytes(raw_table, key, |old, new| {
            change(old, new);
            Ok(())
        })
    }

    /// Has the commit change a row by a program, given an argument; returns whether the key is there.
    /// The row is not read before: two transactions that change the same row so do not conflict, in
    /// whatever order they commit. That the key is there is read, whatever its row is: if it is gone
    /// at the commit, that is a conflict. An absent key is read as absent.
    ///
    /// If the transaction has written the row itself, the program runs at once; if it reads the row
    /// later, the program runs then, and the row counts as read. Several changes of a row are made in
    /// their order. Under strict two-phase locking, the row is locked for writing, and changed at
    /// once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use namiki::{ChangeRefused, UntypedTable};
    ///
    /// /// Adds the argument to the number that the row is.
    /// fn add(row: &[u8], amount: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
    ///     let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes);
    ///     let (Ok(row), Ok(amount)) = (number(row), number(amount)) else {
    ///         return Err(ChangeRefused(1));
    ///     };
    ///     let sum = row.checked_add(amount).ok_or(ChangeRefused(2))?;
    ///     into.extend_from_slice(&sum.to_le_bytes());
    ///     Ok(())
    /// }
    ///
    /// # let db = namiki::Database::in_memory()?;
    /// # let balances = db.create_untyped_table(&UntypedTable { name: "balances", ..UntypedTable::default() })?;
    /// db.transact(|tx| tx.put_row(&balances, b"alice", &100_i64.to_le_bytes()))?;
    /// db.transact(|tx| {
    ///     let is_there = tx.change_later(&balances, b"alice", add, &(-30_i64).to_le_bytes())?;
    ///     assert!(is_there && !tx.change_later(&balances, b"bob", add, &0_i64.to_le_bytes())?);
    ///     Ok(())
    /// })?;
    /// let alice = db.transact(|tx| Ok(tx.row(&balances, b"alice")?.map(<[u8]>::to_vec)))?;
    /// assert_eq!(alice, Some(70_i64.to_le_bytes().to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::row`] and [`Transaction::put_row`]; [`Error::ChangeRefused`] if the program runs
    /// at once, and refuses. The commit fails with [`Error::ChangeRefused`] if it refuses then, and
    /// with [`Error::ValueTooLong`] if the new row is too long.
    pub fn change_later(
        &mut self,
        table: &ByteTable,
        key: &[u8],
        program: RowProgram,
        argument: &[u8],
    ) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        self.change_bytes_later(raw_table, key, program, argument)
    }

    /// Removes a key; returns whether it was there.
    ///
    /// # Errors
    /// As [`Transaction::row`].
    pub fn delete_row(&mut self, table: &ByteTable, key: &[u8]) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        self.delete_bytes(raw_table, key)
    }

    /// Visits the keys in a range and their rows, in the range's direction. Returns the value with
    /// which the visitor broke off, or `None` at the end of the range.
    ///
    /// The visited part of the range is read: a key that appears there is a conflict.
    ///
    /// # Errors
    /// As [`Transaction::row`], and [`Error::Unordered`].
    pub fn scan_rows<B>(
        &mut self,
        table: &ByteTable,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<Option<B>, Error> {
        let raw_table = own(self, table)?;
        let mut broke_with = None;
        self.scan_bytes(raw_table, range, |key, row| {
            Ok(visit(key, row).map_break(|value| broke_with = Some(value)))
        })?;
        Ok(broke_with)
    }

    /// [`Transaction::scan_rows`] of the rest of a scan, which is then the part that was not visited.
    /// Consecutive parts leave no gap between them: in one transaction, they are protected from
    /// phantoms as by one scan.
    ///
    /// # Errors
    /// As [`Transaction::scan_rows`]; the scan is then as it was before the call.
    pub fn resume_scan<B>(
        &mut self,
        table: &ByteTable,
        scan: &mut RowScan,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<Option<B>, Error> {
        scan.resume(|range, visit| self.scan_rows(table, range, visit), visit)
    }
}

/// Reading rows by their bytes.
impl View {
    /// Calls `read` with the row of a key.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn with_row<T>(
        &self,
        table: &ByteTable,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<T, Error> {
        let raw_table = self.own(table)?;
        self.with_value(raw_table, key, |row| Ok(read(row)))
    }

    /// Visits the rows of many keys in their order, each with its position in `keys`. Their cache
    /// misses overlap.
    ///
    /// # Errors
    /// As [`View::get`]; the keys before the one that failed may have been visited.
    pub fn rows(
        &self,
        table: &ByteTable,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Error> {
        let raw_table = self.own(table)?;
        let mut at = 0;
        for keys in keys.chunks(BATCH_KEYS_MAX) {
            self.get_batch(raw_table, keys, |_, row| {
                visit(at, row);
                at += 1;
            })?;
        }
        Ok(())
    }

    /// Visits the keys in a range and their rows, in the range's direction. Returns the value with
    /// which the visitor broke off, or `None` at the end of the range.
    ///
    /// # Errors
    /// As [`View::get`], and [`Error::Unordered`].
    pub fn scan_rows<B>(
        &self,
        table: &ByteTable,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<Option<B>, Error> {
        let raw_table = self.own(table)?;
        let mut broke_with = None;
        self.scan_bytes(raw_table, range, |key, row| {
            Ok(visit(key, row).map_break(|value| broke_with = Some(value)))
        })?;
        Ok(broke_with)
    }

    /// [`View::scan_rows`] of the rest of a scan, which is then the part that was not visited.
    ///
    /// # Errors
    /// As [`View::scan_rows`]; the scan is then as it was before the call.
    pub fn resume_scan<B>(
        &self,
        table: &ByteTable,
        scan: &mut RowScan,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<Option<B>, Error> {
        scan.resume(|range, visit| self.scan_rows(table, range, visit), visit)
    }
}
