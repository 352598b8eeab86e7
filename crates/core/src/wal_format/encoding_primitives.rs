//! Encoding primitives of log records: numbers, lengths and padding, and the sizes of records.
//!
//! ```text
//!   varint   = see `namiki_data::varint`
//!   padding  = 0 | length u32 | that many bytes to skip
//! ```
//!
//! Paper: pwal §6.1.1 (512-byte records)

use std::num::NonZeroU16;

use namiki_data::varint::{self, VarintError};
use serde::{Deserialize, Serialize};

/// The first byte of padding.
pub(crate) const PADDING: u8 = 0;
const PADDING_HEADER_BYTES: usize = 5;

/// The size of commits in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordFormat {
    /// As few as possible.
    #[default]
    Compact,
    /// The paper's: BEGIN, one record for each change, and END, of this many bytes each (at least
    /// 64), for its experiments.
    Fixed(NonZeroU16),
}

impl RecordFormat {
    /// The smallest size of a fixed record.
    pub const FIXED_BYTES_MIN: u16 = 64;
}

/// A record's own bytes, rounded up to whole records. The remainder is either empty or long enough
/// for the header of padding.
pub(crate) fn slot_bytes(bytes: usize, size: usize) -> usize {
    let whole = bytes.next_multiple_of(size);
    if whole == bytes || whole - bytes >= PADDING_HEADER_BYTES {
        whole
    } else {
        whole + size
    }
}

/// Writes into a slice, from its beginning.
pub(crate) struct Writer<'a> {
    into: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(into: &'a mut [u8]) -> Self {
        Self { into, at: 0 }
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    /// Checks that the slice is full.
    pub(crate) fn end(self) {
        debug_assert_eq!(self.at, self.into.len());
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let into = &mut self.into[self.at..self.at + bytes.len()];
        match bytes.as_array::<8>() {
            // The usual length, and a copy without a call.
            Some(word) => into.copy_from_slice(word),
            None => into.copy_from_slice(bytes),
        }
        self.at += bytes.len();
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.into[self.at] = byte;
        self.at += 1;
    }

    pub(crate) fn varint(&mut self, n: u64) {
        varint::encode(n, |byte| self.byte(byte));
    }

    /// Writes `bytes` bytes of padding: none, or enough for its header.
    pub(crate) fn padding(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let skipped = bytes - PADDING_HEADER_BYTES;
        self.byte(PADDING);
        self.put(&(skipped as u32).to_le_bytes());
        self.into[self.at..self.at + skipped].fill(0);
        self.at += skipped;
    }
}

/// Why the bytes of a log record are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end in the middle of a change.
    #[error("it ends in the middle of a change")]
    Truncated,
    /// A change of no known kind.
    #[error("it holds a change of the unknown kind {0}")]
    UnknownKind(u8),
    /// A number in it is too large, or not in its shortest encoding.
    #[error("it holds a wrong number: {0}")]
    Number(VarintError),
}

impl From<VarintError> for DecodeError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            other => Self::Number(other),
        }
    }
}

/// Reads from a slice, from its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        Ok(varint::take(&mut self.rest)?)
    }

    /// A length in bytes.
    pub(crate) fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.varint()?).map_err(|_| DecodeError::Number(VarintError::TooLarge))
    }

    /// A number of at most 32 bits.
    pub(crate) fn number(&mut self) -> Result<u32, DecodeError> {
        Ok(varint::take_u32(&mut self.rest)?)
    }

    /// Skips padding after its first byte has been read.
    pub(crate) fn padding(&mut self) -> Result<(), DecodeError> {
        let length = self.take(4)?;
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        self.take(length as usize).map(drop)
    }
}
