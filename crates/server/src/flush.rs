//! Flushes of the log, by the threads that serve sessions.
//!
//! The program `namiki-server` has one log stream for all its threads. The commits that are ready at one time form a group,
//! and the epoch of a commit is certified by the frame of its own group: with a stream for each thread, a commit that has
//! read what another thread has just written would wait for a frame of every stream.
//!
//! A thread is about to park when no session of it can run until something arrives. If one session alone has sent
//! requests of late, the thread flushes the group itself: a hand-over to another thread would cost that session more than
//! the thread could do meanwhile. Otherwise the log's own thread flushes, and the sessions run during the write. A thread
//! with a session that is always ready does not park. It flushes after a number of requests, or a length of time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use namiki::{Database, WorkerId};

/// Requests between two flushes of a thread that does not park.
const REQUESTS_MAX: u32 = 64;
/// Time between two flushes of a thread that does not park.
const INTERVAL: Duration = Duration::from_micros(500);
/// Requests of a thread from which it is seen how many of its sessions are active.
const WINDOW_REQUESTS: u32 = 64;

/// The activity of the calling thread.
#[derive(Clone, Copy)]
struct Activity {
    /// Requests since the last flush, and the time of the first one.
    unflushed: (u32, Option<Instant>),
    /// The number of the window, its requests so far, and the sessions that they are of.
    window: u64,
    requests: u32,
    sessions: u32,
    /// Sessions with requests in the window before.
    sessions_before: u32,
}

thread_local! {
    static ACTIVITY: Cell<Activity> = const {
        Cell::new(Activity { unflushed: (0, None), window: 1, requests: 0, sessions: 0, sessions_before: 0 })
    };
}

/// The last window in which a session had a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastWindow(u64);

/// Flushes the stream of the calling thread, or has it flushed: the thread is about to park.
pub(crate) fn flush_before_parking(db: &Database, stream: u16) {
    let mut activity = ACTIVITY.get();
    activity.unflushed = (0, None);
    ACTIVITY.set(activity);
    if activity.sessions.max(activity.sessions_before) > 1 {
        db.request_flush(WorkerId(stream));
    } else {
        // Commits that wait for the flush learn the reason of a failure.
        let _ = db.flush_stream(WorkerId(stream));
    }
}

/// Notes that a session of the calling thread begins a request, and flushes if the thread has not
/// parked for a while.
pub(crate) fn before_request(db: &Database, stream: u16, last: &mut LastWindow) {
    let mut activity = ACTIVITY.get();
    if activity.requests == WINDOW_REQUESTS {
        activity.sessions_before = activity.sessions;
        (activity.requests, activity.sessions) = (0, 0);
        activity.window += 1;
    }
    activity.requests += 1;
    if last.0 != activity.window {
        last.0 = activity.window;
        activity.sessions += 1;
    }
    let (requests, since) = activity.unflushed;
    let is_due = |since: Instant| requests >= REQUESTS_MAX || since.elapsed() >= INTERVAL;
    let is_due = since.is_some_and(is_due);
    activity.unflushed = (requests + 1, since.or_else(|| Some(Instant::now())));
    ACTIVITY.set(activity);
    if is_due {
        flush_before_parking(db, stream);
    }
}
