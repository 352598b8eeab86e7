//! Appending to a stream: whole commits, or the parts of one.
//!
//! Paper: pwal §4.2.3, Algorithm 2

use std::io;

use namiki_platform::sync::MutexGuard;
use namiki_platform::{Epoch, Lsn, Stamp};

use super::state::State;
use super::{Limits, Stream, Ticket};
use crate::config::GroupResource;
use crate::error::LogError;
use crate::format::frame::{RECORD_HEADER_BYTES, epoch_word, put_record};
use crate::generation::layout_config::Layout;
use crate::log_target::log_room::{Grant, WantedFile};
use crate::log_target::{Job, LogFile, LogFileMaker, LogTarget};

/// Number of a frame's bytes that are summed at once: few enough to be in the caches still, and
/// enough for several sums to run side by side.
const DIGEST_BYTES: usize = 16 << 10;

/// The kind of an appended entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A commit, or the end of one with parts that were appended before. Where commits are released
    /// by epochs, it depends on others of its epoch.
    Commit,
    /// A commit that has read nothing of an epoch beyond
    /// [`Log::hardened_epoch`](crate::Log::hardened_epoch), as the caller has seen that. It may be
    /// acknowledged when it is hardened, whatever becomes of its epoch: its frame certifies what it
    /// has read.
    Independent,
    /// Something else: it counts in no group. Not where commits are released by epochs.
    Part,
}

/// An entry is in the buffer. It is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the commit that fills a group has to flush it"]
pub struct Appended {
    /// The ticket for later waits.
    pub ticket: Ticket,
    /// This commit filled its group: the caller does what it does before a flush (its write phase,
    /// its unlocking) and then calls [`Stream::begin_flush`]. Exactly one commit of a group is told
    /// so; under [`Layout::Single`] none, because the group was flushed before the lock was
    /// released (pwal Algorithm 1), unless that failed.
    pub group_is_full: bool,
}

impl<H: GroupResource> Stream<H> {
    /// The largest payload that [`Stream::append`] accepts. A longer one is oversize.
    #[must_use]
    pub fn buffered_bytes_max(&self) -> usize {
        self.limits.buffered_bytes_max
    }

    /// The largest payload of all (`LogConfig::payload_bytes_max`).
    #[must_use]
    pub fn payload_bytes_max(&self) -> usize {
        self.limits.payload_bytes_max
    }

    /// Appends one entry and returns once it is in the buffer, *not* on disk.
    ///
    /// Under the stream's lock, in this order: make room, which may wait for a flush or lead one;
    /// publish a lower bound and draw an LSN, if any are drawn; `encode` fills the payload, exactly
    /// `payload_bytes` of it (old bytes are in there before); `hold` adds to what the group holds
    /// until it is hardened; under [`Layout::Single`] the flush, if that fills the group. The
    /// closures must not touch the log, and should be short.
    ///
    /// # Errors
    /// [`LogError::CommitTooLarge`], [`LogError::DiskFull`], [`LogError::RegionFull`],
    /// [`LogError::Closed`], [`LogError::Forked`], or the error that poisoned the log, perhaps in
    /// the flush that was to make room. In every case no LSN was drawn, neither closure was called,
    /// and nothing of this commit will ever be on disk.
    ///
    /// # Panics
    /// When a closure or the disk does. The log is then poisoned, because an LSN may be drawn and
    /// lost.
    pub fn append(
        &self,
        entry: Entry,
        stamp: Stamp,
        epoch: Epoch,
        payload_bytes: usize,
        encode: impl FnOnce(&mut [u8], Lsn),
        hold: impl FnOnce(&mut H),
    ) -> Result<Appended, LogError> {
        self.append_as(Grant::All, entry, stamp, epoch, payload_bytes, encode, hold)
    }

    /// [`Stream::append`] of an entry for which a file suffices with this grant:
    /// [`Grant::Deletions`] if it makes no image longer.
    ///
    /// # Errors
    /// As [`Stream::append`].
    ///
    /// # Panics
    /// As [`Stream::append`].
    #[expect(clippy::too_many_arguments, reason = "those of `append`, and one more")]
    pub fn append_as(
        &self,
        needs: Grant,
        entry: Entry,
        stamp: Stamp,
        epoch: Epoch,
        payload_bytes: usize,
        encode: impl FnOnce(&mut [u8], Lsn),
        hold: impl FnOnce(&mut H),
    ) -> Result<Appended, LogError> {
        let Limits {
            buffer_bytes,
            buffered_bytes_max: bytes_max,
            marker_room,
            ..
        } = self.limits;
        if payload_bytes > bytes_max {
            return Err(LogError::CommitTooLarge {
                bytes: payload_bytes,
                bytes_max,
            });
        }
        // Before the lock, which a thread that is not there may hold in a forked child.
        self.shared.check_process()?;
        let need = RECORD_HEADER_BYTES + payload_bytes;
        let _wake = self.wake_on_drop();
        let mut guard = self.state.lock();
        loop {
            // First, because it releases the lock: what is checked below holds until the end.
            guard = self.complete_if_written(guard)?;
            self.check_poison()?;
            if guard.closed {
                return Err(LogError::Closed);
            }
            if guard.has_turn {
                guard = self.prepared.wait(guard);
                continue;
            }
            let end = guard.buffers.filling().used + need;
            if end <= buffer_bytes && guard.target.fits(end + marker_room, needs) {
                if guard.target.is_restricted(end + marker_room, needs) {
                    return Err(self.is_restricted(&mut guard));
                }
                guard.target.accept(needs);
                break;
            }
            guard = self.make_room(guard, end)?;
        }

        debug_assert!(entry != Entry::Part || self.shared.epochs.is_none());
        let tripwire = self.shared.tripwire(self.worker);
        let state = &mut *guard;
        let lsn = self.draw(state);
        let filling = state.buffers.filling_mut();
        let record = &mut filling.buf[filling.used..filling.used + need];
        put_record(
            record,
            payload_bytes,
            stamp,
            self.record_word(entry, epoch, lsn),
        );
        encode(&mut record[RECORD_HEADER_BYTES..], lsn);
        hold(&mut filling.held);
        filling.used += need;
        if filling.digest.missing(filling.used) >= DIGEST_BYTES {
            filling.digest.extend(&filling.buf[..filling.used]);
        }
        let appended = self.count(state, entry, stamp, epoch, lsn);
        let first_of_group = state.buffers.filling().records == 1;
        tripwire.disarm();
        if appended.group_is_full
            && self.layout == Layout::Single
            && guard.batches.under_way().is_none()
        {
            return Ok(self.flush_under_lock(guard, appended));
        }
        drop(guard);
        if first_of_group {
            self.shared.wake_flusher();
        }
        Ok(appended)
    }

    /// Draws an LSN, if any are drawn. From here until the entry is counted nothing may fail (S4).
    pub(super) fn draw(&self, state: &mut State<H>) -> Lsn {
        if !self.shared.horizon.sequencer.draws() {
            return Lsn(0);
        }
        let misses = &mut state.counters.cas_misses;
        self.shared.horizon.draw(self.index, misses)
    }

    /// The word in a record in place of its LSN.
    pub(super) fn record_word(&self, entry: Entry, epoch: Epoch, lsn: Lsn) -> Lsn {
        match &self.shared.epochs {
            Some(_) => epoch_word(epoch, entry == Entry::Independent),
            None => lsn,
        }
    }

    /// Counts an entry that is in the buffer that fills.
    pub(super) fn count(
        &self,
        state: &mut State<H>,
        entry: Entry,
        stamp: Stamp,
        epoch: Epoch,
        lsn: Lsn,
    ) -> Appended {
        let filling = state.buffers.filling_mut();
        if filling.records == 0 {
            filling.first_lsn = lsn;
        }
        filling.records += 1;
        let is_commit = entry != Entry::Part;
        filling.commits += u32::from(is_commit);
        filling.last_lsn = lsn;
        filling.max_stamp = filling.max_stamp.max(stamp);
        filling.epoch = filling.epoch.max(epoch);
        if let Some(epochs) = &self.shared.epochs {
            filling.epoch_min = filling.epoch_min.min(epoch.0);
            epochs.appended(self.index, epoch, entry == Entry::Independent);
        }
        state.appended += 1;
        self.progress.note_appended(state.appended);
        Appended {
            ticket: Ticket {
                worker: self.worker,
                number: state.appended,
                lsn,
            },
            group_is_full: is_commit && state.group_wait.is_completed_by(filling.commits),
        }
    }

    /// Algorithm 1 keeps the lock from the insertion to the end of the flush; so a batch is under
    /// way before only while a panic that ended it is being cleaned up.
    pub(super) fn flush_under_lock(
        &self,
        guard: MutexGuard<'_, State<H>>,
        appended: Appended,
    ) -> Appended {
        // This failure, too, poisons the log; the caller's own flush reports it.
        let flushed = self.lead(guard).is_ok();
        Appended {
            group_is_full: !flushed,
            ..appended
        }
    }

    /// Makes room for a frame that is `end` bytes long with the commit at hand, or at least gets
    /// closer to it: the caller looks again.
    pub(super) fn make_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        end: usize,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        if end > self.limits.buffer_bytes {
            return match state.batches.under_way() {
                Some(through) => self.join(state, through),
                None => self.lead(state),
            };
        }
        match &mut state.target {
            LogTarget::Region(target) => Err(target.refuse()),
            LogTarget::Files(target) if target.preparing => Ok(self.prepared.wait(state)),
            LogTarget::Files(_) => {
                let (state, made) = self.prepare(state);
                made.map(|()| state)
            }
        }
    }

    /// Makes the next log file ready. Waiting appenders look again whether that worked or not.
    pub(super) fn prepare<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
    ) -> (MutexGuard<'a, State<H>>, Result<(), LogError>) {
        if let Err(forked) = self.shared.check_process() {
            return (state, Err(forked));
        }
        let (Some(maker), LogTarget::Files(target)) = (&self.maker, &mut state.target) else {
            return (state, Ok(()));
        };
        target.preparing = true;
        let mut job = target.job();
        let mut wanted = target.wanted(&job);
        let abandoned = Preparing { stream: self };
        drop(state);
        let made = self.make_granted(maker, &mut job, &mut wanted);
        let mut state = self.state.lock();
        std::mem::forget(abandoned);
        let result = match (made, &mut state.target) {
            (Ok(log_file), LogTarget::Files(target)) => {
                target.preparing = false;
                target.put_spare(log_file);
                target.is_short_of_room = false;
                if wanted.takes_room {
                    state.counters.zero_bytes += wanted.bytes;
                }
                Ok(())
            }
            (Err(error), LogTarget::Files(target)) => {
                target.give_up(&job);
                target.is_short_of_room = error.is_full();
                let error = self.shared.poison.if_poisonous(error);
                self.shared.call_flusher();
                Err(error)
            }
            (made, LogTarget::Region(_)) => made.map(drop),
        };
        self.prepared.notify_all();
        (state, result)
    }

    /// Makes a log file once it is granted. One that was to be made from an old file is made anew
    /// if that is gone, and has to be granted as that.
    fn make_granted(
        &self,
        maker: &LogFileMaker,
        job: &mut Job,
        wanted: &mut WantedFile,
    ) -> Result<LogFile, LogError> {
        loop {
            let granted = self.shared.grant(*wanted);
            let granted = granted.map_err(|why| maker.not_granted(job.number, why))?;
            if let Some(log_file) = maker.make(job, granted)? {
                return Ok(log_file);
            }
            wanted.takes_room = true;
        }
    }

    /// Refuses an entry that is not only deletions.
    #[cold]
    pub(super) fn is_restricted(&self, state: &mut State<H>) -> LogError {
        let (Some(maker), LogTarget::Files(target)) = (&self.maker, &mut state.target) else {
            return LogError::Closed;
        };
        target.is_short_of_room = true;
        let mut restricted = target.restricted_for_many();
        let number = restricted.next().map_or(0, |(number, _)| number);
        let why = "what is free is kept for deletions, and for the next checkpoint";
        maker.not_granted(number, io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Makes the next log file ready ahead of time, if no other thread has. A failure is met again,
    /// and reported, by the commit that needs the log file.
    pub(crate) fn prepare_ahead(&self) {
        let state = self.state.lock();
        if let LogTarget::Files(target) = &state.target
            && !target.preparing
            && target.spares() == 0
            && !state.closed
        {
            drop(self.prepare(state));
        }
    }

    /// Makes a log file ready behind the current one, if there is none.
    ///
    /// # Errors
    /// As [`Stream::append`]. Nothing has changed then.
    pub fn prepare_file(&self) -> Result<(), LogError> {
        self.prepare_log_files(1)
    }

    /// The next frame begins a log file, however much is left of the current one. On return that
    /// file is ready, and everything appended before is hardened. Only where log files differ in
    /// length ([`LogConfig::first_file_bytes`](crate::LogConfig::first_file_bytes)): a reader
    /// would take it for damage elsewhere.
    ///
    /// No other thread may append to the stream until this returns; it would wait for the others.
    ///
    /// # Errors
    /// As [`Stream::append`]. Nothing has changed then.
    ///
    /// # Panics
    /// In a log of another kind.
    pub fn begin_file(&self) -> Result<(), LogError> {
        loop {
            self.flush()?;
            self.prepare_file()?;
            let mut state = self.state.lock();
            self.check_poison()?;
            let is_idle = state.hardened == state.appended;
            let LogTarget::Files(target) = &mut state.target else {
                panic!("there are no log files");
            };
            assert!(target.may_differ(), "a log file ends when it is full");
            if is_idle && target.spares() > 0 {
                target.begin_next();
                return Ok(());
            }
        }
    }

    /// Makes log files until `count` are ready. See `Log::prepare_log_files`.
    pub(crate) fn prepare_log_files(&self, count: usize) -> Result<(), LogError> {
        let mut state = self.state.lock();
        loop {
            self.check_poison()?;
            let LogTarget::Files(target) = &state.target else {
                return Ok(());
            };
            if state.closed {
                return Err(LogError::Closed);
            }
            if target.preparing {
                state = self.prepared.wait(state);
            } else if target.spares() < count {
                let (back, made) = self.prepare(state);
                made?;
                state = back;
            } else {
                return Ok(());
            }
        }
    }
}

/// Poisons the log if the disk panics while a log file is made ready, and wakes its waiters.
pub(super) struct Preparing<'a, H: GroupResource> {
    pub(super) stream: &'a Stream<H>,
}

impl<H: GroupResource> Drop for Preparing<'_, H> {
    fn drop(&mut self) {
        let worker = self.stream.worker;
        self.stream.shared.poison.set(LogError::Panicked { worker });
        self.stream.shared.call_flusher();
        self.stream.state.lock().target.stop_preparing();
        self.stream.prepared.notify_all();
    }
}
