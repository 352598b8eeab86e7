//! Lazy iteration over a range, from both ends.
//!
//! Each step beyond the rows that were read ahead is a scan of the rest of the range. The scans
//! leave no gap between them: each begins behind the last key of the previous one, and notes, or
//! locks, the gap from there on. So the range is protected from phantoms as by one scan, up to the
//! last row that was read, and no further.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::mem::take;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_data::{Key, KeyBytes, KeyPrefix, KeyRange, Value, range_of_prefix};
use namiki_index::{Direction, ScanRange};

use crate::api::table::{Table, own};
use crate::api::transaction::{decode_key, decode_value};
use crate::api::view::View;
use crate::error::Error;
use crate::table::raw_table::RawTable;
use crate::txn::Transaction;

/// The most rows that are read ahead.
const AHEAD_MAX: usize = 256;
/// Read-ahead growth: how many times more rows each scan reads than the previous one.
const AHEAD_GROWTH: usize = 16;

/// The rows of a range, see [`Transaction::range`] and [`View::range`].
pub struct Rows<'t, K: Key + ?Sized, V: Value + ?Sized> {
    reader: Reader<'t>,
    table: &'t Table<K, V>,
    /// The part of the range that has not been read yet: `None` at its end, and after an error.
    unread: Option<(Bound<KeyBytes>, Bound<KeyBytes>)>,
    /// In ascending order.
    first: Ahead<K, V>,
    /// Those behind the unread part, in ascending order.
    last: Ahead<K, V>,
}

/// The source of the rows.
enum Reader<'t> {
    Transaction(&'t mut Transaction),
    View(&'t View),
}

impl Reader<'_> {
    fn own<'t, K: ?Sized, V: ?Sized>(
        &mut self,
        table: &'t Table<K, V>,
    ) -> Result<&'t Arc<RawTable>, Error> {
        match self {
            Self::Transaction(tx) => own(tx, table),
            Self::View(view) => view.own(table),
        }
    }

    fn scan_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        range: ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Transaction(tx) => tx.scan_bytes(raw_table, range, visit),
            Self::View(view) => view.scan_bytes(raw_table, range, visit),
        }
    }
}

type Row<K, V> = Result<(<K as Key>::Owned, <V as Value>::Owned), Error>;

/// Rows that were read from one end.
struct Ahead<K: Key + ?Sized, V: Value + ?Sized> {
    rows: VecDeque<Row<K, V>>,
    /// How many the next scan reads.
    next: usize,
}

impl<K: Key + ?Sized, V: Value + ?Sized> Default for Ahead<K, V> {
    fn default() -> Self {
        Self {
            rows: VecDeque::new(),
            next: 1,
        }
    }
}

/// Iterators over ranges of typed tables.
impl Transaction {
    /// The rows of a range, read as they are asked for, from either end.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// let payments = db.table::<(String, u64), i64>("payments")?;
    /// # db.transact(|tx| (0..9).try_for_each(|at| tx.put(&payments, &("alice", at), &(10 * at as i64))))?;
    /// let (sum, latest) = db.transact(|tx| {
    ///     let mut sum = 0;
    ///     for row in tx.range(&payments, ("alice", 0)..("alice", 5)) {
    ///         let (_key, amount) = row?;
    ///         sum += amount;
    ///     }
    ///     let latest = tx.prefix(&payments, &("alice",)).next_back().transpose()?;
    ///     Ok((sum, latest))
    /// })?;
    /// assert_eq!((sum, latest), (100, Some((("alice".to_owned(), 8), 80))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The first step reads one row, the next up to 16 at once, and from then on up to 256. Rows
    /// that were read ahead are part of the read set, and no row behind them is: reading the first
    /// row of a range costs one row, and a change further on is no conflict. (Where reads are
    /// validated, a key that appears may be one up to some keys away: a leaf of the index has one
    /// version for all of its gaps.) The transaction can do nothing else as long as the iterator
    /// lives; [`scan`](Transaction::scan) collects the rows, and [`retain`](Transaction::retain)
    /// removes some.
    ///
    /// An error, one of [`Transaction::get`]'s, is an item of its own in place of the row at which
    /// it occurred. No rows follow it. (The iterator's own `count` counts it;
    /// [`Transaction::count`] returns it.)
    pub fn range<'t, K: Key + ?Sized, V: Value + ?Sized>(
        &'t mut self,
        table: &'t Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Rows<'t, K, V> {
        let reader = Reader::Transaction(self);
        Rows::new(reader, table, (range.start(), range.end()))
    }

    /// The rows with keys that have this prefix, as [`range`](Transaction::range) returns them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// let names = db.table::<str, u64>("names")?;
    /// db.transact(|tx| {
    ///     for name in ["alan", "alice", "bob"] {
    ///         tx.put(&names, name, &1)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let found: Vec<(String, u64)> = db.transact(|tx| tx.prefix(&names, "al").collect())?;
    /// assert_eq!(found, [("alan".to_owned(), 1), ("alice".to_owned(), 1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix<'t, K: Key + ?Sized, V: Value + ?Sized>(
        &'t mut self,
        table: &'t Table<K, V>,
        prefix: &(impl KeyPrefix<K> + ?Sized),
    ) -> Rows<'t, K, V> {
        let mut bytes = KeyBytes::new();
        prefix.encode_prefix(&mut bytes);
        Rows::new(Reader::Transaction(self), table, range_of_prefix(bytes))
    }
}

/// Iterators over ranges of typed tables.
impl View {
    /// The rows of a range, read as they are asked for, from either end: as [`Transaction::range`]
    /// returns them, but without conflicts.
    pub fn range<'t, K: Key + ?Sized, V: Value + ?Sized>(
        &'t self,
        table: &'t Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Rows<'t, K, V> {
        Rows::new(Reader::View(self), table, (range.start(), range.end()))
    }

    /// The rows with keys that have this prefix.
    pub fn prefix<'t, K: Key + ?Sized, V: Value + ?Sized>(
        &'t self,
        table: &'t Table<K, V>,
        prefix: &(impl KeyPrefix<K> + ?Sized),
    ) -> Rows<'t, K, V> {
        let mut bytes = KeyBytes::new();
        prefix.encode_prefix(&mut bytes);
        Rows::new(Reader::View(self), table, range_of_prefix(bytes))
    }
}

impl<'t, K: Key + ?Sized, V: Value + ?Sized> Rows<'t, K, V> {
    fn new(
        reader: Reader<'t>,
        table: &'t Table<K, V>,
        range: (Bound<KeyBytes>, Bound<KeyBytes>),
    ) -> Self {
        Self {
            reader,
            table,
            unread: Some(range),
            first: Ahead::default(),
            last: Ahead::default(),
        }
    }

    /// Reads some rows ahead, if any are unread. An error follows the rows before it.
    fn read_ahead(&mut self, direction: Direction) {
        let Some(range) = take(&mut self.unread) else {
            return;
        };
        let forward = direction == Direction::Forward;
        let ahead = if forward {
            &mut self.first
        } else {
            &mut self.last
        };
        let wanted = ahead.next;
        ahead.next = (wanted * AHEAD_GROWTH).min(AHEAD_MAX);
        let rows = &mut ahead.rows;
        let mut put = |row: Row<K, V>| {
            if forward {
                rows.push_back(row);
            } else {
                rows.push_front(row);
            }
        };
        // The last key, once there are as many rows as were wanted.
        let mut stopped_at = None;
        let mut read = 0;
        let slice = |bound| Bound::map(bound, |bytes: &KeyBytes| &bytes[..]);
        let scanned = self.reader.own(self.table).and_then(|raw_table| {
            let range = ScanRange {
                start: slice(range.0.as_ref()),
                end: slice(range.1.as_ref()),
                direction,
            };
            self.reader.scan_bytes(raw_table, range, |key, value| {
                put(Ok((
                    decode_key::<K>(raw_table, key)?,
                    decode_value::<V>(raw_table, value)?,
                )));
                read += 1;
                if read < wanted {
                    return Ok(ControlFlow::Continue(()));
                }
                stopped_at = Some(KeyBytes::from_slice(key));
                Ok(ControlFlow::Break(()))
            })
        });
        match (scanned, stopped_at) {
            (Err(error), _) => put(Err(error)),
            (Ok(()), None) => {}
            (Ok(()), Some(key)) if forward => {
                self.unread = Some((Bound::Excluded(key), range.1));
            }
            (Ok(()), Some(key)) => self.unread = Some((range.0, Bound::Excluded(key))),
        }
    }

    /// The iterator ends after an error.
    fn end_at_error(&mut self, row: Option<Row<K, V>>) -> Option<Row<K, V>> {
        if let Some(Err(_)) = row {
            self.unread = None;
            self.first.rows.clear();
            self.last.rows.clear();
        }
        row
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> Iterator for Rows<'_, K, V> {
    type Item = Row<K, V>;

    fn next(&mut self) -> Option<Row<K, V>> {
        if self.first.rows.is_empty() {
            self.read_ahead(Direction::Forward);
        }
        let row = self.first.rows.pop_front();
        let row = row.or_else(|| self.last.rows.pop_front());
        self.end_at_error(row)
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> DoubleEndedIterator for Rows<'_, K, V> {
    fn next_back(&mut self) -> Option<Row<K, V>> {
        if self.last.rows.is_empty() {
            self.read_ahead(Direction::Backward);
        }
        let row = self.last.rows.pop_back();
        let row = row.or_else(|| self.first.rows.pop_back());
        self.end_at_error(row)
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> FusedIterator for Rows<'_, K, V> {}

impl<K: Key + ?Sized, V: Value + ?Sized> fmt::Debug for Rows<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("table", self.table)
            .field("unread", &self.unread)
            .finish_non_exhaustive()
    }
}
