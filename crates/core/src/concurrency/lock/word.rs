//! The lock word: locks of a record, and of the gap below it.
//!
//! ```text
//!   63   62      61       60    …   40          20         0
//!  | X | waits | insert | fair | … | stream 17 | gap 20   | readers 20 |
//! The *record* has readers or one exclusive holder (X). The *gap* is the range of keys between the record's key and
//! the one before it in the table, both left out: it has readers, which have found it empty, or one transaction that
//! is about to insert a key into it. `stream` is not 0 while X belongs to a group of commits that waits for its flush
//! on the log stream `stream - 1`. `waits` says that there are waiters for the record; `fair` that one of them has
//! disabled barging.
//!
//! A transaction counts once among the readers of a record, and once among those of its gap.

use namiki_platform::WorkerId;

use crate::storage::arena::LockedWord;

const READER: u64 = 1;
const READERS: u64 = (1 << 20) - 1;
const GAP_READER: u64 = 1 << 20;
const GAP_READERS: u64 = READERS << 20;
const STREAM_SHIFT: u32 = 40;
const STREAM: u64 = 0x1_ffff << STREAM_SHIFT;
const HANDOFF: u64 = 1 << 60;
const INSERTER: u64 = 1 << 61;
const WAITS: u64 = 1 << 62;
const EXCLUSIVE: u64 = 1 << 63;

/// The modes in which a transaction holds a record and its gap, or requests them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockMode(u8);

impl LockMode {
    /// To read the record.
    pub(crate) const SHARED: Self = Self(1);
    /// To read and write the record.
    pub(crate) const EXCLUSIVE: Self = Self(1 | 2);
    /// To rely on the gap being empty.
    pub(crate) const GAP: Self = Self(4);
    /// To put a key into the gap.
    pub(crate) const INSERT: Self = Self(8);
    /// To read the record, and to rely on the gap below it being empty.
    pub(crate) const SHARED_AND_GAP: Self = Self(1 | 4);

    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether one transaction can hold this while another holds that.
    pub(crate) const fn excludes(self, other: Self) -> bool {
        const WRITES: u8 = LockMode::EXCLUSIVE.0 & !LockMode::SHARED.0;
        let record = self.0 & WRITES != 0 && other.0 & LockMode::SHARED.0 != 0
            || other.0 & WRITES != 0 && self.0 & LockMode::SHARED.0 != 0;
        let gap = self.0 & LockMode::INSERT.0 != 0
            && other.0 & (LockMode::GAP.0 | LockMode::INSERT.0) != 0
            || other.0 & LockMode::INSERT.0 != 0 && self.0 & LockMode::GAP.0 != 0;
        record || gap
    }
}

/// The word of a record, or of one that is being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockWord(pub(crate) u64);

impl LockWord {
    pub(crate) const FREE: Self = Self(0);
    pub(crate) const NEW: Self = Self(EXCLUSIVE);
    /// For a key that leaves the index: locks its record and the gap below it.
    pub(crate) const WHOLE: Self = Self(EXCLUSIVE | INSERTER);

    /// The word as that of a new record, which may have been used before and is free then.
    pub(crate) const fn of_new_record(self) -> LockedWord {
        LockedWord {
            word: self.0,
            lock_bits: !Self::FREE.0,
        }
    }

    /// The word with the rest of `wanted` granted to a transaction that holds `own` already; `None`
    /// if another transaction holds a conflicting lock.
    pub(crate) const fn granted(self, wanted: LockMode, own: LockMode) -> Option<Self> {
        let mut word = self.0;
        if wanted.has(LockMode::EXCLUSIVE) {
            if !own.has(LockMode::EXCLUSIVE) {
                let mine = if own.has(LockMode::SHARED) { READER } else { 0 };
                if word & EXCLUSIVE != 0 || word & READERS != mine {
                    return None;
                }
                word = (word - mine) | EXCLUSIVE;
            }
        } else if wanted.has(LockMode::SHARED) && !own.has(LockMode::SHARED) {
            if word & EXCLUSIVE != 0 {
                return None;
            }
            word += READER;
        }
        if wanted.has(LockMode::INSERT) && !own.has(LockMode::INSERT) {
            let mine = if own.has(LockMode::GAP) {
                GAP_READER
            } else {
                0
            };
            if word & INSERTER != 0 || word & GAP_READERS != mine {
                return None;
            }
            word |= INSERTER;
        }
        if wanted.has(LockMode::GAP) && !own.has(LockMode::GAP) {
            if word & INSERTER != 0 && !own.has(LockMode::INSERT) {
                return None;
            }
            word += GAP_READER;
        }
        Some(Self(word))
    }

    /// The difference to subtract from the word when a transaction releases `own`.
    pub(crate) const fn released(self, own: LockMode) -> Self {
        let mut word = self.0;
        if own.has(LockMode::EXCLUSIVE) {
            word &= !(EXCLUSIVE | STREAM);
        } else if own.has(LockMode::SHARED) {
            word -= READER;
        }
        if own.has(LockMode::INSERT) {
            word &= !INSERTER;
        }
        if own.has(LockMode::GAP) {
            word -= GAP_READER;
        }
        Self(word)
    }

    /// The same word, its exclusive lock handed over to a group of commits on this stream.
    pub(crate) const fn held_by_group(self, stream: WorkerId) -> Self {
        Self(self.0 | (stream.0 as u64 + 1) << STREAM_SHIFT)
    }

    /// The stream of the group of commits that has the exclusive lock.
    pub(crate) fn group(self) -> Option<WorkerId> {
        let stream = (self.0 & STREAM) >> STREAM_SHIFT;
        u16::try_from(stream.checked_sub(1)?).ok().map(WorkerId)
    }

    pub(crate) const fn waits(self) -> bool {
        self.0 & WAITS != 0
    }

    pub(crate) const fn wants_handoff(self) -> bool {
        self.0 & HANDOFF != 0
    }

    /// The same word, with whether there are waiters, and whether one of them has disabled barging.
    pub(crate) const fn with_waiters(self, waits: bool, handoff: bool) -> Self {
        let mut word = self.0 & !(WAITS | HANDOFF);
        if waits {
            word |= WAITS;
        }
        if handoff {
            word |= HANDOFF;
        }
        Self(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [LockMode; 5] = [
        LockMode::SHARED,
        LockMode::EXCLUSIVE,
        LockMode::GAP,
        LockMode::INSERT,
        LockMode::SHARED_AND_GAP,
    ];

    #[test]
    fn what_excludes_each_other_is_not_granted_to_two() {
        for first in ALL {
            for second in ALL {
                let held = LockWord::FREE.granted(first, LockMode::default()).unwrap();
                let both = held.granted(second, LockMode::default());
                assert_eq!(
                    both.is_none(),
                    first.excludes(second),
                    "{first:?} {second:?}"
                );
                assert_eq!(first.excludes(second), second.excludes(first));
                if let Some(both) = both {
                    let rest = both.released(first);
                    assert_eq!(
                        rest,
                        LockWord::FREE.granted(second, LockMode::default()).unwrap()
                    );
                    assert_eq!(rest.released(second), LockWord::FREE);
                }
            }
        }
    }

    #[test]
    fn a_transaction_is_not_in_its_own_way() {
        for first in ALL {
            for second in ALL {
                let none = LockMode::default();
                let held = LockWord::FREE.granted(first, none).unwrap();
                let both = held.granted(second, first).unwrap();
                assert_eq!(
                    both.released(first.and(second)),
                    LockWord::FREE,
                    "{first:?} {second:?}"
                );
            }
        }
        // But a second reader conflicts with a writer of a record that both have read.
        let two = LockWord(2);
        assert_eq!(two.granted(LockMode::EXCLUSIVE, LockMode::SHARED), None);
        assert_eq!(
            two.released(LockMode::SHARED)
                .granted(LockMode::EXCLUSIVE, LockMode::SHARED),
            Some(LockWord::NEW)
        );
    }

    #[test]
    fn a_group_keeps_the_lock_until_it_is_released() {
        let held = LockWord::NEW
            .with_waiters(true, false)
            .held_by_group(WorkerId(u16::MAX));
        assert_eq!(held.group(), Some(WorkerId(u16::MAX)));
        assert_eq!(held.granted(LockMode::SHARED, LockMode::default()), None);
        let released = held.released(LockMode::EXCLUSIVE);
        assert_eq!((released.group(), released.waits()), (None, true));
        assert_eq!(
            LockWord::NEW.held_by_group(WorkerId(0)).group(),
            Some(WorkerId(0))
        );
        assert_eq!(released.with_waiters(false, false), LockWord::FREE);
    }
}
