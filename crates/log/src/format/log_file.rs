//! The header block of a log file, written once before its first frame.
//!
//! ```text
//!   0  magic "NAMIKLOG"                8
//!   8  CRC-32C of bytes 12..64         4   these two fields keep their places in every version
//!  12  format version                  4   4
//!  16  identity of the database       16
//!  32  number of the file              8   per stream and generation, from 1
//!  40  length of the file              8
//!  48  generation                      4
//!  52  block length                    4   frames start at its multiples
//!  56  worker                          2
//!  58  flags                           2   bit 0: it was created zeroed and never recycled; bit 1: oversize
//!  60  longest frame                   4   with padding
//!  64  zeros up to the block's end
//! ```

use std::path::{Path, PathBuf};

use namiki_platform::{Generation, WorkerId};

use super::{
    BLOCK_BYTES_MAX, Found, VERSION, is_block_length, put, u16_at, u32_at, u64_at, u128_at,
};

/// Length of the used part: less than a sector, so a torn write leaves all or none.
pub(crate) const LOG_FILE_HEADER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"NAMIKLOG";

const IS_ZEROED: u16 = 1;
const IS_OVERSIZE: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFileHeader {
    pub(crate) identity: u128,
    pub(crate) number: u64,
    pub(crate) log_file_bytes: u64,
    pub(crate) generation: Generation,
    pub(crate) block_bytes: u32,
    pub(crate) worker: WorkerId,
    /// Its frames were written over zeros.
    pub(crate) is_zeroed: bool,
    /// No frame of it is longer, padding included.
    pub(crate) frame_bytes_max: u32,
    /// Made for one frame, and longer than the others for it.
    pub(crate) is_oversize: bool,
}

impl LogFileHeader {
    /// Whether a log file may have this length if the others have `log_file_bytes`, or from
    /// `shortest` to that.
    pub(crate) fn has_legal_length(&self, shortest: u64, log_file_bytes: u64) -> bool {
        if self.is_oversize {
            self.log_file_bytes > log_file_bytes
        } else {
            (shortest..=log_file_bytes).contains(&self.log_file_bytes)
                && self.log_file_bytes.is_multiple_of(BLOCK_BYTES_MAX as u64)
        }
    }

    pub(crate) fn write(&self, block: &mut [u8]) {
        block.fill(0);
        put(block, 0, MAGIC);
        put(block, 12, VERSION.to_le_bytes());
        put(block, 16, self.identity.to_le_bytes());
        put(block, 32, self.number.to_le_bytes());
        put(block, 40, self.log_file_bytes.to_le_bytes());
        put(block, 48, self.generation.0.to_le_bytes());
        put(block, 52, self.block_bytes.to_le_bytes());
        put(block, 56, self.worker.0.to_le_bytes());
        let is_zeroed = u16::from(self.is_zeroed) * IS_ZEROED;
        let is_oversize = u16::from(self.is_oversize) * IS_OVERSIZE;
        put(block, 58, (is_zeroed | is_oversize).to_le_bytes());
        put(block, 60, self.frame_bytes_max.to_le_bytes());
        let crc = crc32c::crc32c(&block[12..LOG_FILE_HEADER_BYTES]);
        put(block, 8, crc.to_le_bytes());
    }

    pub(crate) fn read(block: &[u8]) -> Found<Self> {
        if block.len() < LOG_FILE_HEADER_BYTES
            || block[..8] != MAGIC
            || crc32c::crc32c(&block[12..LOG_FILE_HEADER_BYTES]) != u32_at(block, 8)
        {
            return Found::Nothing;
        }
        let version = u32_at(block, 12);
        if version != VERSION {
            return Found::OtherVersion(version);
        }
        let flags = u16_at(block, 58);
        let header = Self {
            identity: u128_at(block, 16),
            number: u64_at(block, 32),
            log_file_bytes: u64_at(block, 40),
            generation: Generation(u32_at(block, 48)),
            block_bytes: u32_at(block, 52),
            worker: WorkerId(u16_at(block, 56)),
            is_zeroed: flags & IS_ZEROED != 0,
            frame_bytes_max: u32_at(block, 60),
            is_oversize: flags & IS_OVERSIZE != 0,
        };
        if is_block_length(header.block_bytes) {
            Found::Header(header)
        } else {
            Found::Nothing
        }
    }
}

/// Gives what begins as a header the checksum of what it holds; nothing else is changed.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn mend_checksum(block: &mut [u8]) {
    if block.len() >= LOG_FILE_HEADER_BYTES && block[..8] == MAGIC {
        let crc = crc32c::crc32c(&block[12..LOG_FILE_HEADER_BYTES]);
        put(block, 8, crc.to_le_bytes());
    }
}

/// The directory of a stream.
pub(crate) fn stream_dir(wal: &Path, worker: WorkerId) -> PathBuf {
    wal.join(format!("{:04}", worker.0))
}

/// The file name of a log file.
pub(crate) fn file_name(generation: Generation, number: u64) -> String {
    format!("{:06}-{number:08}.log", generation.0)
}

/// The file name of a log file that has no number yet: it is made for one frame; `count` numbers
/// such files.
pub(crate) fn unnumbered_file_name(generation: Generation, count: u64) -> String {
    format!("{:06}-{count:08}{UNNUMBERED}", generation.0)
}

/// Whether a file is a log file that has no number yet. Without its writer it never gets one.
pub(crate) fn is_unnumbered(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    // A disk may have called it so until it was whole.
    name.is_some_and(|name| name.trim_end_matches(".tmp").ends_with(UNNUMBERED))
}

const UNNUMBERED: &str = ".new";

/// The generation and the number in a log file's name; `None` for any other name.
pub(crate) fn parse_file_name(path: &Path) -> Option<(Generation, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let (generation, number) = name.split_once('-')?;
    Some((Generation(generation.parse().ok()?), number.parse().ok()?))
}
