//! What a commit writes into the log: its table changes, one after the other.
//!
//! ```text
//!   change   = 1 | table varint | key length varint | value length varint | key | value     (put)
//!            | 2 | table varint | key length varint | key                                   (delete)
//!            | 0 | length u32 | that many bytes to skip                                     (padding)
//! ```
//! Under [`RecordFormat::Fixed`], padding brings the commit to the paper's shape: BEGIN, then a
//! record for each change, then END, each of the fixed size (or a multiple, for long values). The
//! log's own header of a commit counts as the beginning of BEGIN.
//!
//! Paper: pwal §6.1.1 (512-byte records)

use std::num::NonZeroU16;

use namiki_log::RECORD_HEADER_BYTES;
use serde::{Deserialize, Serialize};

use crate::sets::Sets;
use crate::space::TableId;

const PADDING: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const PADDING_HEADER_BYTES: usize = 5;

/// How many bytes a commit takes in the log.
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

/// One change of one key, as read back from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Which table.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The new value; nothing if the key was deleted.
    pub value: Option<&'a [u8]>,
}

/// The bytes that the transaction's writes take.
pub(crate) fn encoded_bytes(sets: &Sets, format: RecordFormat) -> usize {
    let changes = sets.writes.iter().map(|write| {
        change_bytes(
            write.table,
            sets.key(write).len(),
            sets.value(write).map(<[u8]>::len),
        )
    });
    match format {
        RecordFormat::Compact => changes.sum(),
        RecordFormat::Fixed(size) => {
            let size = usize::from(size.get());
            let slots: usize = changes.map(|bytes| slot_bytes(bytes, size)).sum();
            size - RECORD_HEADER_BYTES + slots + size
        }
    }
}

/// Writes the transaction's changes into exactly [`encoded_bytes`] bytes.
pub(crate) fn encode(sets: &Sets, format: RecordFormat, into: &mut [u8]) {
    let mut out = Cursor { into, at: 0 };
    let fixed = match format {
        RecordFormat::Compact => None,
        RecordFormat::Fixed(size) => Some(usize::from(size.get())),
    };
    if let Some(size) = fixed {
        out.padding(size - RECORD_HEADER_BYTES);
    }
    for write in &sets.writes {
        let (key, value) = (sets.key(write), sets.value(write));
        let start = out.at;
        out.byte(if value.is_some() { PUT } else { DELETE });
        out.varint(u64::from(write.table.0));
        out.varint(key.len() as u64);
        if let Some(value) = value {
            out.varint(value.len() as u64);
        }
        out.put(key);
        out.put(value.unwrap_or_default());
        if let Some(size) = fixed {
            let used = out.at - start;
            out.padding(slot_bytes(used, size) - used);
        }
    }
    if let Some(size) = fixed {
        out.padding(size);
    }
    debug_assert_eq!(out.at, out.into.len());
}

/// A change's own bytes, rounded up to whole records. What remains is either nothing or enough for
/// a padding's header.
fn slot_bytes(bytes: usize, size: usize) -> usize {
    let whole = bytes.next_multiple_of(size);
    if whole == bytes || whole - bytes >= PADDING_HEADER_BYTES {
        whole
    } else {
        whole + size
    }
}

fn change_bytes(table: TableId, key: usize, value: Option<usize>) -> usize {
    let lengths = varint_bytes(u64::from(table.0)) + varint_bytes(key as u64);
    1 + lengths + key + value.map_or(0, |value| varint_bytes(value as u64) + value)
}

fn varint_bytes(n: u64) -> usize {
    ((64 - (n | 1).leading_zeros()) as usize).div_ceil(7)
}

struct Cursor<'a> {
    into: &'a mut [u8],
    at: usize,
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let into = &mut self.into[self.at..self.at + bytes.len()];
        match bytes.as_array::<8>() {
            // The usual length, and a copy without a call.
            Some(word) => into.copy_from_slice(word),
            None => into.copy_from_slice(bytes),
        }
        self.at += bytes.len();
    }

    fn byte(&mut self, byte: u8) {
        self.into[self.at] = byte;
        self.at += 1;
    }

    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.byte(n as u8 | 0x80);
            n >>= 7;
        }
        self.byte(n as u8);
    }

    fn padding(&mut self, bytes: usize) {
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

/// Why a commit's bytes make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end in the middle of a change.
    #[error("it ends in the middle of a change")]
    Truncated,
    /// A change of no known kind.
    #[error("it holds a change of the unknown kind {0}")]
    UnknownKind(u8),
}

/// The changes in a commit's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Changes<'a> {
    /// The changes in the payload of a log record.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(DecodeError::Truncated)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)
    }

    fn change(&mut self) -> Result<Option<Change<'a>>, DecodeError> {
        loop {
            let Some(&kind) = self.rest.first() else {
                return Ok(None);
            };
            self.take(1)?;
            match kind {
                PADDING => {
                    let length = self.take(4)?;
                    let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
                    self.take(length as usize)?;
                }
                PUT | DELETE => {
                    let table =
                        u32::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
                    let key_bytes = self.length()?;
                    let value_bytes = if kind == PUT {
                        Some(self.length()?)
                    } else {
                        None
                    };
                    let key = self.take(key_bytes)?;
                    let value = value_bytes.map(|bytes| self.take(bytes)).transpose()?;
                    return Ok(Some(Change {
                        table: TableId(table),
                        key,
                        value,
                    }));
                }
                unknown => return Err(DecodeError::UnknownKind(unknown)),
            }
        }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let change = self.change().transpose();
        if matches!(change, Some(Err(_))) {
            self.rest = &[];
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn sets(changes: &[(u32, Vec<u8>, Option<Vec<u8>>)]) -> Sets {
        let arena = Arena::default();
        let mut sets = Sets::default();
        for (table, key, value) in changes {
            let staged = value.as_ref().map(|value| sets.stage(value));
            sets.write(arena.record(8, 0), TableId(*table), key, staged);
        }
        sets
    }

    #[test]
    fn changes_come_back_in_every_format() {
        let changes = vec![
            (0, vec![], Some(vec![])),
            (1, vec![1; 8], Some(vec![2; 8])),
            (300, vec![3; 500], None),
            (u32::MAX, vec![4; 70_000], Some(vec![5; 100_000])),
        ];
        // Every length around the fixed sizes, so that each remainder is met once.
        let around = (40..140).map(|n| (7, vec![6; 8], Some(vec![7; n])));
        let changes: Vec<_> = changes.into_iter().chain(around).collect();
        let sets = sets(&changes);
        for format in [
            RecordFormat::Compact,
            RecordFormat::Fixed(NonZeroU16::new(64).unwrap()),
            RecordFormat::Fixed(NonZeroU16::new(512).unwrap()),
        ] {
            let mut bytes = vec![0xee; encoded_bytes(&sets, format)];
            encode(&sets, format, &mut bytes);
            let back: Result<Vec<_>, _> = Changes::new(&bytes).collect();
            let expected: Vec<_> = changes
                .iter()
                .map(|(t, k, v)| Change {
                    table: TableId(*t),
                    key: k,
                    value: v.as_deref(),
                })
                .collect();
            assert_eq!(back.unwrap(), expected, "{format:?}");
            for cut in 1..bytes.len().min(300) {
                let rest = Changes::new(&bytes[..bytes.len() - cut]);
                assert!(
                    rest.flatten()
                        .zip(&expected)
                        .all(|(found, change)| found == *change)
                );
            }
        }
    }

    #[test]
    fn one_update_in_the_papers_format_takes_three_records() {
        let sets = sets(&[(1, vec![0; 8], Some(vec![0; 8]))]);
        let format = RecordFormat::Fixed(NonZeroU16::new(512).unwrap());
        assert_eq!(RECORD_HEADER_BYTES + encoded_bytes(&sets, format), 3 * 512);
    }

    #[test]
    fn nonsense_is_an_error_and_ends_the_changes() {
        assert_eq!(
            Changes::new(&[9]).next(),
            Some(Err(DecodeError::UnknownKind(9)))
        );
        let mut truncated = Changes::new(&[PUT, 1, 200]);
        assert_eq!(truncated.next(), Some(Err(DecodeError::Truncated)));
        assert_eq!(truncated.next(), None);
    }
}
