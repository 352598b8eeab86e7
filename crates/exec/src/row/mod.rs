//! A row on its way through a plan: machine words, and the bytes of its text.
//!
//! Where each column lies is decided once, when the plan is compiled, so that a row needs no names,
//! no types and no allocation of its own. A row of a join is longer than that of its outer side and
//! begins with it: the inner part is dropped by truncating the row.

mod row_store;
mod slot;

pub(crate) use row_store::RowStore;
pub(crate) use slot::Slot;

/// A row that grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) words: Vec<u64>,
    /// The bytes of text: a word says from where on and how many.
    pub(crate) heap: Vec<u8>,
}

/// A row to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRef<'r> {
    pub(crate) words: &'r [u64],
    pub(crate) heap: &'r [u8],
}

impl Row {
    #[inline]
    pub(crate) fn as_ref(&self) -> RowRef<'_> {
        RowRef {
            words: &self.words,
            heap: &self.heap,
        }
    }

    /// Becomes the beginning of another row.
    #[inline]
    pub(crate) fn copy_from(&mut self, other: &Self, words: usize, heap: usize) {
        self.words.clear();
        self.words.extend_from_slice(&other.words[..words]);
        self.heap.clear();
        self.heap.extend_from_slice(&other.heap[..heap]);
    }
}
