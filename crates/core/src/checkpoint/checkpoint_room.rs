//! Disk space for the next checkpoint, reserved before the log may grow: only a checkpoint frees
//! log, so there must be room for the image of all log that is accepted.
//!
//! ```text
//!   wanted = the image, all of which may be written anew
//!          + three times the log since, and what can still be written to its files
//!          + the file that each stream may always go on to
//! ```
//! The room is reserved by a file without a name. The log asks before it creates each of its files
//! (`LogRoom`): the room that the file requires is reserved first. If the disk has less, the file
//! is refused.
//!
//! # Invariants
//! - C1. All log that was accepted since the image, or may still be accepted without asking, is
//!   covered: its next image has room, and so has the one after it, once the previous image is
//!   removed. A row takes at most twice as many bytes in an image as in the log. So L bytes of log
//!   make an image grow by up to 2 L, and two images by 4 L, of which freeing that log returns at
//!   least L.
//! - C2. If everything in its files is in the image, a stream can always go on to another file: for
//!   deletions at least, which add nothing to an image. The next checkpoint frees the previous
//!   file, which restores the room for this one.
//! - C3. While a checkpoint writes, it is lent the room that it has written and is about to write.
//!   The log cannot use that.
//!
//! So if only the database takes disk space, a checkpoint always has enough, deletions are always
//! accepted, if necessary after a checkpoint, and the space that they free can be reused. Without a
//! log file no room is required: an idle database reserves none.

use std::io;
use std::path::Path;

use namiki_log::{Grant, LogFiles, LogRoom, WantedFile};
use namiki_platform::disk::{Disk, DiskSpace, Preallocation};
use parking_lot::Mutex;

/// Bytes of room for each byte of log since the image (C1).
const ROOM_PER_LOG_BYTE: u64 = 3;
/// The least that a table takes in an image: header, a page of rows, index and footer.
const TABLE_BYTES: u64 = 16 << 10;
/// The least number of bytes by which lent room is ahead of the written bytes, in addition to what
/// a run buffers: a piece of rows, the part of it that the segment's writer buffers, its index and
/// the image's list.
const AHEAD_BYTES: u64 = 4 << 20;

/// The reserved room.
pub(super) struct CheckpointRoom {
    /// `None` if checkpoints are not taken, or the disk cannot preallocate.
    device: Option<Box<dyn Preallocation>>,
    /// The number of bytes by which lent room is ahead of the written bytes.
    ahead_bytes: u64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    taken_bytes: u64,
    /// The bytes of the present image's files.
    image_bytes: u64,
    tables: u64,
    /// The bytes of log that is not in the image, written or still to come.
    log_bytes: u64,
    /// All bytes that were granted for any commit, or covered, and not returned.
    granted_bytes: u64,
    /// For files that streams may always go on to.
    kept_bytes: u64,
    /// The bytes that are lent to the running checkpoint, and how much of that is written.
    lent_bytes: u64,
    written_bytes: u64,
    /// Granted since the last reservation because deletions pay for it; these may still be rolled
    /// back.
    credited_bytes: u64,
    /// The log has files.
    is_used: bool,
    /// No further checkpoint is taken.
    is_over: bool,
    /// The room is less than is required.
    is_short: bool,
    /// No checkpoint can be taken before a backup is done.
    is_backed_up: bool,
}

impl State {
    /// The required bytes in total, including the lent ones.
    fn wanted(&self, log_bytes: u64, kept_bytes: u64) -> u64 {
        if !self.is_used || self.is_over {
            return 0;
        }
        let of_log = log_bytes.saturating_mul(ROOM_PER_LOG_BYTE);
        let tables = self.tables.saturating_mul(TABLE_BYTES);
        [self.image_bytes, of_log, tables, kept_bytes]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl CheckpointRoom {
    /// No room yet, on the device of `dir`. Checkpoints buffer up to `held_bytes` before they write
    /// them.
    pub(super) fn new(disk: &dyn Disk, dir: &Path, takes_any: bool, held_bytes: u64) -> Self {
        let device = takes_any.then(|| disk.preallocation(dir).ok());
        Self {
            device: device.flatten().flatten(),
            ahead_bytes: AHEAD_BYTES.saturating_add(held_bytes.saturating_mul(2)),
            state: Mutex::default(),
        }
    }

    /// Resizes the reservation so that it is `wanted` together with the lent room, if another
    /// `spare` bytes stay free after the running checkpoint has been written.
    fn take(&self, state: &mut State, wanted: u64, spare: u64) -> bool {
        let Some(device) = &self.device else {
            return true;
        };
        let target = wanted.saturating_sub(state.lent_bytes);
        let ahead = state.lent_bytes.saturating_sub(state.written_bytes);
        let beside = ahead.saturating_add(spare);
        if spare > 0 && device.resize(target.saturating_add(beside)).is_err() {
            return false;
        }
        if device.resize(target).is_err() {
            return false;
        }
        state.taken_bytes = target;
        true
    }

    /// Reserves the required room, or as much of it as the disk has.
    pub(super) fn adjust(&self, tables: usize) {
        let mut state = self.state.lock();
        state.tables = tables as u64;
        self.adjust_locked(&mut state);
    }

    fn adjust_locked(&self, state: &mut State) {
        let wanted = state.wanted(state.log_bytes, state.kept_bytes);
        if wanted.saturating_sub(state.lent_bytes) == state.taken_bytes {
            state.is_short = false;
            return;
        }
        state.is_short = !self.take(state, wanted, 0);
        if !state.is_short {
            return;
        }
        // Half as much more each time.
        let target = wanted.saturating_sub(state.lent_bytes);
        let mut more = target.saturating_sub(state.taken_bytes) / 2;
        while more >= TABLE_BYTES {
            let taken = state.taken_bytes + more;
            if taken <= target && self.take(state, taken + state.lent_bytes, 0) {
                continue;
            }
            more /= 2;
        }
    }

    /// Sets the length of the image's files.
    pub(super) fn set_image(&self, image_bytes: u64) {
        self.state.lock().image_bytes = image_bytes;
    }

    /// The log has `since` bytes that are not in the image, and these files. Lent room has been
    /// written, or is no longer needed: it is reserved again.
    pub(super) fn reserve(&self, files: &LogFiles, since: u64) {
        let mut state = self.state.lock();
        // Granted, and in none of these files when they were asked for: it is being made, or has come since.
        let to_come = state.granted_bytes.saturating_sub(files.granted_bytes);
        state.log_bytes = files.unwritten_bytes + since + to_come;
        let kept_files = 2 * files.streams - files.streams_begun.min(files.streams);
        state.kept_bytes = kept_files * files.file_bytes;
        (state.lent_bytes, state.written_bytes, state.credited_bytes) = (0, 0, 0);
        self.adjust_locked(&mut state);
    }

    /// A checkpoint has written `written_bytes` bytes, and is about to write more.
    pub(super) fn lend(&self, written_bytes: u64) {
        let mut state = self.state.lock();
        let wanted = state.wanted(state.log_bytes, state.kept_bytes);
        let ahead = written_bytes.saturating_add(self.ahead_bytes);
        state.written_bytes = written_bytes;
        let lent = wanted.min(ahead);
        // In pieces.
        if lent > state.lent_bytes.saturating_add(self.ahead_bytes / 4) || lent == wanted {
            state.lent_bytes = lent.max(state.lent_bytes);
            let target = wanted.saturating_sub(state.lent_bytes);
            if target < state.taken_bytes {
                let lent = state.lent_bytes;
                self.take(&mut state, target + lent, 0);
            }
        }
    }

    /// Covers files with `unwritten_bytes` left to write, which accept any commit from now on.
    /// Returns false if the disk has no room for an image of that.
    pub(super) fn cover(&self, unwritten_bytes: u64) -> bool {
        let mut state = self.state.lock();
        let log_bytes = state.log_bytes.saturating_add(unwritten_bytes);
        let wanted = state.wanted(log_bytes, state.kept_bytes);
        let is_covered = self.take(&mut state, wanted, 0);
        if is_covered {
            state.log_bytes = log_bytes;
            state.granted_bytes += unwritten_bytes;
        }
        is_covered
    }

    /// How many bytes of log files may be kept for reuse, at most `bytes_max`: only as many that
    /// the room which they will require still fits on the disk. `image_bytes` is the size of the
    /// present image.
    pub(super) fn reusable_bytes(&self, image_bytes: u64, bytes_max: u64) -> u64 {
        let space = self
            .device
            .as_ref()
            .and_then(|it| it.space().ok())
            .flatten();
        let Some(DiskSpace { free_bytes, .. }) = space else {
            return bytes_max;
        };
        let mut state = *self.state.lock();
        state.image_bytes = image_bytes;
        let wanted = state.wanted(state.log_bytes, state.kept_bytes);
        let missing = wanted.saturating_sub(state.taken_bytes);
        let left = free_bytes.saturating_sub(missing);
        bytes_max.min(left / (1 + ROOM_PER_LOG_BYTE))
    }

    /// No further checkpoint is taken: releases all room.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        *state = State {
            granted_bytes: state.granted_bytes,
            is_over: true,
            ..State::default()
        };
        self.take(&mut state, 0, 0);
    }

    /// Whether a backup is running that delays every checkpoint.
    pub(super) fn set_backed_up(&self, is_backed_up: bool) {
        self.state.lock().is_backed_up = is_backed_up;
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.state.lock().taken_bytes
    }

    /// Whether less room is reserved than is required.
    pub(super) fn is_short(&self) -> bool {
        self.state.lock().is_short
    }
}

impl LogRoom for CheckpointRoom {
    fn grant(&self, file: WantedFile) -> io::Result<Grant> {
        let mut state = self.state.lock();
        let was_used = std::mem::replace(&mut state.is_used, true);
        let log_bytes = state.log_bytes.saturating_add(file.bytes);
        let spare = if file.takes_room { file.bytes } else { 0 };
        let kept_bytes = if file.is_kept_for {
            state.kept_bytes.saturating_sub(file.bytes)
        } else {
            state.kept_bytes
        };
        let wanted = state.wanted(log_bytes, kept_bytes);
        if file.frees_bytes.is_none() && self.take(&mut state, wanted, spare) {
            state.granted_bytes += file.bytes;
            (state.log_bytes, state.kept_bytes) = (log_bytes, kept_bytes);
            return Ok(Grant::All);
        }
        state.is_short |= file.frees_bytes.is_none();
        let wanted = state.wanted(state.log_bytes, kept_bytes);
        if file.is_kept_for || file.frees_bytes.is_some() {
            let held = state.taken_bytes.saturating_add(state.lent_bytes);
            // If other programs have taken the room, deletions may be the only help: they make the
            // image shorter. (A deletion's own frame takes less than the row did in the image,
            // except for the frame's overhead.)
            let less = held.saturating_sub(spare).min(wanted);
            let is_paid = |freed: u64| file.bytes <= freed.saturating_add(TABLE_BYTES);
            // One at a time, until a checkpoint: if they are rolled back, the image is no shorter.
            let takes_less =
                (file.frees_bytes).is_none_or(|freed| state.credited_bytes == 0 && is_paid(freed));
            let has_all = self.take(&mut state, wanted, spare);
            state.is_short |= !has_all;
            if has_all || takes_less && self.take(&mut state, less, 0) {
                if !has_all && file.frees_bytes.is_some() {
                    state.credited_bytes += file.bytes;
                }
                state.kept_bytes = kept_bytes;
                return Ok(Grant::Deletions);
            }
        }
        state.is_used = was_used;
        let help = match file.frees_bytes {
            None => "delete rows",
            Some(_) => "delete fewer rows in a transaction",
        };
        let backup = if state.is_backed_up {
            ", which waits for the backup that is under way"
        } else {
            ""
        };
        let why = format!(
            "{wanted} bytes have to be free for the next checkpoint{backup}, beside this file of {}; {help}, clear or drop a table, or \
             free some room",
            file.bytes
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    fn give_back(&self, file: WantedFile, grant: Grant) {
        let mut state = self.state.lock();
        if grant == Grant::All {
            state.log_bytes = state.log_bytes.saturating_sub(file.bytes);
            state.granted_bytes = state.granted_bytes.saturating_sub(file.bytes);
        }
        if file.is_kept_for {
            state.kept_bytes += file.bytes;
        }
    }
}

impl std::fmt::Debug for CheckpointRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.lock().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::sync::{Arc, OnceLock};

    use namiki_log::{
        Entry, ImageEffect, Log, LogConfig, LogError, Placement, Prepare, RecyclePoint, Retain,
    };
    use namiki_platform::disk::sim::{Fault, Step};
    use namiki_platform::disk::{DiskCall, HookedDisk, SimDisk};
    use namiki_platform::{Epoch, Generation, Stamp, WorkerId};

    use super::*;

    /// A log with one stream, and the room for its image.
    struct Pair {
        log: Arc<Log<()>>,
        room: Arc<CheckpointRoom>,
    }

    impl Pair {
        fn on(disk: Arc<dyn Disk>) -> Arc<Self> {
            let dir = Path::new("/db");
            disk.create_dir_all(dir).unwrap();
            let config = LogConfig {
                streams: NonZeroU16::MIN,
                group_wait_max: std::time::Duration::MAX,
                buffer_bytes: 4096,
                placement: Placement::Files {
                    log_file_bytes: 16 << 10,
                },
                prepare: Prepare::Inline,
                retain: Retain::UntilRecycled,
                payload_bytes_max: Some(100_000),
                ..LogConfig::new(1, Generation(1))
            };
            let room = Arc::new(CheckpointRoom::new(&*disk, dir, true, 0));
            let log = Log::create(disk, &dir.join("wal"), config).unwrap();
            log.keep_room(Arc::clone(&room) as _);
            Arc::new(Self { log, room })
        }

        /// As after a checkpoint that has put nothing into an image.
        fn reserve(&self) {
            let files = self.log.files();
            self.room.reserve(&files, self.log.counters().frame_bytes);
        }

        fn put(&self, bytes: usize) -> Result<(), LogError> {
            self.put_as(Grant::All, bytes)
        }

        fn put_as(&self, needs: Grant, bytes: usize) -> Result<(), LogError> {
            let stream = self.log.stream(WorkerId(0));
            let (entry, stamp, epoch) = (Entry::Commit, Stamp(1), Epoch(1));
            let appended = if bytes <= stream.buffered_bytes_max() {
                stream.append_as(needs, entry, stamp, epoch, bytes, |_, _| {}, |()| {})?
            } else {
                let oversize = stream.prepare_oversize(ImageEffect::Longer, bytes, |_| {})?;
                stream.append_oversize(entry, stamp, epoch, oversize, |()| {})?
            };
            stream.wait_hardened(appended.ticket)
        }

        /// C1, while no checkpoint runs and no file is created.
        fn assert_covered(&self, told: &str) {
            let accepted = self.log.files().unwritten_bytes + self.log.counters().frame_bytes;
            let state = *self.room.state.lock();
            assert!(
                state.log_bytes >= accepted,
                "{told}: {} of {accepted}",
                state.log_bytes
            );
            let wanted = accepted * ROOM_PER_LOG_BYTE;
            assert!(state.is_short || state.taken_bytes >= wanted, "{told}");
        }
    }

    /// Files that are being made, long frames without a number, and frames that are being written are in none of what the log
    /// has.
    #[test]
    fn what_is_under_way_stays_covered() {
        let steps = [Step::Create, Step::Rename, Step::SyncDir, Step::Append];
        for failing in steps.map(Some).into_iter().chain([None]) {
            let sim = SimDisk::new();
            // Takes room anew before each call of the disk that the log makes without its lock.
            let reserving = Arc::new(OnceLock::<Arc<Pair>>::new());
            let hooked = Arc::clone(&reserving);
            let disk = HookedDisk::new(Arc::new(sim.clone()), move |call, _| {
                if let DiskCall::Create(_)
                | DiskCall::Rename
                | DiskCall::SyncDir
                | DiskCall::Append
                | DiskCall::Write { .. } = call
                    && let Some(pair) = hooked.get()
                {
                    pair.reserve();
                }
                Ok(())
            });
            let pair = Pair::on(Arc::new(disk));
            assert!(reserving.set(Arc::clone(&pair)).is_ok());
            let lengths = [100, 3000, 50_000, 10, 12_000, 30_000, 12_000, 90_000, 3000];
            let mut refused = 0;
            for (number, bytes) in (0..60).zip(lengths.into_iter().cycle()) {
                if let Some(step) = failing
                    && number % 4 == 1
                {
                    sim.inject(Fault::once(step, number / 4 % 3, io::ErrorKind::Other));
                }
                let told = format!("{failing:?}, {number}");
                match pair.put(bytes) {
                    Ok(()) => {}
                    Err(error) if error.is_refusal() => refused += 1,
                    Err(error) if error.is_poison() => break,
                    Err(error) => panic!("{told}: {error:?}"),
                }
                pair.assert_covered(&told);
            }
            assert!(refused > 0 || failing.is_none_or(|it| it == Step::SyncDir));
        }
    }

    #[test]
    fn a_file_that_takes_all_again_stays_covered() {
        let sim = SimDisk::new();
        let pair = Pair::on(Arc::new(sim.clone()));
        pair.put(10).unwrap();
        pair.reserve();
        sim.set_capacity(Some(0));
        while pair.put(500).is_ok() {}
        let (stamp, below_lsn) = (Stamp(1), None);
        pair.log.imaged(RecyclePoint { stamp, below_lsn });
        sim.set_capacity(Some(pair.room.taken_bytes() + (40 << 10)));
        pair.put_as(Grant::Deletions, 500).unwrap();
        let restricted = pair.log.restricted();
        assert_eq!(restricted.len(), 1);
        sim.set_capacity(None);
        assert!(pair.room.cover(restricted[0].unwritten_bytes));
        pair.reserve();
        pair.log.accept_all(&restricted);
        pair.assert_covered("accepted");
        pair.put(500).unwrap();
        pair.assert_covered("written");
    }
}
