//! Log writers: each writes the records or payloads of one stream to disk.
//!
//! A writer appends everything that waits, flushes once, and reports what has become durable. On a
//! follower it is the paper's log receiver.
//!
//! Paper: raft-pwal §3.1, §3.3

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

/// Writes Raft's records.
///
/// # Errors
/// [`NodeFailure`]: the contents of the disk are unknown then, and the node has to stop.
pub(crate) fn write_records(
    shared: &Shared,
    writes: impl IntoIterator<Item = RaftWrite>,
) -> Result<(), NodeFailure> {
    let mut last = None;
    for write in writes {
        (shared.store.append_raft(&write.records))
            .map_err(|error| NodeFailure::storage("writing records of Raft", error))?;
        last = Some(write.batch);
    }
    let Some(last) = last else {
        return Ok(());
    };
    (shared.metrics.raft_flushes())
        .time(|| shared.store.flush_raft())
        .map_err(|error| NodeFailure::storage("writing records of Raft", error))?;
    shared.raft.put(RaftEvent::BatchDurable(last));
    Ok(())
}

/// Writes payloads of one worker.
///
/// # Errors
/// As [`write_records`].
pub(crate) fn write_payloads(
    shared: &Shared,
    worker: u16,
    payloads: impl IntoIterator<Item = (PayloadRef, Bytes)>,
) -> Result<(), NodeFailure> {
    let failed = |error| NodeFailure::storage("writing payloads", error);
    let mut durable = Vec::new();
    for (payload, bytes) in payloads {
        loop {
            match shared.store.append_payload(&payload, &bytes) {
                Ok(()) => break,
                // An image makes room: of entries that these may belong to, so they have to be durable.
                Err(StoreError::LogFull { .. })
                    if shared.will_have_room() && !shared.raft.is_closed() =>
                {
                    flush_payloads(shared, worker, std::mem::take(&mut durable))?;
                    std::thread::sleep(ROOM_WAIT);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let written = unwritten_memory(&bytes);
        shared.unwritten_bytes.fetch_sub(written, Ordering::Relaxed);
        durable.push(payload);
    }
    flush_payloads(shared, worker, durable)
}

/// Makes payloads durable that were appended.
fn flush_payloads(
    shared: &Shared,
    worker: u16,
    appended: Vec<PayloadRef>,
) -> Result<(), NodeFailure> {
    if appended.is_empty() {
        return Ok(());
    }
    let flushes = shared.metrics.payload_flushes(worker);
    flushes
        .time(|| shared.store.flush_payloads(worker))
        .map_err(|error| NodeFailure::storage("writing payloads", error))?;
    shared.raft.put(RaftEvent::PayloadsDurable(appended));
    Ok(())
}
