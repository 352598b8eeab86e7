//! Deferred blind writes: they need their record at the commit and not before.
//!
//! Whatever reads places them first, so that it sees them; so do savepoints, which go by positions in the
//! write set. Until then they gather, and are looked up together.
//!
//! One that cannot be placed, because its table has no room for the key, was promised to the transaction's
//! code already. So it stays here, with all that were to be placed with it: whatever looks for it fails, and
//! the transaction cannot commit.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Transaction;
use super::together::prefetch_found;
use crate::cc::{Protocol, with_protocol};
use crate::error::Error;
use crate::lock::Locked;
use crate::record::RecordRef;
use crate::sets::Pending;
use crate::space::{FOUND_TOGETHER, Space};

impl Transaction {
    /// Looks up the records of all deferred writes together: their cache misses overlap.
    ///
    /// # Errors
    /// [`Error::TableFull`]; the transaction cannot commit any more.
    #[inline]
    pub(crate) fn place_pending(&mut self) -> Result<(), Error> {
        match self.sets.pending.is_empty() {
            true => Ok(()),
            false => self.place_all_pending(),
        }
    }

    #[inline(never)]
    fn place_all_pending(&mut self) -> Result<(), Error> {
        let mut pending = std::mem::take(&mut self.sets.pending);
        let placed = match &pending[..] {
            [write] => self.place_alone(write),
            _ => pending
                .chunk_by(|a, b| a.space == b.space)
                .flat_map(|writes| writes.chunks(FOUND_TOGETHER))
                .try_for_each(|writes| self.place_together(writes)),
        };
        match &placed {
            Ok(()) => pending.clear(),
            // A conflict that came before is what the transaction fails with.
            Err(error) => _ = self.doomed.get_or_insert_with(|| error.clone()),
        }
        self.sets.pending = pending;
        placed
    }

    fn place_alone(&mut self, write: &Pending) -> Result<(), Error> {
        let space = self.sets.space_of(write);
        let record = match space.find(self.sets.key_of(write)) {
            Ok(Ok(record)) => {
                // It will be locked after a little more than the processor can look ahead.
                record.prefetch();
                record
            }
            _ => self.place_absent(write)?,
        };
        self.sets.place(write, record);
        Ok(())
    }

    /// Places writes to one table.
    fn place_together(&mut self, writes: &[Pending]) -> Result<(), Error> {
        let Some(first) = writes.first() else {
            return Ok(());
        };
        let space = self.sets.space_of(first);
        let keys: SmallVec<[&[u8]; FOUND_TOGETHER]> =
            writes.iter().map(|write| self.sets.key_of(write)).collect();
        space
            .find_all(&keys, &mut self.lookups)
            .map_err(|error| Error::from_index(&error, &space.info.name))?;
        drop(keys);
        // A blind write looks at its record only when it locks it; by then, they have all arrived.
        prefetch_found(&self.lookups);
        for (at, write) in writes.iter().enumerate() {
            let record = match Space::found(self.lookups[at]) {
                Ok(record) => record,
                Err(_) => self.place_absent(write)?,
            };
            self.sets.place(write, record);
        }
        Ok(())
    }

    /// Makes the record of a write to a key that was not there a moment ago.
    fn place_absent(&mut self, write: &Pending) -> Result<RecordRef, Error> {
        let space = self.sets.space_of(write);
        if self.locks_reads() {
            let space = Arc::clone(space);
            let key = SmallVec::<[u8; 64]>::from_slice(self.sets.key_of(write));
            return Ok(self
                .place_in_locked_gap(&space, &key, Locked::EXCLUSIVE)?
                .record);
        }
        let locked = with_protocol!(self.concurrency, P => P::NEW_LOCKED);
        let placed = space
            .place_missing(self.sets.key_of(write), locked)
            .map_err(|error| Error::from_index(&error, &space.info.name))?;
        Ok(self.placed(placed, |sets, inserted| {
            sets.own_insert_in(write.space as usize, inserted)
        }))
    }
}
