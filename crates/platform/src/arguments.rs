//! What command lines say, for programs that say the same when it makes no sense.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser of whole numbers within a range. What it refuses it answers with the range, whatever was
/// wrong: letters, a sign, or too much.
pub fn whole<T: FromStr>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        // The type may hold less than the range.
        number
            .and_then(|_| text.parse().ok())
            .ok_or_else(|| match (*range.start(), *range.end()) {
                (first, u64::MAX) => format!("not a whole number from {first} on"),
                (first, last) => format!("not a whole number from {first} to {last}"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    #[test]
    fn numbers_are_in_range_or_the_range_is_named() {
        let small = whole::<NonZeroU16>(1..=1024);
        assert_eq!(small("1"), Ok(NonZeroU16::MIN));
        assert_eq!(small("1024"), Ok(NonZeroU16::new(1024).unwrap()));
        for bad in ["", "0", "1025", "70000", "-1", "1.5", "1e2", "x", " 1"] {
            let said = small(bad).unwrap_err();
            assert_eq!(said, "not a whole number from 1 to 1024", "{bad:?}");
        }
        let any = whole::<u64>(0..=u64::MAX);
        assert_eq!(any("18446744073709551615"), Ok(u64::MAX));
        for bad in ["18446744073709551616", "-1"] {
            assert_eq!(any(bad).unwrap_err(), "not a whole number from 0 on");
        }
        // Zero is in this range, and no number of this type.
        assert!(whole::<NonZeroU16>(0..=5)("0").is_err());
    }
}
