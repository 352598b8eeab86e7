//! The bytes of the log on disk. All numbers are little endian.

pub(crate) mod frame;
pub(crate) mod region;
pub(crate) mod segment;

/// The unit that any disk's block divides.
pub(crate) const BLOCK_BYTES_MAX: usize = 4096;

/// The format this code writes, and the newest it reads.
pub(crate) const VERSION: u32 = 2;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    let mut raw = [0; 16];
    raw.copy_from_slice(&bytes[at..at + 16]);
    u128::from_le_bytes(raw)
}

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
