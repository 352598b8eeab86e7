//! A decoded key or value.

use std::cmp::Ordering;
use std::time::Duration;

use super::moment::Moment;

/// A key or a value of any type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    Unsigned(u128),
    Signed(i128),
    F32(f32),
    F64(f64),
    Bool(bool),
    Char(char),
    Text(String),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
    Nothing,
    Option(Option<Box<Datum>>),
    Tuple(Vec<Datum>),
    /// The items of a list or an array.
    List(Vec<Datum>),
    /// Keys and values, in the order of the keys.
    Map(Vec<(Datum, Datum)>),
    Duration(Duration),
    Time(Moment),
    /// The fields of a derived type.
    Fields(Fields),
    /// The whole key or value as bytes: its type is unknown, or would not encode to these bytes.
    Raw(Vec<u8>),
}

/// A key or a value of a derived type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fields {
    /// The version at the beginning of a value that stands alone.
    pub(crate) version: Option<u32>,
    pub(crate) variant: Option<String>,
    pub(crate) fields: Vec<(String, Datum)>,
}

impl Fields {
    /// Whether its fields have numbers instead of names.
    pub(super) fn is_tuple(&self) -> bool {
        has_numbers(self.fields.iter().map(|(name, _)| &**name))
    }
}

/// Whether these names of fields are their positions.
pub(super) fn has_numbers<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> bool {
    names.len() > 0 && names.enumerate().all(|(at, name)| name == at.to_string())
}

/// Whether the first of two keys of a map may come before the second: they differ, and it is not
/// known to come after it.
pub(super) fn may_be_below(first: &Datum, second: &Datum) -> bool {
    order(first, second).is_none_or(Ordering::is_lt)
}

/// The order of two keys of a map. `None` for different keys of derived types: a program may order
/// them in its own way, and rejects a map in another order.
pub(super) fn order(first: &Datum, second: &Datum) -> Option<Ordering> {
    let several = |first: &[Datum], second: &[Datum]| {
        for (first, second) in first.iter().zip(second) {
            match order(first, second)? {
                Ordering::Equal => {}
                other => return Some(other),
            }
        }
        Some(first.len().cmp(&second.len()))
    };
    Some(match (first, second) {
        (Datum::Unsigned(first), Datum::Unsigned(second)) => first.cmp(second),
        (Datum::Signed(first), Datum::Signed(second)) => first.cmp(second),
        (Datum::Bool(first), Datum::Bool(second)) => first.cmp(second),
        (Datum::Char(first), Datum::Char(second)) => first.cmp(second),
        (Datum::Text(first), Datum::Text(second)) => first.cmp(second),
        (Datum::Bytes(first), Datum::Bytes(second)) => first.cmp(second),
        (Datum::Uuid(first), Datum::Uuid(second)) => first.cmp(second),
        (Datum::Nothing, Datum::Nothing) => Ordering::Equal,
        (Datum::Duration(first), Datum::Duration(second)) => first.cmp(second),
        (Datum::Time(first), Datum::Time(second)) => first.cmp(second),
        (Datum::Option(first), Datum::Option(second)) => match (first, second) {
            (Some(first), Some(second)) => order(first, second)?,
            (first, second) => first.is_some().cmp(&second.is_some()),
        },
        (Datum::Tuple(first), Datum::Tuple(second)) | (Datum::List(first), Datum::List(second)) => {
            several(first, second)?
        }
        (first, second) if first == second => Ordering::Equal,
        _ => return None,
    })
}

/// Bytes as `0x…`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", namiki_terminal::number_format::hex(bytes))
}

/// The bytes of a `0x…` text.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    match rest {
        [] => pairs.iter().map(byte).collect(),
        _ => None,
    }
}

/// A UUID in its standard form.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let digits = namiki_terminal::number_format::hex(uuid);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| digits[part].to_owned()).join("-")
}

/// The UUID of a text in standard form.
pub(crate) fn uuid_from_text(text: &str) -> Option<[u8; 16]> {
    let bytes: [u8; 16] = from_hex(&format!("0x{}", text.replace('-', "")))?
        .try_into()
        .ok()?;
    // Hyphens are allowed nowhere else.
    uuid_text(&bytes)
        .eq_ignore_ascii_case(text)
        .then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_and_uuids_come_back() {
        assert_eq!(from_hex("0x00aBff"), Some(vec![0, 0xab, 0xff]));
        assert_eq!(from_hex("0x"), Some(Vec::new()));
        for wrong in ["", "00", "0x0", "0xg0", "0x+1"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
        let uuid: [u8; 16] = std::array::from_fn(|at| 17 * at as u8);
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(uuid_text(&uuid), text);
        assert_eq!(uuid_from_text(text), Some(uuid));
        assert_eq!(uuid_from_text(&text.replace('-', "")), None);
    }
}
