//! The bytes of the log on disk. All numbers are little endian.

pub(crate) mod frame;
pub(crate) mod log_file;
pub(crate) mod region;

pub(crate) use namiki_platform::bytes::{u16_at, u32_at, u64_at, u128_at};

/// The shortest block: a line of a processor's cache, and the header of a log file fits. Devices
/// write 512 bytes and more at a time; emulated NVM can write less.
pub(crate) const BLOCK_BYTES_MIN: usize = 64;
/// The longest block, of which every other one is a divisor.
pub(crate) const BLOCK_BYTES_MAX: usize = 4096;

/// The format of log files and regions, the only one that is read. Programs before the first
/// release wrote 2 and 3.
pub(crate) const VERSION: u32 = 4;

/// The result of reading the first block of a file or of a region.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// A header.
    Header(T),
    /// A header of another format.
    OtherVersion(u32),
    /// No header, or a broken one.
    Nothing,
}

/// The lengths that a block can have: powers of two.
pub(crate) fn block_lengths() -> impl Iterator<Item = usize> {
    let lengths = std::iter::successors(Some(BLOCK_BYTES_MIN), |bytes| Some(2 * bytes));
    lengths.take_while(|bytes| *bytes <= BLOCK_BYTES_MAX)
}

/// Whether a header can name this length of a block.
pub(crate) fn is_block_length(bytes: u32) -> bool {
    block_lengths().any(|length| length == bytes as usize)
}

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
