//! Batched look-ups, so that their cache misses overlap.
//!
//! A single look-up waits for one miss after the other, first those of the index and then that of
//! the record. For a batch of keys, the index takes a step for each in turn, and all records are
//! prefetched before the first is read. Each of these calls is for at most
//! [`BATCH_KEYS_MAX`](crate::table::raw_table::BATCH_KEYS_MAX) keys.

use std::sync::Arc;

use namiki_data::ValueBytes;
use namiki_index::Lookup;

use super::Transaction;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

impl Transaction {
    /// A buffer for the bytes of keys, to be [returned](Self::return_key_buffer).
    pub(crate) fn take_key_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.key_bytes)
    }

    pub(crate) fn return_key_buffer(&mut self, bytes: Vec<u8>) {
        self.key_bytes = bytes;
    }

    /// Visits the values of some keys, as [`Transaction::get_bytes`] gives them. The cache misses of their
    /// look-ups overlap, and then those of their records.
    pub(crate) fn get_batch(
        &mut self,
        raw_table: &Arc<RawTable>,
        keys: &[&[u8]],
        mut visit: impl FnMut(Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.find_batch(
            raw_table,
            keys,
            LockMode::SHARED,
            |tx, _, key, record| match record {
                Some(record) => {
                    tx.lookup_cache.note(raw_table.id, key, record);
                    visit(tx.value_of(record, LockMode::SHARED)?)
                }
                None => visit(None),
            },
        )
    }

    /// [`Transaction::update_bytes`] for some keys; returns how many existed. Their cache misses
    /// overlap as above.
    pub(crate) fn update_batch(
        &mut self,
        raw_table: &Arc<RawTable>,
        keys: &[&[u8]],
        mut change: impl FnMut(usize, &[u8], &mut ValueBytes) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut updated = 0;
        self.find_batch(
            raw_table,
            keys,
            LockMode::EXCLUSIVE,
            |tx, at, key, record| {
                if let Some(record) = record {
                    let change = |old: &[u8], new: &mut ValueBytes| change(at, old, new);
                    updated += usize::from(tx.update_record(raw_table, key, record, change)?);
                }
                Ok(())
            },
        )?;
        Ok(updated)
    }

    /// Prefetches the index nodes of some keys, and their records. It waits for the overlapping
    /// misses of the look-ups, but not for those of the records.
    pub(crate) fn prefetch_batch(&mut self, raw_table: &RawTable, keys: &[&[u8]]) {
        // A key that the table cannot hold is reported when it is used. A table that is not loaded has nothing to fetch.
        if raw_table.is_loaded() && raw_table.find_all(keys, &mut self.lookups).is_ok() {
            prefetch_found(&self.lookups);
        }
    }

    /// Visits some keys, each with its position and its record; or without a record, once the gap
    /// is noted. The error of a key that the table cannot hold comes after those before it were
    /// visited. `locked` is as in [`Transaction::find`].
    #[inline]
    fn find_batch(
        &mut self,
        raw_table: &Arc<RawTable>,
        keys: &[&[u8]],
        locked: LockMode,
        mut visit: impl FnMut(&mut Self, usize, &[u8], Option<RecordRef>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.resolve_deferred_writes()?;
        let mut lookups = std::mem::take(&mut self.lookups);
        let (keys, refused) = match raw_table.find_all(keys, &mut lookups) {
            Ok(()) => (keys, None),
            Err(error) => (find_before_bad(raw_table, keys, &mut lookups), Some(error)),
        };
        prefetch_found(&lookups);
        if let Err(error) = self.check_own_writes() {
            self.lookups = lookups;
            return Err(error);
        }
        let visited = keys
            .iter()
            .zip(&lookups)
            .enumerate()
            .try_for_each(|(at, (key, lookup))| {
                let record = match RawTable::found(*lookup) {
                    Ok(record) => Some(record),
                    Err(leaf) => self.read_absent(raw_table, key, leaf, locked)?,
                };
                visit(self, at, key, record)
            });
        self.lookups = lookups;
        match refused {
            None => visited,
            Some(error) => visited.and_then(|()| Err(Error::from_index(&error, &raw_table.name()))),
        }
    }
}

/// Looks up the keys before the first that the table cannot hold, and returns them.
#[cold]
fn find_before_bad<'k, 'b>(
    raw_table: &RawTable,
    keys: &'k [&'b [u8]],
    lookups: &mut Vec<Lookup>,
) -> &'k [&'b [u8]] {
    let good = keys
        .iter()
        .take_while(|key| raw_table.check_key(key).is_ok());
    let keys = &keys[..good.count()];
    match raw_table.find_all(keys, lookups) {
        Ok(()) => keys,
        Err(error) => unreachable!("the keys have just been checked: {error}"),
    }
}

/// Prefetches the records that were found.
pub(super) fn prefetch_found(lookups: &[Lookup]) {
    lookups
        .iter()
        .filter_map(|lookup| RawTable::found(*lookup).ok())
        .for_each(RecordRef::prefetch);
}
