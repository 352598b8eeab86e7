//! Strict two-phase locking: records are locked before they are read or written, and unlocked when
//! the commit is in the log (early release) or durable (normal release).
//!
//! The word is a reader/writer lock with a lock of the gap below the record's key (`lock`). A
//! transaction's position in the serial order is the moment at which it holds all its locks, so the
//! order is that of real time: strict two-phase locking is strictly serializable. There is no
//! validation, and gap locks prevent phantoms.
//!
//! Writes are buffered until the commit, as in the other protocols, unless operations are logged
//! one by one. Reads for an update, or by `get_for_update`, lock exclusively at once; blind writes
//! are locked at the commit, in the global order of records.
//!
//! ```text
//!   stamp = max( stamp + 1 of every version overwritten,  stamp of every version read,  floor )
//! ```
//!
//! Paper: pwal §5.4, raft-pwal §2.1

use std::sync::atomic::Ordering;

use namiki_platform::{Stamp, WorkerId};

use super::{Before, Busy, CcProtocol, Checks, ObservedVersion};
use crate::concurrency::lock::{self, LockMode, LockWord};
use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;

/// Pessimistic, and strictly serializable.
#[derive(Debug)]
pub(crate) struct TwoPhase;

impl CcProtocol for TwoPhase {
    const LOCKS_READS: bool = true;

    const NEW_LOCKED: LockedWord = LockWord::NEW.of_new_record();

    fn admit(_record: RecordRef, _leaf_rts: u64) -> ObservedVersion {
        // It stays locked by us.
        ObservedVersion {
            creation: Stamp(0),
            absent: true,
            from: Stamp(0),
            until: Stamp(0),
        }
    }

    #[inline]
    fn read(record: RecordRef, out: &mut Vec<u8>) -> Result<ObservedVersion, Busy> {
        // It is locked by us.
        let snapshot = record.copy_if(out, |_| true).ok_or(Busy)?;
        Ok(ObservedVersion {
            creation: snapshot.creation,
            absent: snapshot.absent,
            from: snapshot.creation,
            until: snapshot.creation,
        })
    }

    fn try_lock(record: RecordRef) -> Result<Before, Busy> {
        record
            .word()
            .compare_exchange(
                LockWord::FREE.0,
                LockWord::NEW.0,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map(Before)
            .map_err(|_| Busy)
    }

    fn unlock(record: RecordRef, _before: Before) {
        let has_waiters = lock::release(record, LockMode::EXCLUSIVE);
        debug_assert!(!has_waiters, "only replay locks so, before there are any");
    }

    fn try_lock_whole(record: RecordRef) -> Result<Before, Busy> {
        // Locks the gap as well: this fails if a transaction relies on the gap or waits for the
        // record, and afterwards none can rely on it.
        record
            .word()
            .compare_exchange(
                LockWord::FREE.0,
                LockWord::WHOLE.0,
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .map(Before)
            .map_err(|_| Busy)
    }

    fn unlock_whole(record: RecordRef, _before: Before) -> bool {
        lock::release(record, LockMode::EXCLUSIVE.and(LockMode::INSERT))
    }

    fn release_retired(record: RecordRef, before: Before) -> bool {
        Self::unlock_whole(record, before)
    }

    fn published(_stamp: Stamp) -> u64 {
        LockWord::FREE.0
    }

    fn publish(record: RecordRef, _stamp: Stamp) -> bool {
        lock::release(record, LockMode::EXCLUSIVE)
    }

    fn hand_over(record: RecordRef, stream: WorkerId) -> bool {
        lock::hand_over(record, stream)
    }

    fn write_floor(record: RecordRef, _before: Before) -> Stamp {
        Stamp(record.creation().0 + 1)
    }

    fn gap_stamp(_stamp: Stamp) -> u64 {
        0
    }

    fn validate<C: Checks>(_record: RecordRef, _seen: ObservedVersion, _stamp: Stamp) -> bool {
        true
    }
}
