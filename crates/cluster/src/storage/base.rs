//! The base record: what a segment of stream 0 begins with, and which segments are needed.
//!
//! A *segment* of stream 0 is the part from one base record to the next. A base record has what the
//! segments before it are needed for, except entries:
//!
//! ```text
//!   ── segment ───────────────┬── segment ──────────────────────┬── segment ───
//!   E1 E2 E3 E4 commit 4 …    │ base 3 (last 4) E5 E6 … E5' E6' │ base 5' (last 6') E7' …
//!                                                                 ▲ a truncation at S = 5
//! ```
//! A segment is needed from the first one on that has the record of entry S. Entry i + 1 is
//! recorded behind entry i, so everything above S is there, too. Two segments remain in the steady
//! state: the one with entry S, and the one that the truncation has begun.
//!
//! # Invariants
//! - BR1. The first record of each generation's stream 0, and of each file that a truncation begins,
//!   is a base record.
//! - BR2. A base record at S is written only if an image at S is durable, so the recovered state of
//!   a directory is never behind what was truncated.
//! - BR3. Files of stream 0 go only if a later base record with the same S is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_platform::Generation;

use super::log_suffix::LogPosition;
use super::raft_record::{Base, RaftRecord};
use crate::entry::LogEntry;

/// The state that the records of stream 0 add up to, without the entries.
#[derive(Clone, Debug, Default)]
pub(super) struct RaftHead {
    /// As the next base record would have it.
    pub(super) base: Base,
    /// The segments that may be needed, in order.
    pub(super) segments: Vec<Segment>,
}

/// A segment of stream 0.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) generation: Generation,
    /// The file that begins with its base record; 0 while that is not durable.
    pub(super) file_number: Arc<AtomicU64>,
    /// Index of the snapshot in its base record.
    snapshot: u64,
    /// Every entry from this index on has its record in this segment or a later one.
    low: u64,
}

impl RaftHead {
    /// The index of the last entry.
    pub(super) fn last_index(&self) -> u64 {
        self.base.last.index
    }

    /// Notes a record that is not a base record.
    pub(super) fn note(&mut self, record: &RaftRecord) {
        let base = &mut self.base;
        match record {
            RaftRecord::Vote { term, vote } => (base.term, base.vote) = (*term, *vote),
            RaftRecord::Commit { index } => base.commit = *index,
            RaftRecord::Persisted { index } => base.persisted = *index,
            RaftRecord::Truncate { from } => {
                base.commit = base.commit.min(from - 1);
                if *from <= base.last.index {
                    base.last = LogPosition {
                        index: from - 1,
                        term: 0,
                    };
                }
                self.void(*from);
            }
            RaftRecord::Entry(LogEntry { index, term, .. }) => {
                base.last = LogPosition {
                    index: *index,
                    term: *term,
                };
                self.void(*index);
            }
            RaftRecord::Base(base) => self.base.clone_from(base),
        }
    }

    fn void(&mut self, from: u64) {
        self.base.persisted = self.base.persisted.min(from - 1);
        for segment in &mut self.segments {
            segment.low = segment.low.min(from);
        }
    }

    /// The base record that is to be written now.
    pub(super) fn next_base(&self) -> Base {
        let mut base = self.base.clone();
        let snapshot = base.snapshot.position.index;
        base.commit = base.commit.max(snapshot);
        if base.last.index == snapshot {
            base.last = base.snapshot.position;
        }
        base.persisted = base.persisted.max(snapshot);
        base
    }

    /// A segment begins with this base record, in a file of this number once it is durable.
    pub(super) fn begin_segment(&mut self, base: &Base, place: (Generation, Arc<AtomicU64>)) {
        // The base record of the last entry is its record, too.
        let has_last = base.last == base.snapshot.position;
        self.segments.push(Segment {
            generation: place.0,
            file_number: place.1,
            snapshot: base.snapshot.position.index,
            low: base.last.index + u64::from(!has_last),
        });
        self.base.clone_from(base);
    }

    /// The first file of stream 0 that is needed with the current snapshot; `None`: all are.
    pub(super) fn first_needed(&self) -> Option<(Generation, u64)> {
        let at = self.first_needed_segment()?;
        let segment = &self.segments[at];
        // Acquire pairs with the store after the flush.
        let file_number = segment.file_number.load(Ordering::Acquire);
        Some((segment.generation, file_number))
    }

    /// Whether a base record has the current snapshot, durable or not.
    pub(super) fn has_record(&self) -> bool {
        let last = self.segments.last();
        last.is_some_and(|last| last.snapshot == self.base.snapshot.position.index)
    }

    fn first_needed_segment(&self) -> Option<usize> {
        let snapshot = self.base.snapshot.position.index;
        let is_durable = |it: &&Segment| it.file_number.load(Ordering::Acquire) > 0;
        let durable = || self.segments.iter().take_while(is_durable);
        // BR3.
        let has_record = durable().any(|it| it.snapshot == snapshot);
        if snapshot == 0 || !has_record {
            return None;
        }
        let enough = durable().enumerate().filter(|(_, it)| it.low <= snapshot);
        enough.last().map(|(at, _)| at)
    }

    /// Forgets segments that are not needed.
    pub(super) fn forget_segments(&mut self) {
        if let Some(at) = self.first_needed_segment() {
            self.segments.drain(..at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryBody;

    fn entry(index: u64, term: u64) -> RaftRecord {
        RaftRecord::Entry(LogEntry {
            index,
            term,
            body: EntryBody::Empty,
        })
    }

    fn begin(head: &mut RaftHead, file_number: u64, snapshot: u64) {
        let term = if snapshot < 3 { 1 } else { 2 };
        head.base.snapshot.position = LogPosition {
            index: snapshot,
            term,
        };
        let base = head.next_base();
        let place = (Generation(1), Arc::new(AtomicU64::new(file_number)));
        head.begin_segment(&base, place);
    }

    #[test]
    fn the_segment_with_the_entry_of_the_snapshot_is_needed() {
        let mut head = RaftHead::default();
        begin(&mut head, 1, 0);
        assert_eq!(head.first_needed(), None);
        (1..=4).for_each(|index| head.note(&entry(index, 1)));
        begin(&mut head, 2, 3);
        // Entry 3 is in the first segment.
        assert_eq!(head.first_needed(), Some((Generation(1), 1)));
        (5..=6).for_each(|index| head.note(&entry(index, 1)));
        begin(&mut head, 3, 4);
        assert_eq!(head.first_needed(), Some((Generation(1), 1)));
        head.base.snapshot.position.index = 5;
        assert_eq!(head.first_needed(), None, "there is no record of it");
        begin(&mut head, 4, 5);
        assert_eq!(head.first_needed(), Some((Generation(1), 2)));
        head.forget_segments();
        assert_eq!(head.segments.len(), 3);
    }

    #[test]
    fn a_voided_entry_is_recorded_in_the_later_segment() {
        let mut head = RaftHead::default();
        begin(&mut head, 1, 0);
        (1..=4).for_each(|index| head.note(&entry(index, 1)));
        begin(&mut head, 2, 2);
        head.note(&entry(3, 2));
        assert_eq!((head.base.persisted, head.last_index()), (2, 3));
        begin(&mut head, 3, 3);
        assert_eq!(head.first_needed(), Some((Generation(1), 3)));
        head.note(&entry(4, 2));
        begin(&mut head, 4, 3);
        assert_eq!(head.first_needed(), Some((Generation(1), 3)));
    }

    #[test]
    fn a_base_record_at_the_last_entry_stands_for_it() {
        let mut head = RaftHead::default();
        begin(&mut head, 1, 0);
        (1..=4).for_each(|index| head.note(&entry(index, 1)));
        begin(&mut head, 2, 4);
        assert_eq!(head.first_needed(), Some((Generation(1), 2)));
        // Not durable.
        begin(&mut head, 0, 4);
        assert_eq!(head.first_needed(), Some((Generation(1), 2)));
        assert!(head.has_record());
    }
}
