//! The epoch horizon: through which epoch every stream is hardened, and whether the disk can say
//! so.
//!
//! Under release by epochs no LSN is drawn. Each commit belongs to an epoch, which its writer takes
//! from an [`EpochSource`]; it may be acknowledged when every commit of its epoch and of those
//! before is hardened, and when recovery would find that out.
//!
//! ```text
//!   finished E     every commit of E or before is in a buffer, or beyond    (the source knows)
//!   hardened T     min(E, every stream's oldest pending epoch - 1)          (the low-water marks know)
//!   certified D    the largest of  min over all streams of what its frames have closed,
//!                                  the T that any durable frame carries     (the disk knows)
//! ```
//! A frame closes e if no record of e or before can follow it in its stream; so where all streams
//! are busy, the frames that carry an epoch also certify it. An idle stream writes nothing, and its
//! last frame certifies only old epochs; then one of the waiters writes a frame without records on
//! a stream of its own, the *epoch marker*, for the T that it carries. The *low-water mark* of a
//! stream is its oldest pending epoch.
//!
//! # Invariants
//! - E1. A stream's low-water mark changes only under that stream's lock.
//! - E2. A low-water mark is lowered to a commit's epoch before the commit's registration ends, and
//!   raised past it only after its frame is durable.
//! - E3. The source is asked for E before the low-water marks are read. A thread that sees a
//!   commit's registration ended sees the low-water mark that it lowered, or a later one; so T is
//!   never too high.
//! - E4. A frame closes the E that is read under its stream's lock when the frame is sealed: every
//!   commit registered in E or before has been appended, so its record is in this frame or in one
//!   before.
//! - E5. D is raised by what a durable frame says; or to an epoch through which everything is
//!   hardened, where no record of an epoch above D is to be certified: recovery, which knows the
//!   old D, then cuts off nothing. It never goes back, nor does T.
//!
//! Design: release by epochs needs evidence on the disk before it acknowledges; see decision 0023.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use namiki_platform::Epoch;
use namiki_platform::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence};

use crate::error::LogError;
use crate::horizon::async_waiters::AckWaiters;
use crate::horizon::epoch_source::EpochSource;
use crate::horizon::lsn_horizon::IDLE;

/// The state of one stream.
struct StreamEpochs {
    /// The smallest epoch of its records that are not hardened, or [`IDLE`].
    pending: AtomicU64,
    /// The last epoch that its durable frames have closed.
    closed: AtomicU64,
    /// The largest epoch of its records that are not independent.
    dependent: AtomicU64,
}

/// Attempts to certify an epoch on behalf of others that found no room for an epoch marker.
#[derive(Default)]
struct Refusals {
    count: u64,
    /// The last.
    last: Option<(Epoch, LogError)>,
}

/// See the module.
pub(crate) struct EpochHorizon {
    pub(crate) source: Arc<dyn EpochSource>,
    per_stream: Box<[CachePadded<StreamEpochs>]>,
    /// The last T that was computed.
    hardened: CachePadded<AtomicU64>,
    /// D.
    certified: CachePadded<AtomicU64>,
    /// The largest epoch that is wanted certified, or was, by a caller that does not certify it
    /// itself: a task, or a poll.
    wanted: AtomicU64,
    /// Failed attempts of the flusher, which tasks report.
    refusals: Mutex<Refusals>,
    /// The log was closed cleanly.
    is_over: AtomicBool,
    /// Whether a thread is certifying an epoch, or closing the log.
    is_led: Mutex<bool>,
    /// Other threads that want to certify wait here.
    followers: Condvar,
    /// Tasks that wait for an epoch.
    pub(crate) ack_waiters: AckWaiters,
}

impl EpochHorizon {
    pub(crate) fn new(source: Arc<dyn EpochSource>, streams: usize) -> Self {
        let of_stream = || StreamEpochs {
            pending: AtomicU64::new(IDLE),
            closed: AtomicU64::new(0),
            dependent: AtomicU64::new(0),
        };
        Self {
            source,
            per_stream: (0..streams)
                .map(|_| CachePadded::new(of_stream()))
                .collect(),
            hardened: CachePadded::new(AtomicU64::new(0)),
            certified: CachePadded::new(AtomicU64::new(0)),
            wanted: AtomicU64::new(0),
            refusals: Mutex::new(Refusals::default()),
            is_over: AtomicBool::new(false),
            is_led: Mutex::new(false),
            followers: Condvar::default(),
            ack_waiters: AckWaiters::new(),
        }
    }

    /// A record goes into the stream's buffer, under the stream's lock.
    pub(crate) fn appended(&self, stream: usize, epoch: Epoch, is_independent: bool) {
        let of_stream = &self.per_stream[stream];
        // Relaxed: only the stream's lock holder writes (E1). Records of a stream need not be in
        // the order of their epochs.
        if epoch.0 < of_stream.pending.load(Ordering::Relaxed) {
            // Pairs with the end of the registration (E2, E3).
            of_stream.pending.store(epoch.0, Ordering::Release);
        }
        if !is_independent && epoch.0 > of_stream.dependent.load(Ordering::Relaxed) {
            of_stream.dependent.store(epoch.0, Ordering::Release);
        }
    }

    /// Computes T.
    pub(crate) fn scan(&self) -> Epoch {
        // E3.
        let mut lowest = self.source.finished().0;
        for of_stream in &self.per_stream {
            lowest = lowest.min(of_stream.pending.load(Ordering::Acquire).saturating_sub(1));
        }
        // Release passes on what the acquires saw.
        let known = self.hardened.fetch_max(lowest, Ordering::AcqRel);
        Epoch(known.max(lowest))
    }

    /// A T that was computed before. One load.
    pub(crate) fn hardened(&self) -> Epoch {
        Epoch(self.hardened.load(Ordering::Acquire))
    }

    /// Whether a stream holds a record of `epoch` or before that is not hardened.
    pub(crate) fn lags(&self, stream: usize, epoch: Epoch) -> bool {
        self.per_stream[stream].pending.load(Ordering::Acquire) <= epoch.0
    }

    /// Whether nothing at all is pending, as far as one can see.
    pub(crate) fn is_idle(&self) -> bool {
        let pending =
            |of_stream: &CachePadded<StreamEpochs>| of_stream.pending.load(Ordering::Acquire);
        self.per_stream
            .iter()
            .all(|of_stream| pending(of_stream) == IDLE)
    }

    /// A frame is sealed; returns the epoch that it closes. First closes the epoch of its commits if
    /// they will have waiters. Under the stream's lock (E4).
    pub(crate) fn seals(&self, stream: usize) -> Epoch {
        let dependent = self.per_stream[stream].dependent.load(Ordering::Relaxed);
        self.source.close(Epoch(dependent));
        self.source.finished()
    }

    /// A frame is durable that closed and carried these; `pending` is the smallest epoch of what is
    /// left in the stream. Under the stream's lock.
    pub(crate) fn completed(&self, stream: usize, pending: u64, closed: Epoch, carried: Epoch) {
        let of_stream = &self.per_stream[stream];
        // An epoch that an earlier frame has closed stays closed.
        let closed = closed.0.max(of_stream.closed.load(Ordering::Relaxed));
        of_stream.closed.store(closed, Ordering::Release);
        of_stream.pending.store(pending, Ordering::Release);
        // If two flushes complete at the same time, one of them sees the epoch that the other has
        // closed.
        fence(Ordering::SeqCst);
        let closed =
            |of_stream: &CachePadded<StreamEpochs>| of_stream.closed.load(Ordering::Acquire);
        let by_all = self.per_stream.iter().map(closed).min().unwrap_or(0);
        self.certify(by_all.max(carried.0));
    }

    /// Everything through this epoch is hardened, and the disk says so or need not (E5).
    fn certify(&self, epoch: u64) {
        if self.certified.fetch_max(epoch, Ordering::AcqRel) < epoch {
            self.ack_waiters.announce();
        }
    }

    /// Certifies an epoch without a frame, if there is nothing in it and those since D for one to
    /// certify; returns whether that is so. Everything of the epoch and of those before is
    /// hardened, and it is finished, so nothing is to come (E2, E5).
    pub(crate) fn certifies_nothing(&self, epoch: Epoch) -> bool {
        let is_empty = self.last_dependent() <= self.certified();
        if is_empty {
            // T is never behind D.
            self.scan();
            self.certify(epoch.0);
        }
        is_empty
    }

    /// The largest epoch of records that are to be certified.
    fn last_dependent(&self) -> Epoch {
        let dependent =
            |of_stream: &CachePadded<StreamEpochs>| of_stream.dependent.load(Ordering::Acquire);
        Epoch(self.per_stream.iter().map(dependent).max().unwrap_or(0))
    }

    /// D.
    pub(crate) fn certified(&self) -> Epoch {
        Epoch(self.certified.load(Ordering::Acquire))
    }

    /// Whether commits of this epoch may be acknowledged. One load, if so.
    pub(crate) fn certifies(&self, epoch: Epoch) -> bool {
        // Acquire: everything is durable by then.
        self.certified() >= epoch || self.is_over.load(Ordering::Acquire)
    }

    /// Requests that this epoch be certified. Returns whether it was not requested before: the
    /// flusher has to know then.
    pub(crate) fn want(&self, epoch: Epoch) -> bool {
        // Repeated polls need not write a shared line.
        self.wanted.load(Ordering::Acquire) < epoch.0
            && self.wanted.fetch_max(epoch.0, Ordering::AcqRel) < epoch.0
    }

    /// The largest epoch that ought to be certified and is not. Independent records need none.
    pub(crate) fn uncertified(&self) -> Option<Epoch> {
        let wanted = Epoch(self.wanted.load(Ordering::Acquire));
        let last = self.last_dependent().max(wanted);
        (!self.certifies(last)).then_some(last)
    }

    /// There was no room for an epoch marker that certifies `epoch`. Waiters for it without a
    /// thread are told.
    pub(crate) fn refuse(&self, epoch: Epoch, error: LogError) {
        let mut refusals = self.refusals.lock();
        refusals.count += 1;
        refusals.last = Some((epoch, error));
        drop(refusals);
        // A task that enters the list after this finds it in its last look (`async_waiters.rs`,
        // W1).
        self.ack_waiters.wake();
    }

    /// The number of times that there was no room.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.lock().count
    }

    /// The error for a task that waits for `epoch`, if an attempt has failed after the first
    /// `since` failures. Earlier failures do not count: a disk may have room again.
    pub(crate) fn refusal(&self, epoch: Epoch, since: u64) -> Option<LogError> {
        let refusals = self.refusals.lock();
        let (of, error) = refusals.last.as_ref()?;
        (refusals.count > since && *of >= epoch).then(|| error.clone())
    }

    /// Becomes the leader that certifies. Otherwise waits until the leader has finished, and
    /// returns nothing. The leader calls no waker, which might wait for an epoch itself.
    pub(crate) fn lead(&self) -> Option<Leading<'_>> {
        let mut is_led = self.is_led.lock();
        if *is_led {
            drop(self.followers.wait(is_led));
            return None;
        }
        *is_led = true;
        Some(Leading(self))
    }

    /// The streams are closed, so every record is durable, and every epoch that records depend on
    /// is certified. Nothing is left to wait for, in no epoch: a reader has read what recovery will
    /// find.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.ack_waiters.announce();
    }
}

/// Ends the lead when it is dropped, and wakes all waiters.
pub(crate) struct Leading<'a>(&'a EpochHorizon);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        *self.0.is_led.lock() = false;
        self.0.followers.notify_all();
    }
}
