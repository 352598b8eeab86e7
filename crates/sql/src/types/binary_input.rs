//! Reading values in the wire's binary format.

use namiki_data::columns::{Datum, Float};

use super::time::{EPOCH_2000_DAYS, EPOCH_2000_MICROS};
use super::{POWERS_OF_TEN, SqlType, rescale_input};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The value of a parameter in binary format.
///
/// # Errors
/// 22P03 if the bytes are no such value; 22021 if a text is not UTF-8; 22003 for a numeric beyond 38 digits.
pub(crate) fn from_binary(of: SqlType, bytes: &[u8]) -> SqlResult<Datum> {
    let invalid = || {
        SqlError::new(
            sqlstate::INVALID_BINARY_REPRESENTATION,
            format!("incorrect binary data format for type {}", of.name()),
        )
    };
    let whole = |bytes: &[u8]| match bytes {
        [a, b] => Some(i64::from(i16::from_be_bytes([*a, *b]))),
        [a, b, c, d] => Some(i64::from(i32::from_be_bytes([*a, *b, *c, *d]))),
        _ => <[u8; 8]>::try_from(bytes).ok().map(i64::from_be_bytes),
    };
    Ok(match of {
        SqlType::Bool => match bytes {
            [byte] => Datum::Bool(*byte != 0),
            _ => return Err(invalid()),
        },
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => {
            if bytes.len() != of.size() as usize {
                return Err(invalid());
            }
            Datum::I64(whole(bytes).ok_or_else(invalid)?)
        }
        SqlType::Oid => {
            let bytes = <[u8; 4]>::try_from(bytes).map_err(|_| invalid())?;
            Datum::I64(u32::from_be_bytes(bytes).into())
        }
        SqlType::Float4 => {
            let bytes = <[u8; 4]>::try_from(bytes).map_err(|_| invalid())?;
            Datum::F64(Float(f32::from_be_bytes(bytes).into()))
        }
        SqlType::Float8 => {
            let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| invalid())?;
            Datum::F64(Float(f64::from_be_bytes(bytes)))
        }
        SqlType::Timestamp | SqlType::Timestamptz => {
            let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| invalid())?;
            Datum::I64(i64::from_be_bytes(bytes).saturating_add(EPOCH_2000_MICROS))
        }
        SqlType::Date => {
            let bytes = <[u8; 4]>::try_from(bytes).map_err(|_| invalid())?;
            let days = i64::from(i32::from_be_bytes(bytes)) + EPOCH_2000_DAYS;
            Datum::Date(i32::try_from(days).map_err(|_| invalid())?)
        }
        SqlType::Uuid if bytes.len() != 16 => return Err(invalid()),
        SqlType::Uuid | SqlType::Bytea => Datum::Bytes(bytes.to_vec()),
        SqlType::Numeric { scale, .. } => {
            let (unscaled, from) = numeric(bytes).ok_or_else(invalid)?;
            let unscaled = unscaled.ok_or_else(|| of.out_of_range())?;
            let unscaled = rescale_input(of, unscaled, from, scale)?;
            Datum::Decimal { unscaled, scale }
        }
        // As `from_text` reads it.
        SqlType::Char { .. } => Datum::Text(utf8(bytes)?.trim_end_matches(' ').to_owned()),
        SqlType::Text
        | SqlType::Varchar { .. }
        | SqlType::Json
        | SqlType::Name
        | SqlType::Interval => Datum::Text(utf8(bytes)?.to_owned()),
    })
}

/// The bytes as text.
///
/// # Errors
/// 22021 if they are not UTF-8, or contain a zero.
pub(crate) fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        SqlError::new(
            sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": 0x{at:02x}"),
        )
    })?;
    if text.contains('\0') {
        return Err(SqlError::new(
            sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    Ok(text)
}

/// The digits and the scale; the digits are `None` if there are too many. `None` if the bytes are no number.
fn numeric(bytes: &[u8]) -> Option<(Option<i128>, u8)> {
    let (head, groups) = bytes.split_first_chunk::<8>()?;
    let word = |at: usize| i16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign) = (word(0), word(2), word(4) as u16);
    if usize::try_from(count).ok()? * 2 != groups.len() || ![0, 0x4000].contains(&sign) {
        return None;
    }
    // The exponent of the last group. Its zeros behind the digits that are shown are not counted: 38 digits fit.
    let exponent = (i32::from(weight) - i32::from(count) + 1) * 4;
    let fraction = (-exponent).max(0);
    let unshown = match fraction - i32::from(word(6)) {
        unshown @ 1..=3 => unshown as usize,
        _ => 0,
    };
    let mut unscaled: Option<i128> = Some(0);
    let groups = groups
        .chunks(2)
        .map(|group| i16::from_be_bytes([group[0], group[1]]));
    let last = usize::try_from(count).ok()?.checked_sub(1);
    let mut unshown_digits = 0;
    for (at, group) in groups.enumerate() {
        if !(0..10_000).contains(&group) {
            return None;
        }
        let mut group = i128::from(group);
        if Some(at) == last && group % POWERS_OF_TEN[unshown] == 0 {
            group /= POWERS_OF_TEN[unshown];
            unshown_digits = unshown;
        }
        let digits = if Some(at) == last {
            4 - unshown_digits
        } else {
            4
        };
        unscaled = unscaled
            .and_then(|it| it.checked_mul(POWERS_OF_TEN[digits]))
            .and_then(|it| it.checked_add(group));
    }
    if exponent > 0 {
        let power = POWERS_OF_TEN.get(exponent as usize);
        unscaled = unscaled.and_then(|it| it.checked_mul(*power?));
    }
    let scale = u8::try_from(fraction - unshown_digits as i32).ok()?;
    let unscaled = unscaled.map(|it| if sign == 0 { it } else { -it });
    Some((unscaled, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lengths_and_texts_are_refused() {
        let state = |of, bytes: &[u8]| from_binary(of, bytes).unwrap_err().sqlstate();
        assert_eq!(
            state(SqlType::Int4, &[0; 8]),
            sqlstate::INVALID_BINARY_REPRESENTATION
        );
        assert_eq!(
            state(SqlType::Uuid, &[0; 8]),
            sqlstate::INVALID_BINARY_REPRESENTATION
        );
        assert_eq!(
            state(SqlType::Text, &[0xff]),
            sqlstate::CHARACTER_NOT_IN_REPERTOIRE
        );
        assert_eq!(
            state(SqlType::NUMERIC, &[0, 1]),
            sqlstate::INVALID_BINARY_REPRESENTATION
        );
    }
}
