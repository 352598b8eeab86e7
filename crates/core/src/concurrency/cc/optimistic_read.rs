//! The read that TicToc and Silo share: lock-free, and it leaves no trace.
//!
//! Both have the lock in the highest bit of a record's word and the stamp of the version, or one from which it is valid, in the lowest
//! 48. Silo's words have nothing in between, TicToc's how much longer the version was read (`tictoc_word.rs`): with nothing there, a
//! version is known to be valid at one stamp alone, which is what Silo knows of it. So one read serves both, and is compiled once
//! into the callers that are called most.

use std::sync::atomic::Ordering;

use namiki_platform::Stamp;

use super::tictoc_word::TsWord;
use super::{Busy, ObservedVersion};
use crate::storage::record::{ProtocolWord, RecordRef};

/// [`CcProtocol::read`](super::CcProtocol::read) under optimistic concurrency control.
#[inline(always)]
pub(crate) fn read_optimistically(
    record: RecordRef,
    out: &mut Vec<u8>,
) -> Result<ObservedVersion, Busy> {
    loop {
        // Acquire: pairs with the Release that published this version, so that its payload,
        // or a later one, is what we copy.
        let word = TsWord(record.word().load(Ordering::Acquire));
        if word.is_locked() {
            return Err(Busy);
        }
        let same_version = |now: &ProtocolWord| {
            let now = TsWord(now.load(Ordering::Relaxed));
            now.wts() == word.wts() && !now.is_locked()
        };
        if let Some(snapshot) = record.copy_if(out, same_version) {
            return Ok(ObservedVersion {
                creation: snapshot.creation,
                absent: snapshot.absent,
                from: Stamp(word.wts()),
                until: Stamp(word.rts()),
            });
        }
        if !record.is_current() {
            return Err(Busy);
        }
    }
}
