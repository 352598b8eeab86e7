//! Where a value is encoded.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Where a value writes its bytes: a `Vec<u8>`, to which it can also say that it has no encoding.
#[derive(Clone, Default)]
pub struct ValueBytes {
    bytes: Vec<u8>,
    refusal: Option<Box<str>>,
}

impl ValueBytes {
    /// No bytes yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            refusal: None,
        }
    }

    /// Says that the value cannot be encoded, and why, in words that end a sentence. The write fails with
    /// [`Error::Unencodable`](crate::Error::Unencodable), and what was written here does not count.
    #[cold]
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.refusal = Some(why.into().into_boxed_str());
    }

    /// Forgets what was written, a refusal too.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.refusal.is_some() {
            self.refusal = None;
        }
    }

    /// Why the value cannot be encoded, if it said so. Asked once for each value.
    #[inline]
    pub fn take_refusal(&mut self) -> Option<Box<str>> {
        // Rarely: without a write otherwise.
        match self.refusal {
            None => None,
            Some(_) => self.refusal.take(),
        }
    }
}

impl Deref for ValueBytes {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for ValueBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl fmt::Debug for ValueBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            None => self.bytes.fmt(f),
            Some(why) => write!(f, "refused: {why}"),
        }
    }
}
