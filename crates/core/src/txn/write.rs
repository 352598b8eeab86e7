//! Writes of a transaction: put, insert, update and delete of one key, and the records of new keys.

use std::ops::Range;
use std::sync::Arc;

use namiki_data::ValueBytes;

use super::Transaction;
use crate::commit::access_set::AccessSet;
use crate::concurrency::cc::{CcProtocol, with_protocol};
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Insertion, RawTable, Resolved};

impl Transaction {
    /// The key's record, created if it does not exist.
    pub(super) fn find_or_create_record(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<RecordRef, Error> {
        if let Some(record) = self.lookup_cache.find(raw_table.id, key) {
            return Ok(record);
        }
        if self.locks_reads() {
            let resolved = self.resolve_in_locked_gap(raw_table, key, LockMode::EXCLUSIVE)?;
            self.check_own_writes()?;
            return Ok(resolved.record);
        }
        let locked = with_protocol!(self.concurrency, P => P::NEW_LOCKED);
        let resolved = raw_table
            .find_or_create_record(key, locked)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        let new_records = &mut self.resources.held.new_records;
        new_records.note_if_new(raw_table.id, &resolved, key);
        let record = self.admit_resolved(resolved, |access_set, inserted| {
            access_set.own_insert(raw_table, inserted)
        });
        self.check_own_writes()?;
        Ok(record)
    }

    /// Admits a new record. `own_insert` says whether the transaction had read the gap it is in.
    pub(super) fn admit_resolved(
        &mut self,
        resolved: Resolved,
        own_insert: impl FnOnce(&mut AccessSet, &Insertion) -> bool,
    ) -> RecordRef {
        match resolved {
            Resolved::Found(record) => record,
            Resolved::New {
                record,
                inserted,
                rts,
            } => {
                let seen = with_protocol!(self.concurrency, P => P::admit(record, rts));
                if own_insert(&mut self.access_set, &inserted) {
                    // The gap that was read answers no longer for this key: from now on, others
                    // find its record, and change that and not the leaf.
                    self.access_set.read(record, seen);
                }
                record
            }
        }
    }

    /// Writes a value, whether the key is there or not, without reading it. Where the key's record
    /// has not just been read, it is looked up later, together with those of other writes.
    pub(crate) fn put_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        encode: impl FnOnce(&mut ValueBytes),
    ) -> Result<(), Error> {
        raw_table
            .check_key(key)
            .map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        let value = self.stage(raw_table, key, encode)?;
        match self.record_of_blind(raw_table, key, &value)? {
            Some(record) => {
                self.access_set
                    .write(record, raw_table.id, key, Some(value));
                self.perform(record)
            }
            None => {
                self.access_set.defer_write(raw_table, key, value, None);
                Ok(())
            }
        }
    }

    /// The record of a blind write, if it is known, or needed at once: because it is changed at once, or because a
    /// savepoint goes by positions in the write set, so that a write has to have one.
    #[inline(always)]
    pub(super) fn record_of_blind(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        staged: &Range<u32>,
    ) -> Result<Option<RecordRef>, Error> {
        match self.lookup_cache.find(raw_table.id, key) {
            None if self.in_place
                || self.access_set.has_marks()
                || !self.faults.checks().add_locked =>
            {
                self.resolve_staged(raw_table, key, staged).map(Some)
            }
            cached => Ok(cached),
        }
    }

    /// Writes a value if the key is absent; returns whether it was.
    pub(crate) fn insert_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        encode: impl FnOnce(&mut ValueBytes),
    ) -> Result<bool, Error> {
        self.resolve_deferred_writes()?;
        let value = self.stage(raw_table, key, encode)?;
        let record = self.resolve_staged(raw_table, key, &value)?;
        if self.value_of(record, LockMode::EXCLUSIVE)?.is_some() {
            self.access_set.unstage(&value);
            return Ok(false);
        }
        self.access_set
            .write(record, raw_table.id, key, Some(value));
        self.perform(record)?;
        Ok(true)
    }

    /// Replaces a value by what `change` makes of it; returns whether there was one.
    pub(crate) fn update_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut ValueBytes) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        match self.find(raw_table, key, LockMode::EXCLUSIVE)? {
            Some(record) => self.update_record(raw_table, key, record, change),
            None => Ok(false),
        }
    }

    #[inline]
    pub(super) fn update_record(
        &mut self,
        raw_table: &RawTable,
        key: &[u8],
        record: RecordRef,
        change: impl FnOnce(&[u8], &mut ValueBytes) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let written = self.own_write(record)?;
        self.encoded.clear();
        let present = match written {
            Some(at) => match self.access_set.value(&self.access_set.writes[at]) {
                Some(old) => {
                    change(old, &mut self.encoded)?;
                    true
                }
                None => false,
            },
            None => {
                let present = self.read_record(record, LockMode::EXCLUSIVE)?;
                if present {
                    change(&self.value, &mut self.encoded)?;
                }
                present
            }
        };
        if !present {
            return Ok(false);
        }
        let value = self.stage_encoded(raw_table, key)?;
        match written {
            Some(at) => self.access_set.set_value(at, Some(value)),
            None => self
                .access_set
                .write_what_was_read(raw_table.id, key, Some(value)),
        }
        self.perform(record)?;
        Ok(true)
    }

    /// Removes a key; returns whether it was there.
    pub(crate) fn delete_bytes(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
    ) -> Result<bool, Error> {
        let Some(record) = self.find(raw_table, key, LockMode::EXCLUSIVE)? else {
            return Ok(false);
        };
        if self.value_of(record, LockMode::EXCLUSIVE)?.is_none() {
            return Ok(false);
        }
        self.encoded.clear();
        self.stage_encoded(raw_table, key)?;
        self.access_set.write(record, raw_table.id, key, None);
        self.perform(record)?;
        Ok(true)
    }
}
