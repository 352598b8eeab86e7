//! Reading values that clients write as text.

use namiki_data::columns::{Datum, Float};

use super::time::{self, TimeZone};
use super::{SqlType, parse_numeric, rescale_input};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The value that a text stands for. It is not cut or rounded to a column's limits: [`SqlType::assign`] does that.
///
/// # Errors
/// 22P02 if it is no such value, 22003 or 22008 if it is beyond the type's range.
pub(crate) fn from_text(to: SqlType, text: &str, zone: TimeZone) -> SqlResult<Datum> {
    let invalid = || invalid_text(to, text);
    Ok(match to {
        SqlType::Bool => Datum::Bool(boolean(text.trim()).ok_or_else(invalid)?),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid => {
            let number: i128 = match text.trim().parse() {
                Ok(number) => number,
                Err(_) if is_number(text.trim()) => return Err(too_large(to, text)),
                Err(_) => return Err(invalid()),
            };
            let (least, greatest) = to.integer_range();
            match i64::try_from(number) {
                Ok(number) if (least..=greatest).contains(&number) => Datum::I64(number),
                _ => return Err(too_large(to, text)),
            }
        }
        SqlType::Float4 | SqlType::Float8 => {
            let number = float(text.trim()).ok_or_else(invalid)?;
            let narrow = if to == SqlType::Float4 {
                f64::from(number as f32)
            } else {
                number
            };
            let is_word = text.contains(['n', 'N']);
            let is_lost = narrow == 0.0 && text.contains(|it: char| ('1'..='9').contains(&it));
            let is_zero = is_lost
                && text
                    .trim_start_matches(['-', '+', '0', '.'])
                    .starts_with(['e', 'E']);
            if narrow.is_infinite() && !is_word || is_lost && !is_zero {
                return Err(too_large(to, text));
            }
            Datum::F64(Float(narrow))
        }
        SqlType::Numeric { scale, .. } => {
            let value = parse_numeric(text.trim()).ok_or_else(invalid)?;
            let Datum::Decimal {
                unscaled,
                scale: from,
            } = value
            else {
                return Err(invalid());
            };
            let is_lost = unscaled == 0
                && text
                    .split(['e', 'E'])
                    .next()
                    .is_some_and(|digits| digits.contains(|it: char| ('1'..='9').contains(&it)));
            if is_lost && to == SqlType::NUMERIC {
                return Err(too_large(to, text));
            }
            let unscaled = rescale_input(to, unscaled, from, scale)?;
            Datum::Decimal { unscaled, scale }
        }
        SqlType::Date => Datum::Date(time::parse_date(text).ok_or_else(|| invalid_time(to, text))?),
        SqlType::Timestamp => {
            let (micros, _) = time::parse_timestamp(text).ok_or_else(|| invalid_time(to, text))?;
            Datum::I64(micros)
        }
        SqlType::Timestamptz => {
            let (micros, offset) =
                time::parse_timestamp(text).ok_or_else(|| invalid_time(to, text))?;
            Datum::I64(match offset {
                Some(seconds) => micros.saturating_sub(i64::from(seconds) * 1_000_000),
                None => zone.instant(micros),
            })
        }
        SqlType::Uuid => Datum::Bytes(uuid(text.trim()).ok_or_else(invalid)?),
        SqlType::Bytea => Datum::Bytes(bytea(text).ok_or_else(|| {
            let is_hexadecimal = text.starts_with("\\x");
            let state = if is_hexadecimal {
                sqlstate::INVALID_PARAMETER_VALUE
            } else {
                sqlstate::INVALID_TEXT_REPRESENTATION
            };
            SqlError::new(state, invalid().message())
        })?),
        SqlType::Json => {
            if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
                return Err(invalid());
            }
            Datum::Text(text.to_owned())
        }
        // Spaces at the end have no meaning: it is compared without them.
        SqlType::Char { .. } => Datum::Text(text.trim_end_matches(' ').to_owned()),
        SqlType::Text | SqlType::Varchar { .. } | SqlType::Name | SqlType::Interval => {
            Datum::Text(text.to_owned())
        }
    })
}

fn invalid_text(to: SqlType, text: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {}: \"{text}\"", to.name()),
    )
}

fn invalid_time(to: SqlType, text: &str) -> SqlError {
    let looks_right = text
        .trim()
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"-:/T .+Z".contains(&byte));
    let (state, what) = if looks_right && !text.trim().is_empty() {
        (
            sqlstate::DATETIME_FIELD_OVERFLOW,
            "date/time field value out of range",
        )
    } else {
        (sqlstate::INVALID_DATETIME_FORMAT, "invalid input syntax")
    };
    if state == sqlstate::INVALID_DATETIME_FORMAT {
        return SqlError::new(state, format!("{what} for type {}: \"{text}\"", to.name()));
    }
    SqlError::new(state, format!("{what}: \"{text}\""))
}

fn too_large(to: SqlType, text: &str) -> SqlError {
    SqlError::new(
        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", to.name()),
    )
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "off" | "of" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

fn float(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "infinity" | "inf" | "+infinity" | "+inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
        other => other.parse().ok(),
    }
}

/// Sixteen bytes, with hyphens anywhere and braces around.
fn uuid(text: &str) -> Option<Vec<u8>> {
    let text = text
        .strip_prefix('{')
        .map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let digits: String = text.chars().filter(|it| *it != '-').collect();
    (digits.len() == 32).then(|| hexadecimal(&digits)).flatten()
}

/// `\x` and hexadecimal digits, or the older form: octal numbers after a backslash.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: String = digits
            .chars()
            .filter(|it| !it.is_ascii_whitespace())
            .collect();
        return hexadecimal(&digits);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            (b'\\', _) => return None,
            (byte, tail) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    Some(bytes)
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    let sign = digits.contains(['+', '-']);
    (0..digits.len())
        .step_by(2)
        .map(pair)
        .collect::<Option<Vec<u8>>>()
        .filter(|_| !sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(to: SqlType, text: &str) -> SqlResult<Datum> {
        from_text(to, text, TimeZone::Utc)
    }

    #[test]
    fn values_are_read_from_their_texts() {
        assert_eq!(read(SqlType::Bool, "t").unwrap(), Datum::Bool(true));
        assert_eq!(read(SqlType::Int4, " 12 ").unwrap(), Datum::I64(12));
        assert_eq!(
            read(SqlType::Bytea, "\\x00ff").unwrap(),
            Datum::Bytes(vec![0, 255])
        );
        assert_eq!(
            read(SqlType::Bytea, "a\\\\\\001").unwrap(),
            Datum::Bytes(b"a\\\x01".to_vec())
        );
        let uuid = read(SqlType::Uuid, "00000000-0000-0000-0000-0000000000ff").unwrap();
        assert_eq!(uuid, Datum::Bytes([vec![0; 15], vec![255]].concat()));
        let zoned = read(SqlType::Timestamptz, "1970-01-01 02:00+02").unwrap();
        assert_eq!(zoned, Datum::I64(0));
    }

    #[test]
    fn other_texts_are_refused_with_their_states() {
        for (to, text, state) in [
            (SqlType::Int4, "x", sqlstate::INVALID_TEXT_REPRESENTATION),
            (
                SqlType::Int4,
                "3000000000",
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            ),
            (
                SqlType::Date,
                "2026-02-30",
                sqlstate::DATETIME_FIELD_OVERFLOW,
            ),
            (SqlType::Date, "never", sqlstate::INVALID_DATETIME_FORMAT),
            (
                SqlType::Float8,
                "1e400",
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            ),
            (
                SqlType::Float4,
                "-1e39",
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            ),
            (
                SqlType::NUMERIC,
                "1e-40",
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            ),
            (SqlType::Json, "{", sqlstate::INVALID_TEXT_REPRESENTATION),
            (SqlType::Uuid, "12", sqlstate::INVALID_TEXT_REPRESENTATION),
        ] {
            assert_eq!(read(to, text).unwrap_err().sqlstate(), state, "{text}");
        }
    }
}
