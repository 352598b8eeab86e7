//! Log files: fixed length, zeroed before use, written once from front to back, recycled.
//!
//! They may begin short and grow with what is written ([`FileLengths`]).
//!
//! A log file is made ready (created or renamed, header written, name synced) before a commit that
//! needs it is accepted. Renaming an old log file cannot bring its frames back: their checksums
//! hold only in the log file they were written to.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_platform::{Generation, Lsn, WorkerId};

use super::WritePosition;
use super::contents::{Beginning, FrameFacts, FrameRun, LogFileContents, Superfluous};
use crate::error::LogError;
use crate::format::BLOCK_BYTES_MAX;
use crate::format::frame::Salt;
use crate::format::log_file::{LogFileHeader, file_name, stream_dir};
use crate::generation::layout_config::Retain;
use crate::generation::log_start::StreamStart;
use crate::log_target::log_room::{Grant, GrantedFile, LogFiles, RestrictedFile, WantedFile};

/// A log file that is ready to be written.
pub(crate) struct LogFile {
    pub(super) number: u64,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: Arc<Path>,
    /// Its length.
    pub(super) bytes: u64,
    /// Whether it was made for one frame, and is longer than the others for it.
    pub(super) is_oversize: bool,
    /// The entries that it may take.
    pub(super) grant: Grant,
    /// Its part of [`LogFiles::granted_bytes`].
    pub(super) granted_bytes: u64,
}

/// An order for a log file: its number, and the old one it is to be made from, until that has got
/// its new name.
pub(crate) struct Job {
    pub(crate) number: u64,
    /// Its length.
    pub(crate) bytes: u64,
    recycled: Option<u64>,
    /// The leftover of an earlier attempt under this number could not be removed.
    has_leftover: bool,
}

/// An order for an oversize log file's number.
pub(crate) struct Numbering {
    pub(super) number: u64,
    /// The spare that had it, until its name is another's.
    replaced: Option<LogFile>,
}

/// The lengths of a stream's log files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLengths {
    /// Of the first one, and of the shortest.
    pub(crate) first: u64,
    /// Of the longest that is not oversize.
    pub(crate) longest: u64,
    /// Whether they differ, and a file may end before it is full.
    pub(crate) may_differ: bool,
}

pub(crate) struct LogFileTarget {
    lengths: FileLengths,
    pub(crate) block_bytes: usize,
    /// Whether a thread is making a spare right now.
    pub(crate) preparing: bool,
    /// Whether a file was refused because the disk was full, since one was made or room was sought
    /// last.
    pub(crate) is_short_of_room: bool,
    /// Whether a frame that needs a file of its own was, since room was sought last: files for
    /// others help it nothing.
    pub(crate) has_refused_frame: bool,
    /// Whether the background was asked for a spare.
    pub(crate) requested: bool,
    retain: Retain,
    salt: Salt,
    current: Option<LogFile>,
    /// The facts about its frames.
    contents: Option<LogFileContents>,
    /// First byte of the current log file that belongs to no frame.
    used: u64,
    /// The next frame goes to the first spare log file, whatever is left of the current one.
    rolls: bool,
    /// Log files that are ready, in the order of their numbers.
    spares: VecDeque<LogFile>,
    next_number: u64,
    /// The leftover of an attempt to make the next one could not be removed.
    has_leftover: bool,
    /// Log files before the current one, in the order of their numbers. All their frames are
    /// hardened.
    behind: VecDeque<LogFileContents>,
    /// The bytes of those.
    behind_bytes: u64,
    /// The bytes of the spare whose number is being given to an oversize log file: the spare may
    /// come back.
    replaced_bytes: u64,
    /// See [`LogFiles`].
    granted_bytes: u64,
    /// Log files to be written again, under other numbers.
    recyclable: VecDeque<u64>,
    /// Set if the last image covers all of the current log file, and no log file is behind it: the
    /// next image frees the file once there is another one.
    imaged: Option<Superfluous>,
    /// The largest LSN in log files that were given up.
    recycled_lsn: Lsn,
}

impl LogFileTarget {
    pub(crate) fn new(identity: u128, retain: Retain, lengths: FileLengths) -> Self {
        Self {
            lengths,
            block_bytes: BLOCK_BYTES_MAX,
            preparing: false,
            is_short_of_room: false,
            has_refused_frame: false,
            requested: false,
            retain,
            salt: Salt::of(identity),
            current: None,
            contents: None,
            used: 0,
            rolls: false,
            spares: VecDeque::new(),
            next_number: 1,
            has_leftover: false,
            behind: VecDeque::new(),
            behind_bytes: 0,
            replaced_bytes: 0,
            granted_bytes: 0,
            recyclable: VecDeque::new(),
            imaged: None,
            recycled_lsn: Lsn(0),
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.current_bytes() - self.used
    }

    /// Room in the current file for a frame with entries that need this grant.
    pub(crate) fn left_for(&self, needs: Grant) -> u64 {
        if needs == Grant::All && self.has_oversize_deletions() {
            0
        } else {
            self.left()
        }
    }

    /// Whether the current file was made for one frame of deletions. Its restriction is never
    /// lifted, however much room the disk has: other entries go to the next file.
    fn has_oversize_deletions(&self) -> bool {
        let is_restricted = |it: &LogFile| it.is_oversize && it.grant == Grant::Deletions;
        self.current.as_ref().is_some_and(is_restricted)
    }

    /// The frame that fills has an entry that needs this grant.
    pub(crate) fn accept(&mut self, needs: Grant) {
        self.rolls |= needs == Grant::All && self.has_oversize_deletions();
    }

    fn current_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |log_file| log_file.bytes)
    }

    pub(crate) fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Whether it is time to make the next log file ready.
    pub(crate) fn wants_spare(&self) -> bool {
        self.spares.is_empty()
            && !self.preparing
            && !self.requested
            && self.used > self.current_bytes() / 2
    }

    /// The unit of frames, once a log file has been made.
    pub(crate) fn known_block_bytes(&self) -> Option<usize> {
        (self.next_number > 1).then_some(self.block_bytes)
    }

    /// The next file to make.
    pub(crate) fn job(&mut self) -> Job {
        let recycled = self.recyclable.pop_front();
        Job {
            number: self.next_number,
            bytes: if recycled.is_some() {
                self.lengths.longest
            } else {
                self.next_bytes()
            },
            recycled,
            has_leftover: self.has_leftover,
        }
    }

    /// The length of the next file, by how much of the last one was used.
    fn next_bytes(&self) -> u64 {
        let FileLengths { first, longest, .. } = self.lengths;
        let bytes = match (self.spares.back(), &self.current) {
            (Some(last), _) => last.bytes,
            (None, None) => first,
            (None, Some(current)) => {
                let (used, bytes) = (self.used, current.bytes);
                if used > bytes / 2 {
                    bytes.saturating_mul(2)
                } else if used < bytes / 4 {
                    bytes / 2
                } else {
                    bytes
                }
            }
        };
        let bytes = bytes.clamp(first, longest);
        bytes.next_multiple_of(BLOCK_BYTES_MAX as u64).min(longest)
    }

    /// Whether log files differ in length, and may end before they are full.
    pub(crate) fn may_differ(&self) -> bool {
        self.lengths.may_differ
    }

    /// The next frame begins a log file, whatever is left of the current one. There must be a
    /// spare.
    pub(crate) fn begin_next(&mut self) {
        debug_assert!(!self.spares.is_empty());
        self.rolls = self.current.is_some();
    }

    /// The file of an order, as permission for it is asked.
    pub(crate) fn wanted(&self, job: &Job) -> WantedFile {
        let is_kept_for = self.current.is_none() || self.imaged.is_some();
        WantedFile {
            bytes: job.bytes,
            takes_room: job.recycled.is_none(),
            is_kept_for: is_kept_for && self.spares.is_empty(),
            frees_bytes: None,
        }
    }

    /// The entries that a frame of this length may have, if one of them needs `needs`.
    pub(crate) fn grant_for(&self, padded: u64, needs: Grant) -> Grant {
        let log_file = if padded <= self.left_for(needs) {
            self.current.as_ref()
        } else {
            self.spares.front()
        };
        log_file.map_or(Grant::All, |log_file| log_file.grant)
    }

    /// The files for many frames that take only deletions: their numbers and unwritten bytes. The
    /// rest of an oversize file of deletions is too short for many.
    pub(crate) fn restricted_for_many(&self) -> impl Iterator<Item = (u64, u64)> {
        let restricted = self.restricted_log_files();
        let for_many = restricted.filter(|(it, _)| !it.is_oversize);
        for_many.map(|(it, left)| (it.number, left))
    }

    /// The files that take deletions alone: number, and what is not written.
    pub(crate) fn restricted(&self) -> impl Iterator<Item = (u64, u64)> {
        let restricted = self.restricted_log_files();
        restricted.map(|(it, left)| (it.number, left))
    }

    /// The same, and what is not written of each.
    fn restricted_log_files(&self) -> impl Iterator<Item = (&LogFile, u64)> {
        let left = self.left();
        let current = self.current.iter().map(move |it| (it, left));
        let files = current.chain(self.spares.iter().map(|it| (it, it.bytes)));
        files.filter(|(it, _)| it.grant == Grant::Deletions)
    }

    /// A file takes any commit from now on, if it is still one that can be written to.
    pub(crate) fn accept_all(&mut self, file: &RestrictedFile) {
        for log_file in self.current.iter_mut().chain(&mut self.spares) {
            if log_file.number == file.number {
                log_file.grant = Grant::All;
            }
        }
        self.granted_bytes += file.unwritten_bytes;
        let is_restricted = self.restricted_for_many().next().is_some();
        self.is_short_of_room &= is_restricted;
    }

    /// Adds what is there.
    pub(crate) fn count(&self, log_file_bytes: u64, into: &mut LogFiles) {
        let restricted: u64 = self.restricted().map(|(_, left)| left).sum();
        let spares: u64 = self.spares.iter().map(|it| it.bytes).sum();
        into.unwritten_bytes += self.left() + spares + self.replaced_bytes - restricted;
        into.granted_bytes += self.granted_bytes;
        into.streams_begun += u64::from(self.current.is_some() || !self.spares.is_empty());
        into.file_bytes = into.file_bytes.max(log_file_bytes);
    }

    /// An image is durable that has made this superfluous, and what it frees was given up.
    pub(crate) fn imaged(&mut self, superfluous: Superfluous) {
        let is_all = |it: &LogFileContents| superfluous.has(&it.frames);
        let is_superfluous = self.behind.is_empty() && self.contents.as_ref().is_some_and(is_all);
        self.imaged = is_superfluous.then_some(superfluous);
    }

    /// No thread is making a log file ready any more, and it is not.
    pub(crate) fn stop_preparing(&mut self) {
        self.preparing = false;
        self.replaced_bytes = 0;
        self.requested = false;
    }

    /// Takes back an order that could not be carried out. An old log file that kept its name is the
    /// first to be used again: left where it is, there would be a gap behind it once the next one
    /// gets another name.
    pub(crate) fn give_up(&mut self, job: &Job) {
        self.stop_preparing();
        self.has_leftover = job.has_leftover;
        if let Some(old) = job.recycled {
            self.recyclable.push_front(old);
        }
    }

    /// Takes a log file that was made for [`LogFileTarget::job`].
    pub(crate) fn put_spare(&mut self, log_file: LogFile) {
        self.block_bytes = log_file.file.block_bytes();
        self.next_number = log_file.number + 1;
        self.has_leftover = false;
        self.granted_bytes += log_file.granted_bytes;
        self.spares.push_back(log_file);
        self.requested = false;
    }

    /// Begins to give the next number to an oversize log file: that of the first spare, which is
    /// replaced, if there is one. No frame counts on a spare now.
    pub(crate) fn begin_numbering(&mut self) -> Numbering {
        self.preparing = true;
        let replaced = self.spares.pop_front();
        let takes_all = |spare: &&LogFile| spare.grant == Grant::All;
        self.replaced_bytes = (replaced.iter().find(takes_all)).map_or(0, |spare| spare.bytes);
        Numbering {
            number: (replaced.as_ref()).map_or(self.next_number, |spare| spare.number),
            replaced,
        }
    }

    /// The number was not given away: the spare that has it is still there.
    pub(crate) fn give_up_numbering(&mut self, numbering: Numbering) {
        self.stop_preparing();
        if let Some(spare) = numbering.replaced {
            self.spares.push_front(spare);
        }
    }

    /// An oversize log file has its number, and the next frame is the one that it was made for.
    pub(crate) fn put_oversize(&mut self, log_file: LogFile) {
        self.stop_preparing();
        self.block_bytes = log_file.file.block_bytes();
        // Its name has replaced what an attempt has left under its number.
        self.has_leftover &= log_file.number != self.next_number;
        self.next_number = self.next_number.max(log_file.number + 1);
        self.granted_bytes += log_file.granted_bytes;
        self.spares.push_front(log_file);
        self.rolls = true;
    }

    pub(crate) fn assign(&mut self, padded: u64, frame: &FrameFacts) -> WritePosition {
        let rolls = std::mem::take(&mut self.rolls);
        if rolls || padded > self.left() {
            self.roll(frame);
        }
        if let Some(contents) = &mut self.contents {
            contents.frames.add(frame);
            self.imaged = self.imaged.filter(|it| it.has(&contents.frames));
        }
        let log_file = self
            .current
            .as_ref()
            .expect("a frame is accepted only when it has its place (P1)");
        let offset = self.used;
        self.used += padded;
        WritePosition {
            file: Arc::clone(&log_file.file),
            path: Arc::clone(&log_file.path),
            file_number: log_file.number,
            offset,
            rest: None,
            salt: self.salt.at(log_file.number, offset),
            head: None,
        }
    }

    /// Goes on to the first spare log file, which `frame` begins.
    fn roll(&mut self, frame: &FrameFacts) {
        self.current = self.spares.pop_front();
        self.imaged = None;
        self.used = self.block_bytes as u64;
        let next = self.current.as_ref().map(|log_file| LogFileContents {
            number: log_file.number,
            bytes: log_file.bytes,
            frames: FrameRun::begins_with(frame.sequence),
        });
        if let Some(old) = std::mem::replace(&mut self.contents, next) {
            self.behind_bytes += old.bytes;
            self.behind.push_back(old);
        }
        // One flush is in flight at a time, so every frame behind this one is hardened.
        if let Retain::Last(kept) = self.retain {
            while self.behind.len() + 1 > kept.get() as usize
                && let Some(old) = self.give_up_first()
            {
                self.recyclable.push_back(old.number);
            }
        }
    }

    fn give_up_first(&mut self) -> Option<LogFileContents> {
        let old = self.behind.pop_front()?;
        self.behind_bytes -= old.bytes;
        self.recycled_lsn = self.recycled_lsn.max(old.frames.last_lsn());
        Some(old)
    }

    /// The bytes of log files that hold frames.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.behind_bytes + self.current_bytes()
    }

    /// The earliest beginning of the stream, if the superfluous part is removed; `hardened` is the
    /// sequence of the last hardened frame.
    pub(crate) fn beginning(&self, superfluous: Superfluous, hardened: u64) -> Beginning {
        let kept = || self.behind.iter().chain(&self.contents);
        let gone = match self.retain {
            Retain::UntilRecycled => superfluous.prefix(kept().map(|it| &it.frames), hardened),
            Retain::All | Retain::Last(_) => 0,
        };
        let recycled = kept().take(gone).map(|it| it.frames.last_lsn());
        let first = kept().nth(gone);
        Beginning {
            start: first.map_or(StreamStart::FIRST, |contents| StreamStart {
                file_number: contents.number,
                sequence: contents.frames.first_sequence,
                offset: 0,
            }),
            recycled_lsn: recycled.max().unwrap_or_default().max(self.recycled_lsn),
        }
    }

    /// The beginning of the stream without the log files before this one, as far as they may go;
    /// `hardened` is the sequence of the last hardened frame.
    pub(crate) fn beginning_at(&self, file_number: u64, hardened: u64) -> StreamStart {
        let kept = || self.behind.iter().chain(&self.contents);
        let mut first = kept().next();
        if self.retain == Retain::UntilRecycled {
            let pairs = kept().zip(kept().skip(1));
            let goes = pairs.take_while(|(file, next)| {
                file.number < file_number && next.frames.first_sequence <= hardened
            });
            first = goes.last().map_or(first, |(_, next)| Some(next));
        }
        first.map_or(StreamStart::FIRST, |contents| StreamStart {
            file_number: contents.number,
            sequence: contents.frames.first_sequence,
            offset: 0,
        })
    }

    /// Gives up the log files before this one. They are kept to be written again as long as all of
    /// those have no more than `reuse_bytes` together, from which they are taken off; the numbers
    /// and lengths of the others, which are to be removed, are returned. Without effect unless log
    /// files may be recycled.
    pub(crate) fn recycle_before(
        &mut self,
        file_number: u64,
        log_file_bytes: u64,
        reuse_bytes: &mut u64,
    ) -> Vec<(u64, u64)> {
        let mut removed = Vec::new();
        if self.retain != Retain::UntilRecycled {
            return removed;
        }
        while self
            .behind
            .front()
            .is_some_and(|it| it.number < file_number)
            && let Some(old) = self.give_up_first()
        {
            // One of another length cannot be written again.
            if old.bytes != log_file_bytes {
                removed.push((old.number, old.bytes));
            } else {
                self.recyclable.push_back(old.number);
            }
        }
        let reused = (*reuse_bytes / log_file_bytes).min(self.recyclable.len() as u64);
        *reuse_bytes -= reused * log_file_bytes;
        let removable = self.recyclable.split_off(reused as usize);
        removed.extend(removable.into_iter().map(|number| (number, log_file_bytes)));
        removed
    }
}

/// Makes log files ready. It knows the disk and holds no lock.
pub(crate) struct LogFileMaker {
    pub(super) frame_bytes_max: u32,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(crate) log_file_bytes: u64,
    pub(super) identity: u128,
    pub(super) generation: Generation,
    pub(super) worker: WorkerId,
    /// The number of oversize log files made.
    pub(super) oversize: AtomicU64,
}

impl LogFileMaker {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        wal: &Path,
        log_file_bytes: u64,
        identity: u128,
        generation: Generation,
        worker: WorkerId,
        frame_bytes_max: u32,
    ) -> Self {
        Self {
            frame_bytes_max,
            disk,
            dir: stream_dir(wal, worker),
            log_file_bytes,
            identity,
            generation,
            worker,
            oversize: AtomicU64::new(0),
        }
    }

    /// Creates the stream's directory and makes sure that this generation has no file in it.
    pub(crate) fn open_dir(&self) -> Result<(), LogError> {
        let failed = |source| LogError::device("opening", &self.dir, source);
        self.disk.create_dir_all(&self.dir).map_err(failed)?;
        for entry in self.disk.list(&self.dir).map_err(failed)? {
            if let Some((generation, _)) = crate::format::log_file::parse_file_name(&entry.path)
                && generation == self.generation
            {
                return Err(LogError::GenerationExists {
                    generation,
                    path: entry.path,
                });
            }
        }
        Ok(())
    }

    /// Removes the log file that was given up.
    pub(crate) fn remove(&self, number: u64) -> Result<(), (PathBuf, io::Error)> {
        let path = self.dir.join(file_name(self.generation, number));
        let removed = self.disk.remove(&path);
        removed.map_err(|source| (path, source))
    }

    /// Makes a log file ready: on return its header and its name are durable. `None` if the old
    /// log file that it was to be made from is gone, as when another program has removed it: the
    /// order is then for a new file, which takes room.
    pub(crate) fn make(
        &self,
        job: &mut Job,
        granted: GrantedFile,
    ) -> Result<Option<LogFile>, LogError> {
        let path = self.dir.join(file_name(self.generation, job.number));
        if job.has_leftover {
            // It may be gone, and not durably so.
            let gone = self
                .take_back(&path)
                .and_then(|_| self.disk.sync_dir(&self.dir));
            gone.map_err(|source| LogError::preparing(&path, source))?;
            job.has_leftover = false;
        }
        match self.try_make(job, &path) {
            Ok(file) => Ok(file.map(|file| LogFile {
                number: job.number,
                file,
                path: path.into(),
                bytes: job.bytes,
                is_oversize: false,
                grant: granted.grant(),
                granted_bytes: granted.used(),
            })),
            // Half a log file is no use, and the next attempt starts afresh: not before what is
            // left of this one is gone.
            Err(source) => {
                job.has_leftover = self.take_back(&path).is_err();
                Err(LogError::preparing(&path, source))
            }
        }
    }

    /// A file was not granted.
    pub(crate) fn not_granted(&self, number: u64, why: io::Error) -> LogError {
        let path = self.dir.join(file_name(self.generation, number));
        LogError::preparing(&path, why)
    }

    /// Removes what an attempt has left, durably. An old log file may have its new header already;
    /// if its new name was lost in a crash after the next attempt, there would be two headers of
    /// one number.
    fn take_back(&self, path: &Path) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.disk.sync_dir(&self.dir),
        }
    }

    fn try_make(&self, job: &mut Job, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let is_zeroed = job.recycled.is_none();
        let file = match job.recycled {
            Some(old) => {
                let old = self.dir.join(file_name(self.generation, old));
                let renamed = self.disk.rename(&old, path);
                if renamed.as_ref().is_err_and(is_not_found) {
                    job.recycled = None;
                    return Ok(None);
                }
                renamed?;
                job.recycled = None;
                self.disk.open(path)?
            }
            None => self.disk.create(path, job.bytes)?,
        };
        let mut block = AlignedBuf::zeroed(file.block_bytes());
        LogFileHeader {
            identity: self.identity,
            number: job.number,
            log_file_bytes: job.bytes,
            generation: self.generation,
            block_bytes: file.block_bytes() as u32,
            worker: self.worker,
            is_zeroed,
            frame_bytes_max: self.frame_bytes_max,
            is_oversize: false,
        }
        .write(&mut block);
        file.write_durable(0, &block)?;
        self.disk.sync_dir(&self.dir)?;
        Ok(Some(file))
    }
}

fn is_not_found(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
