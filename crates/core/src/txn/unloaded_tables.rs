//! Tables that are not loaded when a transaction begins to use them.
//!
//! A transaction that is run by a session ends its attempt, and the session waits before the next
//! one: so it holds neither locks nor a pin against reclamation during the wait, and a task blocks
//! no thread. A transaction that its owner ends has no other attempt: it waits at once.

use std::sync::Arc;

use super::Transaction;
use crate::error::Error;
use crate::table::raw_table::RawTable;

/// How a transaction handles a table that is not loaded.
#[derive(Default)]
pub(super) enum UnloadedTables {
    /// It waits.
    #[default]
    Wait,
    /// Its attempt ends, because of this table.
    EndAttempt(Option<Arc<RawTable>>),
}

impl Transaction {
    /// From now on, an attempt that uses an unloaded table ends, and the caller asks it for that
    /// table.
    pub(crate) fn end_attempts_on_unloaded_tables(&mut self) {
        self.unloaded_tables = UnloadedTables::EndAttempt(None);
    }

    /// The table that has ended the attempt.
    pub(crate) fn take_unloaded_table(&mut self) -> Option<Arc<RawTable>> {
        match &mut self.unloaded_tables {
            UnloadedTables::Wait => None,
            UnloadedTables::EndAttempt(table) => table.take(),
        }
    }

    /// Waits until a table is loaded, or ends the attempt.
    #[cold]
    pub(super) fn await_loaded(&mut self, raw_table: &Arc<RawTable>) -> Result<(), Error> {
        let UnloadedTables::EndAttempt(table) = &mut self.unloaded_tables else {
            return raw_table.load_state.wait();
        };
        *table = Some(Arc::clone(raw_table));
        let error = Error::TableLoading {
            table: raw_table.name(),
        };
        self.doom.replace(error.clone());
        Err(error)
    }
}
