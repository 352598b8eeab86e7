//! A stream's region of a device that all streams share.
//!
//! Generations follow each other in the region's ring: each begins where the head of the one before
//! says that its frames end, over whatever an interrupted flush left there. Frames are overwritten
//! when an image has made them superfluous, and the manifest says so (`format/region.rs`, R3): a prefix of this
//! generation's, and generations before as a whole. So that it can be told what is, the target
//! remembers of each 64th of the ring what it holds; that takes no memory while it goes round.
//!
//! Paper: pwal §5.7

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_platform::{Generation, Lsn, WorkerId};

use super::contents::{Beginning, FrameFacts, FrameRun, Superfluous};
use super::{FrameRest, WritePosition};
use crate::error::LogError;
use crate::format::Found;
use crate::format::frame::Salt;
use crate::format::region::{
    REGION_BLOCK_BYTES_MIN, RegionHeader, Ring, SLOTS_BYTES_MAX, region_base,
};
use crate::generation::GenerationInfo;
use crate::generation::layout_config::{Placement, Retain};
use crate::generation::log_start::StreamStart;

/// The number of stretches of a ring of which the target remembers the contents.
pub(crate) const STRETCHES: u64 = 64;

/// Frames of a ring that go together: at least a 64th of it, but for the last stretch, that is
/// being written.
struct Stretch {
    /// The offset of its first frame.
    offset: u64,
    frames: FrameRun,
}

pub(crate) struct RegionTarget {
    pub(crate) block_bytes: usize,
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    /// The offset of the region in the file.
    base: u64,
    ring: Ring,
    salt: Salt,
    retain: Retain,
    /// The head as of the last frame that has its place.
    head: RegionHeader,
    /// The beginnings of the kept frames of earlier generations, in their order.
    earlier: VecDeque<(Generation, u64)>,
    /// The kept stretches of this generation.
    stretches: VecDeque<Stretch>,
    /// From here on nothing is overwritten (R3). It is at or before the end, by no more than the
    /// ring's length.
    kept_from: u64,
    /// The largest LSN in frames that were given up.
    recycled_lsn: Lsn,
    /// A frame found no room since something was given up.
    is_full: bool,
}

/// The parameters of writing a region.
pub(crate) struct RegionOptions<'a> {
    pub(crate) region_bytes: u64,
    pub(crate) identity: u128,
    pub(crate) generation: Generation,
    pub(crate) worker: WorkerId,
    pub(crate) frame_bytes_max: u32,
    pub(crate) retain: Retain,
    /// The generations of which something is kept; `None` if that is not known, and all is.
    pub(crate) kept: Option<&'a [GenerationInfo]>,
}

/// Opens the device, or creates the file, that all regions share.
pub(crate) fn open_shared(
    disk: &dyn Disk,
    path: &Path,
    streams: usize,
    region_bytes: u64,
) -> Result<Arc<dyn DiskFile>, LogError> {
    // `LogConfig::check` made sure that this is a number.
    let bytes = region_bytes.saturating_mul(streams as u64);
    let file = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk
            .create(path, bytes)
            .map_err(|source| LogError::preparing(path, source))?,
        other => other.map_err(|source| LogError::device("opening", path, source))?,
    };
    // Also for an existing file: a crash may have come between its creation and this sync.
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
        .map_err(|source| LogError::preparing(path, source))?;
    if file.len_bytes() < bytes {
        return Err(LogError::DeviceTooSmall {
            path: path.to_owned(),
            bytes: file.len_bytes(),
            streams,
            region_bytes,
        });
    }
    Ok(file)
}

impl RegionTarget {
    pub(crate) fn open(
        file: Arc<dyn DiskFile>,
        path: Arc<Path>,
        options: &RegionOptions<'_>,
    ) -> Result<Self, LogError> {
        let RegionOptions {
            region_bytes,
            identity,
            generation,
            worker,
            retain,
            kept,
            ..
        } = *options;
        let base = region_base(worker, region_bytes)
            .ok_or_else(|| invalid(format!("region_bytes is {region_bytes}, too large")))?;
        let mut head = first_head(&*file, &path, base, options)?;
        head.writes += 1;
        let block_bytes = head.block_bytes as usize;
        let ring = Ring::of_region(base, region_bytes, block_bytes);
        let earlier = match kept {
            Some(kept) => earlier_frames(kept, region_bytes, worker, &head),
            // Of whichever there were.
            None if head.end > first_offset(&head) => {
                VecDeque::from([(Generation(generation.0 - 1), first_offset(&head))])
            }
            None => VecDeque::new(),
        };
        let begins = earlier.iter().map(|(_, begin)| *begin);
        // Recovery has looked for all that are kept, so they are there.
        let kept_from = begins.min().unwrap_or(head.end);
        let kept_from = kept_from.max(head.end.saturating_sub(ring.len_bytes()));
        let target = Self {
            block_bytes,
            file,
            path,
            base,
            ring,
            salt: Salt::of(identity),
            retain,
            kept_from,
            head,
            earlier,
            // One more is begun before the first is given up.
            stretches: VecDeque::with_capacity(STRETCHES as usize + 2),
            recycled_lsn: Lsn(0),
            is_full: false,
        };
        target.write_head()?;
        Ok(target)
    }

    /// Writes the head as it is. At first, without frames, it takes the slot that the generation
    /// before would have used next: a head that could not be written then can no longer become
    /// readable.
    fn write_head(&self) -> Result<(), LogError> {
        let mut block = AlignedBuf::zeroed(self.block_bytes);
        self.head.write(&mut block);
        self.file
            .write_durable(self.slot(), &block)
            .map_err(|source| LogError::device("writing", &self.path, source))
    }

    fn slot(&self) -> u64 {
        self.base + (self.head.writes & 1) * self.block_bytes as u64
    }

    /// Announces the length of the next frame in the head, durably: a reader has to search that far
    /// behind the end. No frame is in flight.
    pub(crate) fn announce(&mut self, padded: u64) -> Result<(), LogError> {
        if padded <= u64::from(self.head.frame_bytes_max) {
            return Ok(());
        }
        // A frame is at most 1 GiB.
        self.head.frame_bytes_max = padded as u32;
        self.head.writes += 1;
        self.write_head()
    }

    /// The bytes of frames that are kept, those of earlier generations included.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.head.end - self.kept_from
    }

    /// The length of the ring, if its frames may be recycled.
    pub(crate) fn ring_bytes_recycled(&self) -> Option<u64> {
        (self.retain == Retain::UntilRecycled).then(|| self.ring.len_bytes())
    }

    pub(crate) fn left(&self) -> u64 {
        self.ring.len_bytes() - self.kept_bytes()
    }

    /// Whether a frame found no room since something was given up, or soon none may: a quarter of
    /// the ring is left.
    pub(crate) fn is_short_of_room(&self) -> bool {
        let is_short = |ring_bytes| self.is_full || self.left() < ring_bytes / 4;
        self.ring_bytes_recycled().is_some_and(is_short)
    }

    /// There is no room for a frame.
    pub(crate) fn refuse(&mut self) -> LogError {
        self.is_full = true;
        LogError::RegionFull {
            path: self.path.to_path_buf(),
            worker: self.head.worker,
            region_bytes: self.head.region_bytes,
        }
    }

    pub(crate) fn assign(&mut self, padded: u64, frame: &FrameFacts) -> WritePosition {
        self.note(frame);
        let offset = self.base + self.head.end;
        self.head.end += padded;
        self.head.sequence = frame.sequence;
        self.head.writes += 1;
        let slot = self.slot();
        let before_cut = self.ring.bytes_to_end(offset);
        WritePosition {
            file: Arc::clone(&self.file),
            path: Arc::clone(&self.path),
            file_number: 0,
            offset: self.ring.device_offset(offset),
            rest: (before_cut < padded).then(|| FrameRest {
                // A frame is at most 1 GiB.
                from: before_cut as usize,
                offset: self.ring.device_offset(offset + before_cut),
            }),
            salt: self.salt.at(0, offset),
            head: Some((slot, self.head)),
        }
    }

    /// Remembers a frame that begins at the end.
    fn note(&mut self, frame: &FrameFacts) {
        let stretch_bytes = self.ring.len_bytes() / STRETCHES;
        let end = self.head.end;
        let is_long_enough = |stretch: &Stretch| end - stretch.offset >= stretch_bytes;
        if self.stretches.back().is_none_or(is_long_enough) {
            self.stretches.push_back(Stretch {
                offset: end,
                frames: FrameRun::begins_with(frame.sequence),
            });
        }
        if let Some(stretch) = self.stretches.back_mut() {
            stretch.frames.add(frame);
        }
    }

    /// See [`LogTarget::beginning`](super::LogTarget::beginning).
    pub(crate) fn beginning(&self, superfluous: Superfluous, hardened: u64) -> Beginning {
        if self.retain != Retain::UntilRecycled {
            return Beginning {
                start: StreamStart::FIRST,
                recycled_lsn: Lsn(0),
            };
        }
        let runs = self.stretches.iter().map(|stretch| &stretch.frames);
        let gone = superfluous.prefix(runs, hardened);
        let recycled = self.stretches.iter().take(gone);
        let recycled = recycled.map(|stretch| stretch.frames.last_lsn());
        let (offset, sequence) = match self.stretches.get(gone) {
            Some(stretch) => (stretch.offset, stretch.frames.first_sequence),
            None => (self.head.start, StreamStart::FIRST.sequence),
        };
        Beginning {
            start: StreamStart {
                sequence,
                offset,
                ..StreamStart::FIRST
            },
            recycled_lsn: recycled.max().unwrap_or_default().max(self.recycled_lsn),
        }
    }

    /// Gives up the frames before this offset, and the generations before `oldest`: a durable
    /// manifest says so (R3). Without effect unless frames may be recycled.
    pub(crate) fn recycle_before(&mut self, offset: u64, oldest: Generation) {
        if self.retain != Retain::UntilRecycled {
            return;
        }
        self.earlier.retain(|(generation, _)| *generation >= oldest);
        while self.stretches.front().is_some_and(|it| it.offset < offset)
            && let Some(gone) = self.stretches.pop_front()
        {
            self.recycled_lsn = self.recycled_lsn.max(gone.frames.last_lsn());
        }
        let own = self.stretches.front().map_or(self.head.end, |it| it.offset);
        let earlier = self.earlier.iter().map(|(_, begin)| *begin);
        self.kept_from = earlier.min().unwrap_or(own).min(own);
        self.is_full = false;
    }
}

fn invalid(reason: String) -> LogError {
    LogError::InvalidConfig { reason }
}

/// The head with which a generation begins: where the one before has ended, in the blocks in which
/// the region was laid out.
fn first_head(
    file: &dyn DiskFile,
    path: &Path,
    base: u64,
    options: &RegionOptions<'_>,
) -> Result<RegionHeader, LogError> {
    let RegionOptions {
        region_bytes,
        identity,
        generation,
        worker,
        frame_bytes_max,
        ..
    } = *options;
    let device_block = file.block_bytes().max(REGION_BLOCK_BYTES_MIN);
    let mut slots = AlignedBuf::zeroed(SLOTS_BYTES_MAX);
    file.read_at(base, &mut slots)
        .map_err(|source| LogError::device("reading", path, source))?;
    let mut head = RegionHeader {
        identity,
        sequence: 0,
        start: 2 * device_block as u64,
        end: 2 * device_block as u64,
        region_bytes,
        writes: 0,
        generation,
        block_bytes: device_block as u32,
        worker,
        frame_bytes_max,
    };
    let before = match RegionHeader::read_slots(&slots) {
        Found::Nothing => return Ok(head),
        Found::Header(before) => before,
        Found::OtherVersion(version) => {
            return Err(LogError::OtherVersion {
                path: path.to_owned(),
                version,
            });
        }
    };
    if before.identity != identity {
        return Err(LogError::Foreign {
            path: path.to_owned(),
        });
    }
    if before.region_bytes != region_bytes {
        return Err(invalid(format!(
            "region_bytes is {region_bytes}, but {} was laid out with regions of {} bytes",
            path.display(),
            before.region_bytes
        )));
    }
    if !(before.block_bytes as usize).is_multiple_of(device_block) {
        return Err(invalid(format!(
            "{} was laid out in blocks of {} bytes, and now lies on a device that writes only blocks of {device_block}: it \
             can be read here, but not written",
            path.display(),
            before.block_bytes
        )));
    }
    // An opening that got no further than its head may be repeated.
    let unused = before.generation == generation && before.sequence == 0;
    if before.generation >= generation && !unused {
        return Err(LogError::GenerationExists {
            generation,
            path: path.to_owned(),
        });
    }
    head.block_bytes = before.block_bytes;
    head.start = before.end;
    head.end = before.end;
    head.writes = before.writes;
    Ok(head)
}

/// The offset of a region's first frame ever.
fn first_offset(head: &RegionHeader) -> u64 {
    2 * u64::from(head.block_bytes)
}

/// Where the frames of these generations begin in a region with this head, of those that may have
/// some there. A generation that was written under another name of the device counts, too.
fn earlier_frames(
    kept: &[GenerationInfo],
    region_bytes: u64,
    worker: WorkerId,
    head: &RegionHeader,
) -> VecDeque<(Generation, u64)> {
    let is_here = |info: &&GenerationInfo| {
        worker.0 < info.streams
            && matches!(info.placement, Placement::Shared { region_bytes: bytes, .. } if bytes == region_bytes)
    };
    let begin = |info: &GenerationInfo| {
        let said = info.start(worker).offset;
        said.clamp(first_offset(head), head.end)
    };
    let here = kept.iter().filter(is_here);
    here.map(|info| (info.generation, begin(info))).collect()
}
