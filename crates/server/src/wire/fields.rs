//! Fields of a message: numbers and strings, with bounds checks.

use super::ProtocolError;

/// The fields of a message that have not been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'f> {
    rest: &'f [u8],
    /// The name of the message, for errors.
    message: &'static str,
}

impl<'f> Fields<'f> {
    pub(super) fn new(message: &'static str, body: &'f [u8]) -> Self {
        Self {
            rest: body,
            message,
        }
    }

    pub(super) fn malformed(&self, reason: &'static str) -> ProtocolError {
        ProtocolError::Malformed {
            message: self.message,
            reason,
        }
    }

    /// The next bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'f [u8], ProtocolError> {
        let (bytes, rest) = (self.rest.split_at_checked(length))
            .ok_or_else(|| self.malformed("it ends within a field"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let bytes = self.bytes(N)?;
        bytes
            .try_into()
            .map_err(|_| self.malformed("it ends within a field"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, ProtocolError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ProtocolError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, ProtocolError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, ProtocolError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ProtocolError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A string, which a NUL ends.
    pub(super) fn string(&mut self) -> Result<&'f str, ProtocolError> {
        let end = (self.rest.iter().position(|byte| *byte == 0))
            .ok_or_else(|| self.malformed("a string has no end"))?;
        let (string, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        utf8(string)
    }

    /// The bytes up to the end of the message.
    pub(super) fn remaining(&mut self) -> &'f [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that the message has no further fields.
    pub(super) fn end(self) -> Result<(), ProtocolError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("bytes follow its last field"))
        }
    }
}

/// Bytes as UTF-8. The error names the first invalid sequence.
fn utf8(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let invalid = &bytes[error.valid_up_to()..];
        let length = error.error_len().unwrap_or(invalid.len());
        ProtocolError::NotUtf8(invalid.iter().copied().take(length.clamp(1, 4)).collect())
    })
}
