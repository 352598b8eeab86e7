//! The locks of one transaction.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::word::LockMode;
use crate::storage::free_large_buffers::{Sizes, free_if_large, free_map_if_large};
use crate::storage::record::{AddressHasher, RecordRef};

/// Up to this number of locks, one is found by linear search.
const LINEAR: usize = 16;

/// The locks that a transaction holds.
#[derive(Default)]
pub(crate) struct HeldLocks {
    list: Vec<(RecordRef, LockMode)>,
    /// Where each record is in the list, once there are more than [`LINEAR`].
    by_record: HashMap<RecordRef, usize, BuildHasherDefault<AddressHasher>>,
    /// The number of first locks that were taken in the global order of records.
    ordered: usize,
}

impl HeldLocks {
    fn position(&self, record: RecordRef) -> Option<usize> {
        if self.list.len() <= LINEAR {
            self.list.iter().position(|(held, _)| *held == record)
        } else {
            self.by_record.get(&record).copied()
        }
    }

    /// The mode in which a record is held.
    #[inline]
    pub(super) fn of(&self, record: RecordRef) -> LockMode {
        self.position(record)
            .map_or(LockMode::default(), |at| self.list[at].1)
    }

    /// Notes that this is held, too.
    #[inline]
    pub(super) fn add(&mut self, record: RecordRef, locked: LockMode) {
        if let Some(at) = self.position(record) {
            let held = &mut self.list[at].1;
            *held = held.and(locked);
            return;
        }
        self.ordered += usize::from(self.would_be_ordered(record));
        let at = self.list.len();
        self.list.push((record, locked));
        if at >= LINEAR {
            self.note_position(record, at);
        }
    }

    #[inline(never)]
    fn note_position(&mut self, record: RecordRef, at: usize) {
        if at == LINEAR {
            let all = self.list.iter().enumerate();
            self.by_record
                .extend(all.map(|(i, (record, _))| (*record, i)));
        } else {
            self.by_record.insert(record, at);
        }
    }

    /// Notes that this is not held any more.
    pub(super) fn remove(&mut self, record: RecordRef, locked: LockMode) {
        if let Some(at) = self.position(record) {
            let held = &mut self.list[at].1;
            *held = held.without(locked);
        }
        // As if it had never been held, so that it does not matter for the order.
        while let Some((record, _)) = self.list.pop_if(|(_, locked)| locked.is_nothing()) {
            if !self.by_record.is_empty() {
                self.by_record.remove(&record);
            }
        }
        self.ordered = self.ordered.min(self.list.len());
    }

    /// Whether all locks would have been taken in the one order of all records with this one as the last.
    pub(super) fn would_be_ordered(&self, record: RecordRef) -> bool {
        let last = self.list.last();
        self.ordered == self.list.len() && last.is_none_or(|(last, _)| *last < record)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The sizes of the buffers that are kept.
    #[inline(always)]
    pub(super) fn sizes(&self) -> Sizes {
        Sizes::default().with(&self.list).with_map(&self.by_record)
    }

    /// Frees the buffers that have become large. No lock is held.
    pub(super) fn free_large_buffers(&mut self, large_bytes: usize) {
        free_if_large(&mut self.list, large_bytes);
        free_map_if_large(&mut self.by_record, large_bytes);
    }

    /// Takes all locks out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (RecordRef, LockMode)> {
        if !self.by_record.is_empty() {
            self.by_record.clear();
        }
        self.ordered = 0;
        self.list
            .drain(..)
            .filter(|(_, locked)| !locked.is_nothing())
    }
}
