//! Whether the log files of a copied stream are there, each with its length and its header: what a
//! backup looks at each time before it goes on with a copy. Frames are not read.

use std::io;
use std::path::PathBuf;

use namiki_platform::WorkerId;
use namiki_platform::disk::AlignedBuf;

use crate::copy::copy_stream::LogPlace;
use crate::format::BLOCK_BYTES_MAX;
use crate::format::Found;
use crate::format::log_file::{LogFileHeader, file_name, stream_dir};
use crate::generation::GenerationInfo;

/// A log file that differs from the copied one.
#[derive(Debug)]
pub struct WrongLogFile {
    /// Its file.
    pub path: PathBuf,
    /// The difference.
    pub why: WrongLogFileKind,
}

/// The difference between a log file of a copy and its original.
#[derive(Debug)]
#[non_exhaustive]
pub enum WrongLogFileKind {
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

/// Looks at the log files of a stream, from where it begins up to this number.
///
/// # Errors
/// The first log file that is not as it was made.
pub fn check_copied_files(
    place: LogPlace<'_>,
    identity: u128,
    info: &GenerationInfo,
    worker: WorkerId,
    last_file: u64,
) -> Result<(), WrongLogFile> {
    let dir = stream_dir(place.wal, worker);
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES_MAX);
    for number in info.start(worker).file_number..=last_file {
        let path = dir.join(file_name(info.generation, number));
        let checked = check(place, &path, &mut block, |header| {
            header.identity == identity
                && header.number == number
                && header.generation == info.generation
                && header.worker == worker
        });
        checked.map_err(|why| WrongLogFile { path, why })?;
    }
    Ok(())
}

fn check(
    place: LogPlace<'_>,
    path: &std::path::Path,
    block: &mut AlignedBuf,
    is_of_it: impl Fn(&LogFileHeader) -> bool,
) -> Result<(), WrongLogFileKind> {
    let file = place.disk.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => WrongLogFileKind::Missing,
        _ => WrongLogFileKind::Device(error),
    })?;
    let got = file.read_at(0, block).map_err(WrongLogFileKind::Device)?;
    let Found::Header(header) = LogFileHeader::read(&block[..got]) else {
        return Err(WrongLogFileKind::Header);
    };
    let (found, expected) = (file.len_bytes(), header.log_file_bytes);
    if !is_of_it(&header) {
        return Err(WrongLogFileKind::Header);
    }
    if found == expected {
        Ok(())
    } else {
        Err(WrongLogFileKind::Length { found, expected })
    }
}
