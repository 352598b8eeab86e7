//! Reserving numbers of sequences for a statement that has found none.

use std::sync::Arc;

use super::{Connection, shared};
use crate::error::SqlResult;

impl Connection {
    /// Reserves numbers, of a sequence that the running transaction has made through that transaction: no other
    /// transaction sees the sequence. `again`: how often the statement has needed some.
    ///
    /// # Errors
    /// Those of [`Sequences::refill`](crate::catalogue::Sequences::refill).
    pub(super) async fn refill(&mut self, id: u32, again: u32) -> SqlResult<()> {
        let sequences = Arc::clone(&self.shared.sequences);
        if !self.effects.own_sequences.contains_key(&id) {
            return sequences.refill(id, again).await;
        }
        let after = self.in_transaction(|tx| sequences.refill_through(tx, id, again))?;
        self.effects.own_sequences.insert(id, Some(after));
        Ok(())
    }

    /// After ROLLBACK TO SAVEPOINT: numbers that were given stay given.
    pub(super) fn keep_own_numbers(&mut self) -> SqlResult<()> {
        let own = &self.effects.own_sequences;
        let given: Vec<(u32, i64)> = own
            .iter()
            .filter_map(|(id, after)| after.map(|after| (*id, after)))
            .collect();
        if given.is_empty() {
            return Ok(());
        }
        let shared = shared(self);
        self.in_transaction(|tx| {
            for (id, after) in given {
                shared.catalogue.put_sequence_state(tx, id, after)?;
            }
            Ok(())
        })
    }
}
