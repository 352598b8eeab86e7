//! Splits a range of keys, so that several threads can scan it.
//!
//! No index knows the number of keys in a range. But the first and the last key are found quickly.
//! The bound halfway between them, as numbers, splits the range at the first key from there on.
//! Dense keys are split in the middle. Others may not be; then the larger part is split again once
//! a thread is idle. Each time the first and the last key of the part are looked up, so that no gap
//! is split twice.

use std::ops::Bound;

use namiki_index::{Direction, ScanRange};

/// A key of the range that is not its first: see the module. `end_key` finds the first key of a
/// range, in its direction.
pub(super) fn middle_key<E>(
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    end_key: impl Fn(ScanRange<'_>) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Vec<u8>>, E> {
    let end = |start, direction| {
        end_key(ScanRange {
            start,
            end: to,
            direction,
        })
    };
    let Some(first) = end(from, Direction::Forward)? else {
        return Ok(None);
    };
    let Some(last) = end(from, Direction::Backward)? else {
        return Ok(None);
    };
    // A range of one key; or an empty one, if keys were removed concurrently.
    if first >= last {
        return Ok(None);
    }
    let halfway = halfway(&first, &last);
    let start = if halfway > first {
        Bound::Included(&halfway[..])
    } else {
        Bound::Excluded(&first[..])
    };
    Ok(end(start, Direction::Forward)?.filter(|key| *key > first))
}

/// The middle of two keys as numbers of as many bytes as the longer one has. In an index of keys of one length it has that length,
/// too.
fn halfway(low: &[u8], high: &[u8]) -> Vec<u8> {
    let byte = |key: &[u8], at: usize| u16::from(key.get(at).copied().unwrap_or(0));
    let mut number = vec![0; low.len().max(high.len())];
    let mut carry = 0;
    for (at, digit) in number.iter_mut().enumerate().rev() {
        let sum = byte(low, at) + byte(high, at) + carry;
        (*digit, carry) = (sum as u8, sum >> 8);
    }
    for digit in &mut number {
        let doubled = carry << 8 | u16::from(*digit);
        (*digit, carry) = ((doubled >> 1) as u8, doubled & 1);
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use namiki_platform::seeded_random::Random;

    use super::*;

    #[test]
    fn the_middle_of_two_keys_lies_between_them() {
        assert_eq!(halfway(&[0, 0], &[1, 0]), [0, 128]);
        assert_eq!(halfway(&[255, 254], &[255, 255]), [255, 254]);
        assert_eq!(halfway(&[255; 8], &[255; 8]), [255; 8]);
        assert_eq!(halfway(b"", &[7]), [3]);
        assert_eq!(halfway(&[1], &[1, 0, 4]), [1, 0, 2]);
        assert_eq!(halfway(b"", b""), b"");
    }

    fn middle(keys: &BTreeSet<Vec<u8>>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<Vec<u8>> {
        let found = middle_key(from, to, |range| -> Result<_, Infallible> {
            let mut within = keys.range::<[u8], _>((range.start, range.end));
            Ok(match range.direction {
                Direction::Forward => within.next().cloned(),
                Direction::Backward => within.next_back().cloned(),
            })
        });
        match found {
            Ok(key) => key,
        }
    }

    /// Dense and sparse keys, of one length and of any, with bytes at both ends.
    #[test]
    fn division_puts_every_key_into_a_part_of_its_own() {
        for seed in 0..300 {
            let mut random = Random::seeded(seed);
            let fixed = random.chance(0.5);
            let bytes = [0, 1, 127, 254, 255];
            let few = random.chance(0.5);
            let mut keys = BTreeSet::new();
            for _ in 0..random.index(40) {
                let length = if fixed { 3 } else { random.index(5) };
                let mut byte = || {
                    if few {
                        bytes[random.index(bytes.len())]
                    } else {
                        random.index(256) as u8
                    }
                };
                keys.insert((0..length).map(|_| byte()).collect::<Vec<u8>>());
            }
            // Splitting until no part can be split leaves every key in a part of its own.
            let mut parts = vec![(Bound::Unbounded, Bound::Unbounded)];
            let mut single = Vec::new();
            while let Some((from, to)) = parts.pop() {
                let found = middle(
                    &keys,
                    from.as_ref().map(Vec::as_slice),
                    to.as_ref().map(Vec::as_slice),
                );
                match found {
                    Some(key) => {
                        assert!(!fixed || key.len() == 3);
                        parts.push((from, Bound::Excluded(key.clone())));
                        parts.push((Bound::Included(key), to));
                    }
                    None => {
                        let within = keys.range((from, to)).cloned().collect::<Vec<_>>();
                        assert!(within.len() <= 1, "seed {seed}: {within:?}");
                        single.extend(within);
                    }
                }
            }
            single.sort();
            assert!(single.iter().eq(&keys), "seed {seed}");
        }
    }
}
