//! Deferred blind writes: they need their record only at the commit.
//!
//! A read resolves them first, so that it sees them; so does a savepoint, which goes by positions in the write set.
//! Until then they accumulate and are resolved in one batch.
//!
//! If one cannot be resolved (table full), the call has already returned `Ok`; so it stays deferred and the transaction
//! is doomed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Transaction;
use super::batched_lookup::prefetch_found;
use crate::commit::access_set::DeferredWrite;
use crate::concurrency::cc::{CcProtocol, with_protocol};
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable};

impl Transaction {
    /// Looks up the records of all deferred writes together: their cache misses overlap.
    ///
    /// # Errors
    /// [`Error::TableFull`]; the transaction cannot commit any more.
    #[inline]
    pub(crate) fn resolve_deferred_writes(&mut self) -> Result<(), Error> {
        if self.access_set.deferred.is_empty() {
            Ok(())
        } else {
            self.resolve_all_deferred()
        }
    }

    #[inline(never)]
    fn resolve_all_deferred(&mut self) -> Result<(), Error> {
        let mut deferred = std::mem::take(&mut self.access_set.deferred);
        let resolved = match &deferred[..] {
            [write] => self.resolve_one(write),
            _ => deferred
                .chunk_by(|a, b| a.raw_table == b.raw_table)
                .flat_map(|writes| writes.chunks(BATCH_KEYS_MAX))
                .try_for_each(|writes| self.resolve_batch(writes)),
        };
        match &resolved {
            Ok(()) => deferred.clear(),
            // The transaction fails with an earlier conflict.
            Err(error) => _ = self.doom.keep_first(error.clone()),
        }
        self.access_set.deferred = deferred;
        resolved
    }

    fn resolve_one(&mut self, write: &DeferredWrite) -> Result<(), Error> {
        let raw_table = self.access_set.raw_table_of(write);
        let record = match raw_table.find(self.access_set.key_of(write)) {
            Ok(Ok(record)) => {
                // It will be locked after a little more than the processor can look ahead.
                record.prefetch();
                record
            }
            _ => self.resolve_absent(write)?,
        };
        self.resolve_to(write, record)
    }

    fn resolve_to(&mut self, write: &DeferredWrite, record: RecordRef) -> Result<(), Error> {
        self.evaluate_many_calls(record)?;
        self.access_set.resolve_deferred(write, record);
        Ok(())
    }

    /// Resolves deferred writes of one table.
    fn resolve_batch(&mut self, writes: &[DeferredWrite]) -> Result<(), Error> {
        let Some(first) = writes.first() else {
            return Ok(());
        };
        let raw_table = self.access_set.raw_table_of(first);
        let keys: SmallVec<[&[u8]; BATCH_KEYS_MAX]> = writes
            .iter()
            .map(|write| self.access_set.key_of(write))
            .collect();
        raw_table
            .find_all(&keys, &mut self.lookups)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        drop(keys);
        // A blind write looks at its record only when it locks it; by then, they have all arrived.
        prefetch_found(&self.lookups);
        for (at, write) in writes.iter().enumerate() {
            let record = match RawTable::found(self.lookups[at]) {
                Ok(record) => record,
                Err(_) => self.resolve_absent(write)?,
            };
            self.resolve_to(write, record)?;
        }
        Ok(())
    }

    /// Creates the record of a write to a key that was absent a moment ago.
    fn resolve_absent(&mut self, write: &DeferredWrite) -> Result<RecordRef, Error> {
        let raw_table = self.access_set.raw_table_of(write);
        if self.locks_reads() {
            let raw_table = Arc::clone(raw_table);
            let key = SmallVec::<[u8; 64]>::from_slice(self.access_set.key_of(write));
            return Ok(self
                .resolve_in_locked_gap(&raw_table, &key, LockMode::EXCLUSIVE)?
                .record);
        }
        let locked = with_protocol!(self.concurrency, P => P::NEW_LOCKED);
        let resolved = raw_table
            .create_record(self.access_set.key_of(write), locked)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        let new_records = &mut self.resources.held.new_records;
        new_records.note_if_new(raw_table.id, &resolved, self.access_set.key_of(write));
        Ok(self.admit_resolved(resolved, |access_set, inserted| {
            access_set.own_insert_in(write.raw_table as usize, inserted)
        }))
    }
}
