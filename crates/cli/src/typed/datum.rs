//! A key or a value that was read, or is to be written.

/// A key or a value, whatever its type.
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
    /// Of a list or an array.
    List(Vec<Datum>),
    /// The whole key or value as its bytes: its type is not known, or would not write these.
    Raw(Vec<u8>),
}

/// Bytes as `0x…`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", crate::number_format::hex(bytes))
}

/// The bytes that `0x…` stands for.
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

/// A UUID as it is written everywhere.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let digits = crate::number_format::hex(uuid);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| digits[part].to_owned()).join("-")
}

/// The UUID of such a text.
pub(crate) fn uuid_from_text(text: &str) -> Option<[u8; 16]> {
    let bytes: [u8; 16] = from_hex(&format!("0x{}", text.replace('-', "")))?
        .try_into()
        .ok()?;
    // Hyphens nowhere else.
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
