//! TicToc: commit stamps computed from the records that a transaction touched.
//!
//! A transaction reads without locks and remembers, for each record, the version and the stamps
//! between which it is valid. To commit, it locks what it writes, takes
//!
//! ```text
//!   stamp = max( wts of every version read,  rts + 1 of every record written,  floor if it writes )
//! ```
//!
//! and asks of every version read whether it is valid at that stamp. If its rts is not there yet,
//! it is moved there, without a lock. There is no shared counter.
//!
//! **Phantoms.** A key that was looked for and not found has no record to validate. Re-checking the version of the
//! leaf that should hold it is not enough here, because the order of stamps is not the order of time: T2 reads y at
//! rts F+100; T1 scans the gap of k, writes y at F+101 and commits; T2 inserts k at F. T2's read of y passes, being
//! valid at F; yet T1 is before T2 (it did not see k) and T2 is before T1 (it read y as it was before). So a leaf
//! carries an rts too: a reader of a gap raises it to its stamp and then checks the leaf's version, and an inserter
//! first enters the leaf and then takes a stamp above its rts. Here, the new record inherits the leaf's rts as its
//! own (`admit`), which gives the same, and holds for every first writer of the record.
//!
//! **What it promises**: serializability, not strict serializability. A transaction may be ordered
//! before one that had returned before it began.
//!
//! Paper: tictoc-pwal §2.1

use std::sync::atomic::Ordering;

use namiki_platform::Stamp;

use super::optimistic_read::read_optimistically;
use super::tictoc_word::TsWord;
use super::{Before, Busy, CcProtocol, Checks, ObservedVersion};
use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;

/// The protocol of `tictoc-pwal` §2.1.
#[derive(Debug)]
pub(crate) struct TicToc;

impl CcProtocol for TicToc {
    const VALIDATES_AT_STAMP: bool = true;

    const NEW_LOCKED: LockedWord = LockedWord {
        word: TsWord::at(0).locked().0,
        lock_bits: TsWord::at(0).locked().0,
    };

    fn admit(record: RecordRef, leaf_rts: u64) -> ObservedVersion {
        let before = TsWord(record.word().load(Ordering::Relaxed));
        let leaf_rts = leaf_rts.max(before.rts());
        // The record is locked by us: `find_or_create` has just put it into the index that way. Release: the next holder of
        // the record's lock sees the rts.
        record
            .word()
            .store(TsWord::at(leaf_rts).0, Ordering::Release);
        ObservedVersion {
            creation: Stamp(0),
            absent: true,
            from: Stamp(leaf_rts),
            until: Stamp(leaf_rts),
        }
    }

    #[inline(always)]
    fn read(record: RecordRef, out: &mut Vec<u8>) -> Result<ObservedVersion, Busy> {
        read_optimistically(record, out)
    }

    fn try_lock(record: RecordRef) -> Result<Before, Busy> {
        let word = TsWord(record.word().load(Ordering::Relaxed));
        if word.is_locked() {
            return Err(Busy);
        }
        // Acquire: pairs with the Release of the last unlock, which published the version that we
        // may overwrite. A failure because rts moved concurrently is reported as busy; callers
        // retry.
        record
            .word()
            .compare_exchange(
                word.0,
                word.locked().0,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map(Before)
            .map_err(|_| Busy)
    }

    fn unlock(record: RecordRef, Before(word): Before) {
        record.word().store(word, Ordering::Release);
    }

    fn read_until(Before(word): Before) -> Stamp {
        Stamp(TsWord(word).rts())
    }

    fn release_retired(record: RecordRef, Before(word): Before) -> bool {
        let next = TsWord::at((TsWord(word).rts() + 1).min(Stamp::MAX.0));
        record.word().store(next.0, Ordering::Release);
        false
    }

    fn published(stamp: Stamp) -> u64 {
        TsWord::at(stamp.0).0
    }

    fn publish(record: RecordRef, stamp: Stamp) -> bool {
        // Release: pairs with the Acquire of the next reader or holder of the version.
        record
            .word()
            .store(Self::published(stamp), Ordering::Release);
        false
    }

    fn write_floor(_record: RecordRef, Before(word): Before) -> Stamp {
        Stamp(TsWord(word).rts() + 1)
    }

    fn validate<C: Checks>(record: RecordRef, seen: ObservedVersion, stamp: Stamp) -> bool {
        if stamp <= seen.until {
            // Valid at the time of reading up to a stamp beyond ours: no transaction can have written a version at or
            // below it. The record need not be loaded again (§2.1.1).
            return true;
        }
        loop {
            let word = TsWord(record.word().load(Ordering::Acquire));
            if !record.has_version(seen.creation) {
                return !C::REQUIRE_CURRENT && stamp.0 < word.wts();
            }
            if word.rts() >= stamp.0 {
                // Even if the record is locked, the holder's version will come after rts.
                return true;
            }
            if word.is_locked() {
                // Never move the rts of a locked word: its holder has taken its stamp from it.
                return false;
            }
            let extended = word.extended_to(stamp.0);
            // On success the word has not changed since we loaded it, so the creation stamp that
            // we read in between was that of the version we extend. (A word never returns to an
            // earlier value: every version's wts lies above its predecessor's rts, and so does that of a record that is
            // used again.)
            if record
                .word()
                .compare_exchange(word.0, extended.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
        }
    }
}
