//! Log writers: each writes the records or payloads of one stream to disk.
//!
//! A writer appends everything that waits, flushes once, and reports what has become durable. On a
//! follower it is the paper's log receiver.
//!
//! Without room, in the log or on the disk, a writer keeps what it has and tries again: the node goes on to answer reads, and
//! tells the leader that it has no space (`flow_control.rs`). Space comes by an image of the tables, or from an operator.
//!
//! Paper: raft-pwal §3.1, §3.3

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use crate::entry::PayloadRef;
use crate::events::RaftWrite;
use crate::failure::NodeFailure;
use crate::raft::RaftEvent;
use crate::shared::{Shared, unwritten_memory};
use crate::storage::StoreError;

/// Time between two attempts to write to a log without room.
const ROOM_WAIT: Duration = Duration::from_millis(10);

/// What waits for room.
struct Waiting<T> {
    shared: Arc<Shared>,
    items: VecDeque<T>,
    /// The node is told that it has no room.
    is_told: bool,
}

impl<T> Waiting<T> {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            items: VecDeque::new(),
            is_told: false,
        }
    }

    /// Appends items in their order, as long as there is room. Returns those that were appended.
    fn append(
        &mut self,
        append: impl Fn(&Shared, &T) -> Result<(), StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut appended = Vec::new();
        while let Some(item) = self.items.pop_front() {
            match append(&self.shared, &item) {
                Ok(()) => appended.push(item),
                Err(error @ (StoreError::LogFull { .. } | StoreError::DiskFull { .. })) => {
                    self.items.push_front(item);
                    if matches!(error, StoreError::LogFull { .. }) {
                        self.shared.ask_for_truncation();
                        // All that is applied is truncated: only this makes it go on.
                        if self.shared.applied() <= self.shared.truncated() {
                            self.shared.store.exceed_limit();
                        }
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let waits = !self.items.is_empty();
        if waits != self.is_told {
            self.is_told = waits;
            self.shared.flow_control.note_writer(waits);
        }
        Ok(appended)
    }

    /// The longest time until the next attempt; `None`: nothing waits.
    fn pause(&self) -> Option<Duration> {
        (!self.items.is_empty()).then_some(ROOM_WAIT)
    }
}

/// Writes Raft's records to stream 0.
pub(crate) struct RaftWriter(Waiting<RaftWrite>);

impl RaftWriter {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Waiting::new(shared))
    }

    /// Writes what waits, and these. If a part of a batch was appended before the disk was full, it is appended again: records
    /// may be repeated.
    ///
    /// # Errors
    /// [`NodeFailure`]: the contents of the disk are unknown then, and the node has to stop.
    pub(crate) fn write(
        &mut self,
        writes: impl IntoIterator<Item = RaftWrite>,
    ) -> Result<(), NodeFailure> {
        let failed = |error| NodeFailure::storage("writing records of Raft", error);
        self.0.items.extend(writes);
        let appended = self
            .0
            .append(|shared, write| shared.store.append_raft(&write.records));
        let Some(last) = appended.map_err(failed)?.pop() else {
            return Ok(());
        };
        let shared = &self.0.shared;
        (shared.metrics.raft_flushes())
            .time(|| shared.store.flush_raft())
            .map_err(failed)?;
        shared.raft.put(RaftEvent::BatchDurable(last.batch));
        Ok(())
    }

    /// The longest time until the next attempt; `None`: nothing waits.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.0.pause()
    }
}

/// Writes payloads of one worker.
pub(crate) struct PayloadWriter {
    worker: u16,
    waiting: Waiting<(PayloadRef, Bytes)>,
}

impl PayloadWriter {
    pub(crate) fn new(shared: &Arc<Shared>, worker: u16) -> Self {
        let waiting = Waiting::new(shared);
        Self { worker, waiting }
    }

    /// Writes what waits, and these.
    ///
    /// # Errors
    /// As [`RaftWriter::write`].
    pub(crate) fn write(
        &mut self,
        payloads: impl IntoIterator<Item = (PayloadRef, Bytes)>,
    ) -> Result<(), NodeFailure> {
        let failed = |error| NodeFailure::storage("writing payloads", error);
        self.waiting.items.extend(payloads);
        let append = |shared: &Shared, (payload, bytes): &(PayloadRef, Bytes)| {
            shared.store.append_payload(payload, bytes)?;
            let written = unwritten_memory(bytes);
            shared.unwritten_bytes.fetch_sub(written, Ordering::Relaxed);
            Ok(())
        };
        let appended = self.waiting.append(append).map_err(failed)?;
        if appended.is_empty() {
            return Ok(());
        }
        let shared = &self.waiting.shared;
        (shared.metrics.payload_flushes(self.worker))
            .time(|| shared.store.flush_payloads(self.worker))
            .map_err(failed)?;
        let durable = appended.into_iter().map(|(payload, _)| payload);
        shared
            .raft
            .put(RaftEvent::PayloadsDurable(durable.collect()));
        Ok(())
    }

    /// The longest time until the next attempt; `None`: nothing waits.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.waiting.pause()
    }
}
