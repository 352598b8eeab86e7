//! Schema versions: what the catalogue stores for a program that encodes rows itself.
//!
//! Each is a sequence of bytes that only that program reads. A version is never changed and never
//! removed, so a row may name the one that it was written under by its number.
//!
//! ```text
//!  "schemas": ["0a0462…", "0a0563…"]          version 0, version 1, …, in hexadecimal
//! ```

use serde::{Deserialize, Serialize};

/// The schema versions of a table, by their numbers from 0 on. Versions are only appended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct SchemaVersions(Vec<Box<[u8]>>);

impl SchemaVersions {
    /// No version yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a version, and returns its number.
    pub fn push(&mut self, schema: &[u8]) -> usize {
        self.0.push(schema.into());
        self.0.len() - 1
    }

    /// The version of this number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        self.0.get(number).map(|schema| &**schema)
    }

    /// How many versions there are: the number of the next one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no version.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All versions, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|schema| &**schema)
    }
}

impl From<SchemaVersions> for Vec<String> {
    fn from(versions: SchemaVersions) -> Self {
        let hex = |schema: &[u8]| {
            let digits = schema.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        };
        versions.iter().map(hex).collect()
    }
}

impl TryFrom<Vec<String>> for SchemaVersions {
    type Error = String;

    fn try_from(written: Vec<String>) -> Result<Self, String> {
        let versions = written
            .iter()
            .map(|hex| from_hex(hex).ok_or_else(|| format!("{hex:?} is no schema in hexadecimal")));
        versions.collect::<Result<_, _>>().map(Self)
    }
}

fn from_hex(hex: &str) -> Option<Box<[u8]>> {
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |pair: &[u8; 2]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()
    };
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_back_in_their_order() {
        let mut versions = SchemaVersions::new();
        for (number, schema) in [&b"\x00\xff"[..], b"", b"text"].into_iter().enumerate() {
            assert_eq!(versions.push(schema), number);
        }
        let text = serde_json::to_string(&versions).unwrap();
        assert_eq!(text, r#"["00ff","","74657874"]"#);
        let read: SchemaVersions = serde_json::from_str(&text).unwrap();
        assert_eq!(read, versions);
        assert_eq!((read.len(), read.get(2)), (3, Some(&b"text"[..])));
        assert_eq!(read.get(3), None);
    }

    #[test]
    fn other_text_is_no_schema() {
        for wrong in [r#"["0"]"#, r#"["0g"]"#, r#"["äö"]"#, r#"[1]"#] {
            assert!(
                serde_json::from_str::<SchemaVersions>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
