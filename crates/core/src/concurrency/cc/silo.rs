//! Silo: a record's word is the stamp of its version and a lock, and reads leave no trace.
//!
//! A transaction reads without locks and remembers which versions it saw. To commit, it locks what it writes,
//! and then asks of every version read whether it is still the current one and of every gap read whether its
//! leaf still has the same keys. The commit's place in the serial order is the moment at which it held all its
//! locks and had looked at nothing again yet, so the order is that of time: Silo is strictly serializable.
//!
//! ```text
//!   stamp = max( stamp of every version read,  stamp + 1 of every version overwritten,  floor )
//! ```
//! The stamp is above that of whatever was overwritten and not below that of whatever was read; it tells nothing of
//! readers of a version before it was overwritten. (Silo's own rule, with the epoch in the upper bits of the word;
//! here the floor of the epoch has its place.)
//!
//! **Why validation sees locks.** T1 locks x and then loads y, T2 locks y and then loads x: one of the two has to see
//! the other's lock. All four are `SeqCst`, and so are a leaf's counter, when a key is inserted and when it is
//! validated: an inserter has changed it before it locks anything, so either the reader of the gap sees the counter
//! moved, or the inserter sees the reader's locks.
//!
//! Paper: tictoc-pwal §5.1 (and Tu et al., SOSP 2013)

use std::sync::atomic::Ordering;

use namiki_platform::Stamp;

use super::optimistic_read::read_optimistically;
use super::{Before, Busy, CcProtocol, Checks, ObservedVersion};
use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;

const LOCK: u64 = 1 << 63;

/// Optimistic, and strictly serializable.
#[derive(Debug)]
pub(crate) struct Silo;

impl CcProtocol for Silo {
    const NEW_LOCKED: LockedWord = LockedWord {
        word: LOCK,
        lock_bits: LOCK,
    };

    fn admit(record: RecordRef, _leaf_rts: u64) -> ObservedVersion {
        // 0, or what comes after all that the record has had before.
        let word = record.word().load(Ordering::Relaxed) & !LOCK;
        record.word().store(word, Ordering::Release);
        ObservedVersion {
            creation: Stamp(0),
            absent: true,
            from: Stamp(word),
            until: Stamp(word),
        }
    }

    #[inline(always)]
    fn read(record: RecordRef, out: &mut Vec<u8>) -> Result<ObservedVersion, Busy> {
        read_optimistically(record, out)
    }

    fn try_lock(record: RecordRef) -> Result<Before, Busy> {
        let word = record.word().load(Ordering::Relaxed);
        if word & LOCK != 0 {
            return Err(Busy);
        }
        // SeqCst: before the loads of `validate`, see above.
        record
            .word()
            .compare_exchange(word, word | LOCK, Ordering::SeqCst, Ordering::Relaxed)
            .map(Before)
            .map_err(|_| Busy)
    }

    fn unlock(record: RecordRef, Before(word): Before) {
        record.word().store(word, Ordering::Release);
    }

    fn release_retired(record: RecordRef, Before(word): Before) -> bool {
        let next = (word + 1).min(Stamp::MAX.0);
        record.word().store(next, Ordering::Release);
        false
    }

    fn published(stamp: Stamp) -> u64 {
        stamp.0
    }

    fn publish(record: RecordRef, stamp: Stamp) -> bool {
        // Release: pairs with the Acquire of the next reader or holder of the version.
        record.word().store(stamp.0, Ordering::Release);
        false
    }

    fn write_floor(_record: RecordRef, Before(word): Before) -> Stamp {
        Stamp(word + 1)
    }

    fn gap_stamp(_stamp: Stamp) -> u64 {
        0
    }

    fn validate<C: Checks>(record: RecordRef, seen: ObservedVersion, _stamp: Stamp) -> bool {
        // SeqCst: after the locks of `try_lock`, see above. A holder of the lock may be about to publish.
        let word = record.word().load(Ordering::SeqCst);
        let is_same = word == seen.from.0 || !C::REQUIRE_UNLOCKED && word & !LOCK == seen.from.0;
        // Incarnations rise: one that is the same now was so when the word was loaded.
        is_same && record.is_current()
    }
}
