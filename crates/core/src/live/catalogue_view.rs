//! The catalogue in a view: the tables that existed at its moment, and their names.
//!
//! A change of the catalogue keeps the entries that it replaces for the open views, as a commit
//! keeps the versions that it overwrites (`commit/views`):
//!
//! ```text
//!   a view, with the catalogue locked          a change, with the catalogue locked from beginning to end
//!   1. notes the number of the last change     1. takes the next number
//!   2. pins itself, and closes the epoch       2. keeps what each of its names stands for, for every open view
//!                                                 that has nothing of that name yet
//!                                              3. takes place; a table that it makes gets its number
//! ```
//! So the view has every commit that returned before the last change that it knows of, and none that began after a later one:
//! that registers in a later epoch.
//!
//! # Invariants
//! - C1. A table with a larger number than the view's is younger than the view, which refuses it.
//! - C2. A table that is dropped while a view is open is read as before. Its rows do not change any more; in memory, they stay
//!   there as long as the view does not end (`views/mod.rs`, V3), and in files, these are open.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use namiki_data::columns::Schema;
use namiki_exec::source::Table as QueryTable;
use parking_lot::Mutex;

use crate::query_error::QueryError;
use crate::recovery::UnloadedTable;
use crate::table::raw_table::{ChangeNumber, RawTable, TableId};

/// The open views, for changes of the catalogue. Part of the catalogue, and protected by its lock.
#[derive(Default)]
pub(crate) struct CatalogueViews {
    last_change: ChangeNumber,
    open: Vec<Weak<CatalogueView>>,
}

/// A view's snapshot of the catalogue.
pub(crate) struct CatalogueView {
    /// The last change that it knows of.
    moment: ChangeNumber,
    replaced: Mutex<Replaced>,
}

/// The catalogue entries that changes after a view's moment have replaced.
#[derive(Default)]
struct Replaced {
    /// The tables that names stood for; `None` for a name that no table had.
    names: BTreeMap<String, Option<TableThen>>,
    /// Tables that were dropped, with their runs if they were not loaded.
    dropped: BTreeMap<TableId, Option<Arc<UnloadedTable>>>,
}

/// The table that a name stood for at a view's moment.
#[derive(Clone)]
pub(crate) enum TableThen {
    /// A table in memory, and its columns if the catalogue knew them. It is freed once the view has
    /// ended.
    InMemory(Weak<RawTable>, Option<Box<Schema>>),
    /// A table in segments, with its open files.
    InSegments {
        /// The identity of its segments.
        identity: String,
        opened: Result<QueryTable, QueryError>,
    },
}

impl TableThen {
    /// Whether this is the table of a handle, which has these segments if it stays in some.
    fn is(&self, raw_table: &Arc<RawTable>, segments: Option<&str>) -> bool {
        match self {
            Self::InMemory(then, _) => Weak::as_ptr(then) == Arc::as_ptr(raw_table),
            Self::InSegments { identity, .. } => segments == Some(identity),
        }
    }
}

impl CatalogueViews {
    /// The catalogue as it is now, for a view that is pinned while it is locked.
    pub(crate) fn pin(&mut self) -> Arc<CatalogueView> {
        let view = Arc::new(CatalogueView {
            moment: self.last_change,
            replaced: Mutex::default(),
        });
        self.open.retain(|view| view.strong_count() > 0);
        self.open.push(Arc::downgrade(&view));
        view
    }

    pub(crate) fn next_change(&mut self) -> ChangeNumber {
        self.last_change = ChangeNumber(self.last_change.0 + 1);
        self.last_change
    }

    /// The views that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = Arc<CatalogueView>> + '_ {
        self.open.iter().filter_map(Weak::upgrade)
    }

    /// The views that have no entry for this name yet.
    pub(crate) fn without(&self, name: &str) -> Vec<Arc<CatalogueView>> {
        self.open()
            .filter(|view| !view.replaced.lock().names.contains_key(name))
            .collect()
    }
}

impl CatalogueView {
    /// Keeps the table that a name stands for, which a change replaces.
    pub(crate) fn keep_name(&self, name: &str, then: Option<TableThen>) {
        self.replaced.lock().names.insert(name.to_owned(), then);
    }

    /// Keeps a dropped table, and its runs if it is not loaded.
    pub(crate) fn keep_dropped(&self, id: TableId, unloaded: Option<Arc<UnloadedTable>>) {
        let dropped = &mut self.replaced.lock().dropped;
        dropped.entry(id).or_insert(unloaded);
    }

    /// Whether a table was made after the view's moment (C1).
    #[inline]
    pub(crate) fn is_older_than(&self, raw_table: &RawTable) -> bool {
        self.moment < raw_table.made_by
    }

    /// Whether a view can still read a table that was dropped (C2).
    pub(crate) fn keeps(&self, id: TableId) -> bool {
        self.replaced.lock().dropped.contains_key(&id)
    }

    /// The runs of a table that was dropped before it was loaded.
    pub(crate) fn kept_unloaded(&self, id: TableId) -> Option<Arc<UnloadedTable>> {
        self.replaced.lock().dropped.get(&id).cloned().flatten()
    }

    /// The name that a table had, if that may differ from now. The table has these segments if it
    /// stays in some. The caller holds the catalogue's lock.
    pub(crate) fn name_then(
        &self,
        raw_table: &Arc<RawTable>,
        segments: Option<&str>,
    ) -> Option<String> {
        let replaced = self.replaced.lock();
        let mut names = replaced.names.iter();
        let is_its = |then: &Option<TableThen>| {
            then.as_ref()
                .is_some_and(|then| then.is(raw_table, segments))
        };
        let (name, _) = names.find(|(_, then)| is_its(then))?;
        Some(name.clone())
    }

    /// The table that a name stood for, if that may differ from now. The caller holds the
    /// catalogue's lock.
    pub(crate) fn replaced(&self, name: &str) -> Option<Option<TableThen>> {
        self.replaced.lock().names.get(name).cloned()
    }
}
