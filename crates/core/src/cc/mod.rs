//! Concurrency control: what a protocol does with a record's word.
//!
//! A [`Protocol`] is a type parameter of the one commit path (`commit.rs`). It says how a record is
//! read, locked and released, which stamp a commit gets, and whether what was read may stand.

mod checks;
mod tictoc;
mod word;

use namiki_platform::Stamp;

pub use checks::planted;
pub(crate) use checks::{Checks, Sound};
pub(crate) use tictoc::TicToc;

use crate::record::RecordRef;

/// What a read saw of a record's version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The version's identity.
    pub(crate) creation: Stamp,
    /// The version says that the key is not there.
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
pub(crate) trait Protocol {
    /// The word of a new record that enters the index locked.
    const NEW_LOCKED: u64;

    /// Unlocks such a record. `leaf_rts` is the largest stamp at which anybody has read that the
    /// key was not there. Returns the version that the record begins with, as if it had been read.
    fn admit(record: RecordRef, leaf_rts: u64) -> Seen;

    /// Copies the payload into `out`. Takes no lock and writes nothing shared.
    fn read(record: RecordRef, out: &mut Vec<u8>) -> Result<Seen, Busy>;

    /// Locks the record for writing.
    fn try_lock(record: RecordRef) -> Result<Before, Busy>;

    /// Releases a lock under which nothing was changed.
    fn unlock(record: RecordRef, before: Before);

    /// The word that publishes a version installed under the lock, and releases it.
    fn published(stamp: Stamp) -> u64;

    /// The smallest stamp at which a record locked with `before` may get a new version.
    fn write_floor(before: Before) -> Stamp;

    /// Whether a version that was read, of a record that is not locked by the asker, is valid at
    /// `stamp`, now and for ever.
    fn validate<C: Checks>(record: RecordRef, seen: Seen, stamp: Stamp) -> bool;

    /// Whether the version that was read can no longer be valid at a stamp that the transaction
    /// might get: a hint, asked before giving up on something else.
    fn is_dead(record: RecordRef, seen: Seen) -> bool {
        record.creation() != seen.creation
    }
}
