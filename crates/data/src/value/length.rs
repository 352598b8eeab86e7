//! Lengths before components: [varints](crate::varint).

use super::ValueBytes;
use crate::varint;

/// Adds a length, or another number that is mostly small.
#[inline]
pub fn put_length(length: usize, into: &mut ValueBytes) {
    varint::encode(length as u64, |byte| into.push(byte));
}

/// Takes a length off the front of `bytes`, written by [`put_length`].
#[inline]
#[must_use]
pub fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint::take(bytes).ok()?).ok()
}
