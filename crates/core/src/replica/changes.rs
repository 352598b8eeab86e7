//! The encoding of a group's after-images, which the log's payloads consist of.
//!
//! ```text
//!   changes = run*
//!   run     = table varint | key length varint | value varint | rows varint | rows × (key | value)
//! ```
//! A run is of rows of one table; their keys have one length, and their values, too. `value` is 0 for rows that are deleted,
//! otherwise the length of the values plus 1. The rows of a group of transfers are one run: 16 bytes each, and
//! checked by one multiplication.
//!
//! Paper: raft-pwal §3.2

use namiki_data::varint;

use crate::replica::error::ReplicaError;
use crate::storage::record::VALUE_BYTES_MAX;
use crate::table::raw_table::TableId;
use crate::wal_format::encoding_primitives::{DecodeError, Reader};

/// The common properties of a run's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) table: TableId,
    pub(super) key_bytes: usize,
    /// No value: the rows are deleted.
    pub(super) value_bytes: Option<usize>,
}

impl Shape {
    fn row_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes.unwrap_or(0)
    }
}

/// Appends the header of a run.
pub(super) fn begin_run(shape: Shape, rows: usize, into: &mut Vec<u8>) {
    varint::put(u64::from(shape.table.0), into);
    varint::put(shape.key_bytes as u64, into);
    varint::put(shape.value_bytes.map_or(0, |bytes| bytes as u64 + 1), into);
    varint::put(rows as u64, into);
}

/// Rows of one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    /// Where it begins in the group's bytes.
    pub(super) at: usize,
    pub(super) shape: Shape,
    pub(super) rows: usize,
    bytes: &'a [u8],
}

impl<'a> Run<'a> {
    /// Keys and new values.
    pub(super) fn rows(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let Self {
            shape, rows, bytes, ..
        } = *self;
        let row_bytes = shape.row_bytes();
        (0..rows).map(move |at| {
            let row = &bytes[at * row_bytes..][..row_bytes];
            let (key, value) = row.split_at(shape.key_bytes);
            (key, shape.value_bytes.map(|_| value))
        })
    }
}

/// The runs in a group's bytes. An error is the last item.
#[derive(Clone, Debug)]
pub(super) struct Runs<'a> {
    from: Reader<'a>,
    bytes: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(changes: &'a [u8]) -> Self {
        Self {
            from: Reader::new(changes),
            bytes: changes.len(),
        }
    }

    fn run(&mut self) -> Result<Run<'a>, ReplicaError> {
        let at = self.bytes - self.from.remaining();
        let bad = |why| ReplicaError::Undecodable { at, why };
        let from = &mut self.from;
        let undecodable = |error| match error {
            DecodeError::Truncated => bad("it ends in the middle of a run"),
            _ => bad("a number is too large, or not in its shortest encoding"),
        };
        let table = TableId(from.number().map_err(undecodable)?);
        let key_bytes = from.length().map_err(undecodable)?;
        let value_bytes = from.length().map_err(undecodable)?.checked_sub(1);
        let rows = from.length().map_err(undecodable)?;
        if value_bytes.is_some_and(|bytes| bytes > VALUE_BYTES_MAX) {
            return Err(bad("a value is longer than a table can hold"));
        }
        if rows == 0 {
            return Err(bad("a run has no rows"));
        }
        // So that no row takes nothing, of which there could be any number.
        if key_bytes == 0 && rows > 1 {
            return Err(bad("the empty key is there twice"));
        }
        let shape = Shape {
            table,
            key_bytes,
            value_bytes,
        };
        let bytes = key_bytes
            .checked_add(value_bytes.unwrap_or(0))
            .and_then(|row_bytes| row_bytes.checked_mul(rows))
            .ok_or(bad("a run is longer than memory"))?;
        let bytes = from.take(bytes).map_err(undecodable)?;
        Ok(Run {
            at,
            shape,
            rows,
            bytes,
        })
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<Run<'a>, ReplicaError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.is_empty() {
            return None;
        }
        let run = self.run();
        if run.is_err() {
            self.from = Reader::new(&[]);
        }
        Some(run)
    }
}
