//! The lock word of a replica's records: free, or locked exclusively by one group.
//!
//! ```text
//!   63         32 31       0
//!  | group        | slot     |      0: free
//! ```
//! `group` is the number of the group that has the lock, unique among those that are open or hold locks; `slot` is the
//! row's place in that group. So a group that meets its own lock knows its row without a table of its rows. Commands
//! name their keys and wait for no lock, so there are no readers, gaps or waiters to be counted (`lock/word.rs` has
//! these), and the holder releases by one store.
//!
//! Paper: raft-pwal §2.1, §3.2

use namiki_platform::sync::Ordering;

use crate::storage::record::RecordRef;

/// Not locked. New records have it, too.
pub(super) const FREE: u64 = 0;

/// A group's number; not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupNumber(pub(super) u32);

/// Has the lock while a record's key enters the index for the applier, or leaves it (`replica/mod.rs`, RG4).
pub(super) const REMOVER: GroupNumber = GroupNumber(u32::MAX);

/// The outcome of an attempt to lock a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The group has it now, in the slot that was offered.
    Acquired,
    /// The group had it before, in this slot.
    Own(u32),
    /// Another group has it.
    Conflict,
}

/// The word of a record that a group has locked.
pub(super) fn locked(group: GroupNumber, slot: u32) -> u64 {
    u64::from(group.0) << 32 | u64::from(slot)
}

/// Locks a record unless it is locked.
#[inline]
pub(super) fn try_lock(record: RecordRef, group: GroupNumber, slot: u32) -> Attempt {
    // Acquire: pairs with the Release in `unlock`, so that what the last holder's group installed is seen.
    let before = record.word().compare_exchange(
        FREE,
        locked(group, slot),
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    match before {
        Ok(_) => Attempt::Acquired,
        Err(word) if word >> 32 == u64::from(group.0) => Attempt::Own(word as u32),
        Err(_) => Attempt::Conflict,
    }
}

/// Releases a record that the caller has locked.
#[inline]
pub(super) fn unlock(record: RecordRef) {
    debug_assert_ne!(record.word().load(Ordering::Relaxed), FREE);
    record.word().store(FREE, Ordering::Release);
}
