//! A change of the catalogue keeps the replaced entries for the open views (`catalogue_view.rs`).

use std::sync::Arc;

use crate::api::database::Shared;
use crate::live::catalogue::Catalogue;
use crate::live::catalogue_view::TableThen;
use crate::recovery::UnloadedTable;
use crate::table::raw_table::{ChangeNumber, RawTable};

/// Changes of the catalogue.
impl Shared {
    /// Called before a name stands for another table, or for none: keeps its present table for open
    /// views. Returns the number of the change.
    pub(crate) fn begin_change(&self, catalogue: &mut Catalogue, name: &str) -> ChangeNumber {
        let number = catalogue.views.next_change();
        let views = catalogue.views.without(name);
        if !views.is_empty() {
            let then = self.table_now(catalogue, name);
            for view in views {
                view.keep_name(name, then.clone());
            }
        }
        number
    }

    /// Called before a table is dropped: keeps it for open views. If its files cannot be opened, it
    /// is not kept.
    pub(crate) fn keep_dropped(&self, catalogue: &Catalogue, raw_table: &RawTable) {
        let mut unloaded = None;
        for view in catalogue.views.open() {
            if view.is_older_than(raw_table) {
                continue;
            }
            let found = unloaded.get_or_insert_with(|| self.opened_runs(raw_table));
            if let Some(found) = found {
                view.keep_dropped(raw_table.id, found.clone());
            }
        }
    }

    /// The location of a table that is not loaded, with its files open. `None` if they cannot be
    /// opened.
    fn opened_runs(&self, raw_table: &RawTable) -> Option<Option<Arc<UnloadedTable>>> {
        if raw_table.is_loaded() {
            return Some(None);
        }
        let unloaded = self.loader.unloaded(raw_table.id).ok()?;
        if let Some(unloaded) = &unloaded {
            unloaded.open_runs().ok()?;
        }
        Some(unloaded)
    }

    /// The table that a name stands for.
    fn table_now(&self, catalogue: &Catalogue, name: &str) -> Option<TableThen> {
        let manifest = &catalogue.manifest;
        if let Some(table) = manifest.loaded_tables.table(name) {
            let identity = manifest.identity();
            let opened = (self.opened).table(&self.disk, &self.dir, identity, table);
            return Some(TableThen::InSegments {
                identity: table.segment.identity.clone(),
                opened,
            });
        }
        let id = catalogue.ids.get(name)?;
        let columns = manifest.table(id).and_then(|info| info.columns());
        let columns = columns.cloned().map(Box::new);
        let raw_tables = self.engine.raw_tables.lock();
        let raw_table = raw_tables.get(&id)?;
        Some(TableThen::InMemory(Arc::downgrade(raw_table), columns))
    }
}
