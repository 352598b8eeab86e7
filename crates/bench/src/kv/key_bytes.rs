//! Keys as big-endian bytes, which sort like the keys, for stores that order keys by their bytes.

use crate::error::BenchError;

/// The bytes of a key.
pub(super) fn bytes_of(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// The key with these bytes.
pub(super) fn key_of(bytes: &[u8]) -> Result<u64, BenchError> {
    match bytes.try_into() {
        Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
        Err(_) => Err(BenchError::Check(format!(
            "{bytes:?} is no key of a record"
        ))),
    }
}
