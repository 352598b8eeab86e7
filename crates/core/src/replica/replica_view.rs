//! The state of a replica at one entry of the log, read while later groups are applied.
//!
//! [`ReplicaView::read`] and [`ReplicaView::rows`] read tables that are not in memory yet from the image, as every view does. What
//! needs the stamps of rows waits for them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_index::ScanRange;
use namiki_platform::Stamp;

use super::RESERVED;
use super::state_hash::StateHash;
use crate::api::database::Database;
use crate::api::view::View;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;
use crate::image::write::rows_at_stamp::KeyBounds;
use crate::table::raw_table::{RawTable, TableId, TableInfo};

/// The rows of a hash between two checks whether to go on.
const ROWS_PER_CHECK: u64 = 1024;

/// All tables of a replica as they were at one entry, see [`Replica::view`](super::Replica::view).
pub struct ReplicaView {
    view: View,
    /// The tables of that moment, by number, the cluster's own among them.
    tables: Vec<TableInfo>,
    /// How many tables had been dropped.
    dropped: u32,
    raw_tables: BTreeMap<TableId, Arc<RawTable>>,
}

impl ReplicaView {
    /// `is_limited`: as of [`OpenView::open`].
    pub(super) fn open(db: &Database, is_limited: bool) -> Result<Self, Error> {
        let shared = &db.shared;
        let engine = &shared.engine;
        engine.check_open()?;
        // While it is locked, no table is created or dropped.
        let mut catalogue = shared.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        let pinned = OpenView::pin(engine, is_limited)?;
        let catalogue_view = catalogue.views.pin();
        let tables = catalogue.manifest.tables.clone();
        let dropped = catalogue.manifest.dropped;
        let raw_tables = engine.raw_tables.lock().clone();
        drop(catalogue);
        let Some(open) = pinned.make_usable::<NoFaults>()? else {
            unreachable!("a replica's view knows its stamp from the beginning");
        };
        Ok(Self {
            view: View {
                open: Arc::new(open),
                catalogue: catalogue_view,
                loader: Arc::clone(&shared.loader),
            },
            tables,
            dropped,
            raw_tables,
        })
    }

    /// The same as a view of the database, for queries.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The stamp of the last group that it shows: the index of its entry.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.view.stamp()
    }

    /// The tables of that moment with their names, by number.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        let tables = self.tables.iter().filter(|info| info.id != RESERVED);
        tables.map(|info| (info.id, &*info.name))
    }

    /// The tables of that moment, the cluster's own among them, and how many had been dropped.
    pub(super) fn catalogue(&self) -> (&[TableInfo], u32) {
        (&self.tables, self.dropped)
    }

    /// The same in memory, by number.
    pub(super) fn raw_tables(&self) -> impl Iterator<Item = &Arc<RawTable>> {
        self.raw_tables.values()
    }

    /// Visits the rows of the cluster's own, as [`Replica::put_reserved`](super::Replica::put_reserved) has written them, in
    /// the order of their keys.
    ///
    /// # Errors
    /// As [`ReplicaView::scan`].
    pub fn reserved(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.scan_any(
            RESERVED,
            (Bound::Unbounded, Bound::Unbounded),
            |key, value, _| {
                visit(key, value);
                ControlFlow::Continue(())
            },
        )
    }

    /// Copies the value of a key into `into`; returns whether the key has one.
    ///
    /// # Errors
    /// As [`ReplicaView::rows`].
    pub fn read(&self, table: TableId, key: &[u8], into: &mut Vec<u8>) -> Result<bool, Error> {
        into.clear();
        let raw_table = self.raw_table(table)?;
        if raw_table.check_key(key).is_err() {
            // A key that the table cannot hold is not there.
            return Ok(false);
        }
        self.view.with_value(raw_table, key, |value| {
            into.extend_from_slice(value.unwrap_or_default());
            Ok(value.is_some())
        })
    }

    /// Visits the rows of a table within bounds, in the order of their keys, until the visitor stops: key and value.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::ViewExpired`]; [`Error::TableNotLoaded`] of an image that cannot be read;
    /// [`Error::Closed`].
    pub fn rows(
        &self,
        table: TableId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let range = ScanRange::forward(bounds.0, bounds.1);
        let raw_table = self.raw_table(table)?;
        self.view
            .scan_bytes(raw_table, range, |key, value| Ok(visit(key, value)))
    }

    /// A table of clients.
    fn raw_table(&self, table: TableId) -> Result<&Arc<RawTable>, Error> {
        let raw_table = self.raw_tables.get(&table).filter(|_| table != RESERVED);
        raw_table.ok_or_else(|| no_such_table(table))
    }

    /// Visits the rows of a table within bounds, in the order of their keys, until the visitor stops: key, value, and the
    /// stamp of the group that wrote it. Waits until the table is in memory.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::ViewExpired`]; [`Error::TableNotLoaded`]; [`Error::Closed`].
    pub fn scan(
        &self,
        table: TableId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        visit: impl FnMut(&[u8], &[u8], Stamp) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if table == RESERVED {
            return Err(no_such_table(table));
        }
        self.scan_any(table, bounds, visit)
    }

    fn scan_any(
        &self,
        table: TableId,
        bounds: KeyBounds<'_>,
        mut visit: impl FnMut(&[u8], &[u8], Stamp) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let raw_table = self.raw_tables.get(&table);
        let raw_table = raw_table.ok_or_else(|| no_such_table(table))?;
        raw_table.load_state.wait()?;
        let visit_row = |key: &[u8], _, value: &[u8], stamp| Ok(visit(key, value, stamp));
        let range = ScanRange::forward(bounds.0, bounds.1);
        self.view.open.scan(raw_table, range, visit_row)
    }

    /// A hash of all tables and of every key with its value and the stamp of the group that wrote it. Replicas that have
    /// applied the same groups have the same at the same stamp. The cluster's own rows are not in it: nodes write them when
    /// they write an image. `go_on` is called now and then, and ends it: then there is none.
    ///
    /// # Errors
    /// [`Error::ViewExpired`]; [`Error::TableNotLoaded`]; [`Error::Closed`].
    pub fn state_hash(&self, mut go_on: impl FnMut() -> bool) -> Result<Option<u128>, Error> {
        let mut hash = StateHash::default();
        let (mut rows, mut is_ended) = (0_u64, false);
        for info in self.tables.iter().filter(|info| info.id != RESERVED) {
            let id = info.id;
            hash.add_table(id, &info.name, info.fixed_keys);
            let all = (Bound::Unbounded, Bound::Unbounded);
            self.scan_any(id, all, |key, value, stamp| {
                if rows.is_multiple_of(ROWS_PER_CHECK) && !go_on() {
                    is_ended = true;
                    return ControlFlow::Break(());
                }
                rows += 1;
                hash.add_row(id, key, value, stamp);
                ControlFlow::Continue(())
            })?;
            if is_ended {
                return Ok(None);
            }
        }
        Ok(Some(hash.finish()))
    }
}

fn no_such_table(id: TableId) -> Error {
    let table = format!("with the number {}", id.0);
    Error::NoSuchTable { table }
}

impl fmt::Debug for ReplicaView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaView")
            .field("stamp", &self.stamp())
            .finish_non_exhaustive()
    }
}
