//! The operations of a `BTreeMap` beyond single keys and ranges: on its ends, on keys without their
//! values, and on all rows at once.

use std::ops::ControlFlow;

use namiki_data::{AsKey, Key, KeyBytes, KeyRange, Value, ValueView};
use namiki_index::{Direction, ScanRange};

use crate::api::table::{Table, own};
use crate::api::transaction::{decode_key, decode_value, undecodable, with_range};
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::txn::Transaction;

/// A row, or `None`.
type FoundRow<K, V> = Option<(<K as Key>::Owned, <V as Value>::Owned)>;

/// Typed tables as maps.
impl Transaction {
    /// Whether the key is there.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<bool, Error> {
        let raw_table = own(self, table)?;
        key.with_bytes(|key| Ok(self.get_bytes(raw_table, key, LockMode::SHARED)?.is_some()))
    }

    /// Calls `read` with the value of a key in place, if the key exists: strings and bytes are not
    /// copied.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// let notes = db.table::<u64, str>("notes")?;
    /// db.transact(|tx| tx.put(&notes, &1, "three words here"))?;
    /// let words = db.transact(|tx| tx.get_with(&notes, &1, |note| note.split(' ').count()))?;
    /// assert_eq!(words, Some(3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_with<K: Key + ?Sized, V: ValueView + ?Sized, Q: AsKey<K> + ?Sized, T>(
        &mut self,
        table: &Table<K, V>,
        key: &Q,
        read: impl FnOnce(&V::View) -> T,
    ) -> Result<Option<T>, Error> {
        let raw_table = own(self, table)?;
        let found = key.with_bytes(|key| self.get_bytes(raw_table, key, LockMode::SHARED))?;
        let view = found.map(|bytes| {
            V::view(bytes).ok_or_else(|| undecodable(raw_table, V::type_name(), bytes))
        });
        Ok(view.transpose()?.map(read))
    }

    /// The row with the least key. For a part of the table, use `tx.range(&table, …).next()`.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn first<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
    ) -> Result<FoundRow<K, V>, Error> {
        Ok(self.end_row(table, Direction::Forward)?.map(|(_, row)| row))
    }

    /// The row with the greatest key. For a part of the table, use `tx.range(&table,
    /// …).next_back()`.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn last<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
    ) -> Result<FoundRow<K, V>, Error> {
        Ok(self
            .end_row(table, Direction::Backward)?
            .map(|(_, row)| row))
    }

    /// Removes the row with the least key, and returns it.
    ///
    /// A deleted key stays in the index for a moment, or for as long as a view may see it, and this
    /// method skips the deleted keys before the row. While a long view is open, a queue should
    /// therefore take its rows from a [`range`](Transaction::range) that begins where it last found
    /// one.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn pop_first<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
    ) -> Result<FoundRow<K, V>, Error> {
        self.pop(table, Direction::Forward)
    }

    /// Removes the row with the greatest key, and returns it. It skips deleted keys as
    /// [`pop_first`](Transaction::pop_first) does.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn pop_last<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
    ) -> Result<FoundRow<K, V>, Error> {
        self.pop(table, Direction::Backward)
    }

    fn pop<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        direction: Direction,
    ) -> Result<FoundRow<K, V>, Error> {
        let Some((key, row)) = self.end_row(table, direction)? else {
            return Ok(None);
        };
        let raw_table = own(self, table)?;
        self.delete_bytes(raw_table, &key)?;
        Ok(Some(row))
    }

    /// The first row in a direction, with its key's bytes.
    fn end_row<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        direction: Direction,
    ) -> Result<Option<(KeyBytes, (K::Owned, V::Owned))>, Error> {
        let raw_table = own(self, table)?;
        let mut found = None;
        let all = ScanRange {
            start: std::ops::Bound::Unbounded,
            end: std::ops::Bound::Unbounded,
            direction,
        };
        self.scan_bytes(raw_table, all, |key, value| {
            let row = (
                decode_key::<K>(raw_table, key)?,
                decode_value::<V>(raw_table, value)?,
            );
            found = Some((KeyBytes::from_slice(key), row));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// The number of keys in a range. It **reads them all**, so it takes as long as a scan, and a
    /// change of any of them is a conflict: a count that is needed often should be kept in a table
    /// of its own, with [`add`](Transaction::add).
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn count<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Result<usize, Error> {
        let raw_table = own(self, table)?;
        let mut count = 0;
        with_range(&range, Direction::Forward, |range| {
            self.scan_bytes(raw_table, range, |_, _| {
                count += 1;
                Ok(ControlFlow::Continue(()))
            })
        })?;
        Ok(count)
    }

    /// Removes the keys of a range for which `keep` returns false; returns how many.
    ///
    /// # Errors
    /// As [`Transaction::get`]; some keys may be removed then. To undo that, roll back to a
    /// [savepoint](Transaction::savepoint) made before.
    pub fn retain<K: Key + ?Sized, V: Value + ?Sized>(
        &mut self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
        mut keep: impl FnMut(K::Owned, V::Owned) -> bool,
    ) -> Result<usize, Error> {
        let raw_table = own(self, table)?;
        // The keys to be removed, one after the other.
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        with_range(&range, Direction::Forward, |range| {
            self.scan_bytes(raw_table, range, |key, value| {
                let row = decode_key::<K>(raw_table, key)?;
                if !keep(row, decode_value::<V>(raw_table, value)?) {
                    bytes.extend_from_slice(key);
                    ends.push(bytes.len());
                }
                Ok(ControlFlow::Continue(()))
            })
        })?;
        let mut from = 0;
        for to in &ends {
            self.delete_bytes(raw_table, &bytes[from..*to])?;
            from = *to;
        }
        Ok(ends.len())
    }
}
