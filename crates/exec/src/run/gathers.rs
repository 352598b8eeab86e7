//! Gathered look-ups: rows that need a row of a source in memory wait for others of the same step,
//! and are looked up together.
//!
//! # Invariants
//! - G1. Rows leave a step in the order in which they came.
//! - G2. While a step's rows are sent on, no row is added to that step: they can only reach later
//!   steps, and rows of earlier steps are held back by [`WorkerGathers::is_full`].

use crate::row::Row;
use crate::source::{RowBatch, Source, SourceError};

/// Rows that are looked up together: more than the cache misses that a processor overlaps.
const GATHERED_MAX: usize = 64;

/// Bytes of text with which fewer rows are enough.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// The gathered rows of a worker, by their positions in the pipeline.
#[derive(Default)]
pub(crate) struct WorkerGathers {
    steps: Vec<Gather>,
    /// Whether a step gathers rows.
    is_gathering: Vec<bool>,
    /// Memory for a row that is sent on.
    row: Row,
}

impl WorkerGathers {
    /// Prepares for a pipeline. `is_gathering` says for each position whether rows are gathered
    /// there.
    pub(crate) fn begin(&mut self, is_gathering: Vec<bool>) {
        self.steps.resize_with(is_gathering.len(), Gather::default);
        self.is_gathering = is_gathering;
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.steps.iter_mut().for_each(Gather::clear);
    }

    /// Whether a step gathers rows.
    #[inline]
    pub(crate) fn is_gathering(&self, position: usize) -> bool {
        self.is_gathering[position]
    }

    /// Whether a step must be emptied before it takes more rows (G2).
    pub(crate) fn is_full(&self, position: usize) -> bool {
        let gather = &self.steps[position];
        gather.is_looked_up && !gather.is_empty()
    }

    /// Whether a step has rows, looked up or not.
    pub(crate) fn has_rows(&self) -> bool {
        self.steps.iter().any(|gather| !gather.is_empty())
    }

    /// The deepest step with rows, among those from `first` up to `end`.
    pub(crate) fn deepest(&self, first: usize, end: usize) -> Option<usize> {
        (first..end).rev().find(|at| !self.steps[*at].is_empty())
    }

    /// Number of positions.
    pub(crate) fn positions(&self) -> usize {
        self.steps.len()
    }

    /// Adds a row with its key, which `encode` appends, unless there is no key. Returns whether
    /// there are enough rows to look up.
    pub(crate) fn add(
        &mut self,
        position: usize,
        row: &Row,
        words: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> bool {
        let gather = &mut self.steps[position];
        gather.add(row, words, encode);
        gather.has_enough()
    }

    /// Takes the rows of a step out, and memory for a row. They return by
    /// [`WorkerGathers::put_back`].
    pub(crate) fn take(&mut self, position: usize) -> (Gather, Row) {
        let gather = std::mem::take(&mut self.steps[position]);
        (gather, std::mem::take(&mut self.row))
    }

    /// Puts the rows of a step back that were not sent on.
    pub(crate) fn put_back(&mut self, position: usize, mut gather: Gather, row: Row) {
        if gather.is_through() {
            gather.clear();
        }
        debug_assert!(
            self.steps[position].is_empty(),
            "rows came to a step that is emptied (G2)"
        );
        self.steps[position] = gather;
        self.row = row;
    }
}

/// The gathered rows of a step.
#[derive(Default)]
pub(crate) struct Gather {
    /// The words of the rows, back to back.
    words: Vec<u64>,
    /// The text of the rows, back to back.
    heap: Vec<u8>,
    keys: Vec<u8>,
    /// The ends of each row's text and key.
    ends: Vec<(usize, usize)>,
    /// Result of the last look-up, of the rows from `found_from` on.
    found: RowBatch,
    found_from: usize,
    is_looked_up: bool,
    /// The next row to send on.
    next: usize,
}

impl Gather {
    fn clear(&mut self) {
        self.words.clear();
        self.heap.clear();
        self.keys.clear();
        self.ends.clear();
        self.found.clear();
        self.found_from = 0;
        self.is_looked_up = false;
        self.next = 0;
    }

    fn add(&mut self, row: &Row, words: usize, encode: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        let before = self.keys.len();
        if encode(&mut self.keys).is_none() {
            self.keys.truncate(before);
            return;
        }
        self.words.extend_from_slice(&row.words[..words]);
        self.heap.extend_from_slice(&row.heap);
        self.ends.push((self.heap.len(), self.keys.len()));
    }

    /// Looks up rows that were not looked up, as many as fill a batch, unless a looked-up row is
    /// left.
    pub(crate) fn look_up(&mut self, source: &dyn Source) -> Result<(), SourceError> {
        if self.next == self.found_from + self.found.len() && !self.is_through() {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            let keys: Vec<&[u8]> = (self.next..self.ends.len())
                .map(|at| self.key(at))
                .collect();
            source.get_many(&keys, &mut found)?;
            self.found = found;
            self.found_from = self.next;
            self.is_looked_up = true;
        }
        Ok(())
    }

    /// Number of the next row to send on, if it was looked up.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.found_from + self.found.len()).then(|| {
            self.next += 1;
            at
        })
    }

    /// The key and the bytes that were found for a row.
    #[inline]
    pub(crate) fn found(&self, at: usize) -> Option<(&[u8], &[u8])> {
        self.found.get(at - self.found_from)
    }

    #[inline]
    fn has_enough(&self) -> bool {
        self.ends.len() >= GATHERED_MAX || self.heap.len() >= GATHERED_BYTES_MAX
    }

    /// Whether all rows were sent on.
    pub(crate) fn is_through(&self) -> bool {
        self.next == self.ends.len()
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key of a row.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        &self.keys[from..self.ends[at].1]
    }

    /// Makes `row` what it was when it was gathered.
    pub(crate) fn copy_to(&self, at: usize, words: usize, row: &mut Row) {
        row.words[..words].copy_from_slice(&self.words[at * words..(at + 1) * words]);
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        row.heap.clear();
        row.heap
            .extend_from_slice(&self.heap[from..self.ends[at].0]);
    }
}
