//! Phantom protection: absent keys, and the gaps in which they would lie.
//!
//! Where reads are validated, the leaf's version represents the gap. Where they are locked, the
//! record of the next key does (next-key locking): a transaction that has found a gap empty holds
//! the gap's lock, and an inserter into it needs that exclusively. A gap is found by searching for
//! the next key, then locked, and then the leaves that were read are checked for inserted keys;
//! from then on no key can be inserted. (A hash index has no next key: an absent key that was
//! looked up gets a record without a value, and the reader holds a shared lock of that. An inserter
//! of the key needs it exclusively.)
//!
//! Paper: pwal §5.4 (strict two-phase locking)

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_index::{Direction, LeafVersion, ScanRange};
use smallvec::SmallVec;

use super::Transaction;
use crate::commit::held_resources::TxnResources;
use crate::concurrency::lock::LockMode;
use crate::error::Error;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Leaves, Next, RawTable, Resolved, Step};

/// How a pass over a range ended, or would end if no more keys followed.
enum Pass {
    /// At the end of the range, or where the visitor broke off.
    Done,
    /// With the last key.
    OutOfKeys,
    /// A key was inserted into a gap that the pass has visited.
    Disturbed,
    /// At a lock of another transaction: the scan leaves the index before it waits, because a pinned scan blocks
    /// reclamation.
    Blocked(RecordRef, LockMode),
}

/// A key's record.
pub(super) struct ResolvedInGap {
    pub(super) record: RecordRef,
    /// It has just been created, and is locked in the requested mode.
    pub(super) is_new: bool,
}

impl Transaction {
    /// Reads an absent key: a leaf has no record for it. Notes the gap, or locks it. Returns a
    /// record that was inserted concurrently, or one that had to be created, locked in the reader's
    /// mode.
    pub(super) fn read_absent(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        leaf: LeafVersion,
        locked: LockMode,
    ) -> Result<Option<RecordRef>, Error> {
        if !self.locks_reads() {
            self.access_set.gap(raw_table, leaf);
            return Ok(None);
        }
        if !raw_table.is_ordered() {
            let resolved = self.resolve_in_locked_gap(raw_table, key, locked)?;
            return Ok(Some(resolved.record));
        }
        let mut leaves = Leaves::new();
        loop {
            let next = next(raw_table, Bound::Included(key), &mut leaves)?;
            if next.is_the_key {
                return Ok(Some(next.record));
            }
            self.lock_gap(next.record)?;
            if raw_table.are_unchanged(&leaves) {
                return Ok(None);
            }
        }
    }

    fn lock_gap(&mut self, next: RecordRef) -> Result<(), Error> {
        if self.faults.checks().lock_gaps {
            self.lock(next, LockMode::GAP)
        } else {
            Ok(())
        }
    }

    fn release(&mut self, record: RecordRef, locked: LockMode) {
        let TxnResources { engine, held, .. } = &mut self.resources;
        held.locks.release(record, locked, &engine.lock_wait_list);
    }

    /// The key's record. If it does not exist, it is created and locked, while the transaction
    /// holds the lock of its gap.
    pub(super) fn resolve_in_locked_gap(
        &mut self,
        raw_table: &Arc<RawTable>,
        key: &[u8],
        wanted: LockMode,
    ) -> Result<ResolvedInGap, Error> {
        self.acquire_permit()?;
        let found = |record| ResolvedInGap {
            record,
            is_new: false,
        };
        let named = |error| Error::from_index(&error, &raw_table.name());
        let mut leaves = Leaves::new();
        loop {
            if let Ok(record) = raw_table.find(key).map_err(named)? {
                return Ok(found(record));
            }
            let mut next = None;
            if raw_table.is_ordered() {
                let above = self::next(raw_table, Bound::Included(key), &mut leaves)?;
                if above.is_the_key {
                    return Ok(found(above.record));
                }
                self.lock(above.record, LockMode::INSERT)?;
                if !raw_table.are_unchanged(&leaves) {
                    self.release(above.record, LockMode::INSERT);
                    continue;
                }
                next = Some(above.record);
            }
            let locks = &mut self.resources.held.locks;
            let (word, locked) = locks.word_of_new(wanted, next);
            let resolved = raw_table.create_record(key, word);
            if let Ok(Resolved::New { record, .. }) = resolved {
                locks.made(record, locked);
            }
            if let Ok(resolved) = &resolved {
                let new_records = &mut self.resources.held.new_records;
                new_records.note_if_new(raw_table.id, resolved, key);
            }
            if let Some(next) = next {
                self.release(next, LockMode::INSERT);
            }
            return match resolved.map_err(named)? {
                Resolved::Found(record) => Ok(found(record)),
                Resolved::New { record, .. } => Ok(ResolvedInGap {
                    record,
                    is_new: true,
                }),
            };
        }
    }

    /// Locks keys to be written, including absent ones, in the global order of records. Does
    /// nothing where reads are not locked.
    pub(crate) fn lock_keys<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k Arc<RawTable>, &'k [u8])>,
    ) -> Result<(), Error> {
        self.resolve_deferred_writes()?;
        if !self.locks_reads() {
            return Ok(());
        }
        let mut records = Vec::new();
        for (raw_table, key) in keys {
            let resolved = self.resolve_in_locked_gap(raw_table, key, LockMode::EXCLUSIVE)?;
            if resolved.is_new {
                // It gets its position in the order, too.
                self.release(resolved.record, LockMode::EXCLUSIVE);
            }
            records.push(resolved.record);
        }
        records.sort_unstable();
        records
            .into_iter()
            .try_for_each(|record| self.lock(record, LockMode::EXCLUSIVE))
    }

    /// Visits the records in a range. Locks each with the gap below it first; and the gap above the
    /// last, so that no key can be inserted there.
    pub(super) fn scan_locking(
        &mut self,
        raw_table: &Arc<RawTable>,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&mut Self, &[u8], RecordRef) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.acquire_permit()?;
        let forward = range.direction == Direction::Forward;
        if !forward {
            self.lock_gap_above(raw_table, range.end)?;
        }
        let mut leaves = Leaves::new();
        // The key that was visited last.
        let mut last: Option<SmallVec<[u8; 24]>> = None;
        loop {
            let rest = match (&last, forward) {
                (None, true) => ScanRange {
                    end: Bound::Unbounded,
                    ..range
                },
                (None, false) => range,
                (Some(last), true) => ScanRange {
                    start: Bound::Excluded(last),
                    end: Bound::Unbounded,
                    ..range
                },
                (Some(last), false) => ScanRange {
                    end: Bound::Excluded(last),
                    ..range
                },
            };
            leaves.clear();
            let mut visited = None;
            let mut pass = Ok(Pass::OutOfKeys);
            let scanned = raw_table.scan(rest, |step| {
                let (key, record) = match step {
                    Step::Leaf(leaf) => {
                        leaves.push(leaf);
                        return ControlFlow::Continue(());
                    }
                    Step::Entry(key, record) => (key, record),
                };
                let wanted = match () {
                    () if forward && !is_below(key, range.end) => LockMode::GAP,
                    // No keys below it were requested.
                    () if range.start == Bound::Included(key) => LockMode::SHARED,
                    () => LockMode::SHARED_AND_GAP,
                };
                let wanted = match self.access_set.write_of(record) {
                    // A read of a late change evaluates it.
                    Some(at) if wanted != LockMode::GAP && self.access_set.is_late_at(at) => {
                        wanted.and(LockMode::EXCLUSIVE)
                    }
                    _ => wanted,
                };
                pass = self.lock_next(raw_table, record, wanted, &leaves);
                if !matches!(pass, Ok(Pass::OutOfKeys)) {
                    return ControlFlow::Break(());
                }
                // Those before it cannot get a key any more that comes before this one.
                leaves.drain(..leaves.len().saturating_sub(1));
                visited = Some(SmallVec::from_slice(key));
                match visit(self, key, record) {
                    Ok(ControlFlow::Continue(())) => return ControlFlow::Continue(()),
                    Ok(ControlFlow::Break(())) => pass = Ok(Pass::Done),
                    Err(error) => pass = Err(error),
                }
                ControlFlow::Break(())
            });
            scanned.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
            match pass? {
                Pass::Done => return Ok(()),
                // The gap below the first key, or that above the range, is locked.
                Pass::OutOfKeys if !forward => return Ok(()),
                Pass::OutOfKeys => {
                    self.lock_gap(raw_table.end())?;
                    if raw_table.are_unchanged(&leaves) {
                        return Ok(());
                    }
                }
                Pass::Disturbed => {}
                Pass::Blocked(record, wanted) => self.lock(record, wanted)?,
            }
            last = visited.or(last);
        }
    }

    /// Locks the next record of a range and its gap as requested; for the first record beyond the
    /// range, only the gap. Returns whether the pass continues.
    fn lock_next(
        &mut self,
        raw_table: &RawTable,
        record: RecordRef,
        wanted: LockMode,
        leaves: &Leaves,
    ) -> Result<Pass, Error> {
        if (!wanted.has(LockMode::GAP) || self.faults.checks().lock_gaps)
            && !self.try_lock(record, wanted)?
        {
            return Ok(Pass::Blocked(record, wanted));
        }
        Ok(if !raw_table.are_unchanged(leaves) {
            Pass::Disturbed
        } else if wanted == LockMode::GAP {
            Pass::Done
        } else {
            Pass::OutOfKeys
        })
    }

    /// Locks the gap of the first key above a range.
    fn lock_gap_above(&mut self, raw_table: &RawTable, end: Bound<&[u8]>) -> Result<(), Error> {
        let mut leaves = Leaves::new();
        loop {
            let above = match end {
                Bound::Unbounded => return self.lock_gap(raw_table.end()),
                Bound::Included(end) => next(raw_table, Bound::Excluded(end), &mut leaves)?,
                Bound::Excluded(end) => next(raw_table, Bound::Included(end), &mut leaves)?,
            };
            self.lock_gap(above.record)?;
            if raw_table.are_unchanged(&leaves) {
                return Ok(());
            }
        }
    }
}

fn is_below(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

fn next(raw_table: &RawTable, from: Bound<&[u8]>, leaves: &mut Leaves) -> Result<Next, Error> {
    raw_table
        .next(from, leaves)
        .map_err(|error| Error::from_index(&error, &raw_table.name()))
}
