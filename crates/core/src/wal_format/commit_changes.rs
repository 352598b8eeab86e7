//! The log record of a commit: its table changes, one after the other.
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

use namiki_data::varint;
use namiki_log::RECORD_HEADER_BYTES;

use crate::table::raw_table::TableId;
use crate::wal_format::encoding_primitives::{
    DecodeError, PADDING, Reader, RecordFormat, Writer, slot_bytes,
};
use crate::wal_format::restore_point::{RESTORE_POINT, RESTORE_POINT_BYTES};

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One change of one key, as read back from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` if the key was deleted.
    pub value: Option<&'a [u8]>,
}

/// The bytes that the changes of a transaction take.
pub(crate) fn encoded_bytes<'a>(
    changes: impl Iterator<Item = Change<'a>>,
    format: RecordFormat,
) -> usize {
    let changes = changes.map(|change| {
        change_bytes(
            change.table,
            change.key.len(),
            change.value.map(<[u8]>::len),
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
pub(crate) fn encode<'a>(
    changes: impl Iterator<Item = Change<'a>>,
    format: RecordFormat,
    into: &mut [u8],
) {
    let mut out = Writer::new(into);
    let fixed = match format {
        RecordFormat::Compact => None,
        RecordFormat::Fixed(size) => Some(usize::from(size.get())),
    };
    if let Some(size) = fixed {
        out.padding(size - RECORD_HEADER_BYTES);
    }
    for Change { table, key, value } in changes {
        let start = out.len();
        out.byte(if value.is_some() { PUT } else { DELETE });
        out.varint(u64::from(table.0));
        out.varint(key.len() as u64);
        if let Some(value) = value {
            out.varint(value.len() as u64);
        }
        out.put(key);
        out.put(value.unwrap_or_default());
        if let Some(size) = fixed {
            let used = out.len() - start;
            out.padding(slot_bytes(used, size) - used);
        }
    }
    if let Some(size) = fixed {
        out.padding(size);
    }
    out.end();
}

/// The bytes that a put takes at least.
pub(crate) fn put_bytes(table: TableId, key_bytes: usize, value_bytes: usize) -> usize {
    change_bytes(table, key_bytes, Some(value_bytes))
}

fn change_bytes(table: TableId, key: usize, value: Option<usize>) -> usize {
    let lengths = varint::len(u64::from(table.0)) + varint::len(key as u64);
    1 + lengths + key + value.map_or(0, |value| varint::len(value as u64) + value)
}

/// The changes in a commit's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    from: Reader<'a>,
}

impl<'a> Changes<'a> {
    /// The changes in the payload of a log record.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            from: Reader::new(payload),
        }
    }

    fn change(&mut self) -> Result<Option<Change<'a>>, DecodeError> {
        let from = &mut self.from;
        loop {
            if from.is_empty() {
                return Ok(None);
            }
            match from.byte()? {
                PADDING => from.padding()?,
                kind @ (PUT | DELETE) => {
                    let table = TableId(from.number()?);
                    let key_bytes = from.length()?;
                    let value_bytes = match kind {
                        PUT => Some(from.length()?),
                        _ => None,
                    };
                    let key = from.take(key_bytes)?;
                    let value = value_bytes.map(|bytes| from.take(bytes)).transpose()?;
                    return Ok(Some(Change { table, key, value }));
                }
                // It stands alone, in place of a commit.
                RESTORE_POINT => drop(from.take(RESTORE_POINT_BYTES - 1)?),
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
            self.from = Reader::new(&[]);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use namiki_data::varint::VarintError;

    use super::*;

    type Row = (u32, Vec<u8>, Option<Vec<u8>>);

    fn changes_of(rows: &[Row]) -> impl Iterator<Item = Change<'_>> + Clone {
        rows.iter().map(|(table, key, value)| Change {
            table: TableId(*table),
            key,
            value: value.as_deref(),
        })
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
        let logged = changes_of(&changes);
        for format in [
            RecordFormat::Compact,
            RecordFormat::Fixed(NonZeroU16::new(64).unwrap()),
            RecordFormat::Fixed(NonZeroU16::new(512).unwrap()),
        ] {
            let mut bytes = vec![0xee; encoded_bytes(logged.clone(), format)];
            encode(logged.clone(), format, &mut bytes);
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
        let rows = [(1, vec![0; 8], Some(vec![0; 8]))];
        let logged = changes_of(&rows);
        let format = RecordFormat::Fixed(NonZeroU16::new(512).unwrap());
        assert_eq!(
            RECORD_HEADER_BYTES + encoded_bytes(logged.clone(), format),
            3 * 512
        );
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
        for (bytes, error) in [
            (&[PUT, 129, 0][..], VarintError::Overlong),
            (&[PUT, 255, 255, 255, 255, 16], VarintError::TooLarge),
        ] {
            let found = Changes::new(bytes).next();
            assert_eq!(found, Some(Err(DecodeError::Number(error))));
        }
    }
}
