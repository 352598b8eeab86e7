//! A batching writer: group commit in front of a store with one write transaction at a time.
//!
//! A thread takes the write transactions that many callers have sent, executes them in one write
//! transaction of the store, with one commit and its syncs, and then answers all of them. Users of
//! such stores do this. Reads do not pass through it.
//!
//! # Invariants
//! - B1. A caller is answered after the commit of its group, so its transaction is as durable as
//!   without a batching writer.
//! - B2. A transaction that fails before the commit fails alone: its group was rolled back, and is
//!   executed again without it.
//! - B3. Every caller is answered once. A caller that cannot be answered, because the thread has
//!   ended, gets an error.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::one_writer::{GroupError, GroupWriter, OneWriter, Write};
use super::store::{Committed, Handle, Promises, Setting, Store, of};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

/// The largest number of transactions in a group.
const GROUP_MAX: usize = 1024;
/// The longest time for which a group waits for callers that have not sent a transaction. Short
/// against a sync, and long enough for the callers of the previous group to return.
const GATHER_MAX: Duration = Duration::from_micros(100);

/// A store behind a batching writer.
pub(crate) struct Batched<S> {
    // Drop order: the thread ends before the store is closed.
    writer: Writer,
    store: Arc<S>,
}

impl<S: OneWriter> Batched<S> {
    /// Starts the batching writer of an open store.
    pub(crate) fn start(store: S) -> Result<Box<dyn Store>, BenchError> {
        let store = Arc::new(store);
        let writer = Writer::start(store.clone())?;
        Ok(Box::new(Self { writer, store }))
    }
}

/// The thread that writes.
struct Writer {
    /// `None` once the thread is to end.
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    /// The number of handles: no group gets larger, as a handle waits for its answer.
    handles: Arc<AtomicUsize>,
}

/// A caller's transaction, on its way to the thread.
struct Request {
    keys: Vec<u64>,
    /// The value to put. `None`: the records are incremented.
    put: Option<Payload>,
    /// `None` once it is answered.
    reply: Option<Sender<Reply>>,
}

/// The answer, with the buffer of the request.
struct Reply {
    keys: Vec<u64>,
    outcome: Result<(), BenchError>,
}

impl Request {
    fn write(&self) -> Write<'_> {
        match self.put {
            Some(payload) => Write::Put(&self.keys, payload),
            None => Write::CountUp(&self.keys),
        }
    }

    fn answer(mut self, outcome: Result<(), BenchError>) {
        self.reply_with(outcome);
    }

    fn reply_with(&mut self, outcome: Result<(), BenchError>) {
        if let Some(reply) = self.reply.take() {
            let keys = std::mem::take(&mut self.keys);
            // A caller that has gone needs no answer.
            let _ = reply.send(Reply { keys, outcome });
        }
    }
}

impl Drop for Request {
    /// The thread has ended before the request was executed (B3).
    fn drop(&mut self) {
        self.reply_with(Err(BenchError::Panicked));
    }
}

impl Writer {
    fn start<S: OneWriter>(store: Arc<S>) -> Result<Self, BenchError> {
        let (requests, received) = channel();
        let (opened, is_open) = channel();
        let handles = Arc::new(AtomicUsize::new(0));
        let expected = handles.clone();
        let thread = std::thread::Builder::new()
            .name("batching-writer".to_owned())
            .spawn(move || match store.group_writer() {
                Ok(mut writer) => {
                    let _ = opened.send(Ok(()));
                    serve(S::BATCHED_NAME, &mut *writer, &received, &expected);
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(BenchError::system("start a thread"))?;
        let writer = Self {
            requests: Some(requests),
            thread: Some(thread),
            handles,
        };
        is_open.recv().map_err(|_| BenchError::Panicked)??;
        Ok(writer)
    }

    /// Ends the thread after the groups that were sent.
    fn end(&mut self) -> Result<(), BenchError> {
        self.requests = None;
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| BenchError::Panicked),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A panic has been printed, and the callers have their errors (B3).
        let _ = self.end();
    }
}

/// Executes groups until the last sender is dropped.
fn serve(
    name: &'static str,
    writer: &mut dyn GroupWriter,
    received: &Receiver<Request>,
    expected: &AtomicUsize,
) {
    while let Ok(first) = received.recv() {
        // Relaxed: with a stale number, a group is smaller, or waits for its whole bounded time.
        let expected = expected.load(Ordering::Relaxed);
        commit(name, writer, gather(first, received, expected));
    }
}

/// Takes the transactions that have been sent, and waits a bounded time for those of the other
/// callers.
fn gather(first: Request, received: &Receiver<Request>, expected: usize) -> Vec<Request> {
    let mut group = vec![first];
    group.extend(received.try_iter().take(GROUP_MAX - 1));
    let deadline = Instant::now() + GATHER_MAX;
    while group.len() < expected.min(GROUP_MAX) {
        let left = deadline.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(request) => group.push(request),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    group
}

/// Commits a group, and answers each of its callers (B1, B2).
fn commit(name: &'static str, writer: &mut dyn GroupWriter, mut group: Vec<Request>) {
    while !group.is_empty() {
        let writes: Vec<Write<'_>> = group.iter().map(Request::write).collect();
        match writer.write(&writes) {
            Ok(()) => {
                for request in group.drain(..) {
                    request.answer(Ok(()));
                }
            }
            Err(GroupError::Member(at, error)) => group.remove(at).answer(Err(error)),
            Err(GroupError::Whole(error)) => {
                let why = error.with_causes();
                for request in group.drain(..) {
                    request.answer(Err(of(name)(GroupFailed(why.clone()))));
                }
            }
        }
    }
}

/// The failure of a group, as each of its callers gets it.
#[derive(Debug, thiserror::Error)]
#[error("the group of the transaction failed: {0}")]
struct GroupFailed(String);

impl<S: OneWriter> Store for Batched<S> {
    fn promises(&self) -> Promises {
        let mut promises = self.store.promises();
        promises
            .durability
            .push_str(", one commit for many callers");
        promises
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        self.store.load(setting)
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        let requests = self.writer.requests.clone().ok_or(BenchError::Panicked)?;
        let (reply, replies) = channel();
        let direct = self.store.handle()?;
        self.writer.handles.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(BatchedHandle {
            direct,
            requests,
            reply,
            replies,
            keys: Vec::new(),
            handles: &self.writer.handles,
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        let Self { mut writer, store } = *self;
        writer.end()?;
        // The thread had the only other reference.
        let store = Arc::into_inner(store).ok_or(BenchError::Panicked)?;
        Box::new(store).close()
    }
}

struct BatchedHandle<'a> {
    /// For what only reads.
    direct: Box<dyn Handle + Send + 'a>,
    requests: Sender<Request>,
    reply: Sender<Reply>,
    replies: Receiver<Reply>,
    /// The buffer of the next request.
    keys: Vec<u64>,
    handles: &'a AtomicUsize,
}

impl Drop for BatchedHandle<'_> {
    fn drop(&mut self) {
        self.handles.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BatchedHandle<'_> {
    /// Sends a transaction, and waits for its answer.
    fn send(&mut self, keys: &[u64], put: Option<Payload>) -> Result<Committed, BenchError> {
        let mut buffer = std::mem::take(&mut self.keys);
        buffer.clear();
        buffer.extend(keys);
        let request = Request {
            keys: buffer,
            put,
            reply: Some(self.reply.clone()),
        };
        self.requests
            .send(request)
            .map_err(|_| BenchError::Panicked)?;
        let Reply { keys, outcome } = self.replies.recv().map_err(|_| BenchError::Panicked)?;
        self.keys = keys;
        outcome.map(|()| Committed::AT_ONCE)
    }
}

impl Handle for BatchedHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        self.send(keys, Some(payload))
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        self.direct.read(keys, values)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        self.send(keys, None)
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        self.direct.scan(first, count, into)
    }
}
