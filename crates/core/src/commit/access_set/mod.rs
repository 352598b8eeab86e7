//! The access set of a running transaction: the versions and gaps that it read, and the writes that
//! it will install. Late changes, which the commit computes, are in `late_writes.rs`.
//!
//! All of it is private to the transaction and is kept from one transaction to the next, so that
//! running one allocates nothing. Keys and values to be written lie in one byte buffer.

mod late_writes;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_data::AddError;
use namiki_index::{Inserted, LeafVersion};
use namiki_platform::Stamp;

use crate::commit::late_changes::{Add, Adder, LateFunctions};
use crate::commit::views::{Overwritten, SeenViews};
use crate::concurrency::cc::{Before, ObservedVersion};
use crate::storage::free_large_buffers::{Sizes, free_if_large, free_map_if_large};
use crate::storage::record::{AddressHasher, RecordRef, Snapshot};
use crate::table::raw_table::{Insertion, RawTable, TableId};
use crate::wal_format::commit_changes::Change;

/// The tables that have a bit of their own in [`AccessSet::used_tables`]. A transaction that begins with more in its
/// list forgets them, so that those beyond are tables that it has used itself.
const USED_ONE_BY_ONE: usize = 63;
/// Up to this number of writes, a write is found by linear search.
const LINEAR_WRITES: usize = 16;

/// One version that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) record: RecordRef,
    pub(crate) seen: ObservedVersion,
    /// The transaction also writes the record, and so will hold its lock.
    pub(crate) is_written: bool,
    /// The transaction depends on nothing of the version that may not be durable.
    pub(crate) is_known_durable: bool,
}

/// A record that has to have a value at the commit, whichever it is.
#[derive(Clone, Copy, Debug)]
struct Presence {
    record: RecordRef,
    /// Position in [`AccessSet::raw_tables`].
    raw_table: usize,
}

/// One leaf in which a gap was read.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Position in [`AccessSet::raw_tables`].
    raw_table: usize,
    leaf: LeafVersion,
}

/// The effect of a write on its key.
#[derive(Clone, Debug)]
enum WriteEffect {
    /// The key deleted.
    Nothing,
    Value(Range<u32>),
    /// The sum of this amount and the value at the commit.
    Sum(Range<u32>, Adder),
    /// The result of these calls with the row at the commit.
    Changes(Range<u32>),
    /// Invalid: an amount could not be added to the value that the transaction had written.
    Failed(AddError),
}

impl WriteEffect {
    fn value_or_nothing(value: Option<Range<u32>>) -> Self {
        value.map_or(Self::Nothing, Self::Value)
    }

    /// The value, the amount, or the calls.
    fn range(&self) -> Option<&Range<u32>> {
        match self {
            Self::Nothing | Self::Failed(_) => None,
            Self::Value(range) | Self::Sum(range, _) | Self::Changes(range) => Some(range),
        }
    }

    /// Whether the commit computes the value.
    fn is_late(&self) -> bool {
        match self {
            Self::Nothing | Self::Value(_) => false,
            Self::Sum(..) | Self::Changes(_) | Self::Failed(_) => true,
        }
    }
}

/// One record to be written.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) record: RecordRef,
    pub(crate) table: TableId,
    key: Range<u32>,
    effect: WriteEffect,
    /// The word before the lock, while committing.
    pub(crate) before: Before,
}

/// Deferred blind write: the record has not been looked up yet.
#[derive(Debug)]
pub(crate) struct DeferredWrite {
    /// Position in [`AccessSet::raw_tables`].
    pub(crate) raw_table: u32,
    key: Range<u32>,
    effect: WriteEffect,
}

/// A savepoint of the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// No two marks of the process have the same.
    number: u64,
    writes: usize,
    undo: usize,
    /// How many changes there were to be undone, where records are changed before the commit.
    pub(crate) changes: usize,
}

/// The read set and the write set of a running transaction.
#[derive(Default)]
pub(crate) struct AccessSet {
    pub(crate) reads: Vec<Read>,
    gaps: Vec<Gap>,
    presences: Vec<Presence>,
    seen_views: SeenViews,
    /// The tables in which gaps were ever read or writes deferred. They stay from one transaction to the next:
    /// counting references to a table anew in each would be a counter that all workers share.
    raw_tables: Vec<Arc<RawTable>>,
    /// Which of them the transaction has used: a bit for each position, and the last one for all positions from there
    /// on.
    used_tables: u64,
    /// The address of the table that was used last, 0 for none, and its bit in `used_tables`. `raw_tables` has it.
    last_used: (usize, u64),
    /// How many tables had been dropped when it began.
    drops_seen: u64,
    /// The one that was asked for last: most transactions stay with one for a while.
    last_raw_table: usize,
    pub(crate) writes: Vec<Write>,
    /// Writes without a record, the oldest first. If `writes` has one of their keys, they are newer.
    pub(crate) deferred: Vec<DeferredWrite>,
    bytes: Vec<u8>,
    /// Where each record's write is, once there are more than [`LINEAR_WRITES`].
    by_record: HashMap<RecordRef, usize, BuildHasherDefault<AddressHasher>>,
    /// Undo list of the write set: the effects that were replaced since the first mark, as (write,
    /// previous effect).
    undo: Vec<(usize, WriteEffect)>,
    late_functions: LateFunctions,
    /// The buffer for values that are computed.
    computed: Vec<u8>,
    /// Some writes are late changes.
    has_late: bool,
    /// Some writes may be deletions.
    deletes: bool,
    /// The length of the prefix of `writes` that [`AccessSet::check_writes`] has checked.
    checked_writes: usize,
    /// How many keys had been taken out of indexes when all checked writes were of current records.
    taken_out_seen: u64,
    /// The numbers of the marks that are still valid, in order.
    marks: Vec<u64>,
    /// Numbers for marks that are unique.
    mark_numbers: Range<u64>,
}

impl AccessSet {
    /// Forgets everything. The memory stays, see [`AccessSet::free_large_buffers`].
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.gaps.clear();
        self.presences.clear();
        self.writes.clear();
        self.deferred.clear();
        self.bytes.clear();
        if !self.by_record.is_empty() {
            self.by_record.clear();
        }
        self.undo.clear();
        self.has_late = false;
        self.deletes = false;
        self.checked_writes = 0;
        self.marks.clear();
        self.used_tables = 0;
    }

    /// Releases the tables of earlier transactions if any was dropped since: the memory of a
    /// dropped table is freed once all transactions have released it. `drops` is the present number
    /// of drops. The set must be empty.
    #[inline]
    pub(crate) fn begin(&mut self, drops: u64) {
        if self.drops_seen != drops || self.raw_tables.len() > USED_ONE_BY_ONE {
            self.forget_tables(drops);
        }
    }

    #[cold]
    fn forget_tables(&mut self, drops: u64) {
        self.raw_tables.clear();
        self.last_raw_table = 0;
        self.last_used = (0, 0);
        self.drops_seen = drops;
    }

    /// Notes that the transaction uses a table, if it is the one that was used last, by this transaction or one before it.
    /// If it was dropped before this one began, it is not: [`AccessSet::begin`] has forgotten it.
    #[inline(always)]
    pub(crate) fn uses_again(&mut self, raw_table: &Arc<RawTable>) -> bool {
        let (last, bit) = self.last_used;
        let is_last = last == Arc::as_ptr(raw_table).addr();
        self.used_tables |= if is_last { bit } else { 0 };
        is_last
    }

    /// The transaction is about to use a table, and keeps it in memory from now on.
    pub(crate) fn use_table(&mut self, raw_table: &Arc<RawTable>) {
        let bit = 1 << self.raw_table(raw_table).min(USED_ONE_BY_ONE);
        self.used_tables |= bit;
        self.last_used = (Arc::as_ptr(raw_table).addr(), bit);
    }

    /// A table that the transaction has used, and that was dropped since it began. `drops` is the
    /// present number of drops.
    #[inline]
    pub(crate) fn dropped_table(&self, drops: u64) -> Option<&RawTable> {
        (self.drops_seen != drops).then(|| self.find_dropped_table())?
    }

    #[cold]
    fn find_dropped_table(&self) -> Option<&RawTable> {
        let is_used = |position: usize| self.used_tables >> position.min(USED_ONE_BY_ONE) & 1 == 1;
        let used = self
            .raw_tables
            .iter()
            .enumerate()
            .filter(|(at, _)| is_used(*at));
        used.map(|(_, raw_table)| &**raw_table)
            .find(|raw_table| raw_table.is_dropped())
    }

    /// The sizes of the buffers that are kept. No other buffer is large while these are small: each
    /// of its entries comes with one of `writes`, or with the same number of `bytes`.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::default()
            .with(&self.reads)
            .with(&self.gaps)
            .with(&self.presences)
            .with(&self.writes)
            .with(&self.deferred)
            .with(&self.bytes)
            .with(&self.undo)
            .with(&self.marks)
    }

    /// Forgets everything, and frees the buffers that have become large.
    pub(crate) fn free_large_buffers(&mut self, large_bytes: usize) {
        self.clear();
        free_if_large(&mut self.reads, large_bytes);
        free_if_large(&mut self.gaps, large_bytes);
        free_if_large(&mut self.writes, large_bytes);
        free_if_large(&mut self.deferred, large_bytes);
        free_if_large(&mut self.bytes, large_bytes);
        free_map_if_large(&mut self.by_record, large_bytes);
        free_if_large(&mut self.undo, large_bytes);
        free_if_large(&mut self.presences, large_bytes);
        free_if_large(&mut self.computed, large_bytes);
        free_if_large(&mut self.marks, large_bytes);
    }

    /// The position of the record's write.
    pub(crate) fn write_of(&self, record: RecordRef) -> Option<usize> {
        if self.writes.len() <= LINEAR_WRITES {
            self.writes.iter().position(|write| write.record == record)
        } else {
            self.by_record.get(&record).copied()
        }
    }

    /// The value that a write will install; `None` if it deletes the key. (For a late change, what
    /// it is computed from.)
    pub(crate) fn value(&self, write: &Write) -> Option<&[u8]> {
        write.effect.range().map(|range| self.slice(range))
    }

    /// Whether any of the writes may be a deletion.
    #[inline]
    pub(crate) fn has_deletions(&self) -> bool {
        self.deletes
    }

    /// The keys that a commit of this stamp has deleted: table, record, stamp and key.
    pub(crate) fn deleted(
        &self,
        stamp: Stamp,
    ) -> impl Iterator<Item = (TableId, RecordRef, Stamp, &[u8])> {
        let deletions = (self.writes.iter()).filter(|it| matches!(it.effect, WriteEffect::Nothing));
        deletions.map(move |it| (it.table, it.record, stamp, self.slice(&it.key)))
    }

    /// Whether the records of all writes are still those of their keys. `taken_out` is the number
    /// of keys that were taken out of the database's indexes: a record that was current at one
    /// number stays current until that number rises.
    #[inline]
    pub(crate) fn has_current_writes(&mut self, taken_out: u64) -> bool {
        let is_seen = taken_out == self.taken_out_seen;
        is_seen && self.checked_writes >= self.writes.len() || self.check_writes(taken_out)
    }

    fn check_writes(&mut self, taken_out: u64) -> bool {
        let is_seen = taken_out == self.taken_out_seen;
        let from = if is_seen { self.checked_writes } else { 0 };
        let mut writes = self.writes[from..].iter();
        self.checked_writes = self.writes.len();
        let are_current = writes.all(|write| write.record.is_current());
        if are_current {
            self.taken_out_seen = taken_out;
        }
        are_current
    }

    /// The changes of the transaction, for the log.
    pub(crate) fn logged_changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.writes.iter().map(|write| self.change(write))
    }

    /// The change of a write, which must not be an increment.
    pub(crate) fn change(&self, write: &Write) -> Change<'_> {
        Change {
            table: write.table,
            key: self.slice(&write.key),
            value: self.value(write),
        }
    }

    /// The versions that a commit is about to overwrite, and the views that earlier commits have
    /// seen.
    #[inline]
    pub(crate) fn overwritten(
        &mut self,
    ) -> (impl Iterator<Item = Overwritten<'_>>, &mut SeenViews) {
        let (writes, bytes) = (&self.writes, &self.bytes);
        let overwritten = writes.iter().map(|write| Overwritten {
            record: write.record,
            table: write.table,
            key: &bytes[write.key.start as usize..write.key.end as usize],
        });
        (overwritten, &mut self.seen_views)
    }

    /// The bytes of the keys and values that are written.
    pub(crate) fn changed_bytes(&self) -> u64 {
        let bytes = self.writes.iter().map(|write| {
            let value = write.effect.range().map_or(0, Range::len);
            (write.key.len() + value) as u64
        });
        bytes.sum()
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    #[inline]
    fn store(&mut self, bytes: &[u8]) -> Range<u32> {
        let start = self.bytes.len();
        match bytes.as_array::<8>() {
            // The usual length, and a copy without a call.
            Some(word) => self.bytes.extend_from_slice(word),
            None => self.bytes.extend_from_slice(bytes),
        }
        // `room_for` has checked the space.
        start as u32..self.bytes.len() as u32
    }

    /// Whether the set can take `bytes` more bytes and still address all of them.
    pub(crate) fn room_for(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= u32::MAX as usize
    }

    /// Stages a value that is to be written. The set has room for it and for its key.
    #[inline]
    pub(crate) fn stage(&mut self, value: &[u8]) -> Range<u32> {
        self.store(value)
    }

    /// Frees the bytes of a staged value, if it is the last one in the buffer (a sum may follow
    /// it).
    pub(crate) fn unstage(&mut self, value: &Range<u32>) {
        if self.bytes.len() == value.end as usize {
            self.bytes.truncate(value.start as usize);
        }
    }

    /// How many bytes of keys and values the set holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Defers a blind write until its record is needed.
    #[inline]
    pub(crate) fn defer_write(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        value: Range<u32>,
        add: Option<Add>,
    ) {
        let effect = match add {
            None => WriteEffect::Value(value),
            Some(add) => WriteEffect::Sum(value, self.late_functions.adder(add)),
        };
        let key = self.store(key);
        let raw_table = self.raw_table(raw_table) as u32;
        self.deferred.push(DeferredWrite {
            raw_table,
            key,
            effect,
        });
    }

    /// The table of a deferred write.
    pub(crate) fn raw_table_of(&self, deferred: &DeferredWrite) -> &Arc<RawTable> {
        &self.raw_tables[deferred.raw_table as usize]
    }

    /// The key of a deferred write.
    pub(crate) fn key_of(&self, deferred: &DeferredWrite) -> &[u8] {
        self.slice(&deferred.key)
    }

    /// Gives a deferred write its record.
    pub(crate) fn resolve_deferred(&mut self, deferred: &DeferredWrite, record: RecordRef) {
        let table = self.raw_table_of(deferred).id;
        let key = |_: &mut Self| deferred.key.clone();
        match deferred.effect.clone() {
            WriteEffect::Sum(amount, adder) => self.set_sum(record, table, amount, adder, key),
            effect => self.set(record, table, effect, key),
        }
    }

    /// Whether any mark is valid.
    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Notes a version that was read.
    #[inline]
    pub(crate) fn read(&mut self, record: RecordRef, seen: ObservedVersion) {
        self.reads.push(Read {
            record,
            seen,
            is_written: false,
            is_known_durable: false,
        });
    }

    /// Notes a version that was read under the commit's lock.
    pub(crate) fn has_read_locked(&mut self, record: RecordRef, version: Snapshot) {
        let seen = ObservedVersion {
            creation: version.creation,
            absent: version.absent,
            from: version.creation,
            until: version.creation,
        };
        self.reads.push(Read {
            record,
            seen,
            is_written: true,
            is_known_durable: false,
        });
    }

    /// The same as [`AccessSet::write`] of the record that was read last, and is not written yet.
    #[inline(always)]
    pub(crate) fn write_what_was_read(
        &mut self,
        table: TableId,
        key: &[u8],
        value: Option<Range<u32>>,
    ) {
        let Some(read) = self.reads.last_mut() else {
            unreachable!("a record has been read");
        };
        read.is_written = true;
        let record = read.record;
        self.deletes |= value.is_none();
        let effect = WriteEffect::value_or_nothing(value);
        self.insert(record, table, effect, |access_set| access_set.store(key));
    }

    /// Notes that the record will get this staged value, or be deleted.
    #[inline]
    pub(crate) fn write(
        &mut self,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        value: Option<Range<u32>>,
    ) {
        self.deletes |= value.is_none();
        let effect = WriteEffect::value_or_nothing(value);
        self.set(record, table, effect, |access_set| access_set.store(key));
    }

    #[inline]
    fn set(
        &mut self,
        record: RecordRef,
        table: TableId,
        effect: WriteEffect,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        match self.write_of(record) {
            Some(at) => self.rewrite(at, effect),
            None => self.insert(record, table, effect, key),
        }
    }

    /// Changes the effect of the write at `at`.
    pub(crate) fn set_value(&mut self, at: usize, value: Option<Range<u32>>) {
        self.deletes |= value.is_none();
        self.rewrite(at, WriteEffect::value_or_nothing(value));
    }

    fn rewrite(&mut self, at: usize, effect: WriteEffect) {
        let old = std::mem::replace(&mut self.writes[at].effect, effect);
        if !self.marks.is_empty() {
            self.undo.push((at, old));
        }
    }

    /// Notes a write of a record that has none.
    #[inline]
    fn insert(
        &mut self,
        record: RecordRef,
        table: TableId,
        effect: WriteEffect,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        let key = key(self);
        let at = self.writes.len();
        self.writes.push(Write {
            record,
            table,
            key,
            effect,
            before: Before::default(),
        });
        if at >= LINEAR_WRITES {
            self.note_position(record, at);
        }
    }

    /// Apart from `set`, which has to stay small.
    #[inline(never)]
    fn note_position(&mut self, record: RecordRef, at: usize) {
        if at == LINEAR_WRITES {
            self.by_record
                .extend(self.writes.iter().enumerate().map(|(i, w)| (w.record, i)));
        } else {
            self.by_record.insert(record, at);
        }
    }

    /// A savepoint. `changes` is the present length of the undo list.
    pub(crate) fn mark(&mut self, changes: usize) -> Mark {
        let number = self.mark_number();
        self.marks.push(number);
        Mark {
            number,
            writes: self.writes.len(),
            undo: self.undo.len(),
            changes,
        }
    }

    /// A number that no other mark of the process has. They are taken many at a time, because all
    /// threads take them from one counter.
    fn mark_number(&mut self) -> u64 {
        const BLOCK: u64 = 1 << 16;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.mark_numbers.next().unwrap_or_else(|| {
            let first = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
            self.mark_numbers = first + 1..first + BLOCK;
            first
        })
    }

    /// Forgets the writes since `mark`, and the marks. Reads stay, because later operations may
    /// depend on them. Returns whether the mark is valid: it is one of this transaction's, and the
    /// transaction has not returned to an earlier one since.
    pub(crate) fn return_to(&mut self, mark: Mark) -> bool {
        let Some(at) = self.marks.iter().position(|number| *number == mark.number) else {
            return false;
        };
        self.marks.truncate(at + 1);
        for (at, effect) in self.undo.drain(mark.undo..).rev() {
            self.writes[at].effect = effect;
        }
        if self.writes.len() > LINEAR_WRITES {
            for write in &self.writes[mark.writes..] {
                self.by_record.remove(&write.record);
            }
        }
        self.writes.truncate(mark.writes);
        self.checked_writes = self.checked_writes.min(mark.writes);
        for read in &mut self.reads {
            // Its write may be one of the forgotten ones.
            read.is_written = false;
        }
        if self.writes.len() <= LINEAR_WRITES {
            self.by_record.clear();
        }
        true
    }

    #[inline]
    fn raw_table(&mut self, raw_table: &Arc<RawTable>) -> usize {
        let is = |known: &Arc<RawTable>| Arc::ptr_eq(known, raw_table);
        if self
            .raw_tables
            .get(self.last_raw_table)
            .is_none_or(|last| !is(last))
        {
            self.last_raw_table = self.raw_tables.iter().position(is).unwrap_or_else(|| {
                self.raw_tables.push(Arc::clone(raw_table));
                self.raw_tables.len() - 1
            });
        }
        self.last_raw_table
    }

    /// Notes a gap. The same leaf is noted once; an older version of it will fail validation.
    pub(crate) fn gap(&mut self, raw_table: &Arc<RawTable>, leaf: LeafVersion) {
        let raw_table = self.raw_table(raw_table);
        let known = |gap: &Gap| gap.leaf == leaf && gap.raw_table == raw_table;
        if !self.gaps.iter().rev().take(8).any(known) {
            self.gaps.push(Gap { raw_table, leaf });
        }
    }

    /// Whether any gap was read.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// How many leaves are noted in which gaps were read.
    pub(crate) fn gap_count(&self) -> usize {
        self.gaps.len()
    }

    /// The gaps that were read: the table and the leaf.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&RawTable, LeafVersion)> {
        self.gaps
            .iter()
            .map(|gap| (&*self.raw_tables[gap.raw_table], gap.leaf))
    }

    /// The transaction itself has added a key to a leaf: gaps that it had read there stay valid if no other
    /// transaction had changed the leaf's keys before. Returns whether there were any: then the new record has to be
    /// read in their place.
    pub(crate) fn own_insert(&mut self, raw_table: &Arc<RawTable>, inserted: &Insertion) -> bool {
        if self.gaps.is_empty() {
            return false;
        }
        let raw_table = self.raw_table(raw_table);
        self.own_insert_in(raw_table, inserted)
    }

    /// The same for the table at a position in [`AccessSet::raw_tables`].
    pub(crate) fn own_insert_in(&mut self, raw_table: usize, inserted: &Insertion) -> bool {
        let mut kept = self.keep_gaps(raw_table, &inserted.leaf);
        if let Some(scanned) = &inserted.scanned {
            kept |= self.keep_gaps(raw_table, scanned);
        }
        kept
    }

    fn keep_gaps(&mut self, raw_table: usize, inserted: &Inserted) -> bool {
        let mut kept = false;
        for gap in &mut self.gaps {
            if gap.leaf == inserted.before && gap.raw_table == raw_table {
                kept = true;
                gap.leaf = inserted.split.map_or(inserted.after, |(lower, _)| lower);
            }
        }
        if kept && let Some((_, leaf)) = inserted.split {
            self.gaps.push(Gap { raw_table, leaf });
        }
        kept
    }

    /// Sorts the writes into the global lock order of all commits: by address. Positions from
    /// [`AccessSet::write_of`] end here; [`AccessSet::writes_sorted`] goes by the new order.
    pub(crate) fn sort_writes(&mut self) {
        self.writes.sort_unstable_by_key(|write| write.record);
    }

    /// The record's write, once they are sorted.
    pub(crate) fn writes_sorted(&self, record: RecordRef) -> Option<&Write> {
        let at = self
            .writes
            .binary_search_by_key(&record, |write| write.record)
            .ok()?;
        Some(&self.writes[at])
    }
}
