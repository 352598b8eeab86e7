//! Writing a frame: a flight, from its departure to its landing.
//!
//! A flush leader waits for its write. A full group may also be flushed asynchronously: where the disk can
//! write on its own, its worker goes on, and the next thread that needs something of the stream completes
//! the flush.
//!
//! Paper: pwal §2.1, §2.2

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::disk::PendingWrite;
use namiki_platform::{Epoch, Lsn};

use super::gather::Landed;
use super::state::{Filling, State};
use super::{Stream, Ticket};
use crate::config::{Held, Layout, Prepare};
use crate::error::LogError;
use crate::format::frame::{self, FrameHeader};
use crate::place::{Place, Spot};
use crate::sync::{MutexGuard, Ordering};

/// A frame on its way to the device.
struct Flight<H> {
    frame: Filling<H>,
    padded: usize,
    sequence: u64,
    /// What it closes, where commits are released by epochs.
    closed: Epoch,
    /// What was hardened before it is written: LSNs below this, or epochs through it.
    horizon: Lsn,
    wants_spare: bool,
    departed: Instant,
}

/// An asynchronous flush that no thread attends to.
pub(super) struct Launched<H> {
    flight: Flight<H>,
    path: Arc<Path>,
    write: Box<dyn PendingWrite>,
}

impl<H: Held> Stream<H> {
    /// Hardens everything appended before the call; what those commits held is then released.
    /// Returns at once if that is so already.
    ///
    /// # Errors
    /// The error that poisoned the log. Nothing of what was pending is released or acknowledged.
    pub fn flush(&self) -> Result<(), LogError> {
        if !self.has_pending() {
            return self.shared.poison.check();
        }
        self.shared.check_process()?;
        let _waking = self.waking();
        let state = self.state.lock();
        let through = state.appended;
        self.harden_through(state, through)
    }

    /// Whether a group may hold anything until it is hardened.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        let state = self.state.lock();
        state.in_flight.is_some() || !state.filling.held.is_empty()
    }

    /// Begins to harden the commit and all before it, and does not wait for that if the disk can write on
    /// its own and the group is large enough for that to pay ([`LogConfig::launch_from`]); otherwise it
    /// does. It does wait for the flush before: one at a time is under way. If another thread has begun to
    /// harden the commit, what came after it is left to fill its own group.
    ///
    /// What was begun is hardened at the next append, flush or wait, at a call of [`Stream::poll`], or by
    /// the flusher.
    ///
    /// # Errors
    /// As [`Stream::wait_hardened`]; but an error of the write that was begun comes later.
    ///
    /// [`LogConfig::launch_from`]: crate::LogConfig::launch_from
    pub fn begin_flush(&self, ticket: Ticket) -> Result<(), LogError> {
        self.check_ticket(ticket)?;
        let _waking = self.waking();
        let through = ticket.number;
        let mut state = self.state.lock();
        while state.hardened < through && state.in_flight < Some(through) {
            self.check_poison()?;
            let launch_from = self.shared.launch_from.map(NonZeroU32::get);
            let launches = launch_from.is_some_and(|size| state.filling.commits >= size);
            state = match state.in_flight {
                None if launches => self.launch(state)?,
                None => self.lead(state)?,
                Some(_) => self.attend_at_once(state, through)?,
            };
        }
        Ok(())
    }

    /// Completes the unattended flush, if there is one that has been written. Does not wait, not even for a
    /// thread that holds the stream's lock right now.
    ///
    /// # Errors
    /// The error that poisoned the log, if the flight was landed and is not hardened.
    pub fn poll(&self) -> Result<(), LogError> {
        if self.shared.launch_from.is_none() || !self.has_pending() {
            return Ok(());
        }
        self.shared.check_process()?;
        let _waking = self.waking();
        match self.state.try_lock() {
            Some(state) => self.land_if_complete(state).map(drop),
            None => Ok(()),
        }
    }

    /// Hardens the commits up to `through`, which were appended: attends to the flight that carries
    /// them, or leads it.
    pub(super) fn harden_through<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        through: u64,
    ) -> Result<(), LogError> {
        loop {
            if state.hardened >= through {
                return Ok(());
            }
            self.check_poison()?;
            state = if state.in_flight.is_some() {
                self.attend_at_once(state, through)?
            } else {
                self.lead(state)?
            };
        }
    }

    /// As [`Stream::attend`]; and no leader of the next flush waits for more commits before it carries this
    /// one.
    fn attend_at_once<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        through: u64,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        state.wanted = state.wanted.max(through);
        self.attend(state, through)
    }

    /// Advances the flush under way: completes it if it is unattended, and otherwise waits as a waiter for
    /// the commit `through`.
    pub(super) fn attend<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        through: u64,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.shared.check_process()?;
        match state.launched.take() {
            Some(launched) => self.land(state, launched),
            None => {
                let parity = (state.flight_of(through) & 1) as usize;
                Ok(self.leaders[parity].wait(state))
            }
        }
    }

    /// Leads a flight with everything that is in the filling buffer, which is not empty. None may
    /// be in flight.
    pub(super) fn lead<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.check_poison()?;
        self.shared.check_process()?;
        let landing = Landing { stream: self };
        // Declared after `landing`, so that a panic releases it first.
        let mut guard = guard;
        let (mut flight, spot) = self.depart(&mut guard);
        let kept = match self.layout {
            Layout::Single => Some(guard),
            Layout::PerWorker => {
                drop(guard);
                None
            }
        };
        self.finish(&mut flight, &spot);
        self.write(landing, flight, &spot, kept)
    }

    /// Begins a flight like [`Stream::lead`], and leaves it alone if the disk can write on its own.
    pub(super) fn launch<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.shared.check_process()?;
        let landing = Landing { stream: self };
        let mut guard = guard;
        let (mut flight, spot) = self.depart(&mut guard);
        drop(guard);
        self.finish(&mut flight, &spot);
        match spot.begin(std::mem::take(&mut flight.frame.buf), flight.padded) {
            Ok(write) => {
                let path = spot.path;
                let mut guard = self.state.lock();
                guard.counters.launched += 1;
                guard.launched = Some(Launched {
                    flight,
                    path,
                    write,
                });
                std::mem::forget(landing);
                // S3, S7.
                self.wake_all();
                self.pass_on_demand(&guard);
                Ok(guard)
            }
            Err(buf) => {
                flight.frame.buf = buf;
                self.write(landing, flight, &spot, None)
            }
        }
    }

    /// Lands a flight that was launched, when its write has come to its end.
    pub(super) fn land<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
        launched: Launched<H>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let landing = Landing { stream: self };
        drop(guard);
        let Launched {
            mut flight,
            path,
            write,
        } = launched;
        let (buf, outcome) = write.wait();
        flight.frame.buf = buf;
        let written = outcome.map_err(|source| LogError::device("writing", &path, source));
        self.arrive(landing, flight, written, None)
    }

    /// As [`Stream::land`], if there is a flush that has been written.
    pub(super) fn land_if_complete<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        if state.launched.is_some() {
            self.shared.check_process()?;
        }
        match state
            .launched
            .take_if(|launched| launched.write.is_complete())
        {
            Some(launched) => self.land(state, launched),
            None => Ok(state),
        }
    }

    /// Takes what is in the filling buffer on board.
    fn depart(&self, state: &mut State<H>) -> (Flight<H>, Spot) {
        let other = state
            .other
            .take()
            .expect("no flight is under way, so the other buffer is here");
        let frame = std::mem::replace(&mut state.filling, other);
        state.in_flight = Some(state.appended);
        state.flights += 1;
        state.deadline = None;
        state.sequence += 1;
        state.max_stamp = state.max_stamp.max(frame.max_stamp);
        let padded = state.place.padded(frame.used);
        let spot = state.place.assign(padded as u64, state.sequence);
        let wants_spare = match &mut state.place {
            Place::Segments(place) if place.wants_spare() => {
                place.requested = self.shared.prepare == Prepare::Background;
                place.requested
            }
            _ => false,
        };
        let flight = Flight {
            frame,
            padded,
            sequence: state.sequence,
            closed: self.close_epoch(),
            horizon: Lsn(0),
            wants_spare,
            departed: Instant::now(),
        };
        (flight, spot)
    }

    /// Makes the frame ready to be written.
    fn finish(&self, flight: &mut Flight<H>, spot: &Spot) {
        if flight.wants_spare {
            self.shared.request_segment(self.index);
        }
        flight.horizon = match &self.shared.epochs {
            Some(epochs) => Lsn(epochs.scan().0),
            None if self.shared.horizon.sequencer.draws() => self.shared.horizon.scan(),
            None => Lsn(0),
        };
        let first_lsn = match &self.shared.epochs {
            Some(_) => Lsn(flight.closed.0),
            None => flight.frame.first_lsn,
        };
        let frame = &mut flight.frame;
        let header = FrameHeader {
            length: frame.used as u32,
            records: frame.records,
            sequence: flight.sequence,
            first_lsn,
            last_lsn: frame.last_lsn,
            max_stamp: frame.max_stamp,
            epoch: frame.epoch,
            horizon: flight.horizon,
            generation: self.shared.generation,
            worker: self.worker,
        };
        frame.buf[frame.used..flight.padded].fill(0);
        let bytes = &mut frame.buf[..frame.used];
        frame::finish(bytes, &header, frame.digest, spot.salt);
    }

    /// Writes the frame and waits for it. `kept` is the stream's lock, if the flush keeps it; it comes
    /// after `landing`, so that a panic releases it first.
    fn write<'a>(
        &'a self,
        landing: Landing<'a, H>,
        mut flight: Flight<H>,
        spot: &Spot,
        kept: Option<MutexGuard<'a, State<H>>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let frame = &mut flight.frame;
        let written = spot.write(&frame.buf[..flight.padded], frame.head.as_mut());
        self.arrive(landing, flight, written, kept)
    }

    /// Ends a flight; for the order of `landing` and `kept` see [`Stream::write`].
    fn arrive<'a>(
        &'a self,
        landing: Landing<'a, H>,
        flight: Flight<H>,
        written: Result<(), LogError>,
        kept: Option<MutexGuard<'a, State<H>>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let Flight {
            mut frame,
            padded,
            closed,
            horizon,
            departed,
            ..
        } = flight;
        let written = written.and_then(|()| self.shared.poison.check());
        if written.is_ok() {
            frame.held.release();
        }
        let mut guard = kept.unwrap_or_else(|| self.state.lock());
        std::mem::forget(landing);
        let state = &mut *guard;
        let flight = state.flights;
        let through = state.in_flight.take();
        if let Err(error) = written {
            // What the group held stays held, for ever: the frame is put aside as it is.
            state.other = Some(frame);
            self.wake_all();
            let error = self.shared.poison.set(error);
            self.announce_end();
            return Err(error);
        }
        state.counters.flushes += 1;
        state.counters.frame_bytes += padded as u64;
        state.counters.commits += u64::from(frame.commits);
        let at = Instant::now();
        let landed = Landed {
            at,
            took: at.saturating_duration_since(departed),
            carried: frame.commits,
            aboard: state.filling.commits,
        };
        state.counters.flush_ns += landed.took.as_nanos() as u64;
        state.gathering.landed(landed, self.group_wait_max);
        frame.clear();
        if state.filling.records == 0 {
            // Nothing came meanwhile, as when a worker waits for its own flush: the next commits go
            // where the last went, which the caches still hold.
            std::mem::swap(&mut frame, &mut state.filling);
        }
        state.other = Some(frame);
        // S7.
        self.pass_on_demand(state);
        state.hardened = through.expect("only its end takes a flight away, and this is it");
        // Release pairs with the acquires of `is_hardened`: the frame is durable (S2).
        self.hardened.store(state.hardened, Ordering::Release);
        if self.shared.horizon.sequencer.draws() {
            self.shared
                .horizon
                .hardened_below(self.index, state.filling.mark());
        }
        if let Some(epochs) = &self.shared.epochs {
            let pending = state.filling.epoch_min;
            epochs.landed(self.index, pending, closed, Epoch(horizon.0));
        }
        // S3.
        let (this, next) = ((flight & 1) as usize, ((flight + 1) & 1) as usize);
        self.leaders[this].notify_all();
        self.leaders[next].notify_one();
        self.watchers.announce();
        Ok(guard)
    }

    pub(super) fn wake_all(&self) {
        for condvar in &self.leaders {
            condvar.notify_all();
        }
        self.prepared.notify_all();
    }
}

/// Poisons the log if a flush ends in a panic, ends the flush, and wakes its waiters.
struct Landing<'a, H: Held> {
    stream: &'a Stream<H>,
}

impl<H: Held> Drop for Landing<'_, H> {
    fn drop(&mut self) {
        let worker = self.stream.worker;
        self.stream.shared.poison.set(LogError::Panicked { worker });
        // The lock makes sure that a thread that saw no poison is waiting by now.
        self.stream.state.lock().in_flight = None;
        self.stream.wake_all();
        self.stream.announce_end();
    }
}
