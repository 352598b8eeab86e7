//! A group of commands that is one transaction of strict two-phase locking.
//!
//! The paper's worker locks what a command touches and puts the command into its log buffer. Here
//! the group also executes it, into a buffer of its own: the log gets after-images, one for each
//! row that the group has changed, however often. All commands of the group share its locks, so
//! they do not conflict with each other on rows that many of them touch.
//!
//! ```text
//!   records:  r0 r1 r2 …                  what is locked, in the order of slots   (HeldLocks)
//!   rows:     table, key, value, written by which command
//!   bytes:    key value key value …       what `rows` point to
//!   undo:     the row as it was, of rows of earlier commands that this command has written
//! ```
//!
//! Paper: raft-pwal §3.2

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namiki_index::Lookup;
use smallvec::SmallVec;

use super::changes::{self, Shape};
use super::error::{LockError, WriteError};
use super::held_locks::HeldLocks;
use super::row_lock::{self, Attempt};
use super::{Replica, copy};
use crate::commit::removed_keys::NewRecords;
use crate::storage::arena::LockedWord;
use crate::storage::record::{RecordRef, VALUE_BYTES_MAX};
use crate::table::lookup_cache::LookupCache;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable, Resolved, TableId};

/// The bytes of keys and values beyond which a group takes no more. With one more key and value,
/// offsets into them still fit 32 bits.
const GROUP_BYTES_MAX: usize = 1 << 30;
const _: () = assert!(GROUP_BYTES_MAX + VALUE_BYTES_MAX + (1 << 20) < u32::MAX as usize);

/// A row that a group has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Where a value is in the group's bytes.
#[derive(Clone, Copy)]
struct ValueAt {
    at: u32,
    /// [`ABSENT`]: there is no value.
    len: u32,
    /// The command that wrote it; 0: it is the record's.
    command: u32,
}

const ABSENT: u32 = u32::MAX;

struct Row {
    table: TableId,
    key_at: u32,
    key_len: u32,
    value: ValueAt,
}

impl Row {
    fn is_changed(&self) -> bool {
        self.value.command != 0
    }

    fn shape(&self) -> Shape {
        let len = self.value.len;
        Shape {
            table: self.table,
            key_bytes: self.key_len as usize,
            value_bytes: (len != ABSENT).then_some(len as usize),
        }
    }
}

/// The buffers of a group besides its list of records. Later groups reuse them.
#[derive(Default)]
pub(super) struct GroupBuffers {
    rows: Vec<Row>,
    bytes: Vec<u8>,
    undo: Vec<(Slot, ValueAt)>,
    /// Those that groups have used.
    tables: Vec<Arc<RawTable>>,
    lookup_cache: LookupCache,
    lookups: Vec<Lookup>,
    /// The value of the record that was locked last.
    copied: Vec<u8>,
}

impl GroupBuffers {
    pub(super) fn bytes(&self) -> usize {
        let Self {
            rows,
            bytes,
            undo,
            copied,
            ..
        } = self;
        rows.capacity() * size_of::<Row>()
            + bytes.capacity()
            + undo.capacity() * size_of::<(Slot, ValueAt)>()
            + copied.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
        self.undo.clear();
    }

    /// Forgets the tables that were dropped. The group may have rows of them, and keeps those tables (`replica/mod.rs`, RG3).
    pub(super) fn forget_dropped(&mut self, kept: &mut impl Extend<Arc<RawTable>>) {
        if self.tables.iter().any(|table| table.is_dropped()) {
            self.lookup_cache.clear();
            kept.extend(self.tables.extract_if(.., |table| table.is_dropped()));
        }
    }

    fn table(&mut self, replica: &Replica, id: TableId) -> Result<&RawTable, LockError> {
        let known = self.tables.iter().position(|it| it.id == id);
        let at = match known {
            Some(at) => at,
            None => {
                let table = replica.raw_table(id).ok_or(LockError::NoSuchTable(id))?;
                self.tables.push(table);
                self.tables.len() - 1
            }
        };
        Ok(&self.tables[at])
    }
}

/// A group of commands that is one transaction. Dropping it rolls it back.
///
/// Each command begins with [`begin_command`](Self::begin_command), locks the rows that it reads or writes, and ends with
/// nothing, or with [`undo_command`](Self::undo_command).
pub struct GroupTransaction {
    locks: HeldLocks,
    buffers: GroupBuffers,
    /// The number of the command that runs, from 1.
    command: u32,
    /// The rows of the commands before.
    rows_before: usize,
    /// Their bytes.
    bytes_before: usize,
    /// The records that they have made.
    new_before: usize,
    /// How many tables had been dropped when the group last compared.
    drops: u64,
}

impl GroupTransaction {
    pub(super) fn begin(replica: &Arc<Replica>) -> Self {
        let (group, records, buffers) = replica.pool.lock().take();
        let mut begun = Self {
            locks: HeldLocks {
                replica: Arc::clone(replica),
                group,
                records,
                changed: 0,
                released: 0,
                new: NewRecords::default(),
                tables: SmallVec::new(),
            },
            buffers,
            command: 0,
            rows_before: 0,
            bytes_before: 0,
            new_before: 0,
            // Others may have been dropped since the buffers were used.
            drops: 0,
        };
        begun.begin_command();
        begun
    }

    /// Begins the next command: the earlier changes of the group stay if the command is undone.
    #[inline]
    pub fn begin_command(&mut self) {
        self.command += 1;
        self.rows_before = self.buffers.rows.len();
        self.bytes_before = self.buffers.bytes.len();
        self.new_before = self.locks.new.len();
        self.buffers.undo.clear();
        // Acquire: what has counted the drop had marked the table before.
        let drops = self.locks.replica.drops.load(Ordering::Acquire);
        if drops != self.drops {
            self.drops = drops;
            self.buffers.forget_dropped(&mut self.locks.tables);
        }
    }

    /// Batched look-up of up to 16 keys, so that their cache misses overlap, for locks that follow
    /// in about the same order. It is a hint: it takes no lock, and absent or invalid keys are
    /// ignored.
    pub fn look_up(&mut self, table: TableId, keys: &[&[u8]]) {
        let keys = &keys[..keys.len().min(BATCH_KEYS_MAX)];
        let mut lookups = std::mem::take(&mut self.buffers.lookups);
        if let Ok(raw_table) = self.buffers.table(&self.locks.replica, table)
            && raw_table.find_all(keys, &mut lookups).is_ok()
        {
            for (key, lookup) in keys.iter().zip(&lookups) {
                if let Ok(record) = RawTable::found(*lookup) {
                    record.prefetch_value(size_of::<u64>());
                    self.buffers.lookup_cache.note(table, key, record);
                }
            }
        }
        self.buffers.lookups = lookups;
    }

    /// Locks a row, which need not exist, exclusively. Does not wait. The group may have it already.
    ///
    /// # Errors
    /// [`LockError`]. The command has the locks that it had before; it is usually [undone](Self::undo_command).
    #[inline]
    pub fn lock(&mut self, table: TableId, key: &[u8]) -> Result<Slot, LockError> {
        let next = self.buffers.rows.len() as u32;
        let record = loop {
            let found = self.buffers.lookup_cache.find(table, key);
            let (record, is_new) = match found {
                Some(record) => (self.locks.replica.faults.record_found(record), false),
                None => self.find_or_create(table, key, next)?,
            };
            if is_new {
                break record;
            }
            // Its key may have left the index since, and the record may be another key's (`replica/mod.rs`, RG4).
            match row_lock::try_lock(record, self.locks.group, next) {
                Attempt::Acquired if record.is_current() => break record,
                Attempt::Acquired => row_lock::unlock(record),
                Attempt::Own(slot) if self.locks.records.get(slot as usize) == Some(&record) => {
                    return Ok(Slot(slot));
                }
                Attempt::Conflict if record.is_current() => return Err(LockError::Conflict),
                Attempt::Own(_) | Attempt::Conflict => {}
            }
            self.buffers.lookup_cache.clear();
        };
        self.locks.records.push(record);
        if self.buffers.bytes.len() > GROUP_BYTES_MAX {
            let kept_new = self.locks.new_without(record);
            self.locks.truncate(next as usize, kept_new);
            return Err(LockError::GroupTooLarge);
        }
        let buffers = &mut self.buffers;
        // It is locked, so it stays its key's.
        let absent = copy(record, &mut buffers.copied).is_none_or(|(_, absent)| absent);
        let key_at = buffers.bytes.len() as u32;
        put(key, &mut buffers.bytes);
        let at = buffers.bytes.len() as u32;
        put(&buffers.copied, &mut buffers.bytes);
        let len = if absent {
            ABSENT
        } else {
            buffers.copied.len() as u32
        };
        buffers.rows.push(Row {
            table,
            key_at,
            key_len: key.len() as u32,
            value: ValueAt {
                at,
                len,
                command: 0,
            },
        });
        Ok(Slot(next))
    }

    /// As [`lock`](Self::lock), for a row that must exist: a key that was never written gets
    /// neither a record nor a lock. So commands about rows that do not exist leave no records
    /// behind.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_existing(&mut self, table: TableId, key: &[u8]) -> Result<Option<Slot>, LockError> {
        if self.buffers.lookup_cache.find(table, key).is_none() {
            let raw_table = self.buffers.table(&self.locks.replica, table)?;
            let found = raw_table.find(key);
            match found.map_err(|error| LockError::from_index(&error, table))? {
                Ok(record) => self.buffers.lookup_cache.note(table, key, record),
                Err(_) => return Ok(None),
            }
        }
        self.lock(table, key).map(Some)
    }

    /// The key's record, and whether it was just created: it is locked in this slot then.
    #[inline(never)]
    fn find_or_create(
        &mut self,
        table: TableId,
        key: &[u8],
        slot: u32,
    ) -> Result<(RecordRef, bool), LockError> {
        let word = row_lock::locked(self.locks.group, slot);
        let word = LockedWord::unused(word);
        let raw_table = self.buffers.table(&self.locks.replica, table)?;
        let resolved = raw_table.find_or_create_record(key, word);
        let resolved = resolved.map_err(|error| LockError::from_index(&error, table))?;
        self.locks.new.note_if_new(table, &resolved, key);
        match resolved {
            Resolved::Found(record) => Ok((record, false)),
            Resolved::New { record, .. } => Ok((record, true)),
        }
    }

    /// The value of a row: what the group wrote last, otherwise what was applied last.
    ///
    /// # Panics
    /// If the command that locked the row was undone.
    #[inline]
    #[must_use]
    pub fn value(&self, slot: Slot) -> Option<&[u8]> {
        let ValueAt { at, len, .. } = self.buffers.rows[slot.0 as usize].value;
        (len != ABSENT).then(|| &self.buffers.bytes[at as usize..][..len as usize])
    }

    /// Writes a row; without a value the row is deleted.
    ///
    /// # Errors
    /// [`WriteError`]. The row is as it was.
    ///
    /// # Panics
    /// If the command that locked the row was undone.
    #[inline]
    pub fn write(&mut self, slot: Slot, value: Option<&[u8]>) -> Result<(), WriteError> {
        let buffers = &mut self.buffers;
        let row = &mut buffers.rows[slot.0 as usize].value;
        let before = *row;
        // Whether the previous value is the command's own, so that its bytes can be reused.
        let own = before.command == self.command || slot.0 as usize >= self.rows_before;
        let written = match value {
            None => ValueAt {
                len: ABSENT,
                ..before
            },
            Some(value) if own && before.len as usize == value.len() => {
                buffers.bytes[before.at as usize..][..value.len()].copy_from_slice(value);
                before
            }
            Some(value) => {
                if value.len() > VALUE_BYTES_MAX {
                    return Err(WriteError::ValueTooLong {
                        len_bytes: value.len(),
                        max_bytes: VALUE_BYTES_MAX,
                    });
                }
                if buffers.bytes.len() > GROUP_BYTES_MAX {
                    return Err(WriteError::GroupTooLarge);
                }
                let at = buffers.bytes.len() as u32;
                put(value, &mut buffers.bytes);
                ValueAt {
                    at,
                    len: value.len() as u32,
                    ..before
                }
            }
        };
        *row = ValueAt {
            command: self.command,
            ..written
        };
        if !own {
            buffers.undo.push((slot, before));
        }
        Ok(())
    }

    /// Drops the writes of the command, and releases the locks that the group did not hold before
    /// it.
    pub fn undo_command(&mut self) {
        let buffers = &mut self.buffers;
        for (slot, before) in buffers.undo.drain(..) {
            buffers.rows[slot.0 as usize].value = before;
        }
        self.locks.truncate(self.rows_before, self.new_before);
        buffers.rows.truncate(self.rows_before);
        buffers.bytes.truncate(self.bytes_before);
    }

    /// How many rows are locked.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.buffers.rows.len()
    }

    /// The bytes of the keys and the values, which approximate those of the changes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers.bytes.len()
    }

    /// Whether no row is locked, and so none is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffers.rows.is_empty()
    }

    /// Appends the after-images of the rows that were written, each once, for [`Replica::apply`].
    pub fn encode_changes(&self, into: &mut Vec<u8>) {
        let GroupBuffers { rows, bytes, .. } = &self.buffers;
        into.reserve(bytes.len());
        let mut changed = rows.iter().filter(|row| row.is_changed()).peekable();
        let mut of_run = changed.clone();
        while let Some(first) = changed.peek() {
            let shape = first.shape();
            let mut count = 0;
            while changed.next_if(|row| row.shape() == shape).is_some() {
                count += 1;
            }
            changes::begin_run(shape, count, into);
            // Bytes that lie side by side are copied together: mostly all of a run.
            let mut side_by_side = 0..0;
            for row in of_run.by_ref().take(count) {
                let key_at = row.key_at as usize;
                let value_at = row.value.at as usize;
                for (at, len) in [
                    (key_at, shape.key_bytes),
                    (value_at, shape.value_bytes.unwrap_or(0)),
                ] {
                    if at != side_by_side.end {
                        into.extend_from_slice(&bytes[side_by_side]);
                        side_by_side = at..at;
                    }
                    side_by_side.end += len;
                }
            }
            into.extend_from_slice(&bytes[side_by_side]);
        }
    }

    /// Ends the group: it takes no more commands, and keeps only its locks.
    pub fn seal(self) -> HeldLocks {
        let Self {
            mut locks, buffers, ..
        } = self;
        locks.changed = buffers.rows.iter().filter(|row| row.is_changed()).count();
        if locks.changed < locks.records.len() {
            // Those that are changed come first, in their order.
            let mut rows = buffers.rows.iter();
            let is_changed = |_: &RecordRef| rows.next().is_some_and(Row::is_changed);
            let records = std::mem::take(&mut locks.records);
            let (mut changed, others): (Vec<_>, Vec<_>) = records.into_iter().partition(is_changed);
            changed.extend(others);
            locks.records = changed;
        }
        locks.tables.extend(buffers.tables.iter().cloned());
        locks.replica.pool.lock().give_back_buffers(buffers);
        locks
    }
}

impl fmt::Debug for GroupTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupTransaction({} rows)", self.rows())
    }
}

/// Appends bytes; eight, the usual length, without a call.
#[inline]
fn put(bytes: &[u8], into: &mut Vec<u8>) {
    match bytes.as_array::<8>() {
        Some(word) => into.extend_from_slice(word),
        None => into.extend_from_slice(bytes),
    }
}
