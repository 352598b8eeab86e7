//! The files a stream's frames are in, in order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::WorkerId;
use namiki_platform::bytes::is_zero;
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile, FileKind, SECTOR_BYTES};

use super::ReadError;
use super::damage_notes::DamageNotes;
use super::ring_file::RingFile;
use crate::format::log_file::{LogFileHeader, file_name, parse_file_name, stream_dir};
use crate::format::region::{RegionHeader, Ring, SLOTS_BYTES_MAX, region_base};
use crate::format::{BLOCK_BYTES_MIN, Found};
use crate::generation::GenerationInfo;
use crate::generation::layout_config::{Placement, Retain};

/// A stretch of a file that holds frames back to back. In a region, offsets count on through all
/// laps of its ring.
pub(super) struct Extent {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: PathBuf,
    /// Number that the frames' checksums know it by.
    pub(super) file_number: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) block_bytes: usize,
    /// Whether its header is there. Always so in a region.
    pub(super) has_header: bool,
    /// The number that its header has instead: it was given up, to be written again under that.
    pub(super) lost_name: Option<u64>,
    /// Whether what was never written is zero.
    pub(super) is_zeroed: bool,
    /// Whether it was made for a frame that no other log file has room for.
    pub(super) is_oversize: bool,
    /// The longest frame there can be; 0 without a header.
    pub(super) frame_bytes_max: u64,
    /// Regions only: how far beyond `end` to search for frames that a lost head covered.
    pub(super) beyond: u64,
    /// Regions only: what says where in the device an offset is.
    pub(super) ring: Option<Ring>,
}

impl Extent {
    /// The offset in the file, or in the device, of this offset.
    pub(super) fn file_offset(&self, offset: u64) -> u64 {
        self.ring.map_or(offset, |ring| ring.device_offset(offset))
    }
}

/// The source of a stream's extents.
pub(super) enum Source {
    Files {
        disk: Arc<dyn Disk>,
        /// The generation's files: number and path, without gaps.
        files: Vec<(u64, PathBuf)>,
        /// One that was opened before it was wanted.
        next: Option<(usize, io::Result<Arc<dyn DiskFile>>)>,
    },
    /// Everything up to the end that the region's head gives was hardened. Taken when it is opened.
    Region(Option<Extent>),
}

impl Source {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: u128,
        info: &GenerationInfo,
        worker: WorkerId,
        damage: Option<&mut DamageNotes>,
    ) -> Result<Self, ReadError> {
        match &info.placement {
            Placement::Files { .. } => {
                let files = list(&*disk, dir, info, worker, damage)?;
                let next = None;
                Ok(Self::Files { disk, files, next })
            }
            Placement::Shared { path, region_bytes } => {
                let extent = region(&*disk, path, *region_bytes, identity, info, worker)?;
                Ok(Self::Region(Some(extent)))
            }
        }
    }

    /// Number of extents.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Files { files, .. } => files.len(),
            Self::Region(extent) => usize::from(extent.is_some()),
        }
    }

    /// The number after the last log file's.
    pub(super) fn next_number(&self) -> u64 {
        match self {
            Self::Files { files, .. } => files.last().map_or(1, |(last, _)| last + 1),
            Self::Region(_) => 0,
        }
    }

    /// Whether an extent may end in something torn.
    pub(super) fn may_be_torn(&self) -> bool {
        matches!(self, Self::Files { .. })
    }

    /// Opens the file of an extent. That of a region can be opened once.
    pub(super) fn file(&mut self, index: usize) -> Result<Option<Opened>, ReadError> {
        match self {
            Self::Region(extent) => Ok(extent.take().map(Opened::Extent)),
            Self::Files { disk, files, next } => {
                let Some((number, path)) = files.get(index) else {
                    return Ok(None);
                };
                let opened = match next.take() {
                    Some((opened, Ok(file))) if opened == index => Ok(file),
                    _ => disk.open(path),
                };
                let file = opened.map_err(|source| ReadError::device(path, source))?;
                Ok(Some(Opened::LogFile(LogFile {
                    file,
                    path: path.clone(),
                    number: *number,
                })))
            }
        }
    }

    /// Opens the file of the extent that will be wanted next, if there is one. If that fails it is
    /// tried again when it is wanted.
    pub(super) fn file_ahead(&mut self, index: usize) -> Option<Arc<dyn DiskFile>> {
        let Self::Files { disk, files, next } = self else {
            return None;
        };
        let (_, path) = files.get(index)?;
        let (_, file) = next.insert((index, disk.open(path)));
        file.as_ref().ok().map(Arc::clone)
    }
}

/// An extent's file.
pub(super) enum Opened {
    /// All is known of the extent.
    Extent(Extent),
    /// The rest is in its header.
    LogFile(LogFile),
}

/// The expected properties of a log file.
pub(super) struct Expected<'a> {
    pub(super) identity: u128,
    pub(super) info: &'a GenerationInfo,
    pub(super) worker: WorkerId,
    /// Its length, unless its header has another one that is legal.
    pub(super) log_file_bytes: u64,
    /// Whether none follows: only then its header may not be written yet.
    pub(super) is_last: bool,
    /// Whether it is the first that is there.
    pub(super) is_first: bool,
    /// The number after the last that there is.
    pub(super) next_number: u64,
}

/// A log file with a header that has not been read.
pub(super) struct LogFile {
    pub(super) file: Arc<dyn DiskFile>,
    path: PathBuf,
    number: u64,
}

const SHORTER: &str = "it was longer when it was made";

/// The files of a generation, which follow each other by number; missing ones are noted if damage is skipped.
fn list(
    disk: &dyn Disk,
    dir: &Path,
    info: &GenerationInfo,
    worker: WorkerId,
    mut damage: Option<&mut DamageNotes>,
) -> Result<Vec<(u64, PathBuf)>, ReadError> {
    let mut missing = |error: ReadError| match &mut damage {
        Some(notes) => {
            notes.note(error);
            Ok(())
        }
        None => Err(error),
    };
    let dir = stream_dir(dir, worker);
    let entries = match disk.list(&dir) {
        Ok(entries) => entries,
        // A copy of a closed directory may leave out what is empty. Where a frame has to be, the
        // reader misses it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && info.is_sealed_empty(worker) => {
            return Ok(Vec::new());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // It was made durable before the generation was announced.
            missing(ReadError::missing(
                &dir,
                "the directory of the stream is missing",
            ))?;
            return Ok(Vec::new());
        }
        Err(source) => return Err(ReadError::device(&dir, source)),
    };
    let mut files = Vec::new();
    for entry in entries {
        match parse_file_name(&entry.path) {
            Some((generation, number)) if generation == info.generation => {
                if entry.kind != FileKind::Regular {
                    return Err(ReadError::NotAFile {
                        file: entry.path,
                        kind: entry.kind,
                    });
                }
                files.push((number, entry.path));
            }
            _ => {}
        }
    }
    files.sort();
    let start = info.start(worker);
    // Files before the beginning were recycled, and not removed yet.
    files.retain(|(number, _)| *number >= start.file_number);
    let first = match (info.retain, files.first()) {
        (Retain::Last(_), Some((first, _))) => *first,
        _ => start.file_number,
    };
    if !start.is_first() && files.first().is_none_or(|(number, _)| *number != first) {
        missing(ReadError::BeginningLost {
            file: dir.join(file_name(info.generation, first)),
            worker,
            sequence: start.sequence,
        })?;
        return Ok(files);
    }
    for (at, expected) in (first..).take(files.len()).enumerate() {
        if files[at].0 != expected {
            if info.last_stamp.is_some() {
                // A backup that grows, behind files that were recycled since. If it ends before its
                // seal, its frames show that.
                files.truncate(at);
                break;
            }
            missing(ReadError::missing(
                &dir.join(file_name(info.generation, expected)),
                "a later file of the stream is there",
            ))?;
            break;
        }
    }
    Ok(files)
}

impl LogFile {
    /// The extent, by what `block` has of the file's first block.
    pub(super) fn extent(self, block: &[u8], expected: &Expected<'_>) -> Result<Extent, ReadError> {
        let Expected {
            identity,
            info,
            worker,
            log_file_bytes,
            is_last,
            is_first,
            next_number,
        } = *expected;
        let shortest = info.first_file_bytes.unwrap_or(log_file_bytes);
        let len_bytes = self.file.len_bytes();
        let mut extent = Extent {
            path: self.path,
            file_number: self.number,
            // Unless the header says otherwise: the smallest there is, to look at every place.
            start: BLOCK_BYTES_MIN as u64,
            end: log_file_bytes.min(len_bytes),
            block_bytes: BLOCK_BYTES_MIN,
            has_header: false,
            lost_name: None,
            is_zeroed: false,
            is_oversize: false,
            frame_bytes_max: 0,
            beyond: 0,
            ring: None,
            file: self.file,
        };
        let damaged = |path: &Path, at, what| Err(ReadError::damaged(path, at, what));
        if len_bytes < shortest {
            return damaged(&extent.path, len_bytes, SHORTER);
        }
        match LogFileHeader::read(block) {
            Found::OtherVersion(version) => Err(ReadError::OtherVersion {
                file: extent.path,
                version,
            }),
            Found::Header(header) if header.identity != identity => {
                Err(ReadError::Foreign { file: extent.path })
            }
            Found::Header(header)
                if header.number == self.number
                    && header.generation == info.generation
                    && header.worker == worker
                    && header.has_legal_length(shortest, log_file_bytes) =>
            {
                if len_bytes < header.log_file_bytes {
                    return damaged(&extent.path, len_bytes, SHORTER);
                }
                extent.end = header.log_file_bytes;
                extent.is_oversize = header.is_oversize;
                extent.is_zeroed = header.is_zeroed;
                extent.frame_bytes_max = u64::from(header.frame_bytes_max);
                extent.block_bytes = header.block_bytes as usize;
                extent.start = u64::from(header.block_bytes);
                extent.has_header = true;
                Ok(extent)
            }
            // Recycled, and the crash came before the new header, or the new name was lost.
            Found::Header(header)
                if header.generation == info.generation
                    && header.worker == worker
                    && match info.retain {
                        Retain::All => false,
                        // Only what lies before the beginning is recycled, and read under no old
                        // name.
                        Retain::UntilRecycled => {
                            is_last && header.number < info.start(worker).file_number
                        }
                        Retain::Last(_) => {
                            is_last && header.number < self.number
                                || is_first && header.number == next_number
                        }
                    } =>
            {
                extent.lost_name = (header.number == next_number).then_some(header.number);
                Ok(extent)
            }
            Found::Header(_) => damaged(
                &extent.path,
                0,
                "its header is that of another log file: files were swapped or renamed",
            ),
            // Created, and the crash came before the header.
            Found::Nothing if is_last && block.get(..SECTOR_BYTES).is_some_and(is_zero) => {
                extent.is_zeroed = true;
                Ok(extent)
            }
            Found::Nothing => damaged(
                &extent.path,
                0,
                "the header of the file is damaged: it does not begin as one, or its checksum does not match",
            ),
        }
    }

    /// The file, its path and its number.
    pub(super) fn parts(&self) -> (Arc<dyn DiskFile>, PathBuf, u64) {
        (Arc::clone(&self.file), self.path.clone(), self.number)
    }

    pub(super) fn failed(&self, source: io::Error) -> ReadError {
        ReadError::device(&self.path, source)
    }
}

/// The frames that the region's head covers. Every stream of a generation has a head of it, or of a
/// later one: it was durable before the generation was announced.
fn region(
    disk: &dyn Disk,
    path: &Path,
    region_bytes: u64,
    identity: u128,
    info: &GenerationInfo,
    worker: WorkerId,
) -> Result<Extent, ReadError> {
    let failed = |source| ReadError::device(path, source);
    let file = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ReadError::missing(
                path,
                "the device or file of all streams is missing",
            ));
        }
        other => other.map_err(failed)?,
    };
    let base = match region_base(worker, region_bytes) {
        Some(base) if base + region_bytes <= file.len_bytes() => base,
        _ => {
            let what = "it is too short for the regions that the manifest tells of";
            return Err(ReadError::damaged(path, file.len_bytes(), what));
        }
    };
    let damaged = |what| ReadError::damaged(path, base, what);
    let mut slots = AlignedBuf::zeroed(SLOTS_BYTES_MAX);
    let got = file.read_at(base, &mut slots).map_err(failed)?;
    let head = match RegionHeader::read_slots(&slots[..got]) {
        Found::Nothing => {
            let what =
                "the header of the region is damaged: neither of its two slots holds a sound one";
            return Err(damaged(what));
        }
        Found::OtherVersion(version) => {
            return Err(ReadError::OtherVersion {
                file: path.to_owned(),
                version,
            });
        }
        Found::Header(head) if head.identity != identity => {
            return Err(ReadError::Foreign {
                file: path.to_owned(),
            });
        }
        Found::Header(head) => head,
    };
    let is_current = head.generation == info.generation;
    let said = info.start(worker);
    let first = 2 * u64::from(head.block_bytes);
    let start = match said.offset {
        0 if is_current => head.start,
        // A log that keeps all says nothing of its beginning: the reader skips older generations.
        0 => first,
        offset => offset,
    };
    // The generation's first frame is where it began.
    let is_elsewhere = is_current && said.is_first() && start != head.start;
    if head.worker != worker
        || head.region_bytes != region_bytes
        || head.start < first
        || head.start > head.end
        || start < first
        || is_elsewhere
    {
        return Err(damaged("the head of the region contradicts the manifest"));
    }
    if head.generation < info.generation {
        return Err(damaged("the head of the region is of an older generation"));
    }
    let ring = Ring::of_region(base, region_bytes, head.block_bytes as usize);
    if start > head.end || head.end - start > ring.len_bytes() {
        return Err(ReadError::BeginningLost {
            file: path.to_owned(),
            worker,
            sequence: said.sequence,
        });
    }
    Ok(Extent {
        path: path.to_owned(),
        file_number: 0,
        start: base + start,
        end: base + head.end,
        block_bytes: head.block_bytes as usize,
        has_header: true,
        lost_name: None,
        is_zeroed: false,
        is_oversize: false,
        frame_bytes_max: u64::from(head.frame_bytes_max),
        beyond: if is_current {
            base + start + ring.len_bytes()
        } else {
            0
        },
        ring: Some(ring),
        file: Arc::new(RingFile::new(file, ring)),
    })
}
