//! The bytes of a key, or of a path, that are compared as one number.

/// The last eight bytes before position `len` (all bytes if there are fewer), as a big-endian number.
/// `None` if the key is shorter than `len`.
#[inline]
pub(super) fn window(key: &[u8], len: usize) -> Option<u64> {
    if key.len() < len {
        return None;
    }
    match key[..len].last_chunk::<8>() {
        Some(eight) => Some(u64::from_be_bytes(*eight)),
        None => Some(
            key[..len]
                .iter()
                .fold(0, |head, byte| head << 8 | u64::from(*byte)),
        ),
    }
}
