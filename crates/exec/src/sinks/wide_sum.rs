//! Wide sums, which overflow in no order of additions: three words, for up to 2^64 values of
//! sixteen bytes.

/// Words of a sum, the lowest first.
pub(super) const SUM_WORDS: usize = 3;

/// Adds a value.
#[inline]
pub(super) fn add(sum: &mut [u64], value: i128) {
    let extended = (value >> 127) as u64;
    add_wide(sum, [value as u64, (value >> 64) as u64, extended]);
}

/// Adds another sum.
#[inline]
pub(super) fn add_wide(sum: &mut [u64], other: [u64; SUM_WORDS]) {
    let low = u128::from(sum[1]) << 64 | u128::from(sum[0]);
    let other_low = u128::from(other[1]) << 64 | u128::from(other[0]);
    let (low, carry) = low.overflowing_add(other_low);
    sum[0] = low as u64;
    sum[1] = (low >> 64) as u64;
    // In two's complement; sums of that many values do not reach the last bit.
    sum[2] = sum[2].wrapping_add(other[2]).wrapping_add(u64::from(carry));
}

/// The sum, if it fits sixteen bytes.
pub(super) fn value(sum: &[u64]) -> Option<i128> {
    let low = (u128::from(sum[1]) << 64 | u128::from(sum[0])) as i128;
    ((low >> 127) as u64 == sum[2]).then_some(low)
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;

    fn sum_of(values: &[i128]) -> [u64; SUM_WORDS] {
        let mut sum = [0; SUM_WORDS];
        values.iter().for_each(|value| add(&mut sum, *value));
        sum
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let number = 1 + random.index(20);
            let edges = [i128::MAX, i128::MIN, 1, -1, 0, 1 << 64, -(1 << 64)];
            let mut values: Vec<i128> = (0..number).map(|_| edges[random.index(7)]).collect();
            let sum = sum_of(&values);
            random.shuffle(&mut values);
            assert_eq!(sum_of(&values), sum, "seed {seed}");
            let (one, two) = values.split_at(number / 2);
            let mut merged = sum_of(one);
            add_wide(&mut merged, sum_of(two));
            assert_eq!(merged, sum, "seed {seed}");
            // By halves, which do not overflow.
            let high: i128 = values.iter().map(|value| value >> 64).sum();
            let low: i128 = values
                .iter()
                .map(|value| value & i128::from(u64::MAX))
                .sum();
            let expected = (high + (low >> 64))
                .checked_mul(1 << 64)
                .and_then(|high| high.checked_add(low & i128::from(u64::MAX)));
            assert_eq!(value(&sum), expected, "seed {seed}");
        }
    }

    #[test]
    fn a_sum_that_does_not_fit_is_nothing() {
        assert_eq!(value(&sum_of(&[i128::MAX, 1])), None);
        assert_eq!(value(&sum_of(&[i128::MIN, -1])), None);
        assert_eq!(value(&sum_of(&[i128::MAX, 1, -1])), Some(i128::MAX));
        assert_eq!(value(&sum_of(&[i128::MIN, -1, 1])), Some(i128::MIN));
    }
}
