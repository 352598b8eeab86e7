//! The log's two threads: the flusher, which flushes for tasks and for groups without a waiter, and
//! one that prepares log files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::Epoch;

use crate::config::GroupResource;
use crate::streams::Streams;

/// Shortest time between two rounds of the flusher.
const TICK_MIN: Duration = Duration::from_micros(50);
/// Longest time between two rounds; a limit beyond it is as good as none.
const TICK_MAX: Duration = Duration::from_secs(3600);
/// Rounds without work after which the flusher parks until it is notified.
const IDLE_ROUNDS_MAX: u32 = 32;

/// Serves tasks when it is called, and flushes streams in which a commit has been pending for long.
pub(crate) fn flush_late<H: GroupResource>(streams: &Arc<Streams<H>>, group_wait_max: Duration) {
    let tick = (group_wait_max / 2).clamp(TICK_MIN, TICK_MAX);
    let notifier = &streams.shared.flusher;
    let mut late = Late::new(streams.list.len());
    let mut idle_rounds = 0;
    let mut next_round = Instant::now();
    // However it ends, no thread flushes for tasks any more.
    let _leaving = Leaving(streams);
    loop {
        notifier.clear();
        let due = streams.serve_tasks();
        let now = Instant::now();
        if now >= next_round {
            let busy = late.round(streams);
            idle_rounds = if busy { 0 } else { idle_rounds + 1 };
            next_round = Instant::now() + tick.max(poisoned_pause(streams));
        }
        let is_poisoned = streams.shared.poison.get().is_some();
        if is_poisoned {
            // It may have been set on behalf of another stream.
            wake_tasks(streams);
        }
        let rests = idle_rounds > IDLE_ROUNDS_MAX && !is_poisoned;
        let until = match (rests, due) {
            (true, due) => due,
            (false, Some(due)) => Some(due.min(next_round)),
            (false, None) => Some(next_round),
        };
        if !notifier.sleep(until, rests, || has_work(streams)) {
            return;
        }
        if rests {
            idle_rounds = 0;
            next_round = Instant::now();
        }
    }
}

/// Detects commits that have been pending for a whole tick. A round sees a stream with pending
/// commits and remembers how many were hardened; if the next round finds the same number, the
/// oldest of them is a whole tick old. With ticks of half the limit nothing waits longer than it,
/// and no commit has to look at a clock.
struct Late {
    seen: Vec<Option<u64>>,
    seen_certified: Option<Epoch>,
}

impl Late {
    fn new(streams: usize) -> Self {
        Self {
            seen: vec![None; streams],
            seen_certified: None,
        }
    }

    /// A tick after the round before. Whether there was anything to see.
    fn round<H: GroupResource>(&mut self, streams: &Streams<H>) -> bool {
        let mut busy = false;
        for (stream, seen) in streams.list.iter().zip(&mut self.seen) {
            if !stream.has_pending() {
                *seen = None;
                continue;
            }
            busy = true;
            let hardened = stream.hardened_commits();
            if *seen == Some(hardened) {
                // Waiters get the error themselves, and so does the next append.
                drop(stream.flush());
                *seen = None;
            } else {
                *seen = Some(hardened);
            }
        }
        if let Some(epochs) = &streams.shared.epochs {
            // The same for epochs: a whole tick without progress.
            let uncertified = epochs.uncertified();
            let certified = uncertified.map(|_| epochs.certified());
            busy = busy || uncertified.is_some();
            match uncertified {
                Some(last) if certified == self.seen_certified => {
                    // Threads find out by themselves what went wrong, and so do tasks if it has
                    // poisoned the log.
                    if let Err(error) = streams.certify(epochs, last, 0)
                        && error.is_refusal()
                    {
                        epochs.refuse(last, error);
                    }
                    self.seen_certified = None;
                }
                _ => self.seen_certified = certified,
            }
        }
        busy
    }
}

fn has_work<H: GroupResource>(streams: &Streams<H>) -> bool {
    let epochs = streams.shared.epochs.as_ref();
    streams.list.iter().any(|stream| stream.has_pending())
        || epochs.is_some_and(|epochs| epochs.uncertified().is_some())
}

fn wake_tasks<H: GroupResource>(streams: &Streams<H>) {
    for stream in &streams.list {
        stream.ack_waiters.wake();
    }
    if let Some(epochs) = &streams.shared.epochs {
        epochs.ack_waiters.wake();
    }
}

struct Leaving<'a, H: GroupResource>(&'a Streams<H>);

impl<H: GroupResource> Drop for Leaving<'_, H> {
    fn drop(&mut self) {
        wake_tasks(self.0);
    }
}

/// A poisoned log keeps its commits pending for ever; there is no hurry then.
fn poisoned_pause<H: GroupResource>(streams: &Streams<H>) -> Duration {
    match streams.shared.poison.get() {
        Some(_) => Duration::from_millis(100),
        None => Duration::ZERO,
    }
}

/// Makes the log files ready that streams ask for.
pub(crate) fn prepare_ahead<H: GroupResource>(streams: &Arc<Streams<H>>) {
    while let Some(stream) = streams.shared.preparer.next() {
        streams.list[stream].prepare_ahead();
    }
}
