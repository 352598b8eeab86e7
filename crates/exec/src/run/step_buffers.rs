//! Memory that the steps of a worker reuse from row to row.

use crate::run::tasks::BatchWalk;
use crate::source::RowBatch;

/// See the module.
#[derive(Default)]
pub(crate) struct StepBuffers {
    keys: Vec<Vec<u8>>,
    text: Vec<u8>,
    batch: RowBatch,
    #[expect(clippy::vec_box, reason = "boxed in states, to keep those small")]
    walks: Vec<Box<BatchWalk>>,
}

impl StepBuffers {
    /// An empty buffer for a key.
    #[inline]
    pub(crate) fn take_key(&mut self) -> Vec<u8> {
        let mut buffer = self.keys.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    #[inline]
    pub(crate) fn return_key(&mut self, buffer: Vec<u8>) {
        self.keys.push(buffer);
    }

    /// Memory for text that is put together.
    #[inline]
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Memory for the rows of one look-up, and for text.
    #[inline]
    pub(crate) fn batch_and_text(&mut self) -> (&mut RowBatch, &mut Vec<u8>) {
        (&mut self.batch, &mut self.text)
    }

    /// A walk at its beginning.
    #[inline]
    pub(crate) fn take_walk(&mut self) -> Box<BatchWalk> {
        self.walks.pop().unwrap_or_default()
    }

    /// Keeps the memory of a walk that has ended.
    #[inline]
    pub(crate) fn return_walk(&mut self, mut walk: Box<BatchWalk>) {
        *walk = BatchWalk {
            rows: std::mem::take(&mut walk.rows),
            ..BatchWalk::default()
        };
        walk.rows.clear();
        self.walks.push(walk);
    }
}
