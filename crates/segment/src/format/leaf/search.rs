//! Looking a key up in a leaf, in three steps: hints, heads, row.
//!
//! Each step touches a cache line or two, whose place the step before tells: three after each
//! other, where a binary search of all heads takes five or more. The steps stand apart, so that
//! many searches can take each of them together, with what they wait for on its way.
//!
//! Two keys with the same head differ behind it, or in their lengths.

use std::cmp::Ordering;

use namiki_platform::prefetch;

use super::{HEAD_BYTES, HEADER_BYTES, HINT_ROWS, Leaf, SLOT_BYTES, rest_of, varint};
use crate::format::PAGE_BYTES;
use crate::key_head::{begins_with, head_u32};

/// A search that has come to a block of [`HINT_ROWS`] rows.
#[derive(Clone, Copy)]
pub(crate) enum Probe<'k> {
    /// The key does not begin like those of the page.
    Outside { row: usize },
    Inside {
        suffix: &'k [u8],
        head: u32,
        block: usize,
    },
}

impl Leaf<'_> {
    /// The number of the first row whose key is `key` or comes after it, and whether it is `key`.
    /// Without such a row, the number of rows.
    #[must_use]
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        let probe = self.probe(key);
        let row = self.first_head(&probe);
        self.finish(&probe, row)
    }

    /// The first step of a search: from the page's header and hints to the block of rows that the
    /// key belongs in.
    #[inline]
    pub(crate) fn probe<'k>(&self, key: &'k [u8]) -> Probe<'k> {
        let prefix_len = self.prefix.len();
        if !begins_with(key, self.prefix) {
            let row = if key < self.prefix { 0 } else { self.rows };
            return Probe::Outside { row };
        }
        let (suffix, head) = (&key[prefix_len..], head_u32(key, prefix_len));
        let hints = &self.page[HEADER_BYTES + prefix_len..self.heads_at];
        let block = count_below(hints, head);
        let probe = Probe::Inside {
            suffix,
            head,
            block,
        };
        // The slots are needed after the heads, and their place is known already.
        prefetch(&self.page[self.slots_at() + block * HINT_ROWS * SLOT_BYTES]);
        probe
    }

    /// Asks for what [`Leaf::first_head`] looks at.
    #[inline]
    pub(crate) fn prefetch_heads(&self, probe: &Probe<'_>) {
        if let Probe::Inside { block, .. } = *probe {
            prefetch(&self.page[self.heads_at + block * HINT_ROWS * HEAD_BYTES]);
        }
    }

    /// The second step: the first row whose head is not below the key's.
    #[inline]
    pub(crate) fn first_head(&self, probe: &Probe<'_>) -> usize {
        match *probe {
            Probe::Outside { row } => row,
            Probe::Inside { head, block, .. } => {
                let first = block * HINT_ROWS;
                let end = self.rows.min(first + HINT_ROWS);
                let heads = &self.page
                    [self.heads_at + first * HEAD_BYTES..self.heads_at + end * HEAD_BYTES];
                first + count_below(heads, head)
            }
        }
    }

    /// The last step: rows with the key's own head are compared with it.
    #[inline]
    pub(crate) fn finish(&self, probe: &Probe<'_>, first: usize) -> (usize, bool) {
        let Probe::Inside { suffix, head, .. } = *probe else {
            return (first, false);
        };
        let mut row = first;
        // Few rows share one head, unless keys differ late.
        if row + 8 < self.rows && self.head(row + 8) == head {
            return self.lower_bound_among(row, suffix, head);
        }
        while row < self.rows && self.head(row) == head {
            match self.compare_behind_head(row, suffix) {
                Ordering::Less => row += 1,
                other => return (row, other.is_eq()),
            }
        }
        (row, false)
    }

    /// Asks for what [`Leaf::finish`] looks at.
    #[inline]
    pub(crate) fn prefetch_row(&self, row: usize) {
        if row < self.rows {
            prefetch(&self.page[self.slot(row) % PAGE_BYTES]);
        }
    }

    /// The same among the rows from `first` on that have this head.
    #[cold]
    fn lower_bound_among(&self, first: usize, suffix: &[u8], head: u32) -> (usize, bool) {
        let (mut low, mut high) = (first, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.head(middle).cmp(&head);
            match found.then_with(|| self.compare_behind_head(middle, suffix)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// Compares a row's suffix with another one that has the same head.
    #[inline]
    fn compare_behind_head(&self, row: usize, suffix: &[u8]) -> Ordering {
        let (len, at) = varint::read(self.page, self.slot(row));
        let (_, stamp_at) = varint::read(self.page, at);
        let rest_at = stamp_at + self.stamp_width();
        let rest = &self.page[rest_at..rest_at + len.saturating_sub(HEAD_BYTES)];
        let by_len = len.cmp(&suffix.len());
        match (rest, rest_of(suffix)) {
            // Both end in their heads, which are equal.
            ([], []) => by_len,
            (rest, other) => rest.cmp(other).then(by_len),
        }
    }
}

/// How many of the heads in `bytes`, which rise, are below `head`. Compares all of them: they lie
/// in one or two cache lines, and a branch that depends on keys could not be predicted.
#[inline]
fn count_below(bytes: &[u8], head: u32) -> usize {
    let heads = bytes.as_chunks::<HEAD_BYTES>().0.iter();
    heads
        .map(|bytes| usize::from(u32::from_be_bytes(*bytes) < head))
        .sum()
}
