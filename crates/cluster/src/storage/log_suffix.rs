//! The log above a position: the only place where an index becomes an offset.
//!
//! ```text
//!   before            first                         last
//!   (index S, term) │ S + 1   S + 2   S + 3   …   S + n
//! ```
//! Raft's log in memory and the recovered log are both of this type. Entries are kept in chunks: the
//! log neither copies them when it grows, nor keeps their memory when its beginning is truncated.
//!
//! # Invariants
//! - O1. The entry of index i is at the offset i − first, and first = before + 1.
//! - O2. `before` is the entry in front of the first one. Its term is 0 if it is not known, and if
//!   there is no such entry.

use std::collections::VecDeque;

use crate::entry::LogEntry;
use crate::fault_injection::{Fault, FaultInjection};

/// Entries of a chunk.
const CHUNK: usize = 1024;

/// The position of an entry in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Its index; 0: before the first entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// An entry without its index.
pub(crate) trait HasTerm {
    /// The term of the leader that proposed it.
    fn term(&self) -> u64;
}

impl HasTerm for LogEntry {
    fn term(&self) -> u64 {
        self.term
    }
}

/// Entries without gaps, from `before + 1` on.
#[derive(Clone, Debug)]
pub(crate) struct LogSuffix<T> {
    before: LogPosition,
    /// All are full but the last one, which is not empty.
    chunks: VecDeque<Vec<T>>,
    /// Entries at the beginning of the first chunk that are truncated.
    skipped: usize,
    planted: FaultInjection,
}

impl<T: HasTerm> Default for LogSuffix<T> {
    fn default() -> Self {
        Self::new(LogPosition::default(), FaultInjection::default())
    }
}

impl<T: HasTerm> LogSuffix<T> {
    /// No entries, behind this position.
    pub(crate) fn new(before: LogPosition, planted: FaultInjection) -> Self {
        Self {
            before,
            chunks: VecDeque::new(),
            skipped: 0,
            planted,
        }
    }

    /// The entry in front of the first one.
    pub(crate) fn before(&self) -> LogPosition {
        self.before
    }

    /// The index of the first entry, if there is one.
    pub(crate) fn first(&self) -> u64 {
        self.before.index + 1
    }

    fn len(&self) -> usize {
        let all = self.chunks.len().saturating_sub(1) * CHUNK;
        all + self.chunks.back().map_or(0, Vec::len) - self.skipped
    }

    /// The index of the last entry, or that of the position in front of an empty log.
    pub(crate) fn last(&self) -> u64 {
        self.before.index + self.len() as u64
    }

    /// The position of the last entry, or the one in front of an empty log.
    pub(crate) fn last_position(&self) -> LogPosition {
        let last = self.get(self.last()).map(HasTerm::term);
        last.map_or(self.before, |term| LogPosition {
            index: self.last(),
            term,
        })
    }

    /// The chunk of an entry, and its place there.
    fn place(&self, index: u64) -> Option<(usize, usize)> {
        let first = if self.planted.has(Fault::OffsetFromSnapshot) && self.before.index > 0 {
            self.before.index
        } else {
            self.first()
        };
        let offset = index.checked_sub(first)?;
        let at = usize::try_from(offset).ok()?.checked_add(self.skipped)?;
        Some((at / CHUNK, at % CHUNK))
    }

    /// The entry of this index.
    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        let (chunk, at) = self.place(index)?;
        self.chunks.get(chunk)?.get(at)
    }

    /// The entry of this index.
    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut T> {
        let (chunk, at) = self.place(index)?;
        self.chunks.get_mut(chunk)?.get_mut(at)
    }

    /// The term of the entry of this index, or of the position in front. `None` if it is not known.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if index == self.before.index {
            let is_known = index == 0 || self.before.term > 0;
            return is_known.then_some(self.before.term);
        }
        self.get(index).map(HasTerm::term)
    }

    /// The entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().skip(self.skipped)
    }

    /// Appends the next entry.
    pub(crate) fn push(&mut self, entry: T) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => last.push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// Removes the entries at and above an index. If that is not above the position in front, the
    /// log begins there from now on, behind an entry of an unknown term.
    pub(crate) fn void(&mut self, from: u64) {
        if from <= self.before.index {
            let before = LogPosition {
                index: from.saturating_sub(1),
                term: 0,
            };
            *self = Self::new(before, self.planted);
            return;
        }
        let offset = usize::try_from(from - self.first()).unwrap_or(usize::MAX);
        let kept = offset.saturating_add(self.skipped);
        if offset >= self.len() {
            return;
        }
        self.chunks.truncate(kept.div_ceil(CHUNK));
        if !kept.is_multiple_of(CHUNK)
            && let Some(last) = self.chunks.back_mut()
        {
            last.truncate(kept % CHUNK);
        }
        if offset == 0 {
            self.chunks.clear();
            self.skipped = 0;
        }
    }

    /// Truncates the beginning of the log, through this index; no further than its last entry.
    pub(crate) fn truncate_through(&mut self, index: u64) {
        let index = index.min(self.last());
        let Some(term) = self.get(index).map(HasTerm::term) else {
            return;
        };
        let gone = self.skipped + (index - self.before.index) as usize;
        self.before = LogPosition { index, term };
        self.chunks.drain(..(gone / CHUNK).min(self.chunks.len()));
        self.skipped = gone % CHUNK;
        if self
            .chunks
            .back()
            .is_none_or(|last| last.len() == self.skipped)
            && self.chunks.len() <= 1
        {
            self.chunks.clear();
            self.skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Term(u64);

    impl HasTerm for Term {
        fn term(&self) -> u64 {
            self.0
        }
    }

    fn suffix(before: LogPosition, terms: impl IntoIterator<Item = u64>) -> LogSuffix<Term> {
        let mut it = LogSuffix::new(before, FaultInjection::default());
        terms.into_iter().for_each(|term| it.push(Term(term)));
        it
    }

    #[test]
    fn indexes_count_from_the_position_in_front() {
        let it = suffix(LogPosition { index: 7, term: 2 }, [2, 3, 3]);
        assert_eq!((it.first(), it.last()), (8, 10));
        let terms: Vec<_> = (6..12).map(|index| it.term(index)).collect();
        assert_eq!(terms, [None, Some(2), Some(2), Some(3), Some(3), None]);
        assert_eq!(it.get(7), None);
        assert_eq!(it.last_position(), LogPosition { index: 10, term: 3 });
        let empty = suffix(LogPosition::default(), []);
        assert_eq!(
            (empty.first(), empty.last(), empty.term(0)),
            (1, 0, Some(0))
        );
    }

    /// The fault that this type exists to prevent.
    #[test]
    fn an_offset_from_the_snapshot_is_noticed() {
        let mut it = suffix(LogPosition { index: 7, term: 2 }, [2, 3, 4]);
        it.planted = FaultInjection::of(Some(Fault::OffsetFromSnapshot));
        assert_ne!(it.term(9), Some(3));
        assert_ne!(it.last_position(), LogPosition { index: 10, term: 4 });
    }

    #[test]
    fn voiding_below_the_beginning_moves_it() {
        let mut it = suffix(LogPosition { index: 7, term: 2 }, [2, 3, 3]);
        it.void(12);
        it.void(11);
        assert_eq!(it.last(), 10);
        it.void(8);
        assert_eq!((it.last(), it.term(7)), (7, Some(2)));
        it.void(5);
        assert_eq!((it.last(), it.term(4)), (4, None));
        it.void(1);
        assert_eq!((it.last(), it.term(0)), (0, Some(0)));
    }

    /// Against a vector of all entries.
    #[test]
    fn random_changes_agree_with_a_plain_list() {
        let mut random = Random::seeded(5);
        for _ in 0..20 {
            let mut all: Vec<u64> = vec![0];
            let mut before = 0_u64;
            let mut it = suffix(LogPosition::default(), []);
            for step in 1..2000 {
                match random.below(10) {
                    0 => {
                        let from = before + 1 + random.below(all.len() as u64 - before);
                        it.void(from);
                        all.truncate(from as usize);
                    }
                    1 => {
                        let index = before + random.below(all.len() as u64 - before);
                        it.truncate_through(index);
                        before = index;
                    }
                    _ => {
                        for _ in 0..random.below(300) {
                            it.push(Term(step));
                            all.push(step);
                        }
                    }
                }
                assert_eq!(it.last(), all.len() as u64 - 1);
                assert_eq!(it.before().index, before);
                for index in [before, before + 1, it.last(), (before + it.last()) / 2] {
                    let expected = all.get(index as usize).copied();
                    assert_eq!(it.term(index), expected, "{index}");
                }
                assert!(it.get(before).is_none() && it.get(it.last() + 1).is_none());
                let kept = it.iter().map(|term| term.0);
                assert!(kept.eq(all[before as usize + 1..].iter().copied()));
                assert!(it.chunks.len() <= 2 + (all.len() - before as usize) / CHUNK);
            }
        }
    }
}
