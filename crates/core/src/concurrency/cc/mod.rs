//! Concurrency control: what a protocol does with a record's word.
//!
//! A [`CcProtocol`] is a type parameter of the one commit path (`commit_path/mod.rs`). It defines
//! how a record is read, locked and released, which stamp a commit gets, and whether its reads are
//! valid.

mod fault_injection;
#[cfg(all(test, loom))]
mod loom_model;
mod optimistic_read;
mod silo;
mod tictoc;
mod tictoc_word;
mod two_phase;

use namiki_platform::{Stamp, WorkerId};

pub use fault_injection::faults;
pub(crate) use fault_injection::{Checks, NoFaults};
pub(crate) use optimistic_read::read_optimistically;
pub(crate) use silo::Silo;
pub(crate) use tictoc::TicToc;
pub(crate) use two_phase::TwoPhase;

use crate::storage::arena::LockedWord;
use crate::storage::record::RecordRef;

/// Dispatches on the type of a database's protocol.
macro_rules! with_protocol {
    ($concurrency:expr, $protocol:ident => $does:expr) => {
        match $concurrency {
            $crate::protocol_spec::ConcurrencyControl::TicToc => {
                type $protocol = $crate::concurrency::cc::TicToc;
                $does
            }
            $crate::protocol_spec::ConcurrencyControl::Silo => {
                type $protocol = $crate::concurrency::cc::Silo;
                $does
            }
            $crate::protocol_spec::ConcurrencyControl::TwoPhase => {
                type $protocol = $crate::concurrency::cc::TwoPhase;
                $does
            }
        }
    };
}
pub(crate) use with_protocol;

/// The version that a read observed in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedVersion {
    /// The version's identity.
    pub(crate) creation: Stamp,
    /// Whether the version has no value: the key is absent.
    pub(crate) absent: bool,
    /// A stamp at which the version is valid, at or after its creation.
    pub(crate) from: Stamp,
    /// The last stamp at which the version was known to be valid.
    pub(crate) until: Stamp,
}

/// The record is locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// A record's word before it was locked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before(pub(crate) u64);

/// A concurrency control over records.
pub(crate) trait CcProtocol {
    /// Whether a record is locked before it is read, and stays so until the transaction ends. Where it is not,
    /// reads are validated at the commit.
    const LOCKS_READS: bool = false;

    /// Whether a version that was read has to be valid at the commit's stamp; otherwise, at the moment of the commit.
    const VALIDATES_AT_STAMP: bool = false;

    /// The word of a new record that enters the index locked.
    const NEW_LOCKED: LockedWord;

    /// Unlocks such a record, unless reads are locked, too. `leaf_rts` is the largest stamp at which the key was read
    /// as absent. Its word comes after all that the record has had before. Returns the version that the record begins with, as if it had been read.
    fn admit(record: RecordRef, leaf_rts: u64) -> ObservedVersion;

    /// Copies the payload into `out`. Takes no lock and writes nothing shared.
    fn read(record: RecordRef, out: &mut Vec<u8>) -> Result<ObservedVersion, Busy>;

    /// Locks the record for writing.
    fn try_lock(record: RecordRef) -> Result<Before, Busy>;

    /// Releases a lock under which nothing was changed.
    fn unlock(record: RecordRef, before: Before);

    /// Locks a record before its key leaves the index; where gaps are locked, also the gap below
    /// it.
    fn try_lock_whole(record: RecordRef) -> Result<Before, Busy> {
        Self::try_lock(record)
    }

    /// Releases such a lock under which nothing was changed. Returns whether there are waiters for it, which the caller
    /// wakes.
    #[must_use]
    fn unlock_whole(record: RecordRef, before: Before) -> bool {
        Self::unlock(record, before);
        false
    }

    /// The largest stamp at which a record locked with `before` is known to have been read.
    fn read_until(_before: Before) -> Stamp {
        Stamp(0)
    }

    /// Releases the lock of a record after its incarnation has ended under it, with a word that the
    /// record has not had before. Returns whether there are waiters for the lock, which the caller
    /// wakes.
    #[must_use]
    fn release_retired(record: RecordRef, before: Before) -> bool;

    /// The word of an unlocked record with a version of this stamp.
    fn published(stamp: Stamp) -> u64;

    /// Publishes a version that was installed under the lock, and releases it. Returns whether there are waiters for
    /// the lock, which the caller wakes.
    #[must_use]
    fn publish(record: RecordRef, stamp: Stamp) -> bool;

    /// The lock of a record now belongs to a group of commits on this stream. Returns whether it is known to have
    /// waiters.
    fn hand_over(_record: RecordRef, _stream: WorkerId) -> bool {
        false
    }

    /// The smallest stamp at which a record locked with `before` may get a new version.
    fn write_floor(record: RecordRef, before: Before) -> Stamp;

    /// The rts that a commit at `stamp` leaves in leaves in which it has read gaps.
    fn gap_stamp(stamp: Stamp) -> u64 {
        stamp.0
    }

    /// Whether a version that was read, of a record that is not locked by the asker, is valid at
    /// `stamp`, now and for ever.
    fn validate<C: Checks>(record: RecordRef, seen: ObservedVersion, stamp: Stamp) -> bool;

    /// Whether the version that was read can no longer be valid at a stamp that the transaction
    /// might get: a hint, checked before another wait is given up.
    fn is_dead(record: RecordRef, seen: ObservedVersion) -> bool {
        !record.has_version(seen.creation)
    }
}
