//! Ranges of keys.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_index::ScanRange;

use super::{Transaction, Version};
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, Step};

impl Transaction {
    /// Visits the keys in a range and their values, in order.
    pub(crate) fn scan_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.scan_records(raw_table, range, |tx, key, record| {
            match tx.value_of(record, LockMode::SHARED)? {
                Some(value) => visit(key, value),
                None => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// The versions of all keys in a range, deleted ones included that are still in the index. They
    /// count as read.
    pub(crate) fn versions_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], Version),
    ) -> Result<(), Error> {
        self.scan_records(raw_table, range, |tx, key, record| {
            let version = tx.version_of(record)?;
            visit(key, version);
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Visits the records in a range, in order. That there are no others is noted, or locked, with it.
    fn scan_records(
        &mut self,
        raw_table: &Arc<RawTable>,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&mut Self, &[u8], RecordRef) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.resolve_deferred_writes()?;
        if self.locks_reads() {
            self.scan_locking(raw_table, range, visit)?;
            return self.check_own_writes();
        }
        let mut outcome = Ok(());
        let scanned = raw_table.scan(range, |step| {
            let step = match step {
                Step::Leaf(leaf) => {
                    self.access_set.gap(raw_table, leaf);
                    Ok(ControlFlow::Continue(()))
                }
                Step::Entry(key, record) => visit(self, key, record),
            };
            step.unwrap_or_else(|error| {
                outcome = Err(error);
                ControlFlow::Break(())
            })
        });
        scanned.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        outcome?;
        self.check_own_writes()
    }
}
