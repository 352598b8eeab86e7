//! Commutative increments: amounts that are added to a key's value at the commit, without reading
//! it before.
//!
//! They are late changes: the commit evaluates them (`late_change.rs`).

use std::sync::Arc;

use namiki_data::ValueBytes;

use super::Transaction;
use crate::commit::late_changes::Add;
use crate::error::Error;
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
                self.evaluate_many_calls(record)?;
                self.access_set
                    .write_add(record, raw_table.id, key, amount, add);
                if !self.faults.checks().add_locked {
                    self.evaluate_unlocked(record)?;
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
}
