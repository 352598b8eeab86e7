//! A pool of numbers and buffers of groups, which are reused.
//!
//! A group of 20,000 transfers takes 2 MB of buffers. With those of earlier groups it allocates nothing.

use std::sync::Arc;

use super::group::GroupBuffers;
use super::row_lock::{GroupNumber, REMOVER};
use crate::storage::record::RecordRef;
use crate::table::raw_table::RawTable;

/// The most groups for which buffers are kept.
const KEPT_MAX: usize = 16;
/// Buffers of a group that has become larger than this, in bytes, are not.
const KEPT_BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub(super) struct GroupPool {
    free_numbers: Vec<GroupNumber>,
    /// The largest number that was given out.
    last_number: u32,
    buffers: Vec<GroupBuffers>,
    record_lists: Vec<Vec<RecordRef>>,
}

impl GroupPool {
    /// For a new group: its number, an empty list of records, and its other buffers, which are empty, too.
    pub(super) fn take(&mut self) -> (GroupNumber, Vec<RecordRef>, GroupBuffers) {
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            let next = self.last_number.checked_add(1);
            let next = next.filter(|next| *next != REMOVER.0);
            self.last_number = next.expect("fewer than 2^32 groups live at a time");
            GroupNumber(self.last_number)
        });
        let records = self.record_lists.pop().unwrap_or_default();
        (number, records, self.buffers.pop().unwrap_or_default())
    }

    /// Returns the buffers of a sealed group.
    pub(super) fn give_back_buffers(&mut self, mut buffers: GroupBuffers) {
        if self.buffers.len() < KEPT_MAX && buffers.bytes() <= KEPT_BYTES_MAX {
            buffers.clear();
            // A table that is dropped later is forgotten below.
            buffers.forget_dropped(&mut Vec::new());
            self.buffers.push(buffers);
        }
    }

    /// A table was dropped: no buffer keeps it.
    pub(super) fn forget_dropped(&mut self, into: &mut Vec<Arc<RawTable>>) {
        for buffers in &mut self.buffers {
            buffers.forget_dropped(into);
        }
    }

    /// Returns the number of a group that has released its locks (`replica/mod.rs`, RG1).
    pub(super) fn give_back_number(&mut self, number: GroupNumber, mut records: Vec<RecordRef>) {
        self.free_numbers.push(number);
        if self.record_lists.len() < KEPT_MAX && size_of_val(&*records) <= KEPT_BYTES_MAX {
            records.clear();
            self.record_lists.push(records);
        }
    }
}
