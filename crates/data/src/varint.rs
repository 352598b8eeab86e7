//! Varints: unsigned numbers, seven bits a byte, lowest bits first. The top bit of a byte says that
//! another byte follows.
//!
//! ```text
//!  0 ..= 127     0xxxxxxx
//!  … ..= 16383   1xxxxxxx 0xxxxxxx
//!  u64::MAX      ten bytes; the last one is 1
//! ```
//!
//! A number has one encoding, the shortest. The decoder refuses the others: a last byte of 0 after
//! other bytes ([`VarintError::Overlong`]) and more than 64 bits ([`VarintError::TooLarge`]).
//!
//! Two other decoders exist: postcard's, for messages, entries of Raft and `Serde` values, which also
//! accepts longer encodings; and one for the lengths of at most two bytes in pages of a data segment.

/// The bytes are not those of a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// They end before the number does.
    #[error("it ends in the middle of a number")]
    Truncated,
    /// The number has more bits than its reader takes: 64, or the 32 of a `u32`.
    #[error("a number is too large")]
    TooLarge,
    /// The number has a shorter encoding.
    #[error("a number is not in its shortest encoding")]
    Overlong,
}

/// The encoded length of a number: 1 to 10 bytes.
#[inline]
#[must_use]
pub const fn len(number: u64) -> usize {
    ((64 - (number | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Gives the bytes of a number to `put`, one by one.
#[inline]
pub fn encode(mut number: u64, mut put: impl FnMut(u8)) {
    while number >= 0x80 {
        put(number as u8 | 0x80);
        number >>= 7;
    }
    put(number as u8);
}

/// Appends a number.
#[inline]
pub fn put(number: u64, into: &mut Vec<u8>) {
    encode(number, |byte| into.push(byte));
}

/// Takes a number off the front of `bytes`.
///
/// # Errors
/// [`VarintError`]; `bytes` stays as it was.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Result<u64, VarintError> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if at == 9 && byte > 1 {
            return Err(VarintError::TooLarge);
        }
        number |= bits << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return Err(VarintError::Overlong);
            }
            *bytes = &bytes[at + 1..];
            return Ok(number);
        }
    }
    Err(VarintError::Truncated)
}

/// Takes a number of at most 32 bits off the front of `bytes`.
///
/// # Errors
/// [`VarintError`]; `bytes` stays as it was.
#[inline]
pub fn take_u32(bytes: &mut &[u8]) -> Result<u32, VarintError> {
    let mut rest = *bytes;
    let number = u32::try_from(take(&mut rest)?).map_err(|_| VarintError::TooLarge)?;
    *bytes = rest;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encoded(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(number, &mut bytes);
        bytes
    }

    /// Numbers of every length, and those around its limits.
    fn numbers() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32, -1..=1_i64)
            .prop_map(|(any, shift, by)| [any >> shift, (1_u64 << shift).wrapping_add_signed(by)])
            .prop_flat_map(|two| prop::sample::select(two.to_vec()))
    }

    proptest! {
        #[test]
        fn numbers_come_back_and_cut_ones_do_not(number in numbers(), next in any::<u8>()) {
            let mut bytes = encoded(number);
            let length = bytes.len();
            prop_assert_eq!(length, len(number));
            bytes.push(next);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Ok(number));
            prop_assert_eq!(rest, &[next]);
            for cut in 0..length {
                prop_assert_eq!(take(&mut &bytes[..cut]), Err(VarintError::Truncated));
            }
            let mut rest = &bytes[..];
            let small = u32::try_from(number).map_err(|_| VarintError::TooLarge);
            prop_assert_eq!(take_u32(&mut rest), small);
            prop_assert_eq!(rest.len(), if small.is_ok() { 1 } else { bytes.len() });
        }

        #[test]
        fn what_decodes_is_the_one_encoding(bytes in vec(prop_oneof![any::<u8>(), 0x80..=0xff_u8, Just(0)], 0..13)) {
            let mut rest = &bytes[..];
            match take(&mut rest) {
                Ok(number) => prop_assert_eq!(&bytes[..bytes.len() - rest.len()], encoded(number)),
                Err(_) => prop_assert_eq!(rest, &bytes[..]),
            }
        }

        #[test]
        fn longer_encodings_are_refused(number in 0..1_u64 << 56, more in 0..2_usize) {
            let mut bytes = encoded(number);
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.extend(vec![0x80; more]);
            bytes.push(0);
            prop_assert_eq!(take(&mut &bytes[..]), Err(VarintError::Overlong));
        }
    }

    #[test]
    fn sixty_five_bits_are_too_many() {
        let mut bytes = encoded(u64::MAX);
        assert_eq!(bytes.len(), 10);
        for last in [2, 3, 0x7f, 0x80, 0x81, 0xff] {
            bytes[9] = last;
            assert_eq!(take(&mut &bytes[..]), Err(VarintError::TooLarge), "{last}");
        }
        assert_eq!(take(&mut &[0xff; 20][..]), Err(VarintError::TooLarge));
    }
}
