//! The part of an access set for late changes, and for records that have to have a value at the commit.

use std::ops::Range;
use std::sync::Arc;

use namiki_platform::Epoch;

use super::{AccessSet, Presence, Read, WriteEffect};
use crate::commit::late_changes::{
    Add, Adder, CALLS_BYTES_MAX, LateError, LateFunctions, RowProgram,
};
use crate::concurrency::cc::ObservedVersion;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, TableId};

/// Late changes.
impl AccessSet {
    /// Whether the write at `at` is a late change, valid or not.
    pub(crate) fn is_late_at(&self, at: usize) -> bool {
        self.writes[at].effect.is_late()
    }

    /// Whether any of the writes may be a late change.
    pub(crate) fn has_late(&self) -> bool {
        self.has_late
    }

    /// Replaces the late change at `at` by the value that it makes of the present one. The value has
    /// at most `bytes_max` bytes.
    pub(crate) fn evaluate(
        &mut self,
        at: usize,
        present: Option<&[u8]>,
        bytes_max: usize,
    ) -> Result<(), LateError> {
        let bytes = |range: &Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        let (functions, computed) = (&self.late_functions, &mut self.computed);
        computed.clear();
        match &self.writes[at].effect {
            WriteEffect::Sum(amount, adder) => {
                let added = functions.add(*adder, present, bytes(amount), computed);
                added.map_err(LateError::Add)?;
            }
            WriteEffect::Changes(calls) => {
                let row = present.ok_or(LateError::Absent)?;
                functions.run(bytes(calls), row, computed)?;
            }
            WriteEffect::Failed(error) => return Err(LateError::Add(*error)),
            WriteEffect::Nothing | WriteEffect::Value(_) => return Ok(()),
        }
        let len = computed.len();
        if len > bytes_max || !self.room_for(len) {
            return Err(LateError::TooLong {
                len_bytes: len,
                max_bytes: bytes_max,
            });
        }
        let computed = std::mem::take(&mut self.computed);
        let value = self.store(&computed);
        self.computed = computed;
        self.rewrite(at, WriteEffect::Value(value));
        Ok(())
    }

    /// Notes an increment: the staged amount is added to the record's value at the commit.
    #[inline]
    pub(crate) fn write_add(
        &mut self,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        amount: Range<u32>,
        add: Add,
    ) {
        let adder = self.late_functions.adder(add);
        self.set_sum(record, table, amount, adder, |access_set| {
            access_set.store(key)
        });
    }

    /// Notes the call of a row program. The record is not written yet, or only by other calls.
    pub(crate) fn write_change(
        &mut self,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        (program, argument): (RowProgram, &[u8]),
    ) {
        self.has_late = true;
        let mut calls = std::mem::take(&mut self.computed);
        calls.clear();
        let written = self.write_of(record);
        if let Some(at) = written {
            calls.extend_from_slice(self.calls_at(at).unwrap_or_default());
        }
        self.late_functions
            .put_program(program, argument, &mut calls);
        let effect = WriteEffect::Changes(self.store(&calls));
        self.computed = calls;
        match written {
            Some(at) => self.rewrite(at, effect),
            None => self.insert(record, table, effect, |access_set| access_set.store(key)),
        }
    }

    /// The write of a record that consists of more calls than an amount may be added to.
    #[inline]
    pub(crate) fn write_with_many_calls(&self, record: RecordRef) -> Option<usize> {
        if !self.late_functions.has_programs() {
            return None;
        }
        let at = self.write_of(record)?;
        (self.calls_at(at)?.len() > CALLS_BYTES_MAX).then_some(at)
    }

    /// The calls of row programs that the write at `at` consists of, if it does.
    pub(crate) fn calls_at(&self, at: usize) -> Option<&[u8]> {
        match &self.writes[at].effect {
            WriteEffect::Changes(calls) => Some(self.slice(calls)),
            _ => None,
        }
    }

    pub(super) fn set_sum(
        &mut self,
        record: RecordRef,
        table: TableId,
        amount: Range<u32>,
        adder: Adder,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        self.has_late = true;
        let Some(at) = self.write_of(record) else {
            return self.insert(record, table, WriteEffect::Sum(amount, adder), key);
        };
        if let Some(calls) = self.calls_at(at) {
            let mut calls = calls.to_vec();
            LateFunctions::put_increment(adder, self.slice(&amount), &mut calls);
            let effect = WriteEffect::Changes(self.store(&calls));
            return self.rewrite(at, effect);
        }
        // Adds to another amount, or to the value that the transaction has written.
        let before = self.writes[at].effect.clone();
        let present = before.range().map(|range| self.slice(range));
        let mut sum = Vec::new();
        let added = (self.late_functions).add(adder, present, self.slice(&amount), &mut sum);
        let effect = match (added, before) {
            (_, failure @ WriteEffect::Failed(_)) => failure,
            (Err(error), _) => WriteEffect::Failed(error),
            (Ok(()), WriteEffect::Sum(_, adder)) => WriteEffect::Sum(self.store(&sum), adder),
            (Ok(()), _) => WriteEffect::Value(self.store(&sum)),
        };
        self.rewrite(at, effect);
    }
}

/// Records that have to have a value.
impl AccessSet {
    /// Notes a version that was read because the record has to have some value: nothing else of it
    /// matters, and if the presence `is_known_durable`, it matters not whether the version is. The
    /// record may be locked by the commit.
    pub(crate) fn read_presence(
        &mut self,
        record: RecordRef,
        seen: ObservedVersion,
        is_locked: bool,
        is_known_durable: bool,
    ) {
        self.reads.push(Read {
            record,
            seen,
            is_written: is_locked,
            is_known_durable,
        });
    }

    /// The record has to have a value at the commit, as it has now.
    pub(crate) fn note_presence(&mut self, raw_table: &Arc<RawTable>, record: RecordRef) {
        let raw_table = self.raw_table(raw_table);
        let mut last = self.presences.iter().rev().take(8);
        // A savepoint may forget the change, and not this.
        if last.all(|known| known.record != record) {
            self.presences.push(Presence { record, raw_table });
        }
    }

    /// How many records have to have a value at the commit.
    pub(crate) fn presence_count(&self) -> usize {
        self.presences.len()
    }

    /// One of them, and its table.
    pub(crate) fn presence(&self, at: usize) -> (RecordRef, &RawTable) {
        let Presence { record, raw_table } = self.presences[at];
        (record, &*self.raw_tables[raw_table])
    }

    /// Notes in their tables that keys appear or vanish by the commit of this epoch. Called under
    /// the locks of the writes, before a version is installed.
    #[inline]
    pub(crate) fn note_presence_changes(&self, epoch: Epoch) {
        for write in &self.writes {
            let is_deletion = matches!(write.effect, WriteEffect::Nothing);
            if write.record.is_absent() != is_deletion {
                self.note_presence_change(write.table, epoch);
            }
        }
    }

    fn note_presence_change(&self, table: TableId, epoch: Epoch) {
        let mut raw_tables = self.raw_tables.iter();
        if let Some(raw_table) = raw_tables.find(|raw_table| raw_table.id == table) {
            raw_table.note_presence_change(epoch);
        }
    }
}
