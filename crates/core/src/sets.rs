//! What a running transaction remembers: what it read, where it read gaps, and what it will write.
//!
//! All of it is private to the transaction and is kept from one transaction to the next, so that
//! running one allocates nothing. Keys and values to be written lie in one byte buffer.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_index::{Inserted, LeafVersion};
use namiki_log::{Held, LogError};

use crate::admission::Admitted;
use crate::cc::{Before, Seen};
use crate::lock::Locks;
use crate::operation::OperationLog;
use crate::record::{AddressHasher, RecordRef, Snapshot};
use crate::scratch::{Sizes, free_if_large, free_map_if_large};
use crate::space::{Insertion, Space, TableId};
use crate::turn::{Place, Turn};
use crate::undo::UndoList;

/// Up to this many writes are looked for one by one.
const LINEAR_WRITES: usize = 16;

/// One version that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) record: RecordRef,
    pub(crate) seen: Seen,
    /// The transaction is known to write the record too, and so will have its lock.
    pub(crate) is_written: bool,
}

/// One leaf in which a gap was read.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Position in [`Sets::spaces`].
    space: usize,
    leaf: LeafVersion,
}

/// What makes a value of the one that is there, if any, and an amount; or says why it cannot.
pub(crate) type Add = fn(Option<&[u8]>, &[u8], &mut Vec<u8>) -> Result<(), AddError>;

/// Why an amount could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddError {
    /// The sum is beyond what the type can say.
    Overflow,
    /// The value has this length, which no number of the type has.
    Undecodable(u32),
}

/// Position in [`Sets::adders`]: a pointer would make every write longer.
#[derive(Clone, Copy, Debug)]
struct Adder(u16);

/// What a write will leave.
#[derive(Clone, Debug)]
enum Left {
    /// The key deleted.
    Nothing,
    Value(Range<u32>),
    /// The sum of this amount and what is there at the commit.
    Sum(Range<u32>, Adder),
    /// Nothing that could be committed: an amount could not be added to what the transaction had written.
    Failed(AddError),
}

impl Left {
    fn value_or_nothing(value: Option<Range<u32>>) -> Self {
        value.map_or(Self::Nothing, Self::Value)
    }

    /// The value, or the amount.
    fn range(&self) -> Option<&Range<u32>> {
        match self {
            Self::Nothing | Self::Failed(_) => None,
            Self::Value(range) | Self::Sum(range, _) => Some(range),
        }
    }
}

/// One record to be written.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) record: RecordRef,
    pub(crate) table: TableId,
    key: Range<u32>,
    left: Left,
    /// The word before the lock, while committing.
    pub(crate) before: Before,
}

/// Deferred blind write: the record has not been looked up yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Position in [`Sets::spaces`].
    pub(crate) space: u32,
    key: Range<u32>,
    left: Left,
}

/// A place in the transaction to which it can return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// No two marks of the process have the same.
    number: u64,
    writes: usize,
    undo: usize,
    /// How many changes there were to be undone, where records are changed before the commit.
    pub(crate) changes: usize,
}

/// What a running transaction remembers.
#[derive(Default)]
pub(crate) struct Sets {
    pub(crate) reads: Vec<Read>,
    gaps: Vec<Gap>,
    /// The tables in which gaps were ever read or writes deferred. They stay from one transaction to the next:
    /// counting references to a table anew in each would be a counter that all workers share.
    spaces: Vec<Arc<Space>>,
    /// The one that was asked for last: most transactions stay with one for a while.
    last_space: usize,
    pub(crate) writes: Vec<Write>,
    /// Writes without a record, the oldest first. If `writes` has one of their keys, they are newer.
    pub(crate) pending: Vec<Pending>,
    bytes: Vec<u8>,
    /// Where each record's write is, once there are more than [`LINEAR_WRITES`].
    by_record: HashMap<RecordRef, usize, BuildHasherDefault<AddressHasher>>,
    /// What was overwritten since the first mark: (write, what it would have left).
    undo: Vec<(usize, Left)>,
    /// How amounts were ever added to each other: few ways, one for each type of numbers. They stay.
    adders: Vec<Add>,
    /// Where a sum is made.
    sum: Vec<u8>,
    /// Some writes are amounts to be added.
    adds: bool,
    /// This transaction, and its retries, have exclusive commit priority.
    pub(crate) has_turn: bool,
    /// Its position among the requests for priority.
    pub(crate) place_in_line: Option<Place>,
    /// The numbers of the marks that can be returned to, in order.
    marks: Vec<u64>,
    /// Numbers for marks that are unique.
    mark_numbers: Range<u64>,
    /// The locks that the transaction holds, where reads are locked.
    pub(crate) locks: Locks,
    /// Its permit to hold locks, while these are limited.
    pub(crate) admitted: Option<Admitted>,
    /// What has been changed, where records are changed before the commit.
    pub(crate) undo_list: UndoList,
    /// The commit is in the log's buffer: what it wrote is not the transaction's any more, neither to be undone nor
    /// to be unlocked. For the case that a disk panics in the flush behind it.
    pub(crate) is_logged: Cell<bool>,
}

impl Sets {
    /// Forgets everything. The memory stays, see [`Sets::free_large_buffers`].
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.gaps.clear();
        self.writes.clear();
        self.pending.clear();
        self.bytes.clear();
        if !self.by_record.is_empty() {
            self.by_record.clear();
        }
        self.undo.clear();
        self.adds = false;
        self.marks.clear();
        debug_assert!(self.undo_list.end().is_none(), "it has ended");
        self.release_locks();
    }

    /// The sizes of the buffers that are kept.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> Sizes {
        let own = Sizes::default()
            .with(&self.reads)
            .with(&self.gaps)
            .with(&self.writes)
            .with(&self.pending)
            .with(&self.bytes)
            .with_map(&self.by_record)
            .with(&self.undo)
            .with(&self.sum)
            .with(&self.marks);
        own.and(self.undo_list.sizes()).and(self.locks.sizes())
    }

    /// Forgets everything, and frees the buffers that have become large.
    pub(crate) fn free_large_buffers(&mut self) {
        self.clear();
        free_if_large(&mut self.reads);
        free_if_large(&mut self.gaps);
        free_if_large(&mut self.writes);
        free_if_large(&mut self.pending);
        free_if_large(&mut self.bytes);
        free_map_if_large(&mut self.by_record);
        free_if_large(&mut self.undo);
        free_if_large(&mut self.sum);
        free_if_large(&mut self.marks);
        self.undo_list.free_large_buffers();
        self.locks.free_large_buffers();
    }

    /// Whether to wait for the transaction with commit priority. Not if it queued for priority just now.
    #[inline]
    pub(crate) fn waits_for_turn(&self, turn: &Turn) -> bool {
        turn.is_taken() && !self.has_turn && self.place_in_line.is_none()
    }

    /// Releases all locks, and the permit to hold some.
    #[inline(always)]
    pub(crate) fn release_locks(&mut self) {
        self.locks.release_all();
        self.admitted = None;
    }

    /// The position of the record's write.
    pub(crate) fn write_of(&self, record: RecordRef) -> Option<usize> {
        if self.writes.len() <= LINEAR_WRITES {
            self.writes.iter().position(|write| write.record == record)
        } else {
            self.by_record.get(&record).copied()
        }
    }

    /// The value that a write will leave; nothing if it deletes the key. (If it is to add an amount: that.)
    pub(crate) fn value(&self, write: &Write) -> Option<&[u8]> {
        write.left.range().map(|range| self.slice(range))
    }

    /// Whether the write at `at` is to add an amount to what is there at the commit, or cannot.
    pub(crate) fn adds_at(&self, at: usize) -> bool {
        matches!(self.writes[at].left, Left::Sum(..) | Left::Failed(_))
    }

    /// Whether any of the writes may be to add an amount.
    pub(crate) fn has_adds(&self) -> bool {
        self.adds
    }

    /// Puts a value in the place of the amount that the write at `at` was to add: the sum with what is there.
    pub(crate) fn add_up(&mut self, at: usize, present: Option<&[u8]>) -> Result<(), AddError> {
        let (amount, adder) = match &self.writes[at].left {
            Left::Sum(amount, adder) => (amount, adder),
            Left::Failed(error) => return Err(*error),
            Left::Nothing | Left::Value(_) => return Ok(()),
        };
        let amount = &self.bytes[amount.start as usize..amount.end as usize];
        self.sum.clear();
        self.adders[usize::from(adder.0)](present, amount, &mut self.sum)?;
        let sum = std::mem::take(&mut self.sum);
        let value = self.store(&sum);
        self.sum = sum;
        self.rewrite(at, Left::Value(value));
        Ok(())
    }

    /// The key of a write.
    pub(crate) fn key(&self, write: &Write) -> &[u8] {
        self.slice(&write.key)
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
        // There is room, see `room_for`.
        start as u32..self.bytes.len() as u32
    }

    /// Whether the set can take that many more bytes and still address them all.
    pub(crate) fn room_for(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= u32::MAX as usize
    }

    /// Takes in a value that is to be written. There is room for it and for its key.
    #[inline]
    pub(crate) fn stage(&mut self, value: &[u8]) -> Range<u32> {
        self.store(value)
    }

    /// Gives the bytes of a value that was staged back, if nothing was stored behind it (a sum may have been).
    pub(crate) fn unstage(&mut self, value: &Range<u32>) {
        if self.bytes.len() == value.end as usize {
            self.bytes.truncate(value.start as usize);
        }
    }

    /// How many bytes of keys and values the set holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Puts a write off until its record is needed.
    #[inline]
    pub(crate) fn put_off(
        &mut self,
        space: &Arc<Space>,
        key: &[u8],
        value: Range<u32>,
        add: Option<Add>,
    ) {
        let left = match add {
            None => Left::Value(value),
            Some(add) => Left::Sum(value, self.adder(add)),
        };
        let key = self.store(key);
        let space = self.space(space) as u32;
        self.pending.push(Pending { space, key, left });
    }

    #[cold]
    fn adder(&mut self, add: Add) -> Adder {
        // Two functions may have the same address only if they do the same.
        let known = (self.adders.iter()).position(|known| std::ptr::fn_addr_eq(*known, add));
        let at = known.unwrap_or_else(|| {
            self.adders.push(add);
            self.adders.len() - 1
        });
        // There are ten types of numbers.
        Adder(at as u16)
    }

    /// The table of a deferred write.
    pub(crate) fn space_of(&self, pending: &Pending) -> &Arc<Space> {
        &self.spaces[pending.space as usize]
    }

    /// The key of a deferred write.
    pub(crate) fn key_of(&self, pending: &Pending) -> &[u8] {
        self.slice(&pending.key)
    }

    /// Gives a deferred write its record.
    pub(crate) fn place(&mut self, pending: &Pending, record: RecordRef) {
        let table = self.space_of(pending).info.id;
        let key = |_: &mut Self| pending.key.clone();
        match pending.left.clone() {
            Left::Sum(amount, adder) => self.set_sum(record, table, amount, adder, key),
            left => self.set(record, table, left, key),
        }
    }

    /// Whether there is a mark that can be returned to.
    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Notes a version that was read.
    #[inline]
    pub(crate) fn read(&mut self, record: RecordRef, seen: Seen) {
        self.reads.push(Read {
            record,
            seen,
            is_written: false,
        });
    }

    /// Notes a version that was read under the commit's lock.
    pub(crate) fn has_read_locked(&mut self, record: RecordRef, version: Snapshot) {
        let seen = Seen {
            creation: version.creation,
            absent: version.absent,
            from: version.creation,
            until: version.creation,
        };
        self.reads.push(Read {
            record,
            seen,
            is_written: true,
        });
    }

    /// The same as [`Sets::write`] of the record that was read last, and is not written yet.
    #[inline]
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
        let left = Left::value_or_nothing(value);
        self.insert(record, table, left, |sets| sets.store(key));
    }

    /// Notes that an amount, which was staged, is to be added to what the record has at the commit.
    #[inline]
    pub(crate) fn write_add(
        &mut self,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        amount: Range<u32>,
        add: Add,
    ) {
        let adder = self.adder(add);
        self.set_sum(record, table, amount, adder, |sets| sets.store(key));
    }

    fn set_sum(
        &mut self,
        record: RecordRef,
        table: TableId,
        amount: Range<u32>,
        adder: Adder,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        self.adds = true;
        let Some(at) = self.write_of(record) else {
            return self.insert(record, table, Left::Sum(amount, adder), key);
        };
        // To another amount, or to the value that the transaction has given the key.
        let before = self.writes[at].left.clone();
        let present = before.range().map(|range| self.slice(range));
        let mut sum = Vec::new();
        let added = self.adders[usize::from(adder.0)](present, self.slice(&amount), &mut sum);
        let left = match (added, before) {
            (_, failed @ Left::Failed(_)) => failed,
            (Err(error), _) => Left::Failed(error),
            (Ok(()), Left::Sum(_, adder)) => Left::Sum(self.store(&sum), adder),
            (Ok(()), Left::Nothing | Left::Value(_)) => Left::Value(self.store(&sum)),
        };
        self.rewrite(at, left);
    }

    /// Notes that the record will get this value, which was staged, or be deleted.
    #[inline]
    pub(crate) fn write(
        &mut self,
        record: RecordRef,
        table: TableId,
        key: &[u8],
        value: Option<Range<u32>>,
    ) {
        let left = Left::value_or_nothing(value);
        self.set(record, table, left, |sets| sets.store(key));
    }

    #[inline]
    fn set(
        &mut self,
        record: RecordRef,
        table: TableId,
        left: Left,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        match self.write_of(record) {
            Some(at) => self.rewrite(at, left),
            None => self.insert(record, table, left, key),
        }
    }

    /// Changes the value that the write at `at` will leave.
    pub(crate) fn set_value(&mut self, at: usize, value: Option<Range<u32>>) {
        self.rewrite(at, Left::value_or_nothing(value));
    }

    /// Gives the record of the write at `at`, which is locked, the value that the write will leave.
    ///
    /// # Errors
    /// What the log says; nothing is changed then.
    pub(crate) fn change_in_place<H: Held>(
        &mut self,
        log: &OperationLog<'_, H>,
        at: usize,
    ) -> Result<(), LogError> {
        let slice = |range: &Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        let write = &self.writes[at];
        let (key, after) = (slice(&write.key), write.left.range().map(slice));
        (self.undo_list).change(log, write.record, write.table, key, after)
    }

    fn rewrite(&mut self, at: usize, left: Left) {
        let old = std::mem::replace(&mut self.writes[at].left, left);
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
        left: Left,
        key: impl FnOnce(&mut Self) -> Range<u32>,
    ) {
        let key = key(self);
        let at = self.writes.len();
        self.writes.push(Write {
            record,
            table,
            key,
            left,
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

    /// A place to return to.
    pub(crate) fn mark(&mut self) -> Mark {
        let number = self.mark_number();
        self.marks.push(number);
        Mark {
            number,
            writes: self.writes.len(),
            undo: self.undo.len(),
            changes: self.undo_list.len(),
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

    /// Forgets the writes since `mark`, and the marks. Reads stay: what the transaction has seen may
    /// have decided what it does next. Returns whether the mark is one of this transaction's, and
    /// nothing before it was returned to since.
    pub(crate) fn return_to(&mut self, mark: Mark) -> bool {
        let Some(at) = self.marks.iter().position(|number| *number == mark.number) else {
            return false;
        };
        self.marks.truncate(at + 1);
        for (at, left) in self.undo.drain(mark.undo..).rev() {
            self.writes[at].left = left;
        }
        if self.writes.len() > LINEAR_WRITES {
            for write in &self.writes[mark.writes..] {
                self.by_record.remove(&write.record);
            }
        }
        self.writes.truncate(mark.writes);
        for read in &mut self.reads {
            // Its write may be one of those.
            read.is_written = false;
        }
        if self.writes.len() <= LINEAR_WRITES {
            self.by_record.clear();
        }
        true
    }

    #[inline]
    fn space(&mut self, space: &Arc<Space>) -> usize {
        let is = |known: &Arc<Space>| Arc::ptr_eq(known, space);
        if self
            .spaces
            .get(self.last_space)
            .is_none_or(|last| !is(last))
        {
            self.last_space = self.spaces.iter().position(is).unwrap_or_else(|| {
                self.spaces.push(Arc::clone(space));
                self.spaces.len() - 1
            });
        }
        self.last_space
    }

    /// Notes a gap. The same leaf is noted once; in an older version, it will fail by itself.
    pub(crate) fn gap(&mut self, space: &Arc<Space>, leaf: LeafVersion) {
        let space = self.space(space);
        let known = |gap: &Gap| gap.leaf == leaf && gap.space == space;
        if !self.gaps.iter().rev().take(8).any(known) {
            self.gaps.push(Gap { space, leaf });
        }
    }

    /// Whether any gap was read.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The gaps that were read: the table and the leaf.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&Space, LeafVersion)> {
        self.gaps
            .iter()
            .map(|gap| (&*self.spaces[gap.space], gap.leaf))
    }

    /// The transaction itself has added a key to a leaf: gaps that it had read there stay valid if no other
    /// transaction had changed the leaf's keys before. Returns whether there were any: then the new record has to be
    /// read in their place.
    pub(crate) fn own_insert(&mut self, space: &Arc<Space>, inserted: &Insertion) -> bool {
        if self.gaps.is_empty() {
            return false;
        }
        let space = self.space(space);
        self.own_insert_in(space, inserted)
    }

    /// The same for the table at a position in [`Sets::spaces`].
    pub(crate) fn own_insert_in(&mut self, space: usize, inserted: &Insertion) -> bool {
        let mut kept = self.keep_gaps(space, &inserted.leaf);
        if let Some(scanned) = &inserted.scanned {
            kept |= self.keep_gaps(space, scanned);
        }
        kept
    }

    fn keep_gaps(&mut self, space: usize, inserted: &Inserted) -> bool {
        let mut kept = false;
        for gap in &mut self.gaps {
            if gap.leaf == inserted.before && gap.space == space {
                kept = true;
                gap.leaf = inserted.split.map_or(inserted.after, |(left, _)| left);
            }
        }
        if kept && let Some((_, leaf)) = inserted.split {
            self.gaps.push(Gap { space, leaf });
        }
        kept
    }

    /// Sorts the writes into the one order in which all commits lock: by address. Positions from [`Sets::write_of`]
    /// end here; [`Sets::writes_sorted`] goes by the new order.
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
