//! The rows of a table as a view sees them, from which an image is written.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_index::ScanRange;
use namiki_platform::Stamp;

use crate::commit::view_opening::OpenView;
use crate::error::Error;
use crate::image::write::rows_at_stamp::{KeyBounds, RowsAtStamp, VisitRow};
use crate::image::write::sorted_keys::{RowsByKey, SortedRows};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, Step};

/// A table in a view, in the order of its keys.
pub(crate) struct TableRows<'v> {
    raw_table: Arc<RawTable>,
    rows: OrderedRows<'v>,
}

enum OrderedRows<'v> {
    /// As its index has them.
    AsTheyAre(RowsOfView<'v>),
    /// The keys are gathered and sorted first.
    Sorted(SortedRows<RowsOfView<'v>>),
}

impl<'v> TableRows<'v> {
    pub(crate) fn new(view: &'v OpenView, raw_table: Arc<RawTable>) -> Self {
        let rows = RowsOfView {
            view,
            raw_table: Arc::clone(&raw_table),
        };
        let rows = if raw_table.is_ordered() {
            OrderedRows::AsTheyAre(rows)
        } else {
            OrderedRows::Sorted(SortedRows::new(rows))
        };
        Self { raw_table, rows }
    }
}

impl RowsAtStamp for TableRows<'_> {
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error> {
        match &mut self.rows {
            OrderedRows::AsTheyAre(rows) => rows.visit(bounds, visit),
            OrderedRows::Sorted(rows) => rows.visit(bounds, visit),
        }
    }

    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error> {
        let is_changed = match &mut self.rows {
            OrderedRows::AsTheyAre(rows) => rows.changed_since(bounds, since),
            OrderedRows::Sorted(rows) => rows.changed_since(bounds, since),
        }?;
        // After the index: of a deleted key that was not there any more, this knows.
        let removed = self.raw_table.removed_ranges();
        removed.forget_through(since);
        Ok(is_changed || removed.any_since(bounds, since))
    }

    fn written_through(&mut self, key: Option<&[u8]>) {
        match &mut self.rows {
            OrderedRows::AsTheyAre(rows) => RowsAtStamp::written_through(rows, key),
            OrderedRows::Sorted(rows) => rows.written_through(key),
        }
    }
}

/// A table, in a view.
pub(super) struct RowsOfView<'v> {
    view: &'v OpenView,
    raw_table: Arc<RawTable>,
}

impl RowsOfView<'_> {
    fn find(&self, key: &[u8]) -> Result<Option<RecordRef>, Error> {
        let found = self.raw_table.find(key);
        let found = found.map_err(|error| Error::from_index(&error, &self.raw_table.name()))?;
        Ok(found.ok())
    }

    fn scan(
        &self,
        (start, end): KeyBounds<'_>,
        visit: impl FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let range = ScanRange::forward(start, end);
        let scanned = self.raw_table.scan(range, visit);
        scanned.map_err(|error| Error::from_index(&error, &self.raw_table.name()))
    }
}

impl RowsAtStamp for RowsOfView<'_> {
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error> {
        let visit_row = |key: &[u8], record, value: &[u8], stamp| {
            self.view.forget_written(record);
            Ok(visit(key, value, stamp))
        };
        let range = ScanRange::forward(bounds.0, bounds.1);
        self.view.scan(&self.raw_table, range, visit_row)
    }

    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error> {
        let mut is_changed = false;
        self.scan(bounds, |step| match step {
            // A version newer than the view counts, too: the one before it may be above `since`.
            Step::Entry(_, record) if record.creation() > since => {
                is_changed = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        Ok(is_changed)
    }

    fn written_through(&mut self, key: Option<&[u8]>) {
        self.view.set_written(self.raw_table.id, key);
    }
}

impl RowsByKey for RowsOfView<'_> {
    fn visit_keys(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let visited = self.raw_table.for_each(|key, _| {
            visit(key);
            ControlFlow::Continue(())
        });
        visited.map_err(|error| Error::from_index(&error, &self.raw_table.name()))
    }

    fn row(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Stamp>, Error> {
        let Some(record) = self.find(key)? else {
            return Ok(None);
        };
        let copied = self.view.copy(record, value)?;
        self.view.forget_written(record);
        Ok(copied)
    }

    fn has_changed(&mut self, key: &[u8], since: Stamp) -> Result<bool, Error> {
        Ok(self
            .find(key)?
            .is_some_and(|record| record.creation() > since))
    }

    fn written_through(&mut self, key: Option<&[u8]>) {
        RowsAtStamp::written_through(self, key);
    }
}
