//! Appending an entry that does not fit into a buffer: it gets a frame of its own.
//!
//! ```text
//!   prepare_oversize   encode it into memory of its own, and sum it        no lock, before the commit has its place
//!                      a frame longer than a log file: write its body       in the order of commits
//!   append_oversize    flush what is pending; find the frame its place;
//!                      put it in the place of the buffer that fills        under the stream's lock, like any append
//!   flush              write the frame, or its head                        like any flush
//! ```
//! What takes long with a long entry comes before anything that other commits have to wait for: the
//! commit has no epoch yet, and no LSN. The frame that then fills is flushed like any other, by
//! whichever thread leads its batch; it has no room for further entries. When it is durable, the
//! buffer comes back, and the memory is freed.

use namiki_platform::disk::AlignedBuf;
use namiki_platform::sync::MutexGuard;
use namiki_platform::{Epoch, Stamp};

use super::Stream;
use super::append::{Appended, Entry, Preparing};
use super::log_buffer::Filling;
use super::state::State;
use crate::config::GroupResource;
use crate::error::LogError;
use crate::format::BLOCK_BYTES_MAX;
use crate::format::frame::{
    Digest, ENTRY_OVERHEAD_BYTES, FRAME_HEADER_BYTES, head_bytes, put_record,
};
use crate::generation::layout_config::Layout;
use crate::log_target::log_room::ImageEffect;
use crate::log_target::{LogTarget, UnnumberedFile};

/// An entry that is too long for a buffer, encoded. Dropped without having been appended, it leaves
/// nothing behind.
#[must_use = "it is to be appended"]
pub struct OversizeEntry {
    effect: ImageEffect,
    payload_bytes: usize,
    payload_crc: u32,
    /// The frame; if its body is written, its head.
    buf: AlignedBuf,
    /// The file for the body of a frame that is longer than a log file.
    file: Option<UnnumberedFile>,
}

impl OversizeEntry {
    fn frame_bytes(&self) -> usize {
        ENTRY_OVERHEAD_BYTES + self.payload_bytes
    }
}

impl<H: GroupResource> Stream<H> {
    /// Encodes an entry of more than [`Stream::buffered_bytes_max`], to be appended by
    /// [`Stream::append_oversize`] of this stream. `encode` fills the payload, exactly
    /// `payload_bytes` of it, which are zero before. No lock is held; what is longer than a log
    /// file is written here, if there is room for what its `effect` makes of the next image.
    ///
    /// # Errors
    /// [`LogError::CommitTooLarge`], [`LogError::DiskFull`], [`LogError::Closed`],
    /// [`LogError::Forked`], or the error that poisoned the log, perhaps this one.
    pub fn prepare_oversize(
        &self,
        effect: ImageEffect,
        payload_bytes: usize,
        encode: impl FnOnce(&mut [u8]),
    ) -> Result<OversizeEntry, LogError> {
        let bytes_max = self.limits.payload_bytes_max;
        if payload_bytes > bytes_max {
            return Err(LogError::CommitTooLarge {
                bytes: payload_bytes,
                bytes_max,
            });
        }
        self.shared.check_process()?;
        self.check_poison()?;
        let frame_bytes = ENTRY_OVERHEAD_BYTES + payload_bytes;
        let mut buf = AlignedBuf::zeroed(frame_bytes.next_multiple_of(BLOCK_BYTES_MAX));
        let payload = &mut buf[ENTRY_OVERHEAD_BYTES..frame_bytes];
        encode(payload);
        let mut entry = OversizeEntry {
            effect,
            payload_bytes,
            payload_crc: crc32c::crc32c(payload),
            buf,
            file: None,
        };
        if let Some(maker) = &self.maker
            && !maker.takes(frame_bytes, self.limits.marker_room)
        {
            let block = self.known_block_bytes()?;
            let frame = &entry.buf[..frame_bytes];
            let room = self.shared.room.get();
            let written = maker.write_body(frame, effect, block, self.limits.marker_room, room);
            let written = written.inspect_err(|error| {
                if error.is_full() {
                    self.state.lock().target.set_short_of_room();
                }
            });
            entry.file = Some(written.map_err(|error| self.shared.poison.if_poisonous(error))?);
            let mut head = AlignedBuf::zeroed(head_bytes(block));
            let bytes = head.len();
            head.copy_from_slice(&entry.buf[..bytes]);
            entry.buf = head;
        }
        Ok(entry)
    }

    /// The unit of the stream's frames; a log file is made ready if there has been none to tell.
    fn known_block_bytes(&self) -> Result<usize, LogError> {
        let known = || match &self.state.lock().target {
            LogTarget::Files(target) => target.known_block_bytes(),
            LogTarget::Region(target) => Some(target.block_bytes),
        };
        if let Some(block) = known() {
            return Ok(block);
        }
        self.prepare_log_files(1)?;
        Ok(known().unwrap_or(BLOCK_BYTES_MAX))
    }

    /// Appends an oversize entry, as [`Stream::append`] does others. It is a group of its own:
    /// where that is flushed by the committer, [`Appended::group_is_full`] says so.
    ///
    /// # Errors
    /// As [`Stream::append`].
    ///
    /// # Panics
    /// As [`Stream::append`].
    pub fn append_oversize(
        &self,
        entry: Entry,
        stamp: Stamp,
        epoch: Epoch,
        oversize: OversizeEntry,
        hold: impl FnOnce(&mut H),
    ) -> Result<Appended, LogError> {
        self.shared.check_process()?;
        let _wake = self.wake_on_drop();
        let _turn = self.take_turn()?;
        self.append_alone(entry, stamp, epoch, oversize, hold)
    }

    /// See S8. The stream is not closed before the turn ends.
    fn take_turn(&self) -> Result<Turn<'_, H>, LogError> {
        let mut state = self.state.lock();
        loop {
            self.check_poison()?;
            if state.closed {
                return Err(LogError::Closed);
            }
            if !state.has_turn {
                state.has_turn = true;
                return Ok(Turn { stream: self });
            }
            state = self.prepared.wait(state);
        }
    }

    fn append_alone(
        &self,
        entry: Entry,
        stamp: Stamp,
        epoch: Epoch,
        mut oversize: OversizeEntry,
        hold: impl FnOnce(&mut H),
    ) -> Result<Appended, LogError> {
        let mut guard = self.state.lock();
        loop {
            guard = self.complete_if_written(guard)?;
            self.check_poison()?;
            if let Some(through) = guard.batches.under_way() {
                guard = self.join(guard, through)?;
            } else if guard.buffers.filling().records > 0 {
                // First: with what is pending in it, the present file may not be one that the next
                // image frees.
                guard = if self.has_file_behind_pending(&guard, &oversize) {
                    self.lead(guard)?
                } else {
                    self.make_room(guard, 0)?
                };
            } else if self.has_place(&mut guard, &oversize)? {
                break;
            } else {
                guard = self.find_place(guard, &mut oversize)?;
            }
        }

        debug_assert!(entry != Entry::Part || self.shared.epochs.is_none());
        let tripwire = self.shared.tripwire(self.worker);
        let state = &mut *guard;
        let lsn = self.draw(state);
        let region_block = state
            .buffers
            .filling()
            .head
            .as_ref()
            .map(|block| block.len());
        let used = oversize.frame_bytes();
        let mut frame = Filling::new(std::mem::take(&mut oversize.buf), region_block);
        let record = &mut frame.buf[FRAME_HEADER_BYTES..ENTRY_OVERHEAD_BYTES];
        let payload_bytes = oversize.payload_bytes;
        put_record(
            record,
            payload_bytes,
            stamp,
            self.record_word(entry, epoch, lsn),
        );
        frame.digest = Digest::of_record(record, oversize.payload_crc, payload_bytes);
        hold(&mut frame.held);
        frame.used = used;
        state.buffers.replace(frame);
        let mut appended = self.count(state, entry, stamp, epoch, lsn);
        appended.group_is_full = entry != Entry::Part;
        tripwire.disarm();
        if appended.group_is_full && self.layout == Layout::Single {
            return Ok(self.flush_under_lock(guard, appended));
        }
        drop(guard);
        self.shared.wake_flusher();
        Ok(appended)
    }

    /// Whether there is a file for the frame behind what is pending.
    fn has_file_behind_pending(&self, state: &State<H>, oversize: &OversizeEntry) -> bool {
        let target = &state.target;
        let padded = |bytes| target.padded(bytes) as u64;
        match target {
            LogTarget::Files(log_files) if oversize.file.is_none() => {
                let frame = padded(oversize.frame_bytes() + self.limits.marker_room);
                log_files.spares() > 0
                    || padded(state.buffers.filling().used) + frame
                        <= log_files.left_for(oversize.effect.needs())
            }
            LogTarget::Files(_) | LogTarget::Region(_) => true,
        }
    }

    /// Whether the frame can be written now: nothing is pending.
    fn has_place(&self, state: &mut State<H>, oversize: &OversizeEntry) -> Result<bool, LogError> {
        if let Some(log_file) = &oversize.file {
            return Ok(log_file.has_number());
        }
        let (bytes, needs) = (oversize.frame_bytes(), oversize.effect.needs());
        if !state.target.fits(bytes + self.limits.marker_room, needs) {
            return Ok(false);
        }
        if state
            .target
            .is_restricted(bytes + self.limits.marker_room, needs)
        {
            return Err(self.is_restricted(state));
        }
        state.target.accept(needs);
        let padded = state.target.padded(bytes) as u64;
        if let LogTarget::Region(target) = &mut state.target {
            let tripwire = self.shared.tripwire(self.worker);
            let announced = target.announce(padded);
            tripwire.disarm();
            announced.map_err(|error| self.shared.poison.if_poisonous(error))?;
        }
        Ok(true)
    }

    /// Finds the frame its place, or at least gets closer to it: the caller looks again.
    fn find_place<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        oversize: &mut OversizeEntry,
    ) -> Result<MutexGuard<'a, State<H>>, LogError> {
        let (Some(maker), Some(log_file)) = (&self.maker, &mut oversize.file) else {
            return self.make_room(state, 0);
        };
        let LogTarget::Files(target) = &mut state.target else {
            return Ok(state);
        };
        if target.preparing {
            return Ok(self.prepared.wait(state));
        }
        let numbering = target.begin_numbering();
        let abandoned = Preparing { stream: self };
        drop(state);
        let numbered = maker.number(log_file, &numbering);
        let mut state = self.state.lock();
        std::mem::forget(abandoned);
        let result = match (numbered, &mut state.target) {
            (Ok(log_file), LogTarget::Files(target)) => {
                target.put_oversize(log_file);
                Ok(())
            }
            (Err(error), target) => {
                if let LogTarget::Files(target) = target {
                    target.give_up_numbering(numbering);
                }
                if error.is_full() {
                    state.target.set_short_of_room();
                }
                self.shared.call_flusher();
                Err(self.shared.poison.if_poisonous(error))
            }
            (Ok(_), LogTarget::Region(_)) => Ok(()),
        };
        self.prepared.notify_all();
        result.map(|()| state)
    }
}

/// The turn of one thread, until this is dropped. The stream's lock is not held then.
struct Turn<'a, H: GroupResource> {
    stream: &'a Stream<H>,
}

impl<H: GroupResource> Drop for Turn<'_, H> {
    fn drop(&mut self) {
        self.stream.state.lock().has_turn = false;
        self.stream.prepared.notify_all();
    }
}

impl std::fmt::Debug for OversizeEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OversizeEntry")
            .field("payload_bytes", &self.payload_bytes)
            .finish_non_exhaustive()
    }
}
