//! Frames that a manifest knows nothing of: the manifest is older than the log, or was changed.
//!
//! A generation is announced before any frame of it is written. So a frame of one that is still to
//! come, or of a stream beyond those of its generation, says that a later manifest was lost. To go
//! on by the older one would forget what was acknowledged since. A file, or the head of a region,
//! without frames says nothing: it is what a crash leaves that comes before the announcement.
//!
//! The copy of a log is not asked: an interrupted copy leaves such frames, and the manifest of the
//! copy before.
//!
//! All directories of streams are looked at, and the devices that the manifest names. A device that
//! is named by a later manifest alone cannot be found.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile, read_unaligned};
use namiki_platform::{Generation, WorkerId};

use super::ReadError;
use crate::format::frame::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, Salt, is_sound, may_begin, peek,
};
use crate::format::log_file::{LogFileHeader, parse_file_name};
use crate::format::region::{RegionHeader, SLOTS_BYTES_MAX, region_base};
use crate::format::{BLOCK_BYTES_MIN, Found};
use crate::generation::GenerationInfo;
use crate::generation::layout_config::Placement;
use crate::stream_dirs::stream_dirs;

/// Number of a file's bytes that are examined together.
const PIECE_BYTES: usize = 1 << 20;

/// Fails if the log in `wal` holds a frame that a manifest with these generations, and `next` as
/// the one that is to come, does not know of.
///
/// # Errors
/// [`ReadError::NotInManifest`]; [`ReadError::Device`].
pub fn check_all_announced(
    disk: &dyn Disk,
    wal: &Path,
    identity: u128,
    generations: &[GenerationInfo],
    next: Generation,
) -> Result<(), ReadError> {
    let known = Known { generations, next };
    known.check_log_files(disk, wal, identity)?;
    known.check_regions(disk, identity)
}

/// The state according to a manifest.
struct Known<'a> {
    generations: &'a [GenerationInfo],
    next: Generation,
}

impl Known<'_> {
    /// Whether frames of this stream and generation may be there. A write that outlived its process
    /// may have brought a frame of a generation to light that was left out because it had none.
    fn has(&self, generation: Generation, worker: WorkerId) -> bool {
        let info = self
            .generations
            .iter()
            .find(|it| it.generation == generation);
        match info {
            Some(info) => worker.0 < info.streams,
            None => generation < self.next,
        }
    }

    fn check_log_files(
        &self,
        disk: &dyn Disk,
        wal: &Path,
        identity: u128,
    ) -> Result<(), ReadError> {
        let streams = self.generations.iter().map(|info| info.streams).max();
        let streams = streams.unwrap_or(0);
        // The reader of the stream reports a missing one.
        let dirs = stream_dirs(disk, wal, streams);
        for (worker, dir) in dirs.map_err(|source| ReadError::device(wal, source))? {
            let entries = disk.list(&dir);
            for entry in entries.map_err(|source| ReadError::device(&dir, source))? {
                let Some((generation, number)) = parse_file_name(&entry.path) else {
                    continue;
                };
                if self.has(generation, worker) {
                    continue;
                }
                let wanted = |header: &FrameHeader| {
                    header.generation == generation && header.worker == worker
                };
                let found = (disk.open(&entry.path))
                    .and_then(|file| holds_frame(&*file, identity, number, wanted));
                match found {
                    Ok(false) => {}
                    Ok(true) => {
                        return Err(ReadError::NotInManifest {
                            file: entry.path,
                            generation,
                            worker,
                        });
                    }
                    Err(source) => return Err(ReadError::device(&entry.path, source)),
                }
            }
        }
        Ok(())
    }

    fn check_regions(&self, disk: &dyn Disk, identity: u128) -> Result<(), ReadError> {
        let mut devices = BTreeMap::new();
        for info in self.generations {
            if let Placement::Shared { path, region_bytes } = &info.placement {
                devices.insert(path, *region_bytes);
            }
        }
        for (path, region_bytes) in devices {
            let failed = |source| ReadError::device(path, source);
            let file = match disk.open(path) {
                // The reader of the generation reports it, if it is needed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed)?,
            };
            for worker in (0..=u16::MAX).map(WorkerId) {
                let base = match region_base(worker, region_bytes) {
                    Some(base) if base + region_bytes <= file.len_bytes() => base,
                    _ => break,
                };
                let mut slots = AlignedBuf::zeroed(SLOTS_BYTES_MAX);
                let got = file.read_at(base, &mut slots).map_err(failed)?;
                let Found::Header(head) = RegionHeader::read_slots(&slots[..got]) else {
                    continue;
                };
                // Without a frame, the sequence is 0.
                if head.identity == identity
                    && head.worker == worker
                    && head.sequence > 0
                    && !self.has(head.generation, worker)
                {
                    return Err(ReadError::NotInManifest {
                        file: path.clone(),
                        generation: head.generation,
                        worker,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a log file has a sound frame with such a header anywhere.
fn holds_frame(
    file: &dyn DiskFile,
    identity: u128,
    number: u64,
    wanted: impl Fn(&FrameHeader) -> bool,
) -> io::Result<bool> {
    let mut piece = AlignedBuf::zeroed(PIECE_BYTES);
    let mut start = 0;
    let mut longest = FRAME_BYTES_MAX;
    // Without a header, frames may begin at multiples of the shortest block.
    let mut step = BLOCK_BYTES_MIN;
    // Holes are not read, however long they are.
    while let Some(data) = file.next_data(start)? {
        start = data / PIECE_BYTES as u64 * PIECE_BYTES as u64;
        let got = file.read_at(start, &mut piece)?;
        if start == 0
            && let Found::Header(header) = LogFileHeader::read(&piece[..got])
        {
            longest = longest.min(header.frame_bytes_max as usize);
            step = header.block_bytes as usize;
        }
        for offset in (0..got).step_by(step) {
            let (rest, at) = (&piece[offset..got], start + offset as u64);
            // In the shortest blocks, a header may go on in the next piece.
            let header = if rest.len() < FRAME_HEADER_BYTES && may_begin(rest) {
                peek(read_unaligned(file, at, FRAME_HEADER_BYTES)?.bytes())
            } else {
                peek(rest)
            };
            let found = header.filter(&wanted);
            let Some(header) = found.filter(|it| it.length as usize <= longest) else {
                continue;
            };
            let salt = Salt::of(identity).at(number, at);
            if is_whole(file, at, header.length as usize, salt)? {
                return Ok(true);
            }
        }
        start += PIECE_BYTES as u64;
    }
    Ok(false)
}

/// Whether there is a sound frame of this length.
fn is_whole(file: &dyn DiskFile, at: u64, length: usize, salt: Salt) -> io::Result<bool> {
    if length < FRAME_HEADER_BYTES || at + length as u64 > file.len_bytes() {
        return Ok(false);
    }
    let read = read_unaligned(file, at, length)?;
    Ok(read.bytes().len() == length && is_sound(read.bytes(), salt))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use namiki_platform::disk::SimDisk;
    use namiki_platform::{Epoch, Lsn, Stamp};

    use super::*;
    use crate::format::frame::{Digest, finish};

    /// A file that is a header of a frame, everywhere.
    #[derive(Debug)]
    struct Headers {
        header: Vec<u8>,
        longest_read: AtomicUsize,
    }

    impl DiskFile for Headers {
        fn write_durable(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }

        fn read_at(&self, _: u64, into: &mut [u8]) -> io::Result<usize> {
            self.longest_read.fetch_max(into.len(), Ordering::Relaxed);
            for sector in into.chunks_mut(2 * BLOCK_BYTES_MIN) {
                sector[..self.header.len()].copy_from_slice(&self.header);
            }
            Ok(into.len())
        }

        fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
            Ok((offset < PIECE_BYTES as u64).then_some(offset))
        }

        fn len_bytes(&self) -> u64 {
            1 << 40
        }

        fn block_bytes(&self) -> usize {
            512
        }
    }

    #[test]
    fn no_frame_is_believed_longer_than_a_buffer() {
        let mut header = vec![0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(b"NLF1");
        header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let file = Headers {
            header,
            longest_read: AtomicUsize::new(0),
        };
        assert!(!holds_frame(&file, 1, 1, |_| true).unwrap());
        assert_eq!(file.longest_read.into_inner(), PIECE_BYTES);
    }

    /// Its header takes two of the shortest blocks, the last of a piece and the first of the next.
    #[test]
    fn a_frame_with_its_header_in_two_pieces_is_found() {
        const FRAME_BYTES: usize = 200;
        const IDENTITY: u128 = 7;
        let header = FrameHeader {
            length: FRAME_BYTES as u32,
            records: 0,
            sequence: 1,
            first_lsn: Lsn(1),
            last_lsn: Lsn(1),
            max_stamp: Stamp(1),
            epoch: Epoch(0),
            horizon: Lsn(0),
            generation: Generation(3),
            worker: WorkerId(0),
        };
        for at in [PIECE_BYTES - 64, PIECE_BYTES - 128, PIECE_BYTES, 64] {
            let mut bytes = AlignedBuf::zeroed(2 * PIECE_BYTES);
            let salt = Salt::of(IDENTITY).at(1, at as u64);
            let frame = &mut bytes[at..at + FRAME_BYTES];
            finish(frame, &header, Digest::NONE, salt);
            let disk = SimDisk::new().with_blocks(64);
            let file = disk.create(Path::new("/a"), bytes.len() as u64).unwrap();
            file.write_durable(0, &bytes).unwrap();
            let is_found = |generation| {
                let wanted = |found: &FrameHeader| found.generation == generation;
                holds_frame(&*file, IDENTITY, 1, wanted).unwrap()
            };
            assert!(is_found(Generation(3)), "{at}");
            assert!(!is_found(Generation(4)), "{at}");
        }
    }
}
