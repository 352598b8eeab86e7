//! Lengths of seven bits a byte, the lowest first, the top bit set in all bytes but the last. At
//! most two bytes: no length inside a page needs more.

/// One more than the largest number.
pub(crate) const LIMIT: usize = 1 << 14;

/// The encoded length of `number`.
pub(crate) fn len(number: usize) -> usize {
    debug_assert!(number < LIMIT);
    if number < 128 { 1 } else { 2 }
}

/// Writes at `at` and returns where it ends.
pub(crate) fn write(bytes: &mut [u8], at: usize, number: usize) -> usize {
    debug_assert!(number < LIMIT);
    if number < 128 {
        bytes[at] = number as u8;
        at + 1
    } else {
        bytes[at] = (number & 127) as u8 | 128;
        bytes[at + 1] = (number >> 7) as u8;
        at + 2
    }
}

/// The number at `at` of a checked page, and where it ends.
#[inline]
pub(crate) fn read(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at] as usize;
    if first < 128 {
        (first, at + 1)
    } else {
        (first & 127 | (bytes[at + 1] as usize) << 7, at + 2)
    }
}

/// The same of bytes that may end anywhere and hold anything.
pub(crate) fn try_read(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = *bytes.get(at)? as usize;
    if first < 128 {
        return Some((first, at + 1));
    }
    let second = *bytes.get(at + 1)? as usize;
    // One way to write a number: two bytes for none that one byte holds.
    (1..128)
        .contains(&second)
        .then_some((first & 127 | second << 7, at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_back_and_cut_ones_are_not() {
        for number in 0..LIMIT {
            let mut bytes = [0xff; 3];
            let end = write(&mut bytes, 0, number);
            assert_eq!(end, len(number));
            assert_eq!(read(&bytes, 0), (number, end));
            assert_eq!(try_read(&bytes[..end], 0), Some((number, end)));
            assert_eq!(try_read(&bytes[..end - 1], 0), None);
        }
        assert_eq!(try_read(&[0x81, 0], 0), None);
        assert_eq!(try_read(&[0x81, 0x80], 0), None);
    }
}
