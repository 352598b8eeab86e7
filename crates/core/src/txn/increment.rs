//! Commutative increments: amounts that are added to a key's value at the commit, without reading
//! it before.
//!
//! The commit evaluates them, under the locks of their records (`commit_path/mod.rs`). A
//! transaction that accesses such a key earlier reads it.

use std::sync::Arc;

use namiki_data::ValueBytes;

use super::Transaction;
use crate::commit::access_set::Add;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

impl Transaction {
    /// Adds an amount to the value that the key has at the commit, without reading it before.
    pub(crate) fn add_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        encode: impl FnOnce(&mut ValueBytes),
        add: Add,
    ) -> Result<(), Error> {
        raw_table
            .check_key(key)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        let amount = self.stage(raw_table, key, encode)?;
        match self.record_of_blind(raw_table, key, &amount)? {
            Some(record) => {
                self.access_set
                    .write_add(record, raw_table.id, key, amount, add);
                if !self.faults.checks().add_locked {
                    self.apply_increment_unlocked(record)?;
                }
                self.perform(record)
            }
            None => {
                self.access_set
                    .defer_write(raw_table, key, amount, Some(add));
                Ok(())
            }
        }
    }

    /// Reads the record of an increment, and turns it into a write of the sum.
    #[cold]
    pub(super) fn apply_increment_now(
        &mut self,
        record: RecordRef,
        at: usize,
    ) -> Result<usize, Error> {
        let present = self.read_record(record, LockMode::EXCLUSIVE)?;
        let table = self.access_set.writes[at].table;
        let added = self
            .access_set
            .apply_increment(at, present.then_some(&self.value[..]));
        added.map_err(|error| {
            let error = self.resources.engine.not_added(table, error);
            self.doom(error)
        })?;
        Ok(at)
    }

    /// The fault of [`ADD_LOCKED`](crate::concurrency::cc::Checks::ADD_LOCKED).
    #[cold]
    fn apply_increment_unlocked(&mut self, record: RecordRef) -> Result<(), Error> {
        let Some(at) = self.access_set.write_of(record) else {
            return Ok(());
        };
        let found = record.copy_if(&mut self.value, |_| true);
        let present = found.filter(|version| !version.absent);
        let table = self.access_set.writes[at].table;
        let added = self
            .access_set
            .apply_increment(at, present.map(|_| &self.value[..]));
        added.map_err(|error| self.resources.engine.not_added(table, error))
    }
}
