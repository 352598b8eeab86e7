//! A stream's region of a device that all streams share.
//!
//! Generations follow each other in a region: each begins where the head of the one before says
//! that its frames end, over whatever an interrupted flush left there.
//!
//! Paper: pwal §5.7

use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_platform::{Generation, WorkerId};

use super::WritePosition;
use super::contents::FrameFacts;
use crate::error::LogError;
use crate::format::frame::Salt;
use crate::format::region::{RegionHeader, SLOTS_BYTES_MAX, region_base};
use crate::format::segment::Found;

pub(crate) struct RegionTarget {
    pub(crate) block_bytes: usize,
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    /// Where the region starts in the file.
    base: u64,
    salt: Salt,
    /// The head as of the last frame that has its place.
    head: RegionHeader,
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
    // Also if it was there: a crash may have come between its creation and this.
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
        region_bytes: u64,
        identity: u128,
        generation: Generation,
        worker: WorkerId,
        frame_bytes_max: u32,
    ) -> Result<Self, LogError> {
        let device_block = file.block_bytes();
        let invalid = |reason: String| LogError::InvalidConfig { reason };
        let base = region_base(worker, region_bytes)
            .ok_or_else(|| invalid(format!("region_bytes is {region_bytes}, too large")))?;
        let mut slots = AlignedBuf::zeroed(SLOTS_BYTES_MAX);
        file.read_at(base, &mut slots)
            .map_err(|source| LogError::device("reading", &path, source))?;
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
        match RegionHeader::read_slots(&slots) {
            Found::Nothing => {}
            Found::Header(before) => {
                if before.identity != identity {
                    return Err(LogError::Foreign {
                        path: path.to_path_buf(),
                    });
                }
                if before.region_bytes != region_bytes {
                    return Err(invalid(format!(
                        "region_bytes is {region_bytes}, but {} was laid out with regions of {} \
                         bytes",
                        path.display(),
                        before.region_bytes
                    )));
                }
                if !(before.block_bytes as usize).is_multiple_of(device_block) {
                    return Err(invalid(format!(
                        "{} was laid out in blocks of {} bytes, and now lies on a device that \
                         writes only blocks of {device_block}: it can be read here, but not \
                         written",
                        path.display(),
                        before.block_bytes
                    )));
                }
                // An opening that got no further than its head may be repeated.
                let unused = before.generation == generation && before.sequence == 0;
                if before.generation >= generation && !unused {
                    return Err(LogError::GenerationExists {
                        generation,
                        path: path.to_path_buf(),
                    });
                }
                head.block_bytes = before.block_bytes;
                head.start = before.end;
                head.end = before.end;
                head.writes = before.writes;
            }
            Found::OtherVersion(version) => {
                return Err(invalid(format!(
                    "{} has format version {version}",
                    path.display()
                )));
            }
        }
        head.writes += 1;
        let target = Self {
            block_bytes: head.block_bytes as usize,
            file,
            path,
            base,
            salt: Salt::of(identity),
            head,
        };
        target.write_head()?;
        Ok(target)
    }

    /// Writes the head as it is. At first, without frames, it takes the slot that the generation before would have
    /// used next: a head that could not be written then can no longer become readable.
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

    /// Makes the head say, durably, that the next frame may be so long: a reader has to look for it as far behind the
    /// end. No frame is in flight.
    pub(crate) fn announce(&mut self, padded: u64) -> Result<(), LogError> {
        if padded <= u64::from(self.head.frame_bytes_max) {
            return Ok(());
        }
        // A frame is at most 1 GiB.
        self.head.frame_bytes_max = padded as u32;
        self.head.writes += 1;
        self.write_head()
    }

    /// The bytes of this generation's frames.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.head.end - self.head.start
    }

    pub(crate) fn left(&self) -> u64 {
        self.head.region_bytes - self.head.end
    }

    pub(crate) fn full(&self) -> LogError {
        LogError::RegionFull {
            path: self.path.to_path_buf(),
            worker: self.head.worker,
            region_bytes: self.head.region_bytes,
        }
    }

    pub(crate) fn assign(&mut self, padded: u64, frame: &FrameFacts) -> WritePosition {
        let offset = self.base + self.head.end;
        self.head.end += padded;
        self.head.sequence = frame.sequence;
        self.head.writes += 1;
        let slot = self.slot();
        WritePosition {
            file: Arc::clone(&self.file),
            path: Arc::clone(&self.path),
            segment: 0,
            offset,
            salt: self.salt.at(0, offset),
            head: Some((slot, self.head)),
        }
    }
}
