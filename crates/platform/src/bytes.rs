//! Numbers in the bytes of files, all of them little endian, and whether bytes are zero.

/// The number at a byte.
///
/// # Panics
/// If it does not lie in `bytes`.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// See [`u16_at`].
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// See [`u16_at`].
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// See [`u16_at`].
#[must_use]
pub fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut raw = [0; N];
    raw.copy_from_slice(&bytes[at..at + N]);
    raw
}

/// Whether all of them are. Without a branch for each: the unwritten rest of a segment is long.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |seen, byte| seen | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_at_any_byte() {
        let bytes: [u8; 20] = std::array::from_fn(|n| n as u8);
        assert_eq!(u16_at(&bytes, 1), 0x0201);
        assert_eq!(u32_at(&bytes, 1), 0x0403_0201);
        assert_eq!(u64_at(&bytes, 1), 0x0807_0605_0403_0201);
        assert_eq!(
            u128_at(&bytes, 1),
            0x100f_0e0d_0c0b_0a09_0807_0605_0403_0201
        );
    }

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        let mut bytes = [0; 100];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 0x10;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
