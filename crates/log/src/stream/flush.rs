//! Writing a frame: a flush batch, from sealing to completion.
//!
//! A flush leader waits for its write. A full group may also be flushed asynchronously: where the
//! disk can write on its own, its worker continues, and the next thread that needs something of the
//! stream completes the flush.
//!
//! Paper: pwal §2.1, §2.2

use std::num::NonZeroU32;

use namiki_platform::clock::nanoseconds;
use namiki_platform::sync::MutexGuard;
use namiki_platform::{Epoch, Lsn};

use super::flush_batch::{FlushBatch, SubmittedBatch};
use super::flush_timer::FlushTime;
use super::group_policy::BatchCompleted;
use super::state::{State, group_size_class};
use super::{Stream, Ticket};
use crate::config::{GroupResource, Prepare};
use crate::error::LogError;
use crate::format::frame::{self, FrameHeader};
use crate::frame_position::FramePosition;
use crate::generation::layout_config::Layout;
use crate::log_target::{FrameFacts, LogTarget, WritePosition};

impl<H: GroupResource> Stream<H> {
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
        let _wake = self.wake_on_drop();
        let state = self.state.lock();
        let through = state.appended;
        self.harden_through(state, through)
    }

    /// Whether a group may hold anything until it is hardened.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        let state = self.state.lock();
        state.batches.under_way().is_some() || !state.buffers.filling().held.is_empty()
    }

    /// Begins to harden the commit and all before it, and does not wait for that if the disk can
    /// write on its own and the group is large enough for that to pay
    /// ([`LogConfig::async_flush_min_commits`]); otherwise it does. It does wait for the flush
    /// before: one at a time is under way. If another thread has begun to harden the commit, what
    /// came after it is left to fill its own group.
    ///
    /// A write begun here is hardened at the next append, flush or wait, at a call of
    /// [`Stream::poll`], or by the flusher.
    ///
    /// # Errors
    /// As [`Stream::wait_hardened`]; but an error of the write that was begun comes later.
    ///
    /// [`LogConfig::async_flush_min_commits`]: crate::LogConfig::async_flush_min_commits
    pub fn begin_flush(&self, ticket: Ticket) -> Result<(), LogError> {
        self.check_ticket(ticket)?;
        self.shared.check_process()?;
        let _wake = self.wake_on_drop();
        let through = ticket.number;
        let mut state = self.state.lock();
        while state.hardened < through && state.batches.under_way() < Some(through) {
            self.check_poison()?;
            let async_flush_min_commits = self.shared.async_flush_min_commits.map(NonZeroU32::get);
            let commits = state.buffers.filling().commits;
            let submits = async_flush_min_commits.is_some_and(|size| commits >= size);
            state = match state.batches.under_way() {
                None if submits => self.submit(state)?,
                None => self.lead(state)?,
                Some(_) => self.join_at_once(state, through)?,
            };
        }
        Ok(())
    }

    /// Completes the unattended flush, if there is one that has been written. Does not wait, not
    /// even for a thread that holds the stream's lock right now.
    ///
    /// Where no thread was allowed for the flusher, it also flushes the group that fills, if that
    /// would not wait for more commits: `group_wait_max` after the first look at it.
    ///
    /// # Errors
    /// The error that poisoned the log, if the batch was completed and is not hardened.
    pub fn poll(&self) -> Result<(), LogError> {
        let flushes = self.shared.polls_flush;
        let may_be_submitted = self.shared.async_flush_min_commits.is_some();
        if !(flushes || may_be_submitted) || !self.has_pending() {
            return Ok(());
        }
        self.shared.check_process()?;
        let _wake = self.wake_on_drop();
        let Some(state) = self.state.try_lock() else {
            return Ok(());
        };
        let mut state = self.complete_if_written(state)?;
        if flushes && state.may_lead() && state.waits_until().is_none() {
            drop(self.lead(state)?);
        }
        Ok(())
    }

    /// Hardens the commits up to `through`, which were appended: attends to the batch that carries
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
            state = if state.batches.under_way().is_some() {
                self.join_at_once(state, through)?
            } else {
                self.lead(state)?
            };
        }
    }

    /// As [`Stream::join`]; and no leader of the next flush waits for more commits before it
    /// carries this one.
    fn join_at_once<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        through: u64,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        state.group_wait.want(through);
        self.join(state, through)
    }

    /// Advances the flush under way: completes it if it is unattended, and otherwise waits as a
    /// waiter for the commit `through`.
    pub(super) fn join<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        through: u64,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.shared.check_process()?;
        match state.batches.join() {
            Some(submitted) => self.complete(state, submitted),
            None => {
                let batch = state.batches.carrier_of(through);
                Ok(self.flush_waiters.wait(batch, state))
            }
        }
    }

    /// Leads a batch with everything that is in the filling buffer, which is not empty. None may be
    /// in flight.
    pub(super) fn lead<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.check_poison()?;
        self.shared.check_process()?;
        let completion = CompletionGuard { stream: self };
        // Declared after `completion`, so that a panic releases it first.
        let mut guard = guard;
        let (mut batch, position) = self.seal(&mut guard);
        let kept = match self.layout {
            Layout::Single => Some(guard),
            Layout::PerWorker => {
                drop(guard);
                None
            }
        };
        self.write_header(&mut batch, &position);
        self.write(completion, batch, &position, kept)
    }

    /// Begins a batch like [`Stream::lead`], and leaves it alone if the disk can write on its own.
    pub(super) fn submit<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        self.shared.check_process()?;
        let completion = CompletionGuard { stream: self };
        let mut guard = guard;
        let (mut batch, position) = self.seal(&mut guard);
        drop(guard);
        self.write_header(&mut batch, &position);
        let bytes = batch.padded.min(batch.frame.buf.len());
        match position.begin(std::mem::take(&mut batch.frame.buf), bytes) {
            Ok(write) => {
                let path = position.path;
                let mut guard = self.state.lock();
                guard.counters.submitted += 1;
                guard.batches.submit(SubmittedBatch { batch, path, write });
                std::mem::forget(completion);
                // S3, S7.
                self.wake_all();
                self.pass_on_demand(&guard);
                Ok(guard)
            }
            Err(buf) => {
                batch.frame.buf = buf;
                self.write(completion, batch, &position, None)
            }
        }
    }

    /// Completes a batch that was submitted, when its write has come to its end.
    pub(super) fn complete<'a>(
        &'a self,
        guard: MutexGuard<'a, State<H>>,
        submitted: SubmittedBatch<H>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let completion = CompletionGuard { stream: self };
        drop(guard);
        let SubmittedBatch {
            mut batch,
            path,
            write,
        } = submitted;
        let (buf, outcome) = write.wait();
        batch.frame.buf = buf;
        let written = outcome.map_err(|source| LogError::device("writing", &path, source));
        self.finish_batch(completion, batch, written, None)
    }

    /// As [`Stream::complete`], if there is a flush that has been written.
    pub(super) fn complete_if_written<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        if state.batches.is_unattended() {
            self.shared.check_process()?;
        }
        match state.batches.join_if_written() {
            Some(submitted) => self.complete(state, submitted),
            None => Ok(state),
        }
    }

    /// Seals the filling buffer: it becomes the batch's frame.
    fn seal(&self, state: &mut State<H>) -> (FlushBatch<H>, WritePosition) {
        let frame = state.buffers.seal();
        state.group_wait.sealed();
        state.max_stamp = state.max_stamp.max(frame.max_stamp);
        let padded = state.target.padded(frame.used);
        state.batches.begin(state.appended, padded as u64);
        let sequence = state.batches.begun();
        let facts = FrameFacts {
            sequence,
            max_stamp: frame.max_stamp,
            last_lsn: frame.last_lsn,
        };
        let position = state.target.assign(padded as u64, &facts);
        self.kept.note(&state.target);
        let wants_spare = match &mut state.target {
            LogTarget::Files(target) if target.wants_spare() => {
                target.requested = self.shared.prepare == Prepare::Background;
                target.requested
            }
            _ => false,
        };
        let frame_position = FramePosition {
            generation: self.shared.generation,
            worker: self.worker,
            file_number: position.file_number,
            offset: position.offset,
            // A frame is at most 1 GiB.
            length: frame.used as u32,
        };
        let batch = FlushBatch {
            frame,
            padded,
            sequence,
            position: frame_position,
            closed: self.close_epoch(),
            horizon: Lsn(0),
            wants_spare,
            sealed_at: state.timer.begin(),
        };
        (batch, position)
    }

    /// Makes the frame ready to be written.
    fn write_header(&self, batch: &mut FlushBatch<H>, position: &WritePosition) {
        if batch.wants_spare {
            self.shared.request_log_file(self.index);
        }
        batch.horizon = match &self.shared.epochs {
            Some(epochs) => Lsn(epochs.scan().0),
            None if self.shared.horizon.sequencer.draws() => self.shared.horizon.scan(),
            None => Lsn(0),
        };
        let first_lsn = match &self.shared.epochs {
            Some(_) => Lsn(batch.closed.0),
            None => batch.frame.first_lsn,
        };
        let frame = &mut batch.frame;
        let header = FrameHeader {
            length: frame.used as u32,
            records: frame.records,
            sequence: batch.sequence,
            first_lsn,
            last_lsn: frame.last_lsn,
            max_stamp: frame.max_stamp,
            epoch: frame.epoch,
            horizon: batch.horizon,
            generation: self.shared.generation,
            worker: self.worker,
        };
        let (used, end) = (
            frame.used.min(frame.buf.len()),
            batch.padded.min(frame.buf.len()),
        );
        frame.buf[used..end].fill(0);
        let bytes = &mut frame.buf[..used];
        frame::finish(bytes, &header, frame.digest, position.salt);
    }

    /// Writes the frame and waits for it. `kept` is the stream's lock, if the flush keeps it; it
    /// comes after `completion`, so that a panic releases it first.
    fn write<'a>(
        &'a self,
        completion: CompletionGuard<'a, H>,
        mut batch: FlushBatch<H>,
        position: &WritePosition,
        kept: Option<MutexGuard<'a, State<H>>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let frame = &mut batch.frame;
        // The body of an oversize frame may be written already.
        let bytes = batch.padded.min(frame.buf.len());
        let written = position.write(&mut frame.buf[..bytes], frame.head.as_mut());
        self.finish_batch(completion, batch, written, kept)
    }

    /// Ends a batch; for the order of `completion` and `kept` see [`Stream::write`].
    fn finish_batch<'a>(
        &'a self,
        completion: CompletionGuard<'a, H>,
        batch: FlushBatch<H>,
        written: Result<(), LogError>,
        kept: Option<MutexGuard<'a, State<H>>>,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let FlushBatch {
            mut frame,
            padded,
            position,
            closed,
            horizon,
            sealed_at,
            ..
        } = batch;
        let written = written.and_then(|()| self.shared.poison.check());
        if written.is_ok() {
            frame.held.written(position);
            frame.held.release();
        }
        let mut guard = kept.unwrap_or_else(|| self.state.lock());
        std::mem::forget(completion);
        let state = &mut *guard;
        let batch = state.batches.begun();
        let through = state.batches.end();
        if let Err(error) = written {
            state.buffers.failed(frame);
            self.wake_all();
            let error = self.shared.poison.set(error);
            self.announce_end();
            return Err(error);
        }
        state.counters.flushes += 1;
        state.counters.frame_bytes += padded as u64;
        state.counters.commits += u64::from(frame.commits);
        state.counters.group_sizes[group_size_class(frame.commits)] += 1;
        if let Some(FlushTime { at, took }) = state.timer.end(sealed_at) {
            state.group_wait.completed(BatchCompleted {
                at,
                took,
                carried: frame.commits,
                buffered: state.buffers.filling().commits,
            });
        }
        state.counters.flush_ns += nanoseconds(state.timer.counted());
        state.buffers.written(frame);
        // S7.
        self.pass_on_demand(state);
        state.hardened = through.expect("only its completion ends a batch (U1)");
        // S2.
        self.progress.note_hardened(state.hardened);
        let filling = state.buffers.filling();
        if self.shared.horizon.sequencer.draws() {
            self.shared
                .horizon
                .hardened_below(self.index, filling.low_water_mark());
        }
        if let Some(epochs) = &self.shared.epochs {
            epochs.completed(self.index, filling.epoch_min, closed, Epoch(horizon.0));
        }
        // S3.
        self.flush_waiters.ended(batch);
        self.ack_waiters.announce();
        Ok(guard)
    }

    pub(super) fn wake_all(&self) {
        self.flush_waiters.wake_all();
        self.prepared.notify_all();
    }
}

/// Poisons the log if a flush ends in a panic, ends the flush, and wakes its waiters.
struct CompletionGuard<'a, H: GroupResource> {
    stream: &'a Stream<H>,
}

impl<H: GroupResource> Drop for CompletionGuard<'_, H> {
    fn drop(&mut self) {
        let worker = self.stream.worker;
        self.stream.shared.poison.set(LogError::Panicked { worker });
        // The lock makes sure that a thread that saw no poison is waiting by now.
        self.stream.state.lock().batches.end();
        self.stream.wake_all();
        self.stream.announce_end();
    }
}
