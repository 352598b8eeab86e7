//! Reserving numbers of sequences for a statement that has found none, and setting sequences.

use std::sync::Arc;

use super::{Connection, shared};
use crate::error::{SequenceSetting, SqlError, SqlResult};
use crate::sqlstate;

/// Most settings of sequences that the running transaction has made, in one statement.
const SETS_MAX: u32 = 64;

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

    /// Sets a sequence that the running transaction has made, as a call of `setval` has asked for.
    ///
    /// # Errors
    /// Those of [`Sequences::set_through`](crate::catalogue::Sequences::set_through); 42P01 for another sequence.
    pub(super) fn set_sequence(&mut self, setting: SequenceSetting) -> SqlResult<()> {
        let (sequences, session) = (Arc::clone(&self.shared.sequences), self.number);
        if !self.effects.own_sequences.contains_key(&setting.id) {
            return Err(SqlError::new(
                sqlstate::UNDEFINED_TABLE,
                "the sequence does not exist",
            ));
        }
        let after = self.in_transaction(|tx| sequences.set_through(tx, session, setting))?;
        self.effects.own_sequences.insert(setting.id, Some(after));
        Ok(())
    }

    /// [`set_sequence`](Self::set_sequence) for a statement that begins anew then: `sets` counts how often it has.
    ///
    /// # Errors
    /// 54000 if it has too often: each time it may ask for another number.
    pub(super) async fn set_sequence_again(
        &mut self,
        setting: SequenceSetting,
        sets: &mut u32,
    ) -> SqlResult<()> {
        *sets += 1;
        if *sets > SETS_MAX {
            return Err(SqlError::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "a statement sets sequences of its own transaction too often",
            )
            .with_hint("Commit the transaction that has made the sequence before."));
        }
        self.set_sequence(setting)?;
        // Other sessions of the thread have their turn.
        tokio::task::yield_now().await;
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
