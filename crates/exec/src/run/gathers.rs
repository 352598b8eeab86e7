//! The rows that one step has gathered to look up together.

use crate::row::Row;
use crate::source::{RowBatch, Source, SourceError};

/// Rows that are looked up together: more than a processor has misses under way at a time.
const GATHERED_MAX: usize = 64;

/// Fewer, where they have so much text.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// What one step has gathered.
#[derive(Default)]
pub(crate) struct Gather {
    /// The rows so far, back to back: their words, their bytes.
    words: Vec<u64>,
    heap: Vec<u8>,
    keys: Vec<u8>,
    /// Of each row where its bytes and its key end.
    ends: Vec<(usize, usize)>,
    /// What was found for the rows that were looked up: from this one on.
    found: RowBatch,
    found_from: usize,
    is_looked_up: bool,
    /// The next row to go on.
    next: usize,
}

impl Gather {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.heap.clear();
        self.keys.clear();
        self.ends.clear();
        self.found.clear();
        self.found_from = 0;
        self.is_looked_up = false;
        self.next = 0;
    }

    /// Adds a row with its key, which `encode` appends, unless there is no key.
    pub(crate) fn add(
        &mut self,
        row: &Row,
        words: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) {
        let before = self.keys.len();
        if encode(&mut self.keys).is_none() {
            self.keys.truncate(before);
            return;
        }
        self.words.extend_from_slice(&row.words[..words]);
        self.heap.extend_from_slice(&row.heap);
        self.ends.push((self.heap.len(), self.keys.len()));
    }

    /// Looks keys up if the next row to go on was not: all that were not yet, or as many as fill a batch.
    pub(crate) fn look_up(&mut self, source: &dyn Source) -> Result<(), SourceError> {
        if self.next == self.found_from + self.found.len() && !self.is_through() {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            let keys: Vec<&[u8]> = (self.next..self.len()).map(|at| self.key(at)).collect();
            source.get_many(&keys, &mut found)?;
            self.found = found;
            self.found_from = self.next;
            self.is_looked_up = true;
        }
        Ok(())
    }

    /// The number of the next row to go on, if it was looked up.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.found_from + self.found.len()).then(|| {
            self.next += 1;
            at
        })
    }

    /// The key and the bytes that were found for a row, unless there were none.
    #[inline]
    pub(crate) fn found(&self, at: usize) -> Option<(&[u8], &[u8])> {
        self.found.get(at - self.found_from)
    }

    /// Whether there are enough rows to look up.
    #[inline]
    pub(crate) fn has_enough(&self) -> bool {
        self.len() >= GATHERED_MAX || self.heap.len() >= GATHERED_BYTES_MAX
    }

    /// Whether all rows have gone on.
    pub(crate) fn is_through(&self) -> bool {
        self.next == self.len()
    }

    /// Whether it waits to be emptied before it takes more rows.
    pub(crate) fn is_full(&self) -> bool {
        self.is_looked_up && !self.is_empty()
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

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
