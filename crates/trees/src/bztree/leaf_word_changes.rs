//! The protocol for changes of a leaf's words, independent of their layout.
//!
//! - A record in a slot becomes visible by a swap of the status word from exactly the state that
//!   was read.
//! - In place, a payload is replaced by a swap of that word alone. The original compares the status word
//!   too, so that all writers of a leaf meet in one word and each needs a descriptor; without it a frozen
//!   leaf would swallow the change, for it may have been copied already. Here the thread that freezes a
//!   leaf first sets the frozen bit of the status, after which no record appears or is deleted, and then
//!   the frozen bit of **each payload word**, before it copies any. So a replacement either comes before
//!   that word is frozen, and is copied, or finds it frozen and fails.
//! - In place, a record is deleted or restored by a change of its word *and* the status: the version
//!   changes in the same step.
//!
//! Paper: bwtree §2.3, §5.2 (in-place, append)

use crossbeam_epoch::Guard;
use namiki_index::IndexError;
use namiki_platform::sync::AtomicU64;

use super::status_word::Status;
use crate::mwcas::{self, Change};

/// No record here, or a deleted one.
pub(super) const DEAD: u64 = 1 << 62;
/// The leaf is being replaced.
const FROZEN: u64 = 1 << 61;
/// The bits that a payload may not use.
const RESERVED: u64 = !PAYLOAD;
const PAYLOAD: u64 = FROZEN - 1;

/// Refuses a payload that uses bits of the word for other things.
#[inline]
pub(super) fn check(payload: u64) -> Result<u64, IndexError> {
    if payload & RESERVED == 0 {
        return Ok(payload);
    }
    Err(IndexError::PayloadReserved {
        payload,
        reserved: RESERVED,
    })
}

/// The value of a word that holds a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Value(u64);

impl Value {
    #[inline(always)]
    pub(super) fn read(word: &AtomicU64, guard: &Guard) -> Self {
        Self(mwcas::read(word, guard))
    }

    /// The payload, if the record is alive.
    #[inline(always)]
    pub(super) const fn payload(self) -> Option<u64> {
        if self.0 & DEAD == 0 {
            Some(self.0 & PAYLOAD)
        } else {
            None
        }
    }

    #[inline]
    pub(super) const fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }
}

/// The state of a leaf, by its status word.
#[inline(always)]
pub(super) fn status(word: &AtomicU64, guard: &Guard) -> Status {
    Status(mwcas::read(word, guard))
}

/// The payload of a record that `find` finds in a state of the leaf; or a state without a live
/// record.
#[inline(always)]
pub(super) fn look_up(
    in_place: bool,
    leaf: &AtomicU64,
    guard: &Guard,
    find: impl Fn(Status) -> Option<Value>,
) -> Result<u64, Status> {
    loop {
        let seen = status(leaf, guard);
        let Some(value) = find(seen) else {
            return Err(seen);
        };
        if let Some(payload) = value.payload() {
            return Ok(payload);
        }
        // In place the record may have been deleted after the status was read; then the version has
        // changed.
        if !in_place || status(leaf, guard).changes() == seen.changes() {
            return Err(seen);
        }
    }
}

/// Replaces a payload in place. False: the word has changed, or is frozen.
#[inline]
pub(super) fn replace(word: &AtomicU64, seen: Value, payload: u64, guard: &Guard) -> bool {
    !seen.is_frozen() && mwcas::swap(word, seen.0, payload, guard).is_ok()
}

/// Changes the status from the state that was read. The error is the current state.
#[inline]
pub(super) fn advance(
    word: &AtomicU64,
    seen: Status,
    next: Status,
    guard: &Guard,
) -> Result<(), Status> {
    mwcas::swap(word, seen.0, next.0, guard).map_err(Status)
}

/// In place: deletes the record, in one step with the change of the key set.
#[inline]
pub(super) fn kill(
    (leaf, seen): (&AtomicU64, Status),
    (word, value): (&AtomicU64, Value),
    guard: &Guard,
) -> bool {
    debug_assert!(!seen.is_frozen() && value.payload().is_some());
    Change::new(leaf, seen.0, seen.change().mark_deleted().0)
        .and(word, value.0, DEAD)
        .commit(guard)
}

/// In place: restores a dead record with this payload.
#[inline]
pub(super) fn revive(
    (leaf, seen): (&AtomicU64, Status),
    (word, value): (&AtomicU64, Value),
    payload: u64,
    guard: &Guard,
) -> bool {
    debug_assert!(!seen.is_frozen() && value.payload().is_none());
    Change::new(leaf, seen.0, seen.change().revive().0)
        .and(word, value.0, payload)
        .commit(guard)
}

/// Freezes the node's status: from now on it accepts no change. Returns the last status.
#[inline]
pub(super) fn freeze(word: &AtomicU64, guard: &Guard) -> Status {
    let mut seen = status(word, guard);
    while !seen.is_frozen() {
        match advance(word, seen, seen.frozen(), guard) {
            Ok(()) => seen = seen.frozen(),
            Err(now) => seen = now,
        }
    }
    seen
}

/// Freezes a payload; the status of its leaf is frozen already.
#[inline]
pub(super) fn freeze_payload(word: &AtomicU64, guard: &Guard) {
    let mut seen = mwcas::read(word, guard);
    while seen & FROZEN == 0 {
        match mwcas::swap(word, seen, seen | FROZEN, guard) {
            Ok(()) => return,
            Err(now) => seen = now,
        }
    }
}
