//! Writing values in the wire's binary format.

use namiki_data::columns::Value;

use super::SqlType;
use super::numeric::without_zeros;
use super::text_output::write_characters;
use super::time::{EPOCH_2000_DAYS, EPOCH_2000_MICROS};

/// Appends the binary form of a value that is not null.
pub(crate) fn write_binary(value: Value<'_>, of: SqlType, into: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => into.push(u8::from(value)),
        Value::I64(number) => match of {
            SqlType::Int2 => into.extend_from_slice(&(number as i16).to_be_bytes()),
            SqlType::Int4 => into.extend_from_slice(&(number as i32).to_be_bytes()),
            SqlType::Oid => into.extend_from_slice(&(number as u32).to_be_bytes()),
            SqlType::Timestamp | SqlType::Timestamptz => {
                let micros = number.saturating_sub(EPOCH_2000_MICROS);
                into.extend_from_slice(&micros.to_be_bytes());
            }
            _ => into.extend_from_slice(&number.to_be_bytes()),
        },
        Value::U64(number) => into.extend_from_slice(&number.to_be_bytes()),
        Value::F64(number) if of == SqlType::Float4 => {
            into.extend_from_slice(&(number as f32).to_be_bytes());
        }
        Value::F64(number) => into.extend_from_slice(&number.to_be_bytes()),
        Value::Date(days) => {
            let days = i64::from(days) - EPOCH_2000_DAYS;
            into.extend_from_slice(&(days as i32).to_be_bytes());
        }
        Value::Text(text) => write_characters(text, of, into),
        Value::Bytes(bytes) => into.extend_from_slice(bytes),
        Value::Decimal { unscaled, scale } if of.hides_zeros() => {
            let (unscaled, scale) = without_zeros(unscaled, scale);
            write_numeric(unscaled, scale, into);
        }
        Value::Decimal { unscaled, scale } => write_numeric(unscaled, scale, into),
    }
}

/// Digits to the base 10,000, the first one's weight, the sign, and the digits behind the point.
fn write_numeric(unscaled: i128, scale: u8, into: &mut Vec<u8>) {
    // The digits behind the point are filled up to whole groups of four.
    let filled = usize::from(scale).div_ceil(4) * 4 - usize::from(scale);
    let mut digits = unscaled.unsigned_abs().to_string();
    digits.extend(std::iter::repeat_n('0', filled));
    let lead = digits.len().next_multiple_of(4) - digits.len();
    digits.insert_str(0, &"000"[..lead]);
    let mut groups: Vec<i16> = Vec::with_capacity(digits.len() / 4);
    for group in digits.as_bytes().chunks(4) {
        groups.push(
            group
                .iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0')),
        );
    }
    let mut weight = groups.len() as i16 - (usize::from(scale).div_ceil(4)) as i16 - 1;
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= zeros as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign: u16 = if unscaled < 0 { 0x4000 } else { 0 };
    into.extend_from_slice(&(groups.len() as i16).to_be_bytes());
    into.extend_from_slice(&weight.to_be_bytes());
    into.extend_from_slice(&sign.to_be_bytes());
    into.extend_from_slice(&u16::from(scale).to_be_bytes());
    for group in groups {
        into.extend_from_slice(&group.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::from_binary;
    use super::*;
    use namiki_data::columns::Datum;

    #[test]
    fn numerics_come_back_from_their_groups() {
        for (unscaled, scale) in [
            (0, 0),
            (0, 3),
            (1, 0),
            (10_000, 0),
            (123_456_789, 2),
            (-5, 3),
            (120_000, 4),
            (i128::MAX / 10, 10),
        ] {
            let mut bytes = Vec::new();
            write_binary(
                Value::Decimal { unscaled, scale },
                SqlType::NUMERIC,
                &mut bytes,
            );
            let of = SqlType::Numeric {
                precision: 38,
                scale,
            };
            let read = from_binary(of, &bytes).unwrap();
            assert_eq!(
                read,
                Datum::Decimal { unscaled, scale },
                "{unscaled} {scale}"
            );
        }
    }

    #[test]
    fn integers_have_the_width_of_their_type() {
        for (of, width) in [(SqlType::Int2, 2), (SqlType::Int4, 4), (SqlType::Int8, 8)] {
            let mut bytes = Vec::new();
            write_binary(Value::I64(-2), of, &mut bytes);
            assert_eq!(bytes.len(), width);
            assert_eq!(from_binary(of, &bytes).unwrap(), Datum::I64(-2));
        }
    }
}
