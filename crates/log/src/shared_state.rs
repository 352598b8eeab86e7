//! The state that the streams of one log share: horizon, poison, and the notifiers of its threads.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence};
use namiki_platform::{Generation, ProcessToken, WorkerId};

use crate::config::Prepare;
use crate::error::LogError;
use crate::horizon::epoch_horizon::EpochHorizon;
use crate::horizon::lsn_horizon::Horizon;
use crate::log_target::log_room::{GrantedFile, LogRoom, WantedFile};

pub(crate) struct Shared {
    /// The process that writes the log.
    pub(crate) process: ProcessToken,
    pub(crate) generation: Generation,
    pub(crate) horizon: Horizon,
    /// The horizon of epochs, where commits are released by epochs.
    pub(crate) epochs: Option<EpochHorizon>,
    pub(crate) poison: Poison,
    pub(crate) prepare: Prepare,
    /// The number of commits from which a full group is submitted; `None` if no group ever is.
    pub(crate) async_flush_min_commits: Option<NonZeroU32>,
    /// Whether there is a flusher to wake.
    pub(crate) has_flusher: bool,
    /// Whether polls flush groups that are overdue: there should be a flusher, and the system
    /// allowed none.
    pub(crate) polls_flush: bool,
    /// Grants files that are made for frames.
    pub(crate) room: OnceLock<Arc<dyn LogRoom>>,
    /// Through which LSN or epoch tasks want everything acknowledged, without a commit of their
    /// own; 0: none does. The flusher takes it.
    pub(crate) demanded: AtomicU64,
    // Padded, because the threads write to these and every commit reads what is before them.
    pub(crate) flusher: CachePadded<Notifier>,
    pub(crate) preparer: CachePadded<Requests>,
}

impl Shared {
    /// Fails in a forked child, which would write into the log of its parent.
    pub(crate) fn check_process(&self) -> Result<(), LogError> {
        if self.process.is_current() {
            Ok(())
        } else {
            Err(LogError::Forked)
        }
    }

    /// Something is pending in a stream that had nothing: the flusher must not park now.
    pub(crate) fn wake_flusher(&self) {
        if self.has_flusher {
            self.flusher.notify();
        }
    }

    /// A task waits for something that only the flusher may bring about, or the log has failed: it
    /// looks at once, whenever its next tick is.
    pub(crate) fn call_flusher(&self) {
        if self.has_flusher {
            self.flusher.call();
        }
    }

    /// Poisons the log when dropped, which only a panic should do.
    pub(crate) fn tripwire(&self, worker: WorkerId) -> Tripwire<'_> {
        Tripwire {
            shared: self,
            worker,
        }
    }

    /// Asks whether a file may be made, and what for. To be asked without a stream's lock.
    pub(crate) fn grant(&self, file: WantedFile) -> io::Result<GrantedFile> {
        GrantedFile::ask(self.room.get(), file)
    }

    /// Asks for the next log file of a stream.
    pub(crate) fn request_log_file(&self, stream: usize) {
        let mut queue = self.preparer.queue.lock();
        queue.streams.push_back(stream);
        self.preparer.condvar.notify_one();
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
}

/// See [`Shared::tripwire`].
pub(crate) struct Tripwire<'a> {
    shared: &'a Shared,
    worker: WorkerId,
}

impl Tripwire<'_> {
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Tripwire<'_> {
    fn drop(&mut self) {
        self.shared.poison.set(LogError::Panicked {
            worker: self.worker,
        });
        self.shared.call_flusher();
    }
}

/// Wakes the flusher: from any sleep by a *call*, and by a *notification* only if it is idle. A
/// notification is for every group's first commit, a call for what tasks wait for.
///
/// # Invariants
/// - B1. Work is made visible before a call or a notification. The flusher clears the call before
///   it looks for work. Before it parks, it says so and then looks at the call and, to be idle, for
///   work. With a fence on both sides, one of the two sees the other.
pub(crate) struct Notifier {
    /// The flusher is parked, and a call wakes it.
    listens: AtomicBool,
    /// So does a notification.
    rests: AtomicBool,
    is_called: AtomicBool,
    stop: Mutex<bool>,
    condvar: Condvar,
}

impl Notifier {
    pub(crate) fn new() -> Self {
        Self {
            listens: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            stop: Mutex::new(false),
            condvar: Condvar::default(),
        }
    }

    /// Wakes the flusher if it rests, after making work visible.
    pub(crate) fn notify(&self) {
        // B1.
        fence(Ordering::SeqCst);
        if self.rests.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Has the flusher look once more from now on, after making work visible.
    pub(crate) fn call(&self) {
        // Release pairs with the acquire in `clear`, so that its look for work sees what was made
        // visible. A caller that finds an earlier call leaves the wake-up to that caller: the call
        // is not cleared yet.
        if self.is_called.swap(true, Ordering::AcqRel) {
            return;
        }
        // B1.
        fence(Ordering::SeqCst);
        if self.listens.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    fn wake(&self) {
        // A flusher that has announced to park, and has not looked yet, still has the lock.
        drop(self.stop.lock());
        self.condvar.notify_one();
    }

    /// Before a look for work.
    pub(crate) fn clear(&self) {
        // Acquire, see `call`.
        self.is_called.swap(false, Ordering::Acquire);
    }

    /// Parks until `until` or a call; if it `rests`, until a notification or work, too. False if it
    /// is time to stop.
    pub(crate) fn sleep(
        &self,
        until: Option<Instant>,
        rests: bool,
        has_work: impl Fn() -> bool,
    ) -> bool {
        let mut stop = self.stop.lock();
        self.listens.store(true, Ordering::Relaxed);
        self.rests.store(rests, Ordering::Relaxed);
        // B1.
        fence(Ordering::SeqCst);
        let is_over =
            |stop: bool| stop || self.is_called.load(Ordering::Relaxed) || (rests && has_work());
        while !is_over(*stop) {
            match until {
                None => stop = self.condvar.wait(stop),
                Some(until) => {
                    let passed;
                    (stop, passed) = self.condvar.wait_until(stop, until);
                    if passed {
                        break;
                    }
                }
            }
        }
        self.listens.store(false, Ordering::Relaxed);
        self.rests.store(false, Ordering::Relaxed);
        !*stop
    }

    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.condvar.notify_all();
    }
}

/// Streams that want their next log file made ready.
pub(crate) struct Requests {
    pub(crate) queue: Mutex<RequestQueue>,
    pub(crate) condvar: Condvar,
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
            condvar: Condvar::default(),
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
            queue = self.condvar.wait(queue);
        }
    }

    pub(crate) fn stop(&self) {
        self.queue.lock().stop = true;
        self.condvar.notify_all();
    }
}
