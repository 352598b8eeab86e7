//! The queue of a lane: frames that wait for the network thread, and for their delay.
//!
//! Any thread pushes; the network thread takes. A queue is open while its connection is up. A limit
//! on its memory holds at all times: the oldest frames are dropped for a new one, and counted. A
//! frame counts with its place in the queue, which is longer than a heartbeat.
//!
//! A delay is a time before which a frame is not taken. It counts from the push, so frames wait for
//! it concurrently, and it does not change their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::transport::frame::OutgoingFrame;
use crate::transport::wakeups::Wakeups;
use crate::transport::write_batch::WriteBatch;

/// Frames of one lane.
pub(super) struct LaneQueue {
    state: Mutex<State>,
    /// Tells the lane's task that there are frames.
    pub(super) wake: Arc<Notify>,
    bytes_max: usize,
    /// The delay of every frame.
    delay: Duration,
}

#[derive(Default)]
struct State {
    frames: VecDeque<Queued>,
    /// Memory of the frames.
    bytes: usize,
    open: bool,
    /// The lane's task has been notified, and has not checked yet.
    announced: bool,
    dropped: u64,
}

struct Queued {
    /// The time at which it is due; `None` without a delay.
    due: Option<Instant>,
    frame: OutgoingFrame,
}

/// Frames for which an empty queue keeps memory.
const IDLE_FRAMES: usize = 4096;
/// Overhead of a frame: its place in a queue that grows by doubling, and the reference count of its
/// body.
const FRAME_BYTES: usize = 2 * size_of::<Queued>() + 48;

impl Queued {
    fn memory(&self) -> usize {
        memory_of(&self.frame)
    }
}

fn memory_of(frame: &OutgoingFrame) -> usize {
    FRAME_BYTES + frame.body().len()
}

/// The rest of the queue after [`LaneQueue::take`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// No frame can be taken before the next wake-up.
    Nothing,
    /// A frame can be taken at this time.
    Later(Instant),
    /// More frames can be taken now.
    More,
}

impl LaneQueue {
    pub(super) fn new(bytes_max: usize, delay: Duration) -> Self {
        Self {
            state: Mutex::default(),
            wake: Arc::default(),
            bytes_max,
            delay,
        }
    }

    /// Appends a frame and wakes the lane's task. Without a connection the frame is dropped.
    pub(super) fn push(&self, frame: OutgoingFrame, wakeups: &Wakeups) {
        let due = (!self.delay.is_zero()).then(|| Instant::now() + self.delay);
        if self.push_due(frame, due) {
            wakeups.announce(&self.wake);
        }
    }

    /// Whether the lane's task must be notified.
    fn push_due(&self, frame: OutgoingFrame, due: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        let bytes = memory_of(&frame);
        if !state.open || bytes > self.bytes_max {
            state.dropped += 1;
            return false;
        }
        while state.bytes + bytes > self.bytes_max {
            let Some(oldest) = state.frames.pop_front() else {
                break;
            };
            state.bytes -= oldest.memory();
            state.dropped += 1;
        }
        state.bytes += bytes;
        state.frames.push_back(Queued { due, frame });
        !std::mem::replace(&mut state.announced, true)
    }

    /// Moves frames that are due into a batch, until that holds at least `bytes_max` bytes.
    pub(super) fn take(&self, into: &mut WriteBatch, now: Instant, bytes_max: usize) -> Left {
        let mut state = self.state.lock();
        state.announced = false;
        while let Some(first) = state.frames.front() {
            match first.due {
                Some(due) if due > now => return Left::Later(due),
                _ if into.bytes() >= bytes_max => return Left::More,
                _ => {}
            }
            if let Some(queued) = state.frames.pop_front() {
                state.bytes -= queued.memory();
                into.push(queued.frame);
            }
        }
        if state.frames.capacity() > IDLE_FRAMES {
            state.frames = VecDeque::new();
        }
        Left::Nothing
    }

    /// Whether the connection is up.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().open
    }

    /// The connection is up.
    pub(super) fn open(&self) {
        self.state.lock().open = true;
    }

    /// The connection is down: waiting frames are dropped, as they may be stale by the time of the
    /// next connection.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.open = false;
        state.bytes = 0;
        state.dropped += state.frames.len() as u64;
        // Their memory is freed, too: there may have been many.
        state.frames = VecDeque::new();
    }

    /// Number of frames that were dropped for lack of room or of a connection.
    pub(super) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf as _, Bytes};

    use super::*;
    use crate::network::PeerMessage;

    fn frame(number: u8) -> OutgoingFrame {
        OutgoingFrame::of(PeerMessage::Raft(Bytes::from(vec![number; 95])))
    }

    fn open_queue(bytes_max: usize) -> LaneQueue {
        let queue = LaneQueue::new(bytes_max, Duration::ZERO);
        queue.open();
        queue
    }

    /// The first bytes of the bodies.
    fn taken(queue: &LaneQueue, now: Instant) -> (Vec<u8>, Left) {
        let mut batch = WriteBatch::default();
        let left = queue.take(&mut batch, now, usize::MAX);
        batch.seal();
        let mut numbers = Vec::new();
        while batch.has_remaining() {
            batch.advance(5);
            numbers.push(batch.get_u8());
            batch.advance(94);
        }
        (numbers, left)
    }

    #[test]
    fn the_oldest_frames_make_room() {
        let queue = open_queue(3 * (FRAME_BYTES + 95) + 50);
        for number in 0..5 {
            queue.push_due(frame(number), None);
        }
        assert_eq!(taken(&queue, Instant::now()).0, [2, 3, 4]);
        assert_eq!(queue.dropped(), 2);
    }

    #[test]
    fn without_a_connection_nothing_is_kept() {
        let queue = open_queue(10_000);
        queue.push_due(frame(1), None);
        queue.close();
        queue.push_due(frame(2), None);
        queue.open();
        assert!(taken(&queue, Instant::now()).0.is_empty());
        assert_eq!(queue.dropped(), 2);
    }

    #[test]
    fn a_task_is_told_once_until_it_looks() {
        let queue = open_queue(10_000);
        assert!(queue.push_due(frame(1), None));
        assert!(!queue.push_due(frame(2), None));
        taken(&queue, Instant::now());
        assert!(queue.push_due(frame(3), None));
    }

    #[test]
    fn delayed_frames_keep_order_and_wait_side_by_side() {
        let queue = open_queue(100_000);
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        for number in 0..10 {
            let due = after(10 + u64::from(number));
            queue.push_due(frame(number), Some(due));
        }
        assert_eq!(taken(&queue, begin), (vec![], Left::Later(after(10))));
        let (numbers, left) = taken(&queue, after(14));
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert_eq!(left, Left::Later(after(15)));
        // All of them have passed one delay after the last push, not ten.
        let (numbers, left) = taken(&queue, after(19));
        assert_eq!((numbers.len(), left), (5, Left::Nothing));
    }

    #[test]
    fn a_batch_ends_at_its_limit() {
        let queue = open_queue(100_000);
        for number in 0..10 {
            queue.push_due(frame(number), None);
        }
        let mut batch = WriteBatch::default();
        assert_eq!(queue.take(&mut batch, Instant::now(), 250), Left::More);
        assert_eq!(batch.bytes(), 300);
    }
}
