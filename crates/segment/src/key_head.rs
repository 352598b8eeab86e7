//! The few comparisons that every look-up makes, without calls: on keys as short as most are, a
//! call of `memcmp` or `memcpy` costs more than what it does.

/// Whether `key` begins with `prefix`.
#[inline]
pub(crate) fn begins_with(key: &[u8], prefix: &[u8]) -> bool {
    let len = prefix.len();
    let Some(key) = key.get(..len) else {
        return false;
    };
    match len {
        // First and last bytes, which overlap: every byte is in one of them.
        8..=16 => ends::<8>(key) == ends::<8>(prefix),
        4..8 => ends::<4>(key) == ends::<4>(prefix),
        2..4 => ends::<2>(key) == ends::<2>(prefix),
        0..2 => key.first() == prefix.first(),
        _ => key == prefix,
    }
}

#[inline]
fn ends<const N: usize>(bytes: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (bytes.first_chunk(), bytes.last_chunk())
}

/// The four bytes of `key` behind `skip` bytes, which it has, as a number that compares like them.
/// Zeros where it has fewer.
#[inline]
pub(crate) fn head_u32(key: &[u8], skip: usize) -> u32 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(head) = rest.first_chunk() {
        return u32::from_be_bytes(*head);
    }
    match key.last_chunk() {
        // The last bytes, without those before the rest.
        Some(last) => (u64::from(u32::from_be_bytes(*last)) << (8 * (4 - rest.len()))) as u32,
        None => padded::<4>(rest).map_or(0, u32::from_be_bytes),
    }
}

/// The same of eight bytes.
#[inline]
pub(crate) fn head_u64(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    match key.last_chunk() {
        Some(last) => (u128::from(u64::from_be_bytes(*last)) << (8 * (8 - rest.len()))) as u64,
        None => padded::<8>(rest).map_or(0, u64::from_be_bytes),
    }
}

#[cold]
fn padded<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut padded = [0; N];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(padded)
}

/// Whether two keys in parts are the same.
pub(crate) fn same_bytes<const N: usize, const M: usize>(
    mut a: [&[u8]; N],
    mut b: [&[u8]; M],
) -> bool {
    let len = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
    if len(&a) != len(&b) {
        return false;
    }
    let (mut i, mut j) = (0, 0);
    while i < N && j < M {
        let common = a[i].len().min(b[j].len());
        if !begins_with(a[i], &b[j][..common]) {
            return false;
        }
        (a[i], b[j]) = (&a[i][common..], &b[j][common..]);
        i += usize::from(a[i].is_empty());
        j += usize::from(b[j].is_empty());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_all_lengths_are_told_apart() {
        let key: Vec<u8> = (1..40).collect();
        for len in 0..=key.len() {
            let mut prefix = key[..len].to_vec();
            assert!(begins_with(&key, &prefix));
            for at in 0..len {
                prefix[at] ^= 0x40;
                assert!(!begins_with(&key, &prefix), "{len} bytes, wrong at {at}");
                prefix[at] ^= 0x40;
            }
            prefix.push(99);
            assert!(!begins_with(&key[..len], &prefix));
        }
    }

    #[test]
    fn heads_are_the_bytes_behind_what_is_skipped() {
        let key: Vec<u8> = (1..=12).map(|byte| byte * 21).collect();
        for len in 0..=key.len() {
            let key = &key[..len];
            for skip in 0..=len {
                let mut bytes = key[skip..].to_vec();
                bytes.resize(8, 0);
                let expected = u64::from_be_bytes(*bytes.first_chunk().unwrap());
                assert_eq!(head_u64(key, skip), expected, "{len} {skip}");
                let expected = (expected >> 32) as u32;
                assert_eq!(head_u32(key, skip), expected, "{len} {skip}");
            }
        }
    }

    #[test]
    fn parts_make_the_same_key_wherever_it_is_parted() {
        let key: Vec<u8> = (0..9).collect();
        for a in 0..=9 {
            for b in a..=9 {
                let one = [&key[..a], &key[a..b], &key[b..]];
                for c in 0..=9 {
                    let (left, right) = key.split_at(c);
                    assert!(same_bytes(one, [left, right]));
                    assert!(!same_bytes(
                        one,
                        [left, &right[..right.len().max(1) - 1], b"x"]
                    ));
                    assert!(!same_bytes(one, [left, right, b"x"]));
                }
            }
        }
    }
}
