//! The buffer that values are encoded into.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// The buffer for a value's bytes: a `Vec<u8>` that a value can also refuse to be encoded into.
#[derive(Clone, Default)]
pub struct ValueBytes {
    bytes: Vec<u8>,
    refusal: Option<Box<str>>,
}

impl ValueBytes {
    /// No bytes yet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            refusal: None,
        }
    }

    /// Refuses to encode the value, with a reason in words that end a sentence. The write fails
    /// with `Error::Unencodable`, and the bytes added so far do not count.
    #[cold]
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.refusal = Some(why.into().into_boxed_str());
    }

    /// Removes the bytes and a refusal.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.refusal.is_some() {
            self.refusal = None;
        }
    }

    /// Takes the reason of a refusal. Called once for each value.
    #[inline]
    pub fn take_refusal(&mut self) -> Option<Box<str>> {
        // Refusals are rare: no store without one.
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
