//! Whether the segments of a copied stream are there, each with its length and its header: what a backup looks at each time before
//! it goes on with a copy. Frames are not read.

use std::io;
use std::path::PathBuf;

use namiki_platform::WorkerId;
use namiki_platform::disk::AlignedBuf;

use crate::copy::copy_stream::LogPlace;
use crate::format::BLOCK_BYTES_MAX;
use crate::format::segment::{Found, SegmentHeader, file_name, stream_dir};
use crate::generation::GenerationInfo;

/// A segment that is not what was copied.
#[derive(Debug)]
pub struct WrongSegment {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: WrongSegmentKind,
}

/// What is wrong with a segment of a copy.
#[derive(Debug)]
#[non_exhaustive]
pub enum WrongSegmentKind {
    /// It is not there.
    Missing,
    /// It has another length than it was made with.
    Length {
        /// The length that it has.
        found: u64,
        /// The length that it was made with.
        expected: u64,
    },
    /// It has another header, or none.
    Header,
    /// It cannot be read.
    Device(io::Error),
}

/// Looks at the segments of a stream, from where it begins up to this number.
///
/// # Errors
/// The first segment that is not as it was made.
pub fn check_copied_segments(
    place: LogPlace<'_>,
    identity: u128,
    info: &GenerationInfo,
    worker: WorkerId,
    last_segment: u64,
) -> Result<(), WrongSegment> {
    let dir = stream_dir(place.wal, worker);
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES_MAX);
    for number in info.start(worker).segment..=last_segment {
        let path = dir.join(file_name(info.generation, number));
        let checked = check(place, &path, &mut block, |header| {
            header.identity == identity
                && header.number == number
                && header.generation == info.generation
                && header.worker == worker
        });
        checked.map_err(|why| WrongSegment { path, why })?;
    }
    Ok(())
}

fn check(
    place: LogPlace<'_>,
    path: &std::path::Path,
    block: &mut AlignedBuf,
    is_of_it: impl Fn(&SegmentHeader) -> bool,
) -> Result<(), WrongSegmentKind> {
    let file = place.disk.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => WrongSegmentKind::Missing,
        _ => WrongSegmentKind::Device(error),
    })?;
    let got = file.read_at(0, block).map_err(WrongSegmentKind::Device)?;
    let Found::Header(header) = SegmentHeader::read(&block[..got]) else {
        return Err(WrongSegmentKind::Header);
    };
    let (found, expected) = (file.len_bytes(), header.segment_bytes);
    if !is_of_it(&header) {
        return Err(WrongSegmentKind::Header);
    }
    if found == expected {
        Ok(())
    } else {
        Err(WrongSegmentKind::Length { found, expected })
    }
}
