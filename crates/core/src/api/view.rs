//! Read views: all tables as they were at one moment, read without locks, conflicts or retries.
//!
//! `commit/views` keeps the versions of that moment, and `catalogue_view.rs` its tables. Ranges are
//! in `rows.rs`.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_data::{AsKey, Key, KeyRange, Value, ValueView};
use namiki_index::{Direction, ScanRange};
use namiki_platform::Stamp;

use crate::api::table::Table;
use crate::api::transaction::{decode_key, decode_value, in_batches, undecodable, with_range};
use crate::commit::view_opening::OpenView;
use crate::error::Error;
use crate::live::catalogue_view::CatalogueView;
use crate::recovery::{ImageLoader, UnloadedTable};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, Step};

/// All tables as they were at one moment, see [`Database::view`](crate::Database::view).
///
/// A handle: cloning it is cheap, and it can be used by many threads at once. The view ends with its last handle, and
/// then what was kept for it is freed.
#[derive(Clone)]
pub struct View {
    pub(crate) open: Arc<OpenView>,
    /// Which tables there were at its moment.
    pub(crate) catalogue: Arc<CatalogueView>,
    /// The source of tables that are not loaded.
    pub(crate) loader: Arc<ImageLoader>,
}

/// Reading typed tables.
impl View {
    /// The stamp of its moment: it sees exactly the commits with this stamp or a lower one.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.open.stamp
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::ViewExpired`]; [`Error::Undecodable`]; errors that name a bad key; [`Error::TableYoungerThanView`] of a table that
    /// was made after the view was opened, and [`Error::TableDropped`] of one that was dropped before;
    /// [`Error::TableNotLoaded`]; [`Error::ForeignTable`], [`Error::Closed`], [`Error::Forked`].
    pub fn get<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<Option<V::Owned>, Error> {
        let raw_table = self.own(table)?;
        let decode = |value: Option<&[u8]>| {
            let value = value.map(|value| decode_value::<V>(raw_table, value));
            value.transpose()
        };
        key.with_bytes(|key| self.with_value(raw_table, key, decode))
    }

    /// Calls `read` with the value of a key in place, if the key exists.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn get_with<K: Key + ?Sized, V: ValueView + ?Sized, Q: AsKey<K> + ?Sized, T>(
        &self,
        table: &Table<K, V>,
        key: &Q,
        read: impl FnOnce(&V::View) -> T,
    ) -> Result<Option<T>, Error> {
        let raw_table = self.own(table)?;
        let decode = |value: Option<&[u8]>| {
            let view = value.map(|bytes| {
                V::view(bytes).ok_or_else(|| undecodable(raw_table, V::type_name(), bytes))
            });
            Ok(view.transpose()?.map(read))
        };
        key.with_bytes(|key| self.with_value(raw_table, key, decode))
    }

    /// The values of many keys, in their order, into `out`, which is cleared. Equivalent to a
    /// [`get`](View::get) of each, and faster: their cache misses overlap.
    ///
    /// # Errors
    /// As [`View::get`]; `out` then has the values of all keys before the one that failed.
    pub fn get_many<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K>>(
        &self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = Q>,
        out: &mut Vec<Option<V::Owned>>,
    ) -> Result<(), Error> {
        out.clear();
        let raw_table = self.own(table)?;
        in_batches(keys, &mut Vec::new(), |keys| {
            out.reserve(keys.len());
            let mut undecodable = None;
            self.get_batch(raw_table, keys, |_, value| {
                let decoded = value.map(|bytes| decode_value::<V>(raw_table, bytes));
                match decoded.transpose() {
                    Ok(value) if undecodable.is_none() => out.push(value),
                    Ok(_) => {}
                    Err(error) => {
                        undecodable.get_or_insert(error);
                    }
                }
            })?;
            undecodable.map_or(Ok(()), Err)
        })
    }

    /// Whether the key is there.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn contains_key<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K> + ?Sized>(
        &self,
        table: &Table<K, V>,
        key: &Q,
    ) -> Result<bool, Error> {
        let raw_table = self.own(table)?;
        key.with_bytes(|key| self.with_value(raw_table, key, |value| Ok(value.is_some())))
    }

    /// The row with the least key.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn first<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        table: &Table<K, V>,
    ) -> Result<Option<(K::Owned, V::Owned)>, Error> {
        self.range(table, ..).next().transpose()
    }

    /// The row with the greatest key.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn last<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        table: &Table<K, V>,
    ) -> Result<Option<(K::Owned, V::Owned)>, Error> {
        self.range(table, ..).next_back().transpose()
    }

    /// The number of keys in a range: it reads them all.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn count<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Result<usize, Error> {
        let raw_table = self.own(table)?;
        let mut count = 0;
        with_range(&range, Direction::Forward, |range| {
            self.scan_bytes(raw_table, range, |_, _| {
                count += 1;
                Ok(ControlFlow::Continue(()))
            })
        })?;
        Ok(count)
    }

    /// The keys in a range and their values, in ascending order.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn scan<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
    ) -> Result<Vec<(K::Owned, V::Owned)>, Error> {
        let mut found = Vec::new();
        self.scan_with(table, range, Direction::Forward, |key, value| {
            found.push((key, value));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Visits the keys in a range and their values, in ascending or descending order, until `visit` breaks off.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn scan_with<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        table: &Table<K, V>,
        range: impl KeyRange<K>,
        direction: Direction,
        mut visit: impl FnMut(K::Owned, V::Owned) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let raw_table = self.own(table)?;
        with_range(&range, direction, |range| {
            self.scan_bytes(raw_table, range, |key, value| {
                let key = decode_key::<K>(raw_table, key)?;
                Ok(visit(key, decode_value::<V>(raw_table, value)?))
            })
        })
    }
}

/// Reading bytes.
impl View {
    /// The raw table, if the view may read it.
    pub(crate) fn own<'t, K: ?Sized, V: ?Sized>(
        &self,
        table: &'t Table<K, V>,
    ) -> Result<&'t Arc<RawTable>, Error> {
        let raw_table = table.raw_table();
        self.check(raw_table)?;
        Ok(raw_table)
    }

    /// Whether the view may read a table.
    pub(crate) fn check(&self, raw_table: &RawTable) -> Result<(), Error> {
        let engine = &self.open.engine;
        engine.check_usable()?;
        if self.catalogue.is_older_than(raw_table) && raw_table.owner == engine.owner {
            let table = raw_table.name();
            return Err(Error::TableYoungerThanView { table });
        }
        match engine.check_table(raw_table) {
            Err(_) if self.catalogue.keeps(raw_table.id) && raw_table.owner == engine.owner => {
                Ok(())
            }
            checked => checked,
        }
    }

    /// The runs of a table that is not loaded.
    fn unloaded(&self, raw_table: &RawTable) -> Result<Option<Arc<UnloadedTable>>, Error> {
        if raw_table.is_loaded() {
            return Ok(None);
        }
        let found = self.loader.unloaded(raw_table.id);
        if let Ok(Some(unloaded)) = found {
            return Ok(Some(unloaded));
        }
        // It was loaded or dropped concurrently.
        match self.catalogue.kept_unloaded(raw_table.id) {
            Some(unloaded) => Ok(Some(unloaded)),
            None => self.check(raw_table).and(found),
        }
    }

    /// The error of a read from files, or that the database is closed: the next opening may delete
    /// the files.
    #[cold]
    fn or_closed(&self, error: Error) -> Error {
        self.open.engine.check_usable().err().unwrap_or(error)
    }

    /// About how many rows a table has: see [`RawTable::len_estimate`].
    pub(crate) fn len_estimate(&self, raw_table: &RawTable) -> u64 {
        match self.unloaded(raw_table) {
            Ok(Some(unloaded)) => unloaded.len_estimate(),
            _ => raw_table.len_estimate(),
        }
    }

    /// Calls `read` with the value of a key.
    pub(crate) fn with_value<T>(
        &self,
        raw_table: &RawTable,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(unloaded) = self.unloaded(raw_table)? {
            let mut value = Vec::new();
            let found = unloaded.get(&self.open, key, &mut value);
            let present = found.map_err(|error| self.or_closed(error))?;
            return read(present.then_some(&value[..]));
        }
        let found = raw_table.find(key);
        match found.map_err(|error| Error::from_index(&error, &raw_table.name()))? {
            Err(_leaf) => {
                self.open.check()?;
                read(None)
            }
            Ok(record) => {
                let mut value = Vec::new();
                let present = self.open.copy(record, &mut value)?.is_some();
                read(present.then_some(&value[..]))
            }
        }
    }

    /// Visits some keys and their values: at most
    /// [`BATCH_KEYS_MAX`](crate::table::raw_table::BATCH_KEYS_MAX). Their cache misses overlap.
    pub(crate) fn get_batch(
        &self,
        raw_table: &RawTable,
        keys: &[&[u8]],
        mut visit: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<(), Error> {
        let mut value = Vec::new();
        if let Some(unloaded) = self.unloaded(raw_table)? {
            for key in keys {
                let found = unloaded.get(&self.open, key, &mut value);
                let present = found.map_err(|error| self.or_closed(error))?;
                visit(key, present.then_some(&value[..]));
            }
            return Ok(());
        }
        let mut lookups = Vec::new();
        let found = raw_table.find_all(keys, &mut lookups);
        found.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        let records = || lookups.iter().map(|lookup| RawTable::found(*lookup).ok());
        records().flatten().for_each(RecordRef::prefetch);
        for (key, record) in keys.iter().zip(records()) {
            let present = match record {
                Some(record) => self.open.copy(record, &mut value)?.is_some(),
                None => false,
            };
            self.open.check()?;
            visit(key, present.then_some(&value[..]));
        }
        Ok(())
    }

    /// Visits the keys in a range and their values, in order.
    pub(crate) fn scan_bytes(
        &self,
        raw_table: &RawTable,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        // An index without an order says so itself.
        if raw_table.is_ordered()
            && let Some(unloaded) = self.unloaded(raw_table)?
        {
            let scanned = unloaded.scan(&self.open, range, visit);
            return scanned.map_err(|error| self.or_closed(error));
        }
        self.open
            .scan(raw_table, range, |key, _, value, _| visit(key, value))
    }

    /// The first key in a range, in its direction: one that the table has, or has had lately, so that the view may find no row
    /// there.
    pub(crate) fn end_key(
        &self,
        raw_table: &RawTable,
        range: ScanRange<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut found = None;
        if let Some(unloaded) = self.unloaded(raw_table)? {
            let scanned = unloaded.scan(&self.open, range, |key, _| {
                found = Some(key.to_vec());
                Ok(ControlFlow::Break(()))
            });
            return scanned
                .map(|()| found)
                .map_err(|error| self.or_closed(error));
        }
        let scanned = raw_table.scan(range, |step| {
            let Step::Entry(key, _) = step else {
                return ControlFlow::Continue(());
            };
            found = Some(key.to_vec());
            ControlFlow::Break(())
        });
        scanned.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        Ok(found)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("stamp", &self.open.stamp)
            .finish_non_exhaustive()
    }
}
