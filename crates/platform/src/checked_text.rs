//! A small text file that says what it is: a line with its kind, its format and a checksum, then the text.
//!
//! ```text
//! namiki-manifest 1 crc32c=1a2b3c4d
//! { … }
//! ```
//! The checksum is CRC-32C of the text without the newline at its end. People can read such a file, and a program knows
//! a newer format before it looks at anything else.

/// Why a file is not one that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It is damaged, or of another kind.
    #[error("{why}")]
    Damaged {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A newer program wrote it.
    #[error("it has format {found}, which is newer")]
    Newer {
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

/// The text of a file of this kind, and of no format beyond `format_max`.
///
/// # Errors
/// [`HeadError`].
pub fn decode<'a>(bytes: &'a [u8], kind: &str, format_max: u32) -> Result<&'a str, HeadError> {
    let damaged = |why| HeadError::Damaged { why };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let (head, body) = text
        .split_once('\n')
        .ok_or(damaged("it has one line only"))?;
    let mut words = head.split(' ');
    if words.next() != Some(kind) {
        return Err(damaged("it does not begin like a manifest"));
    }
    let format = words.next().and_then(|word| word.parse::<u32>().ok());
    let found = format.ok_or(damaged("its format is not a number"))?;
    if found > format_max {
        return Err(HeadError::Newer { found });
    }
    let body = body.strip_suffix('\n').unwrap_or(body);
    let checksum = words
        .next()
        .and_then(|word| word.strip_prefix("crc32c="))
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())
        .ok_or(damaged("its checksum is missing"))?;
    if checksum != crc32c::crc32c(body.as_bytes()) {
        return Err(damaged("its checksum is wrong"));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_unless_damaged_or_newer() {
        let text = encode("kind", 2, "{\n  \"a\": 1\n}");
        assert_eq!(decode(text.as_bytes(), "kind", 2), Ok("{\n  \"a\": 1\n}"));
        let newer = HeadError::Newer { found: 2 };
        assert_eq!(decode(text.as_bytes(), "kind", 1), Err(newer));
        assert!(decode(text.as_bytes(), "other", 2).is_err());
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 0x11;
            assert!(decode(&damaged, "kind", 2).is_err(), "byte {at}");
            assert!(decode(&text.as_bytes()[..at], "kind", 2).is_err());
        }
    }
}
