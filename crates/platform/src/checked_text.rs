//! A small text file that says what it is: a line with its kind, its format and a checksum, then the text.
//!
//! ```text
//! namiki-manifest 2 crc32c=1a2b3c4d
//! { … }
//! ```
//! The checksum is CRC-32C of the text without the newline at its end. People can read such a file, and a program sees
//! another format before it looks at anything else.

/// The reason that a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It is damaged, or of another kind.
    #[error("{why} (byte {offset_bytes})")]
    Damaged {
        /// The position: 0 for an error in the first line, the header; otherwise the beginning of
        /// the text that the header describes.
        offset_bytes: u64,
        /// The problem.
        why: &'static str,
    },
    /// A program wrote it that writes another format.
    #[error("it has another format, {found}")]
    OtherFormat {
        /// Its format.
        found: u32,
    },
}

/// The file's contents for a text.
#[must_use]
pub fn encode(kind: &str, format: u32, text: &str) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    format!("{kind} {format} crc32c={checksum:08x}\n{text}\n")
}

/// The text of a file of this kind and format.
///
/// # Errors
/// [`HeadError`].
pub fn decode<'a>(bytes: &'a [u8], kind: &str, format: u32) -> Result<&'a str, HeadError> {
    let damaged = |offset_bytes, why| HeadError::Damaged { offset_bytes, why };
    let header = |why| damaged(0, why);
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, body) = bytes
        .split_at_checked(end.map_or(bytes.len(), |end| end + 1))
        .unwrap_or_default();
    let head = head.strip_suffix(b"\n");
    let head = head.ok_or(header("its header, the first line, does not end"))?;
    let head = std::str::from_utf8(head);
    let head = head.map_err(|_| header("its header, the first line, is no text"))?;
    let mut words = head.split(' ');
    if words.next() != Some(kind) {
        return Err(header("its header does not say what it is"));
    }
    let found = words.next().and_then(|word| word.parse::<u32>().ok());
    let found = found.ok_or(header("the format in its header is no number"))?;
    if found != format {
        return Err(HeadError::OtherFormat { found });
    }
    let from = bytes.len() as u64 - body.len() as u64;
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let checksum = words
        .next()
        .and_then(|word| word.strip_prefix("crc32c="))
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())
        .ok_or(header("its header has no checksum"))?;
    if checksum != crc32c::crc32c(body) {
        return Err(damaged(
            from,
            "the checksum of what is from here on is not the one in the header",
        ));
    }
    let body = std::str::from_utf8(body);
    let body = body.map_err(|error| {
        damaged(
            from + error.valid_up_to() as u64,
            "the checksum is right, and here is no text",
        )
    })?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_of_header_and_text_is_told_apart() {
        let text = encode("kind", 2, "{\n  \"a\": 1\n}").into_bytes();
        let head = text.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone();
            damaged[at] ^= 0x80;
            let Err(HeadError::Damaged { offset_bytes, why }) = decode(&damaged, "kind", 2) else {
                panic!("byte {at} is taken for sound");
            };
            let expected = if at <= head { 0 } else { head as u64 + 1 };
            assert_eq!(offset_bytes, expected, "byte {at}");
            let names = if at <= head {
                "its header"
            } else {
                "the checksum"
            };
            assert!(why.contains(names), "byte {at}: {why}");
        }
    }

    #[test]
    fn a_text_comes_back_unless_damaged_or_of_another_format() {
        let text = encode("kind", 2, "{\n  \"a\": 1\n}");
        assert_eq!(decode(text.as_bytes(), "kind", 2), Ok("{\n  \"a\": 1\n}"));
        let other = HeadError::OtherFormat { found: 2 };
        for format in [1, 3] {
            assert_eq!(decode(text.as_bytes(), "kind", format), Err(other));
        }
        assert!(decode(text.as_bytes(), "other", 2).is_err());
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 0x11;
            assert!(decode(&damaged, "kind", 2).is_err(), "byte {at}");
            assert!(decode(&text.as_bytes()[..at], "kind", 2).is_err());
        }
    }
}
