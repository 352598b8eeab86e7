//! A batch of frames for one write, in as few slices as possible.
//!
//! Short frames are copied into one buffer; a long body is not copied and is a slice of its own.
//! The kernel is called once for up to sixty-four slices.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

use crate::transport::frame::OutgoingFrame;

/// A body longer than this is not copied.
const COPY_BYTES_MAX: usize = 4096;
/// The first buffer for short frames.
const SHORT_BYTES: usize = 8192;

/// Frames that are to be written.
#[derive(Default)]
pub(super) struct WriteBatch {
    chunks: VecDeque<Bytes>,
    short: BytesMut,
    /// In `chunks`.
    bytes: usize,
}

impl WriteBatch {
    pub(super) fn push(&mut self, frame: OutgoingFrame) {
        self.reserve();
        self.short.extend_from_slice(frame.head());
        if frame.body().len() <= COPY_BYTES_MAX {
            self.short.extend_from_slice(frame.body());
        } else {
            self.seal();
            self.push_chunk(frame.into_body());
        }
    }

    /// Makes everything that was pushed visible to [`Buf`].
    pub(super) fn seal(&mut self) {
        if !self.short.is_empty() {
            let chunk = self.short.split().freeze();
            self.push_chunk(chunk);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 && self.short.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.short.len()
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.short.clear();
        self.bytes = 0;
    }

    fn reserve(&mut self) {
        if self.short.capacity() == 0 {
            self.short.reserve(SHORT_BYTES);
        }
    }

    fn push_chunk(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
    }
}

impl Buf for WriteBatch {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| chunk)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let slices = self.chunks.iter().map(|chunk| IoSlice::new(chunk));
        into.iter_mut()
            .zip(slices)
            .map(|(to, from)| *to = from)
            .count()
    }

    fn advance(&mut self, mut bytes: usize) {
        assert!(bytes <= self.bytes, "no more is written than there is");
        self.bytes -= bytes;
        while let Some(first) = self.chunks.front_mut() {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::PeerMessage;

    fn raft(bytes: usize, fill: u8) -> OutgoingFrame {
        OutgoingFrame::of(PeerMessage::Raft(Bytes::from(vec![fill; bytes])))
    }

    #[test]
    fn short_frames_share_a_slice_and_long_ones_do_not() {
        let mut batch = WriteBatch::default();
        for fill in 0..10 {
            batch.push(raft(100, fill));
        }
        batch.push(raft(COPY_BYTES_MAX + 1, 10));
        batch.push(raft(1, 11));
        batch.seal();
        assert_eq!(batch.chunks.len(), 3);
        assert_eq!(batch.remaining(), 12 * 5 + 1000 + COPY_BYTES_MAX + 2);
    }

    /// The system may write any part of the batch.
    #[test]
    fn what_is_left_after_a_short_write_goes_on() {
        let whole = |batch: &mut WriteBatch, step: usize| {
            let mut written = Vec::new();
            while batch.has_remaining() {
                let bytes = step.min(batch.chunk().len()).min(batch.remaining());
                written.extend_from_slice(&batch.chunk()[..bytes]);
                batch.advance(bytes);
            }
            written
        };
        let filled = || {
            let mut batch = WriteBatch::default();
            batch.push(raft(5, 1));
            batch.push(raft(5000, 2));
            batch.push(raft(7, 3));
            batch.seal();
            batch
        };
        let expected = whole(&mut filled(), usize::MAX);
        for step in [1, 3, 4999] {
            assert_eq!(whole(&mut filled(), step), expected);
        }
        let mut batch = filled();
        batch.advance(batch.remaining());
        assert!(batch.is_empty());
    }
}
