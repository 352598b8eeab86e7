//! Replay in the order of stamps: each file is sorted, then the files are merged.
//!
//! Paper: tictoc-pwal §3.4

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use namiki_platform::{Lsn, Stamp};

use super::{ReadError, StreamEnd, StreamReader};
use crate::format::frame::LogRecord;

/// All commits of a stream, in the order of their stamps; equal stamps stay in the order in which
/// they were appended.
#[derive(Debug, Default)]
pub struct SortedRun {
    payloads: Vec<u8>,
    /// Stamp, LSN, and where the payload lies.
    index: Vec<(Stamp, Lsn, usize, usize)>,
}

impl SortedRun {
    /// Reads a stream to its end and sorts it. `on_frame` gets the length of every frame, and
    /// its error ends the reading.
    ///
    /// # Errors
    /// [`ReadError`], or what `on_frame` returns.
    pub fn read_with<E: From<ReadError>>(
        mut stream: StreamReader,
        mut on_frame: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(Self, StreamEnd), E> {
        let mut run = Self::default();
        while let Some(frame) = stream.next_frame()? {
            on_frame(u64::from(frame.header.length))?;
            for record in frame.records() {
                run.push(record);
            }
        }
        // Stable: that is what keeps equal stamps in order.
        run.index.sort_by_key(|&(stamp, ..)| stamp);
        Ok((run, stream.end()))
    }

    fn push(&mut self, record: LogRecord<'_>) {
        let from = self.payloads.len();
        self.payloads.extend_from_slice(record.payload);
        self.index
            .push((record.stamp, record.lsn, from, self.payloads.len()));
    }

    /// Number of commits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The commits, by stamp.
    pub fn records(&self) -> impl Iterator<Item = LogRecord<'_>> {
        self.index.iter().map(|&(stamp, lsn, from, to)| LogRecord {
            stamp,
            lsn,
            payload: &self.payloads[from..to],
        })
    }
}

/// Merges runs by stamp. Equal stamps come in the order of the runs.
pub fn merge_by_stamp<'a>(runs: &'a [SortedRun]) -> impl Iterator<Item = LogRecord<'a>> {
    let runs = runs.iter().map(SortedRun::records).collect();
    merge_sorted(runs, |record: &LogRecord<'a>| record.stamp)
}

/// Merges iterators, each in the order of `key`. Equal keys come in the order of the iterators.
pub fn merge_sorted<T, K: Ord>(
    mut runs: Vec<impl Iterator<Item = T>>,
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut next: Vec<Option<T>> = runs.iter_mut().map(Iterator::next).collect();
    let mut heap: BinaryHeap<Reverse<(K, usize)>> = next
        .iter()
        .enumerate()
        .filter_map(|(run, item)| Some(Reverse((key(item.as_ref()?), run))))
        .collect();
    std::iter::from_fn(move || {
        let mut top = heap.peek_mut()?;
        let run = top.0.1;
        let item = next[run].take();
        next[run] = runs[run].next();
        match &next[run] {
            Some(following) => *top = Reverse((key(following), run)),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        item
    })
}
