//! Flushes of a thread's log stream.
//!
//! Each thread serves its sessions on one log stream. Commits of a round of its event loop form a
//! group: the thread flushes the group when it is about to park, because no session can run then
//! until something arrives. A thread with a session that is always ready does not park. It flushes
//! after a number of requests, or a length of time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use namiki::{Database, WorkerId};

/// Requests between two flushes of a thread that does not park.
const REQUESTS_MAX: u32 = 64;
/// Time between two flushes of a thread that does not park.
const INTERVAL: Duration = Duration::from_micros(500);

thread_local! {
    /// Requests of this thread since its last flush, and the time of the first one.
    static SINCE_FLUSH: Cell<(u32, Option<Instant>)> = const { Cell::new((0, None)) };
}

/// Flushes the stream of the calling thread: it is about to park.
pub(crate) fn flush_before_parking(db: &Database, stream: u16) {
    SINCE_FLUSH.set((0, None));
    // Commits that wait for the flush learn the reason of a failure.
    let _ = db.flush_stream(WorkerId(stream));
}

/// Notes that a session of the calling thread begins a request, and flushes if the thread has not
/// parked for a while.
pub(crate) fn before_request(db: &Database, stream: u16) {
    let (requests, since) = SINCE_FLUSH.get();
    let since = match since {
        Some(since) if requests >= REQUESTS_MAX || since.elapsed() >= INTERVAL => {
            return flush_before_parking(db, stream);
        }
        Some(since) => since,
        None => Instant::now(),
    };
    SINCE_FLUSH.set((requests + 1, Some(since)));
}
