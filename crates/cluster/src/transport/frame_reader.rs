//! Reads length-delimited frames from a connection, with limits.
//!
//! A length is compared with the limit before memory is allocated for it. A frame is a slice of the
//! buffer that it was read into; a long one has a buffer of about its size. If the other side is
//! not known (a client), memory grows with the data that has arrived, and memory beyond a small
//! buffer is taken from a budget that all connections share. A frame counts until the next one is
//! requested, so a frame that waits to be decoded counts, too.
//!
//! # Invariants
//! - F1. Every future here is cancellation-safe: dropping it loses no data that was read.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use namiki_client::protocol::is_tls;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::transport::frame::LENGTH_BYTES;

/// The unit in which a [`Budget`] counts.
const BUDGET_UNIT_BYTES: usize = 1024;
/// The first amount that is taken from a budget.
const GROWTH_BYTES: usize = 64 << 10;

/// Memory that connections share for frames that have not arrived completely.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(super) fn of_bytes(bytes: usize) -> Self {
        let units = (bytes / BUDGET_UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(units)))
    }

    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES)).ok()?;
        // It fails only if the semaphore is closed, which it never is.
        self.0.clone().acquire_many_owned(units).await.ok()
    }

    #[cfg(test)]
    fn bytes_free(&self) -> usize {
        self.0.available_permits() * BUDGET_UNIT_BYTES
    }
}

/// The reason for which no further frame is read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameReadError {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection was closed in the middle of a frame")]
    HalfFrame,
    #[error("a frame of {bytes} bytes is longer than the {limit} bytes that are accepted")]
    TooLong { bytes: usize, limit: usize },
    #[error("a frame is empty")]
    Empty,
    #[error("it speaks TLS, and this node does not; configure [tls] on all nodes, or on none")]
    SpeaksTls,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The contents of a buffer.
#[derive(Debug)]
pub(super) enum Buffered {
    /// A frame, without its length.
    Frame(Bytes),
    /// Less than a frame, which has this number of bytes.
    Part(usize),
}

/// Frames of one connection.
pub(super) struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
    /// Bytes that are read at once if frames are short.
    chunk_bytes: usize,
    budget: Option<Budget>,
    /// The current frame's share of the budget.
    charged: Option<OwnedSemaphorePermit>,
    /// The share of the frame that was returned last: its caller may still have it.
    returned: Option<OwnedSemaphorePermit>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// For a node after its hello: a long frame gets its whole buffer at once.
    pub(super) fn new(source: R, chunk_bytes: usize) -> Self {
        Self {
            source,
            buffer: BytesMut::new(),
            chunk_bytes,
            budget: None,
            charged: None,
            returned: None,
        }
    }

    /// For any other peer: the buffer of a long frame grows as the frame arrives, and counts
    /// against a budget.
    pub(super) fn with_budget(source: R, chunk_bytes: usize, budget: Budget) -> Self {
        let mut reader = Self::new(source, chunk_bytes);
        reader.budget = Some(budget);
        reader
    }

    /// Returns when the next frame has begun to arrive.
    ///
    /// # Errors
    /// [`FrameReadError::Closed`] if no frame follows.
    pub(super) async fn begin(&mut self) -> Result<(), FrameReadError> {
        if self.buffer.is_empty() {
            self.read_more(1).await?;
        }
        Ok(())
    }

    /// The next frame, without its length.
    ///
    /// # Errors
    /// After an error there are no further frames.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Bytes, FrameReadError> {
        loop {
            match self.buffered(limit)? {
                Buffered::Frame(frame) => return Ok(frame),
                Buffered::Part(whole) => self.read_more(whole).await?,
            }
        }
    }

    /// The next frame if it has arrived, otherwise its total length, as far as that is known.
    ///
    /// # Errors
    /// After an error there are no further frames.
    pub(super) fn buffered(&mut self, limit: usize) -> Result<Buffered, FrameReadError> {
        self.returned = None;
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(Buffered::Part(LENGTH_BYTES));
        };
        let bytes = u32::from_le_bytes(*prefix) as usize;
        if bytes > limit {
            if is_tls(*prefix) {
                return Err(FrameReadError::SpeaksTls);
            }
            return Err(FrameReadError::TooLong { bytes, limit });
        }
        if bytes == 0 {
            return Err(FrameReadError::Empty);
        }
        let whole = LENGTH_BYTES + bytes;
        if rest.len() < bytes {
            return Ok(Buffered::Part(whole));
        }
        let frame = self.buffer.split_to(whole).freeze().slice(LENGTH_BYTES..);
        self.returned = self.charged.take();
        if whole > self.chunk_bytes {
            // The frame owns its buffer, so that no connection keeps a long one.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(Buffered::Frame(frame))
    }

    /// Reads once. `whole` is the capacity that the current frame needs.
    async fn read_more(&mut self, whole: usize) -> Result<(), FrameReadError> {
        self.make_room(whole).await;
        if self.source.read_buf(&mut self.buffer).await? > 0 {
            return Ok(());
        }
        Err(if self.buffer.is_empty() {
            FrameReadError::Closed
        } else {
            FrameReadError::HalfFrame
        })
    }

    async fn make_room(&mut self, whole: usize) {
        let (buffered, capacity) = (self.buffer.len(), self.buffer.capacity());
        if whole <= self.chunk_bytes {
            if capacity < whole || capacity - buffered < self.chunk_bytes / 8 {
                // Reuses the old buffer if no frame of it is alive any more.
                self.buffer.reserve(self.chunk_bytes - buffered);
            }
            return;
        }
        let capacity = match &self.budget {
            // The frame keeps its buffer: one that is much longer is not used.
            None if capacity >= whole && capacity - whole <= whole / 8 => return,
            None => whole,
            Some(_) if capacity > buffered => return,
            Some(budget) => {
                let grown = whole.min((2 * buffered).max(GROWTH_BYTES));
                let charged = self.charged.as_ref().map_or(0, |it| it.num_permits());
                let missing = grown.saturating_sub(charged * BUDGET_UNIT_BYTES);
                let more = budget.take(missing).await;
                match (&mut self.charged, more) {
                    (Some(charged), Some(more)) => charged.merge(more),
                    (charged @ None, more) => *charged = more,
                    (Some(_), None) => {}
                }
                grown
            }
        };
        let mut buffer = BytesMut::with_capacity(capacity);
        buffer.extend_from_slice(&self.buffer);
        self.buffer = buffer;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.build().unwrap().block_on(future)
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn frames_come_whole_however_they_arrive() {
        run(async {
            let bodies = [vec![1; 3], vec![2; 5000], vec![3; 1], vec![4; 200_000]];
            let wire: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
            for step in [1, 7, 4096, wire.len()] {
                let (mut sender, receiver) = tokio::io::duplex(step.max(64));
                let wire = wire.clone();
                let sent = tokio::spawn(async move {
                    for part in wire.chunks(step) {
                        sender.write_all(part).await.unwrap();
                    }
                });
                let mut reader = FrameReader::new(receiver, 1024);
                for body in &bodies {
                    reader.begin().await.unwrap();
                    assert_eq!(reader.next(1 << 20).await.unwrap(), body);
                }
                let end = reader.begin().await;
                assert!(matches!(end, Err(FrameReadError::Closed)), "{end:?}");
                sent.await.unwrap();
            }
        });
    }

    #[test]
    fn a_length_beyond_the_limit_takes_no_memory() {
        run(async {
            let (mut sender, receiver) = tokio::io::duplex(64);
            sender.write_all(&[0xff; 4]).await.unwrap();
            let mut reader = FrameReader::new(receiver, 64);
            let refused = reader.next(1000).await;
            let too_long = matches!(refused, Err(FrameReadError::TooLong { limit: 1000, .. }));
            assert!(too_long, "{refused:?}");
            assert!(reader.buffer.capacity() <= 64);
        });
    }

    #[test]
    fn an_unauthenticated_peer_is_given_memory_as_its_frame_arrives() {
        run(async {
            let budget = Budget::of_bytes(1 << 20);
            let (mut sender, receiver) = tokio::io::duplex(1 << 20);
            let mut reader = FrameReader::with_budget(receiver, 256, budget.clone());
            let claimed = u32::try_from(900_000).unwrap();
            sender.write_all(&claimed.to_le_bytes()).await.unwrap();
            sender.write_all(&[1; 100]).await.unwrap();
            let mut next = Box::pin(reader.next(1 << 20));
            std::future::poll_fn(|context| {
                assert!(next.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            drop(next);
            assert!(reader.buffer.capacity() <= GROWTH_BYTES);
            assert!(budget.bytes_free() >= (1 << 20) - GROWTH_BYTES);
            sender.write_all(&vec![1; 900_000 - 100]).await.unwrap();
            assert_eq!(reader.next(1 << 20).await.unwrap().len(), 900_000);
            assert!(budget.bytes_free() <= (1 << 20) - 900_000);
            assert!(matches!(reader.buffered(1), Ok(Buffered::Part(_))));
            assert_eq!(budget.bytes_free(), 1 << 20);
        });
    }

    #[test]
    fn half_a_frame_is_told_from_the_end() {
        run(async {
            let (mut sender, receiver) = tokio::io::duplex(64);
            sender.write_all(&framed(&[1; 10])[..9]).await.unwrap();
            drop(sender);
            let end = FrameReader::new(receiver, 64).next(100).await;
            assert!(matches!(end, Err(FrameReadError::HalfFrame)), "{end:?}");
        });
    }
}
