//! A log stream: a buffer that workers fill, and the frames it becomes.
//!
//! ```text
//!            append                    lead                    end of flush
//!  worker ──────────▶ filling buffer ───────▶ frame in flight ───────────────▶ hardened
//!             under the lock            without the lock        under the lock
//! ```
//!
//! One flush is in flight at a time. Under `Layout::PerWorker` it runs without the lock, so the
//! other buffer fills during the write; under `Layout::Single` the leader keeps the lock (the
//! paper's algorithm 1). A flush has a leader that waits for it, or it is asynchronous and
//! unattended until a thread needs it to be complete.
//!
//! | part | rules |
//! |---|---|
//! | `log_buffer.rs` | B: the two buffers, and the frame that takes the place of one |
//! | `flush_batch.rs` | U: the batch under way, attended or not |
//! | `group_wait.rs` | G: how long a group waits for more commits; `group_policy.rs` learns that |
//! | `flush_timer.rs` | the time that flushes take |
//! | `flush_waiters.rs` | threads that wait for a flush |
//! | `progress.rs` | H: entries appended and hardened |
//! | `task_demand.rs` | D: commits that tasks want |
//!
//! # Invariants
//! - S1. Numbers, LSNs and frame sequences of a stream increase in the same order, because all
//!   three are given out under its lock.
//! - S2. `hardened` is raised only after the frame is durable and what its group held is released.
//! - S3. A waiter for flush `f` waits on a condition variable of `f`'s parity. The end of `f` wakes
//!   all of them, and one of the waiters to lead flush `f + 1`; so no wake-up is lost, and only
//!   rivals of the next leader are woken needlessly. The next leader may wait for more commits,
//!   with a deadline, unless a waiter requested an immediate flush before it parked; the commit
//!   that completes the group leads it. An unattended flush wakes all, because its waiters, and
//!   those for the one behind it, have to complete it now; and no thread begins to wait while a
//!   flush is unattended. A thread that finds the log poisoned wakes all, too.
//! - S4. Between the draw of an LSN and the count of its entry nothing can fail. A panic there, or
//!   in a flush, poisons the log.
//! - S5. When a stream is closed no flush is under way, and none begins: nothing is pending, or the
//!   log is poisoned.
//! - S6. Whatever ends a flush, or closes the stream, announces it to the tasks that wait; every
//!   call that may do so wakes them at its end (`horizon/async_waiters.rs`), or when its caller no
//!   longer leads (`streams/certify_epoch.rs`).
//! - S7. The end of a flush, and an unattended flush, passes on what tasks demand (D3 in
//!   `task_demand.rs`).
//! - S8. An oversize entry is alone in its frame, and nothing is pending when it is appended. While
//!   its committer has the turn, no other entry is appended and no epoch marker is written
//!   (`oversize.rs`).
//!
//! Paper: pwal §4.2, Algorithms 1 and 2

mod append;
mod epoch_marker;
mod flush;
mod flush_batch;
mod flush_timer;
mod flush_waiters;
mod group_policy;
mod group_wait;
mod log_buffer;
mod oversize;
mod progress;
mod recycle;
mod state;
mod task_demand;
mod wait;

use std::sync::Arc;

use namiki_platform::disk::AlignedBuf;
use namiki_platform::sync::{Condvar, Mutex, MutexGuard};
use namiki_platform::{Lsn, WorkerId};

use crate::config::{GroupResource, LogConfig};
use crate::error::LogError;
use crate::generation::layout_config::Layout;
use crate::horizon::async_waiters::{AckWaiters, WakeOnDrop};
use crate::log_target::{LogFileMaker, LogTarget};
use crate::shared_state::Shared;
use flush_waiters::FlushWaiters;
use group_wait::GroupWait;
use log_buffer::Buffers;
use progress::Progress;
use recycle::KeptBytes;
use state::State;
use task_demand::Demand;

pub use append::{Appended, Entry};
pub use oversize::OversizeEntry;
pub(crate) use state::{GROUP_SIZES, StreamCounters};

/// An entry's place in its stream, to ask later whether it is hardened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The stream.
    pub worker: WorkerId,
    /// It is the n-th entry of the stream, from 1.
    pub number: u64,
    /// Its LSN; 0 if none are drawn.
    pub lsn: Lsn,
}

/// One log buffer and its file. Any thread may append; it is cheapest when one does.
pub struct Stream<H: GroupResource> {
    shared: Arc<Shared>,
    worker: WorkerId,
    index: usize,
    layout: Layout,
    limits: Limits,
    maker: Option<LogFileMaker>,
    progress: Progress,
    state: Mutex<State<H>>,
    /// Threads that wait for a flush to end, or to lead one (S3).
    flush_waiters: FlushWaiters,
    /// Threads that wait for a log file that another thread prepares.
    prepared: Condvar,
    kept: KeptBytes,
    /// Tasks that wait for commits.
    pub(crate) ack_waiters: AckWaiters,
    /// The demand of the tasks.
    demand: Demand,
}

/// The length limits of entries and frames.
#[derive(Clone, Copy)]
struct Limits {
    /// The length of a buffer, and so of a frame with several entries.
    buffer_bytes: usize,
    /// The longest payload that shares a buffer with others.
    buffered_bytes_max: usize,
    /// The longest payload of all.
    payload_bytes_max: usize,
    /// Kept free behind the frame that fills.
    marker_room: usize,
}

impl<H: GroupResource> Stream<H> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        worker: WorkerId,
        config: &LogConfig,
        buffers: [AlignedBuf; 2],
        target: LogTarget,
        maker: Option<LogFileMaker>,
    ) -> Self {
        let limits = Limits {
            buffer_bytes: buffers[0].len(),
            buffered_bytes_max: config.buffered_bytes_max().min(config.payload_bytes_max()),
            payload_bytes_max: config.payload_bytes_max(),
            marker_room: config.marker_room(),
        };
        let kept = KeptBytes::of(&target);
        let region_block = matches!(target, LogTarget::Region(_)).then(|| target.block_bytes());
        Self {
            shared,
            worker,
            index: usize::from(worker.0),
            layout: config.layout,
            limits,
            maker,
            progress: Progress::new(),
            state: Mutex::new(State::new(
                Buffers::new(buffers, region_block),
                GroupWait::new(config.group, config.group_wait_max),
                target,
            )),
            flush_waiters: FlushWaiters::default(),
            prepared: Condvar::default(),
            kept,
            ack_waiters: AckWaiters::new(),
            demand: Demand::new(),
        }
    }

    /// The stream's number.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Fails if the log is poisoned. A thread that was woken and leaves because of that may have
    /// been woken to do something for the others, which must be woken, too.
    fn check_poison(&self) -> Result<(), LogError> {
        self.shared.poison.check().inspect_err(|_| self.wake_all())
    }

    /// Whether anything is appended and not hardened. Two loads.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.progress.has_pending()
    }

    /// Whether nothing was ever appended.
    pub(crate) fn is_untouched(&self) -> bool {
        self.progress.appended() == 0
    }

    /// Whether the commit is hardened. One load.
    #[must_use]
    pub fn is_hardened(&self, ticket: Ticket) -> bool {
        self.progress.hardened() >= ticket.number
    }

    /// Number of the stream's hardened entries.
    #[must_use]
    pub fn hardened_commits(&self) -> u64 {
        self.progress.hardened()
    }

    pub(crate) fn counters(&self) -> StreamCounters {
        self.state.lock().counters
    }

    /// When this is dropped, the tasks are woken that wait for what a call on this stream has
    /// announced. See [`AckWaiters::at_the_end`].
    pub(crate) fn wake_on_drop(&self) -> [Option<WakeOnDrop<'_>>; 2] {
        let epochs = self.shared.epochs.as_ref();
        [
            Some(self.ack_waiters.at_the_end()),
            epochs.map(|epochs| epochs.ack_waiters.at_the_end()),
        ]
    }

    /// The log has failed, or the stream is closed: tasks that wait for it have to look.
    fn announce_end(&self) {
        self.ack_waiters.announce();
        if let Some(epochs) = &self.shared.epochs {
            epochs.ack_waiters.announce();
        }
        // It wakes those of the other streams.
        self.shared.call_flusher();
    }

    /// The last frame that is hardened while others may be written, and the largest stamp ever
    /// appended.
    pub(crate) fn hardened_end(&self) -> (u64, namiki_platform::Stamp) {
        let state = self.state.lock();
        let is_failed = self.shared.poison.get().is_some();
        (state.batches.last_hardened(is_failed), state.max_stamp)
    }

    /// Waits until the last frame that is begun by now is hardened. Returns its sequence number.
    pub(crate) fn harden_begun(&self) -> Result<u64, LogError> {
        let _wake = self.wake_on_drop();
        let mut state = self.state.lock();
        let begun = state.batches.begun();
        while let Some(through) = state.batches.under_way() {
            // A later one begins after it is hardened.
            if state.batches.begun() > begun {
                break;
            }
            state = self.join(state, through)?;
        }
        drop(state);
        self.shared.poison.check()?;
        Ok(begun)
    }

    /// The last frame that is hardened once the stream is closed, and the largest stamp ever
    /// appended.
    pub(crate) fn end(&self) -> (u64, namiki_platform::Stamp) {
        let state = self.state.lock();
        (state.batches.begun(), state.max_stamp)
    }

    /// Refuses commits from now on. An oversize one for which a log file may have its number
    /// already is appended first: no other frame can be in that log file.
    pub(crate) fn refuse(&self) {
        self.refusing().closed = true;
    }

    /// The state, when no thread has the turn.
    fn refusing(&self) -> MutexGuard<'_, State<H>> {
        let mut state = self.state.lock();
        while state.has_turn {
            state = self.prepared.wait(state);
        }
        state
    }

    /// Refuses commits from now on, and hardens those that were accepted. On return, whatever it
    /// says, nothing is being written and nothing will be: the next opener of the log may write
    /// where an old write could still have completed. The caller wakes tasks.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        // Those of another stream's failure, too.
        self.announce_end();
        let mut state = self.refusing();
        state.closed = true;
        state.ended = true;
        let through = state.appended;
        let result = self.harden_through(state, through);
        let mut state = self.state.lock();
        while let Some(through) = state.batches.under_way() {
            state = match self.join(state, through) {
                Ok(state) => state,
                // The log is poisoned, as `result` says already.
                Err(_) => self.state.lock(),
            };
        }
        while state.target.is_preparing() {
            state = self.prepared.wait(state);
        }
        result
    }
}
