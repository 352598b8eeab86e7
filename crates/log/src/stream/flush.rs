//! Writing a frame: the leader of a flight.
//!
//! Paper: pwal §2.1, §2.2

use std::time::Instant;

use namiki_platform::Lsn;

use super::Stream;
use super::state::{Filling, State};
use crate::config::{Held, Layout, Prepare};
use crate::error::LogError;
use crate::format::frame::{self, FrameHeader};
use crate::place::{Place, Spot};
use crate::sync::{MutexGuard, Ordering};

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
        let state = self.state.lock();
        let through = state.appended;
        self.harden_through(state, through)
    }

    /// Hardens the commits up to `through`, which were appended: waits for the flight that carries
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
            self.shared.poison.check()?;
            state = if state.in_flight.is_some() {
                let parity = (state.flight_of(through) & 1) as usize;
                self.leaders[parity].wait(state)
            } else {
                self.lead(state)?
            };
        }
    }

    /// Leads a flight with everything that is in the filling buffer, which is not empty. None may
    /// be in flight.
    pub(super) fn lead<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.shared.poison.check()?;
        let landing = Landing { stream: self };
        // Declared after `landing`, so that a panic lets go of it first.
        let mut guard = guard;
        let state = &mut *guard;
        let other = state
            .other
            .take()
            .expect("no flight is under way, so the other buffer is here");
        let mut frame = std::mem::replace(&mut state.filling, other);
        let through = state.appended;
        state.in_flight = Some(through);
        state.flights += 1;
        state.sequence += 1;
        state.max_stamp = state.max_stamp.max(frame.max_stamp);
        let sequence = state.sequence;
        let padded = state.place.padded(frame.used);
        let spot = state.place.assign(padded as u64, sequence);
        let wants_spare = match &mut state.place {
            Place::Segments(place) if place.wants_spare() => {
                place.requested = self.shared.prepare == Prepare::Background;
                place.requested
            }
            _ => false,
        };
        let kept = match self.layout {
            Layout::Single => Some(guard),
            Layout::PerWorker => {
                drop(guard);
                None
            }
        };
        if wants_spare {
            self.shared.request_segment(self.index);
        }

        let started = Instant::now();
        let written = self.write(&mut frame, padded, sequence, &spot);
        let flush_ns = started.elapsed().as_nanos() as u64;
        let written = written.and_then(|()| self.shared.poison.check());
        if written.is_ok() {
            frame.held.release();
        }

        let mut guard = kept.unwrap_or_else(|| self.state.lock());
        let state = &mut *guard;
        let flight = state.flights;
        state.in_flight = None;
        std::mem::forget(landing);
        if let Err(error) = written {
            // What the group held stays held, for ever: the frame is put aside as it is.
            state.other = Some(frame);
            self.wake_everybody();
            return Err(self.shared.poison.set(error));
        }
        state.counters.flushes += 1;
        state.counters.frame_bytes += padded as u64;
        state.counters.commits += u64::from(frame.records);
        state.counters.flush_ns += flush_ns;
        frame.clear();
        if state.filling.records == 0 {
            // Nothing came meanwhile, as when a worker waits for its own flush: the next commits go
            // where the last went, which the caches still hold.
            std::mem::swap(&mut frame, &mut state.filling);
        }
        state.other = Some(frame);
        state.hardened = through;
        // Release pairs with the acquires of `is_hardened`: the frame is durable (S2).
        self.hardened.store(through, Ordering::Release);
        if self.shared.horizon.sequencer.draws() {
            self.shared
                .horizon
                .hardened_below(self.index, state.filling.mark());
        }
        // S3.
        let (this, next) = ((flight & 1) as usize, ((flight + 1) & 1) as usize);
        self.leaders[this].notify_all();
        self.patient[this].notify_all();
        self.leaders[next].notify_one();
        Ok(guard)
    }

    fn write(
        &self,
        frame: &mut Filling<H>,
        padded: usize,
        sequence: u64,
        spot: &Spot,
    ) -> Result<(), LogError> {
        let horizon = match self.shared.horizon.sequencer.draws() {
            true => self.shared.horizon.scan(),
            false => Lsn(0),
        };
        let header = FrameHeader {
            length: frame.used as u32,
            records: frame.records,
            sequence,
            first_lsn: frame.first_lsn,
            last_lsn: frame.last_lsn,
            max_stamp: frame.max_stamp,
            epoch: frame.epoch,
            horizon,
            generation: self.shared.generation,
            worker: self.worker,
        };
        frame.buf[frame.used..padded].fill(0);
        frame::finish(&mut frame.buf[..frame.used], &header, spot.seed);
        spot.write(&frame.buf[..padded], frame.head.as_mut())
    }

    fn wake_everybody(&self) {
        for condvar in self.leaders.iter().chain(&self.patient) {
            condvar.notify_all();
        }
        self.prepared.notify_all();
    }
}

/// Poisons the log if a flight ends in a panic, ends the flight, and wakes those who wait for it.
struct Landing<'a, H: Held> {
    stream: &'a Stream<H>,
}

impl<H: Held> Drop for Landing<'_, H> {
    fn drop(&mut self) {
        let worker = self.stream.worker;
        self.stream.shared.poison.set(LogError::Panicked { worker });
        // The lock makes sure that who saw no poison is waiting by now.
        self.stream.state.lock().in_flight = None;
        self.stream.wake_everybody();
    }
}
