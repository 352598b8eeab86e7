//! The frames of one stream of one generation, in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

use super::ReadError;
use super::damage_notes::DamageNotes;
use super::file_window::Window;
use super::last_frame_position::Tail;
use super::past_created_length::nothing_after;
use super::stream_files::{Expected, Extent, LogFile, Opened, Source};
use crate::format::frame::{
    FRAME_HEADER_BYTES, FrameHeader, LogRecord, Salt, is_sound, peek, record,
};
use crate::format::log_file::{file_name, stream_dir};
use crate::format::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use crate::frame_position::FramePosition;
use crate::generation::layout_config::{Placement, Retain};
use crate::generation::{CutRule, GenerationInfo};

/// Reads one stream of one generation from its beginning to its end.
pub struct StreamReader {
    identity: u128,
    pub(super) info: GenerationInfo,
    worker: WorkerId,
    pub(super) source: Source,
    /// The path of the stream's files, which may be missing.
    home: PathBuf,
    /// The index of the extent `here`.
    pub(super) index: usize,
    pub(super) here: Option<Extent>,
    pub(super) window: Window,
    /// The offset at which the next frame is expected.
    pub(super) at: u64,
    /// The sequence it should have; unknown until the first frame where only the last log files are
    /// kept.
    pub(super) expected: Option<u64>,
    done: bool,
    pub(super) end: StreamEnd,
    /// Damage is skipped and noted here; `None`: it is an error.
    pub(super) damage: Option<DamageNotes>,
}

/// The contents of a stream, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// The sequence number of the last frame; 0 without frames.
    pub last_sequence: u64,
    /// Frames read.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of frames, padding not included.
    pub bytes: u64,
    /// The largest LSN.
    pub last_lsn: Lsn,
    /// The largest stamp.
    pub max_stamp: Stamp,
    /// The largest horizon that a frame recorded: every LSN below was hardened.
    pub horizon: Lsn,
    /// Where commits are released by epochs: what its frames have closed.
    pub closed_epoch: Epoch,
    /// Something that is no frame follows where the next frame would be: a flush was interrupted
    /// there, or a log file was recycled.
    pub torn: bool,
    /// The position of the last frame, for [`harden_tail`](super::harden_tail).
    pub(super) tail: Tail,
}

/// The last epoch through which every stream was hardened, as their ends tell it: what all of them
/// have closed, or what some frame says. Of one generation, released by epochs.
pub fn durable_epoch<'a>(ends: impl IntoIterator<Item = &'a StreamEnd>) -> Epoch {
    let ends = ends.into_iter();
    let (closed, hardened) = ends.fold((None, Epoch(0)), |(closed, hardened), end| {
        let closed = closed.map_or(end.closed_epoch, |it: Epoch| it.min(end.closed_epoch));
        (Some(closed), hardened.max(Epoch(end.horizon.0)))
    });
    hardened.max(closed.unwrap_or_default())
}

/// One flush's worth of commits.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The header of the frame.
    pub header: FrameHeader,
    /// Its position.
    pub position: FramePosition,
    /// The whole frame, header and records.
    whole: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame as it is in its file, without the padding.
    pub(crate) fn whole(&self) -> &'a [u8] {
        self.whole
    }

    /// Its records from a byte on.
    pub(super) fn bytes_from(&self, at: usize) -> &'a [u8] {
        self.whole
            .get(FRAME_HEADER_BYTES + at..)
            .unwrap_or_default()
    }

    /// Its commits, in the order in which they were appended.
    pub fn records(&self) -> impl Iterator<Item = LogRecord<'a>> + use<'a> {
        let mut rest = self.bytes_from(0);
        std::iter::from_fn(move || {
            let (record, bytes) = record(rest)?;
            rest = &rest[bytes..];
            Some(record)
        })
    }
}

impl StreamReader {
    /// Opens the stream of `worker`. `dir` is the database's `wal` directory.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if the stream's directory is missing, or a file between others;
    /// [`ReadError::BeginningLost`]; [`ReadError::Device`]; for a shared device also the errors
    /// that its head can be the cause of: that head was durable before the generation was
    /// announced, so without it there is no log.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: u128,
        info: &GenerationInfo,
        worker: WorkerId,
    ) -> Result<Self, ReadError> {
        Self::open_with((disk, dir, identity), info, worker, None)
    }

    /// Opens the stream as [`StreamReader::open`] does, for a reader that goes on behind damage: what cannot be read is
    /// absent. [`StreamReader::take_skipped_damage`] tells of it. A stream in a region is read as by `open`.
    ///
    /// # Errors
    /// [`ReadError`], if the disk cannot list the stream's files, or other things are in their place.
    pub fn open_skipping_damage(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: u128,
        info: &GenerationInfo,
        worker: WorkerId,
    ) -> Result<Self, ReadError> {
        let damage = Some(DamageNotes::default());
        Self::open_with((disk, dir, identity), info, worker, damage)
    }

    fn open_with(
        (disk, dir, identity): (Arc<dyn Disk>, &Path, u128),
        info: &GenerationInfo,
        worker: WorkerId,
        mut damage: Option<DamageNotes>,
    ) -> Result<Self, ReadError> {
        let source = Source::open(disk, dir, identity, info, worker, damage.as_mut())?;
        let expected = match info.retain {
            Retain::All | Retain::UntilRecycled => Some(info.start(worker).sequence),
            Retain::Last(_) => None,
        };
        Ok(Self {
            identity,
            info: info.clone(),
            worker,
            source,
            home: home(dir, info, worker),
            index: 0,
            here: None,
            window: Window::new(),
            at: 0,
            expected,
            done: false,
            end: StreamEnd::default(),
            damage,
        })
    }

    /// The stream's number.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Sums over the frames read; after the last frame, over the stream.
    #[must_use]
    pub fn end(&self) -> StreamEnd {
        self.end
    }

    /// The next frame, its checksum verified, or none at the end of the stream.
    ///
    /// # Errors
    /// [`ReadError`]; reading on after one gives nothing.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        match self.advance() {
            Ok(Some((header, at))) => Ok(Some(self.frame_at(header, at))),
            Ok(None) => {
                self.done = true;
                Ok(None)
            }
            Err(error) => {
                self.done = true;
                Err(error)
            }
        }
    }

    /// Goes to the next frame; the file offset is where it starts.
    pub(super) fn advance(&mut self) -> Result<Option<(FrameHeader, u64)>, ReadError> {
        if self.done {
            return Ok(None);
        }
        let sealed = self
            .info
            .seal
            .as_ref()
            .map(|seal| seal.last_sequence(usize::from(self.worker.0)));
        loop {
            if let Some(last) = sealed
                && self.end.last_sequence >= last
            {
                return Ok(None);
            }
            if self.here.is_none() && !self.enter(0)? {
                if self.damage.is_some() {
                    self.finish_skipping(sealed);
                    return Ok(None);
                }
                return match sealed {
                    Some(_) => Err(ReadError::missing(
                        &self.home.join(file_name(self.info.generation, 1)),
                        "frames of the stream were hardened",
                    )),
                    None => Ok(None),
                };
            }
            let at = self.at;
            let has_header = self.here.as_ref().is_some_and(|it| it.has_header);
            if has_header && let Some((header, records_ok)) = self.look(at)? {
                let older = header.generation < self.info.generation;
                if older && !self.source.may_be_torn() {
                    // Another generation's, before ours in the region.
                    self.at += self.padded(&header);
                    continue;
                }
                let newer = header.generation > self.info.generation;
                if newer && !self.source.may_be_torn() {
                    return self.finish(sealed);
                }
                if self.is_ours(&header) && self.expected.is_none_or(|it| it == header.sequence) {
                    if !records_ok {
                        return Err(self.damaged("its records do not add up"));
                    }
                    self.accept(&header);
                    return Ok(Some((header, at)));
                }
            }
            if self.roll()? || self.skip_damage(sealed)? {
                continue;
            }
            return self.finish(sealed);
        }
    }

    pub(super) fn frame_at(&self, header: FrameHeader, at: u64) -> Frame<'_> {
        Frame {
            header,
            position: FramePosition {
                generation: header.generation,
                worker: header.worker,
                file_number: self.end.tail.file_number,
                offset: self.file_offset(at),
                length: header.length,
            },
            whole: self.window.held(at, header.length as usize),
        }
    }

    fn accept(&mut self, header: &FrameHeader) {
        let padded = self.padded(header);
        self.end.tail = Tail {
            file_number: self.here.as_ref().map_or(0, |extent| extent.file_number),
            offset: self.at,
            bytes: padded,
            block_bytes: self.block_bytes() as u64,
        };
        self.at += padded;
        self.expected = Some(header.sequence + 1);
        let end = &mut self.end;
        end.last_sequence = header.sequence;
        end.frames += 1;
        end.records += u64::from(header.records);
        end.bytes += u64::from(header.length);
        end.last_lsn = end.last_lsn.max(header.last_lsn);
        end.max_stamp = end.max_stamp.max(header.max_stamp);
        end.horizon = end.horizon.max(header.horizon);
        if self.info.cut == CutRule::Epoch {
            end.closed_epoch = end.closed_epoch.max(header.closed_epoch());
        }
    }

    /// No frame where one could be: is this the end, or is something missing?
    fn finish(&mut self, sealed: Option<u64>) -> Result<Option<(FrameHeader, u64)>, ReadError> {
        // The search goes beyond the end from now on: no further frame is read.
        self.done = true;
        if self.damage.is_some() && self.source.may_be_torn() {
            self.finish_skipping(sealed);
            return Ok(None);
        }
        let start = self.info.start(self.worker);
        if self.end.frames == 0 && !start.is_first() {
            // It was hardened (`generation/log_start.rs`, L2), so no crash takes it away.
            return Err(ReadError::BeginningLost {
                file: self.place().0,
                worker: self.worker,
                sequence: start.sequence,
            });
        }
        if sealed.is_some() {
            return Err(self.damaged_frame());
        }
        let Some(extent) = &self.here else {
            return Ok(None);
        };
        if !self.source.may_be_torn() {
            return if self.at >= extent.end {
                self.look_beyond().map(|()| None)
            } else {
                Err(self.damaged_frame())
            };
        }
        self.look_on()?;
        Ok(None)
    }

    /// Goes to the next log file if it begins with the very frame that is missing here.
    fn roll(&mut self) -> Result<bool, ReadError> {
        let next = self.index + 1;
        if next >= self.source.len() {
            return Ok(false);
        }
        // Before the first frame, a log file may be passed over only if it was given up.
        let is_given_up = self.here.as_ref().is_some_and(|it| !it.has_header);
        let is_begun = self.expected.is_some() || is_given_up;
        let before = (self.index, self.here.take(), self.at);
        if self.enter(next)?
            && let Some(extent) = &self.here
            && extent.has_header
        {
            let at = self.at;
            if let Some((header, _)) = self.look(at)?
                && self.is_ours(&header)
                && is_begun
                && self.expected.is_none_or(|it| it == header.sequence)
            {
                return Ok(true);
            }
        }
        (self.index, self.here, self.at) = before;
        self.go_to_extent();
        Ok(false)
    }

    /// Opens an extent, if there is one.
    pub(super) fn enter(&mut self, index: usize) -> Result<bool, ReadError> {
        let extent = match self.source.file(index)? {
            None => return Ok(false),
            Some(Opened::Extent(extent)) => extent,
            Some(Opened::LogFile(log_file)) => {
                let (file, path, number) = log_file.parts();
                match self.log_file_extent(index, log_file) {
                    Ok(extent) => extent,
                    Err(error) => {
                        self.skips(error)?;
                        Self::without_header(file, path, number)
                    }
                }
            }
        };
        self.index = index;
        self.at = extent.start;
        self.here = Some(extent);
        self.go_to_extent();
        self.check_lost_name()?;
        if let Some(next) = self.source.file_ahead(index + 1) {
            let end = self.log_file_bytes().min(next.len_bytes());
            self.window.follow_with(index + 1, next, end);
        }
        Ok(true)
    }

    /// The extent of a log file, by its header.
    fn log_file_extent(&mut self, index: usize, log_file: LogFile) -> Result<Extent, ReadError> {
        let is_last = index + 1 == self.source.len();
        let log_file_bytes = self.log_file_bytes();
        let end = log_file_bytes.min(log_file.file.len_bytes());
        self.window.go_to(index, Arc::clone(&log_file.file), end);
        if self.damage.is_some() {
            // Only what cannot be read twice is damage.
            drop(self.window.get(0, BLOCK_BYTES_MAX));
        }
        let block = self.window.get(0, BLOCK_BYTES_MAX);
        let block = block.map_err(|source| log_file.failed(source))?;
        let expected = Expected {
            identity: self.identity,
            info: &self.info,
            worker: self.worker,
            log_file_bytes,
            is_last,
            is_first: index == 0,
            next_number: self.source.next_number(),
        };
        let extent = log_file.extent(block, &expected)?;
        nothing_after(&extent)?;
        Ok(extent)
    }

    /// A log file that was given up has no frame under the number of its new header: that is
    /// written, and its new name is durable, before any frame is. With one, another log file was
    /// moved over it.
    fn check_lost_name(&mut self) -> Result<(), ReadError> {
        let Some(extent) = &mut self.here else {
            return Ok(());
        };
        let Some(number) = extent.lost_name else {
            return Ok(());
        };
        let own = std::mem::replace(&mut extent.file_number, number);
        let (end, mut at) = (extent.end, extent.start);
        let mut moved = false;
        while at < end && !moved {
            let found = self.look(at)?;
            moved = found.is_some_and(|(header, _)| self.is_ours(&header));
            at += BLOCK_BYTES_MIN as u64;
        }
        if let Some(extent) = &mut self.here {
            extent.file_number = own;
        }
        if moved {
            let error = self.damaged("it is a later log file, moved over this one");
            self.skips(error)?;
        }
        Ok(())
    }

    /// Lets the window follow to the extent that is here.
    pub(super) fn go_to_extent(&mut self) {
        if let Some(extent) = &self.here {
            self.window
                .go_to(self.index, Arc::clone(&extent.file), extent.end);
        }
    }

    /// The sound frame at `at`, of any writer, and whether its records add up.
    pub(super) fn look(&mut self, at: u64) -> Result<Option<(FrameHeader, bool)>, ReadError> {
        let mut found = self.look_at(at);
        if self.damage.is_some() && matches!(found, Err(ReadError::Device { .. })) {
            // Only what cannot be read twice is damage.
            found = self.look_at(at);
        }
        match (found, &mut self.damage) {
            (Err(error @ ReadError::Device { .. }), Some(notes)) => {
                notes.is_unreadable = true;
                notes.note(error);
                Ok(None)
            }
            (found, _) => found,
        }
    }

    fn look_at(&mut self, at: u64) -> Result<Option<(FrameHeader, bool)>, ReadError> {
        let Some(extent) = &self.here else {
            return Ok(None);
        };
        let window = &mut self.window;
        let failed = |source| ReadError::Device {
            file: extent.path.clone(),
            source,
        };
        let left = extent.end.saturating_sub(at);
        if left < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let bytes = window.get(at, FRAME_HEADER_BYTES).map_err(failed)?;
        let Some(header) = peek(bytes) else {
            return Ok(None);
        };
        let length = header.length as usize;
        if u64::from(header.length) > left {
            return Ok(None);
        }
        let frame = window.get(at, length).map_err(failed)?;
        let salt = Salt::of(self.identity).at(extent.file_number, at);
        if frame.len() < length || !is_sound(frame, salt) {
            return Ok(None);
        }
        let mut rest = &frame[FRAME_HEADER_BYTES..];
        let mut records = 0;
        while let Some((_, bytes)) = record(rest) {
            rest = &rest[bytes..];
            records += 1;
        }
        Ok(Some((header, rest.is_empty() && records == header.records)))
    }

    pub(super) fn is_ours(&self, header: &FrameHeader) -> bool {
        header.generation == self.info.generation && header.worker == self.worker
    }

    pub(super) fn padded(&self, header: &FrameHeader) -> u64 {
        (header.length as usize).next_multiple_of(self.block_bytes()) as u64
    }

    /// The longest length of a log file that is not oversize, if the stream has any.
    fn log_file_bytes(&self) -> u64 {
        match self.info.placement {
            Placement::Files { log_file_bytes } => log_file_bytes,
            Placement::Shared { .. } => 0,
        }
    }

    /// The unit of the frames here.
    fn block_bytes(&self) -> usize {
        self.here
            .as_ref()
            .map_or(BLOCK_BYTES_MIN, |extent| extent.block_bytes)
    }

    /// The position of the reader, for an error.
    pub(super) fn place(&self) -> (PathBuf, u64) {
        match &self.here {
            Some(extent) => (extent.path.clone(), extent.file_offset(self.at)),
            None => (self.home.clone(), 0),
        }
    }

    /// The offset in the file, or in the device, of this offset of the current extent.
    fn file_offset(&self, at: u64) -> u64 {
        self.here
            .as_ref()
            .map_or(at, |extent| extent.file_offset(at))
    }

    /// The frame that should be here is damaged or gone.
    fn damaged_frame(&mut self) -> ReadError {
        let what = self.what_is_wrong().alone;
        self.damaged(what)
    }

    pub(super) fn damaged(&self, what: &'static str) -> ReadError {
        let (file, offset_bytes) = self.place();
        ReadError::damaged(&file, offset_bytes, what)
    }
}

fn home(dir: &Path, info: &GenerationInfo, worker: WorkerId) -> PathBuf {
    match &info.placement {
        Placement::Files { .. } => stream_dir(dir, worker),
        Placement::Shared { path, .. } => path.clone(),
    }
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReader")
            .field("generation", &self.info.generation)
            .field("worker", &self.worker)
            .field("at", &self.place())
            .finish_non_exhaustive()
    }
}
