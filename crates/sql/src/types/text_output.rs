//! Writing values as the text that clients read.

use std::io::Write as _;

use namiki_data::columns::Value;

use super::SqlType;
use super::numeric::without_zeros;
use super::time::{self, TimeZone};

/// Appends the text of a value that is not null.
pub(crate) fn write_text(value: Value<'_>, of: SqlType, zone: TimeZone, into: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => into.push(if value { b't' } else { b'f' }),
        Value::I64(micros) if of == SqlType::Timestamp => {
            with_text(into, |text| time::write_timestamp(micros, text));
        }
        Value::I64(micros) if of == SqlType::Timestamptz => with_text(into, |text| {
            let seconds = zone.offset_at(micros);
            time::write_timestamp(micros.saturating_add(i64::from(seconds) * 1_000_000), text);
            time::write_offset(seconds, text);
        }),
        Value::I64(number) => into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Value::U64(number) => into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Value::F64(number) if of == SqlType::Float4 => write_float4(number as f32, into),
        Value::F64(number) => write_float8(number, into),
        Value::Date(days) => with_text(into, |text| time::write_date(days.into(), text)),
        Value::Text(text) => write_characters(text, of, into),
        Value::Bytes(bytes) if of == SqlType::Uuid => write_uuid(bytes, into),
        Value::Bytes(bytes) => {
            into.extend_from_slice(b"\\x");
            write_hexadecimal(bytes, into);
        }
        Value::Decimal { unscaled, scale } if of.hides_zeros() => {
            let (unscaled, scale) = without_zeros(unscaled, scale);
            // As below.
            drop(write!(into, "{}", Value::Decimal { unscaled, scale }));
        }
        // Writing into memory cannot fail.
        decimal @ Value::Decimal { .. } => drop(write!(into, "{decimal}")),
    }
}

/// Appends a text; one of a fixed length with spaces behind it.
pub(super) fn write_characters(text: &[u8], of: SqlType, into: &mut Vec<u8>) {
    into.extend_from_slice(text);
    if let SqlType::Char { length } = of {
        // Each character has one byte that does not continue another one.
        let characters = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        let missing = (length as usize).saturating_sub(characters);
        into.extend(std::iter::repeat_n(b' ', missing));
    }
}

fn with_text(into: &mut Vec<u8>, write: impl FnOnce(&mut String)) {
    let mut text = String::with_capacity(40);
    write(&mut text);
    into.extend_from_slice(text.as_bytes());
}

fn write_hexadecimal(bytes: &[u8], into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        into.push(DIGITS[usize::from(byte >> 4)]);
        into.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn write_uuid(bytes: &[u8], into: &mut Vec<u8>) {
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            into.push(b'-');
        }
        write_hexadecimal(std::slice::from_ref(byte), into);
    }
}

/// Appends the shortest text that reads back as this number.
fn write_float8(number: f64, into: &mut Vec<u8>) {
    if !write_special(number, into) {
        write_digits(&format!("{number:e}"), 15, into);
    }
}

fn write_float4(number: f32, into: &mut Vec<u8>) {
    if !write_special(f64::from(number), into) {
        write_digits(&format!("{number:e}"), 6, into);
    }
}

fn write_special(number: f64, into: &mut Vec<u8>) -> bool {
    let text: &[u8] = if number.is_nan() {
        b"NaN"
    } else if number.is_infinite() && number > 0.0 {
        b"Infinity"
    } else if number.is_infinite() {
        b"-Infinity"
    } else {
        return false;
    };
    into.extend_from_slice(text);
    true
}

/// Rewrites `-1.25e7` as PostgreSQL does: plainly for exponents from -4 to below `plain`.
fn write_digits(scientific: &str, plain: i32, into: &mut Vec<u8>) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    into.extend_from_slice(sign.as_bytes());
    if !(-4..plain).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(into, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    if exponent < 0 {
        into.extend_from_slice(b"0.");
        into.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        into.extend_from_slice(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    into.extend(digits.iter().chain(std::iter::repeat(&b'0')).take(whole));
    if digits.len() > whole {
        into.push(b'.');
        into.extend_from_slice(&digits[whole..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: Value<'_>, of: SqlType) -> String {
        let mut bytes = Vec::new();
        write_text(value, of, TimeZone::Fixed(7200), &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn floats_are_written_as_postgresql_does() {
        for (number, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-1.25e7, "-12500000"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.000_12, "0.00012"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-0.0, "-0"),
        ] {
            assert_eq!(written(Value::F64(number), SqlType::Float8), expected);
        }
        assert_eq!(written(Value::F64(0.1_f32.into()), SqlType::Float4), "0.1");
    }

    #[test]
    fn zeros_are_hidden_where_no_scale_was_declared() {
        let value = Value::Decimal {
            unscaled: 15_000_000_000,
            scale: 10,
        };
        assert_eq!(written(value, SqlType::NUMERIC), "1.5");
        let declared = SqlType::Numeric {
            precision: 12,
            scale: 2,
        };
        let value = Value::Decimal {
            unscaled: 150,
            scale: 2,
        };
        assert_eq!(written(value, declared), "1.50");
    }

    #[test]
    fn other_values_have_their_own_forms() {
        assert_eq!(written(Value::Bool(true), SqlType::Bool), "t");
        assert_eq!(written(Value::Bytes(&[0, 255]), SqlType::Bytea), "\\x00ff");
        assert_eq!(
            written(Value::I64(0), SqlType::Timestamptz),
            "1970-01-01 02:00:00+02"
        );
        assert_eq!(written(Value::I64(0), SqlType::Int4), "0");
        let fixed = SqlType::Char { length: 3 };
        assert_eq!(written(Value::Text("ä".as_bytes()), fixed), "ä  ");
        let uuid = written(Value::Bytes(&[17; 16]), SqlType::Uuid);
        assert_eq!(uuid, "11111111-1111-1111-1111-111111111111");
    }
}
