//! Amounts that are added to what a key will hold at the commit, without reading it before.
//!
//! The commit makes the sums, of records that it has locked (`commit.rs`). A transaction that looks at such a key
//! before reads it.

use std::sync::Arc;

use super::Transaction;
use crate::error::Error;
use crate::lock::Locked;
use crate::record::RecordRef;
use crate::sets::Add;
use crate::space::Space;

impl Transaction {
    /// Adds an amount to the value that the key has at the commit, without reading it before.
    pub(crate) fn add_bytes(
        &mut self,
        space: &Arc<Space>,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
        add: Add,
    ) -> Result<(), Error> {
        space
            .check_key(key)
            .map_err(|error| Error::from_index(&error, &space.info.name))?;
        let amount = self.stage(space, key, encode)?;
        match self.record_of_blind(space, key, &amount)? {
            Some(record) => {
                self.sets.write_add(record, space.info.id, key, amount, add);
                if !self.planted.add_locked {
                    self.add_up_unlocked(record)?;
                }
                self.perform(record)
            }
            None => {
                self.sets.put_off(space, key, amount, Some(add));
                Ok(())
            }
        }
    }

    /// Reads the record of a write that was to add an amount, and makes the sum the write's value.
    #[cold]
    pub(super) fn add_up_now(&mut self, record: RecordRef, at: usize) -> Result<usize, Error> {
        let present = self.read_record(record, Locked::EXCLUSIVE)?;
        let table = self.sets.writes[at].table;
        let added = self.sets.add_up(at, present.then_some(&self.value[..]));
        added.map_err(|error| {
            let error = self.engine.not_added(table, error);
            self.doom(error)
        })?;
        Ok(at)
    }

    /// The bug of [`ADD_LOCKED`](crate::cc::Checks::ADD_LOCKED).
    #[cold]
    fn add_up_unlocked(&mut self, record: RecordRef) -> Result<(), Error> {
        let Some(at) = self.sets.write_of(record) else {
            return Ok(());
        };
        let found = record.copy_if(&mut self.value, |_| true);
        let present = found.filter(|version| !version.absent);
        let table = self.sets.writes[at].table;
        let added = self.sets.add_up(at, present.map(|_| &self.value[..]));
        added.map_err(|error| self.engine.not_added(table, error))
    }
}
