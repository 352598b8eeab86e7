//! Lengths before components: varints of seven bits a byte, the lowest first. The highest bit is
//! set in all bytes but the last.

use super::ValueBytes;

/// Adds a length, or another number that is mostly small.
#[inline]
pub fn put_length(length: usize, into: &mut ValueBytes) {
    let mut left = length;
    while left >= 0x80 {
        into.push(left as u8 | 0x80);
        left >>= 7;
    }
    into.push(left as u8);
}

/// Takes a length off the front of `bytes`, written by [`put_length`].
#[inline]
#[must_use]
pub fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = *bytes.split_off_first()?;
        let bits = usize::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        length |= bits << shift;
        if byte < 0x80 {
            // Canonical: one number has one encoding.
            return (byte != 0 || shift == 0).then_some(length);
        }
    }
    None
}
