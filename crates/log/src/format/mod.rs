//! The bytes of the log on disk. All numbers are little endian.

pub(crate) mod frame;
pub(crate) mod log_file;
pub(crate) mod region;

pub(crate) use namiki_platform::bytes::{u16_at, u32_at, u64_at, u128_at};

/// The unit that any disk's block divides.
pub(crate) const BLOCK_BYTES_MAX: usize = 4096;

/// The format this code writes, and the newest it reads.
pub(crate) const VERSION: u32 = 2;

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
