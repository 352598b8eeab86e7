//! The rows of a table as a view sees them: what an image is written from.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_index::{Direction, ScanRange};
use namiki_platform::Stamp;

use crate::commit::views::OpenView;
use crate::error::Error;
use crate::image::rows_at_stamp::{KeyBounds, RowsAtStamp, VisitRow};
use crate::table::raw_table::{RawTable, Step};

/// A table, in a view.
pub(super) struct RowsOfView<'v> {
    pub(super) view: &'v OpenView,
    pub(super) raw_table: Arc<RawTable>,
}

impl RowsOfView<'_> {
    fn scan(
        &self,
        (start, end): KeyBounds<'_>,
        visit: impl FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let range = ScanRange {
            start,
            end,
            direction: Direction::Forward,
        };
        let scanned = self.raw_table.scan(range, visit);
        scanned.map_err(|error| Error::from_index(&error, &self.raw_table.name()))
    }
}

impl RowsAtStamp for RowsOfView<'_> {
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error> {
        let mut value = Vec::new();
        let mut outcome = Ok(());
        self.scan(bounds, |step| {
            let Step::Entry(key, record) = step else {
                return ControlFlow::Continue(());
            };
            match self.view.copy(record, &mut value) {
                Ok(Some(stamp)) => visit(key, &value, stamp),
                Ok(None) => ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        outcome
    }

    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error> {
        let mut is_changed = false;
        self.scan(bounds, |step| match step {
            // What is newer than the view counts, too: the version before it may be above `since`.
            Step::Entry(_, record) if record.creation() > since => {
                is_changed = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        Ok(is_changed)
    }
}
