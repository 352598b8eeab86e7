//! What the streams of one log have in common: horizon, poison, and the threads' doorbells.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crossbeam_utils::CachePadded;
use namiki_platform::{Generation, ProcessToken, WorkerId};

use crate::config::Prepare;
use crate::epochs::EpochHorizon;
use crate::error::LogError;
use crate::horizon::Horizon;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence};

pub(crate) struct Shared {
    /// The process that writes the log.
    pub(crate) process: ProcessToken,
    pub(crate) generation: Generation,
    pub(crate) horizon: Horizon,
    /// Where commits are released by epochs.
    pub(crate) epochs: Option<EpochHorizon>,
    pub(crate) poison: Poison,
    pub(crate) prepare: Prepare,
    /// From how many commits on a full group is launched; nothing if none ever is.
    pub(crate) launch_from: Option<NonZeroU32>,
    /// Whether there is a flusher to wake.
    pub(crate) has_flusher: bool,
    // Padded, because the threads write to these and every commit reads what is before them.
    pub(crate) flusher: CachePadded<Doorbell>,
    pub(crate) preparer: CachePadded<Requests>,
}

impl Shared {
    /// Fails in a forked child, whose writes would go into the log of its parent.
    pub(crate) fn check_process(&self) -> Result<(), LogError> {
        if self.process.is_current() {
            Ok(())
        } else {
            Err(LogError::Forked)
        }
    }

    /// Something is pending in a stream that had nothing: the flusher must not sleep now.
    pub(crate) fn wake_flusher(&self) {
        if self.has_flusher {
            self.flusher.ring();
        }
    }

    /// Asks for the next segment of a stream.
    pub(crate) fn request_segment(&self, stream: usize) {
        let mut queue = self.preparer.queue.lock();
        queue.streams.push_back(stream);
        self.preparer.bell.notify_one();
    }
}

/// The first error after which the log accepts and acknowledges nothing.
pub(crate) struct Poison {
    is_set: AtomicBool,
    error: Mutex<Option<LogError>>,
}

impl Poison {
    pub(crate) fn new() -> Self {
        Self {
            is_set: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    pub(crate) fn get(&self) -> Option<LogError> {
        // Acquire pairs with the release in `set`. One load on a line that is never written again.
        if self.is_set.load(Ordering::Acquire) {
            self.error.lock().clone()
        } else {
            None
        }
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.get() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Poisons the log, unless it is, and returns the error that did it first.
    pub(crate) fn set(&self, error: LogError) -> LogError {
        let first = self.error.lock().get_or_insert(error).clone();
        self.is_set.store(true, Ordering::Release);
        first
    }

    /// Poisons the log if the error is of that kind.
    pub(crate) fn if_poisonous(&self, error: LogError) -> LogError {
        if error.is_poison() {
            self.set(error)
        } else {
            error
        }
    }

    /// Poisons the log when dropped, which only a panic should do.
    pub(crate) fn tripwire(&self, worker: WorkerId) -> Tripwire<'_> {
        Tripwire {
            poison: self,
            worker,
        }
    }
}

/// See [`Poison::tripwire`].
pub(crate) struct Tripwire<'a> {
    poison: &'a Poison,
    worker: WorkerId,
}

impl Tripwire<'_> {
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Tripwire<'_> {
    fn drop(&mut self) {
        self.poison.set(LogError::Panicked {
            worker: self.worker,
        });
    }
}

/// Wakes a thread that sleeps because there was nothing to do.
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    pub(crate) stop: Mutex<bool>,
    pub(crate) bell: Condvar,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
            stop: Mutex::new(false),
            bell: Condvar::default(),
        }
    }

    /// After making work visible.
    pub(crate) fn ring(&self) {
        // Either this sees `asleep`, or the sleeper's look after its own fence sees the work.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            let _stop = self.stop.lock();
            self.bell.notify_one();
        }
    }

    /// Before the last look for work.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.bell.notify_all();
    }
}

/// Streams that want their next segment made ready.
pub(crate) struct Requests {
    pub(crate) queue: Mutex<RequestQueue>,
    pub(crate) bell: Condvar,
}

#[derive(Default)]
pub(crate) struct RequestQueue {
    pub(crate) streams: VecDeque<usize>,
    pub(crate) stop: bool,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(RequestQueue::default()),
            bell: Condvar::default(),
        }
    }

    /// The next stream to serve; none when it is time to stop.
    pub(crate) fn next(&self) -> Option<usize> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(stream) = queue.streams.pop_front() {
                return Some(stream);
            }
            queue = self.bell.wait(queue);
        }
    }

    pub(crate) fn stop(&self) {
        self.queue.lock().stop = true;
        self.bell.notify_all();
    }
}
