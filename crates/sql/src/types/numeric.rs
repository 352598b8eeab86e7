//! Decimal numbers: powers of ten, rounding, and reading them.

use namiki_data::columns::{Datum, SCALE_MAX};

use super::SqlType;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// Ten to the power of each exponent that an `i128` can hold.
pub(crate) const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < 39 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The same number at another scale, rounded half away from zero. `None` if it does not fit.
pub(crate) fn rescale_rounded(unscaled: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        let power = POWERS_OF_TEN.get(usize::from(to - from))?;
        return unscaled.checked_mul(*power);
    }
    let Some(power) = POWERS_OF_TEN.get(usize::from(from - to)) else {
        return Some(0);
    };
    let (quotient, rest) = (unscaled / power, unscaled % power);
    // Not doubled, which could overflow.
    let up = rest.unsigned_abs() >= power.unsigned_abs().div_ceil(2);
    let step = if unscaled < 0 { -1 } else { 1 };
    Some(if up { quotient + step } else { quotient })
}

/// The same number without zeros at the end of its fraction.
pub(crate) fn without_zeros(mut unscaled: i128, mut scale: u8) -> (i128, u8) {
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    (unscaled, scale)
}

/// The digits of a number that a client sends for this type. A declared scale rounds; without one, digits that do not fit
/// are refused, since no scale says that they may be lost.
///
/// # Errors
/// 22003 if it does not fit.
pub(crate) fn rescale_input(of: SqlType, unscaled: i128, from: u8, to: u8) -> SqlResult<i128> {
    let lost = usize::from(from.saturating_sub(to));
    let is_exact = POWERS_OF_TEN
        .get(lost)
        .is_some_and(|power| unscaled % power == 0);
    if of == SqlType::NUMERIC && !is_exact {
        return Err(SqlError::new(
            sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("a numeric without a precision has at most {to} digits behind the point"),
        )
        .with_hint("Use a column, or a cast, with a precision and a scale: numeric(38,18)."));
    }
    rescale_rounded(unscaled, from, to).ok_or_else(|| of.out_of_range())
}

/// Reads `-12.50`, `.5`, `5.` or `1e3`. `None` if it is no number, or has more digits than a decimal.
pub(crate) fn parse_numeric(text: &str) -> Option<Datum> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut unscaled: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return None;
        }
        unscaled = unscaled
            .checked_mul(10)?
            .checked_add(i128::from(byte - b'0'))?;
    }
    let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if scale < 0 {
        let power = POWERS_OF_TEN.get(usize::try_from(-scale).ok()?)?;
        unscaled = unscaled.checked_mul(*power)?;
        scale = 0;
    }
    let most = i32::from(SCALE_MAX);
    if scale > most {
        // Digits that no column can hold are rounded away.
        let from = u8::try_from(scale).ok()?;
        unscaled = rescale_rounded(unscaled, from, SCALE_MAX)?;
        scale = most;
    }
    Some(Datum::Decimal {
        unscaled: if negative { -unscaled } else { unscaled },
        scale: scale as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_end_at_the_point() {
        assert_eq!(without_zeros(15_000, 4), (15, 1));
        assert_eq!(without_zeros(-12_000, 2), (-120, 0));
        assert_eq!(without_zeros(0, 10), (0, 0));
        assert_eq!(without_zeros(123, 2), (123, 2));
    }

    #[test]
    fn digits_are_lost_only_where_a_scale_is_declared() {
        let of = SqlType::Numeric {
            precision: 10,
            scale: 2,
        };
        assert_eq!(rescale_input(of, 1255, 3, 2).unwrap(), 126);
        assert_eq!(rescale_input(SqlType::NUMERIC, 2_000, 13, 10).unwrap(), 2);
        let refused = rescale_input(SqlType::NUMERIC, 1_501, 13, 10).unwrap_err();
        assert_eq!(refused.sqlstate(), "22003");
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (unscaled, expected) in [(15, 2), (14, 1), (-15, -2), (-14, -1), (25, 3)] {
            assert_eq!(
                rescale_rounded(unscaled, 1, 0),
                Some(expected),
                "{unscaled}"
            );
        }
        assert_eq!(rescale_rounded(i128::MAX, 0, 1), None);
        assert_eq!(rescale_rounded(i128::MAX, 38, 0), Some(2));
    }

    #[test]
    fn numbers_are_read_as_sql_writes_them() {
        for (text, expected) in [
            ("-12.50", "-12.50"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("25e-1", "2.5"),
        ] {
            assert_eq!(parse_numeric(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1e", "x"] {
            assert_eq!(parse_numeric(text), None, "{text}");
        }
    }
}
