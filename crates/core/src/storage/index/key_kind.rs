//! The kinds of keys that an index is compiled for.

use std::fmt;
use std::str::FromStr;

use namiki_index::IndexError;
use namiki_index::key::{Fixed8, Key, Variable};

use super::unavailable_index_error::UnknownKind;

/// What the keys are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyKind {
    /// Exactly eight bytes; compared as big-endian numbers.
    Fixed8,
    /// Zero to 65 536 bytes.
    Variable,
}

impl KeyKind {
    /// Whether these bytes are such a key.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`], [`IndexError::KeyTooLong`].
    #[inline]
    pub fn check(self, key: &[u8]) -> Result<(), IndexError> {
        match self {
            Self::Fixed8 => Fixed8::parse(key).map(drop),
            Self::Variable => Variable::parse(key).map(drop),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fixed8 => "fixed8",
            Self::Variable => "variable",
        })
    }
}

impl FromStr for KeyKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        match name {
            "fixed8" => Ok(Self::Fixed8),
            "variable" => Ok(Self::Variable),
            _ => Err(UnknownKind {
                what: "kind of key",
                name: name.to_owned(),
                expected: "fixed8, variable".to_owned(),
            }),
        }
    }
}
