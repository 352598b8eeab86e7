//! Tables in memory as sources of queries.
//!
//! A typed table's keys are the bytes that a query's keys are, as long as their parts have eight bytes, or are text or
//! bytes. Its value is one column; or, where the values are rows that were encoded for a schema, all the others.
//!
//! Rows are read in small transactions: each record is read atomically, and what a batch reads belongs together; two
//! batches need not. (Read committed, until there are views.)
//!
//! A source keeps the contents of its table in memory, and not the database open: a query's threads may drop it some
//! time after the rows were dropped, and the database is closed when its last handle is, by that call and not by them.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_exec::data::{Column, ColumnType, Schema};
use namiki_exec::source::{RowBatch, Source, SourceError};
use namiki_index::{Direction, ScanRange};
use namiki_platform::WorkerId;
use parking_lot::Mutex;

use crate::api::session::Session;
use crate::commit::engine::Engine;
use crate::error::Error;
use crate::table::raw_table::{BATCH_KEYS_MAX, RawTable};
use crate::txn::Transaction;

/// Rows that one transaction reads: few enough that it rarely conflicts, and enough that beginning it costs little.
const ROWS_PER_TRANSACTION: usize = 256;

/// A table in memory, with names for its columns.
pub(super) struct TableSource {
    pub(super) reader: Reader,
    pub(super) raw_table: Arc<RawTable>,
    pub(super) schema: Schema,
    pub(super) values: Values,
}

/// Runs the transactions of a source, of which each thread that reads it has one at a time.
pub(super) struct Reader {
    engine: Arc<Engine>,
    worker: WorkerId,
    /// Those that no thread uses now.
    sessions: Mutex<Vec<Session>>,
}

impl Reader {
    /// Transactions of this engine, on this stream of its log.
    pub(super) fn new(engine: &Arc<Engine>, worker: WorkerId) -> Self {
        Self {
            engine: Arc::clone(engine),
            worker,
            sessions: Mutex::default(),
        }
    }

    fn transact(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Before the list is locked: in a forked child, a thread that is not there may have it locked.
        self.engine.check_process()?;
        let idle = self.sessions.lock().pop();
        let mut session = match idle {
            Some(session) => session,
            None => {
                let transaction = Transaction::begin(&self.engine, self.worker)?;
                Session::new(transaction, u64::from(self.worker.0) + 1)
            }
        };
        let done = session.transact(body);
        self.sessions.lock().push(session);
        done
    }
}

/// What the values of a table are to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// All columns beside the key, encoded.
    Rows,
    /// One column of a fixed length, or of any.
    One(ColumnType),
}

/// The types of the parts of a key, by the name of its type in the manifest; nothing if queries cannot read such
/// keys.
pub(super) fn key_columns(type_name: &str) -> Option<Vec<ColumnType>> {
    let inner = type_name
        .strip_prefix('(')
        .and_then(|it| it.strip_suffix(')'));
    let parts = inner.unwrap_or(type_name).split(", ");
    parts.map(|part| one_column(part, true)).collect()
}

/// The type of a value that is one column; nothing if queries cannot read such values.
pub(super) fn value_column(type_name: &str) -> Option<ColumnType> {
    one_column(type_name, false)
}

fn one_column(type_name: &str, in_key: bool) -> Option<ColumnType> {
    match type_name {
        "u64" => Some(ColumnType::U64),
        "i64" => Some(ColumnType::I64),
        "string" => Some(ColumnType::Text),
        "bytes" => Some(ColumnType::Bytes),
        "bool" if !in_key => Some(ColumnType::Bool),
        _ => None,
    }
}

/// Columns with these names and types.
pub(super) fn columns<'a>(
    names: &'a [&'a str],
    types: &'a [ColumnType],
) -> impl Iterator<Item = Column> + 'a {
    let pairs = names.iter().zip(types);
    pairs.map(|(name, column_type)| Column::new(name, *column_type))
}

impl Values {
    /// The bytes of a row beside its key.
    fn row<'v>(self, value: &'v [u8]) -> Cow<'v, [u8]> {
        let Self::One(column_type) = self else {
            return Cow::Borrowed(value);
        };
        let mut row = Vec::with_capacity(value.len() + 5);
        if column_type.fixed_bytes().is_some() {
            row.push(0);
        } else {
            // The end of the one column of any length, as wide as it needs.
            let end = (value.len() as u32).to_le_bytes();
            let (header, width) = match value.len() {
                0..=0xff => (0, 1),
                0x100..=0xffff => (1, 2),
                _ => (2, 4),
            };
            row.push(header);
            row.extend_from_slice(&end[..width]);
        }
        row.extend_from_slice(value);
        Cow::Owned(row)
    }
}

impl TableSource {
    /// Adds the rows of one transaction to `into`: up to `rows_max` from `from` on, or as many as fill a batch.
    fn scan_some(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), Error> {
        self.reader.transact(|tx| {
            into.clear();
            tx.use_table(&self.raw_table)?;
            let range = ScanRange {
                start: from,
                end: to,
                direction: Direction::Forward,
            };
            tx.scan_bytes(&self.raw_table, range, |key, value| {
                into.push(key, &self.values.row(value));
                Ok(if into.len() < rows_max && !into.is_full() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })
        })
    }
}

impl Source for TableSource {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.raw_table.len_estimate()
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        let mut left = rows_max;
        let mut last: Option<Vec<u8>> = None;
        let mut some = RowBatch::new();
        while left > 0 && !into.is_full() {
            let wanted = left.min(ROWS_PER_TRANSACTION);
            let from = last.as_deref().map_or(from, Bound::Excluded);
            self.scan_some(from, to, wanted, &mut some)?;
            for (key, row) in (0..some.len()).filter_map(|at| some.get(at)) {
                into.push(key, row);
            }
            if some.len() < wanted && !some.is_full() {
                break;
            }
            left -= some.len();
            let last_row = some.len().checked_sub(1).and_then(|at| some.get(at));
            last = last_row.map(|(key, _)| key.to_vec());
        }
        Ok(())
    }

    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        let mut found: Vec<Option<Vec<u8>>> = Vec::new();
        for keys in keys.chunks(BATCH_KEYS_MAX) {
            if into.is_full() {
                break;
            }
            self.reader.transact(|tx| {
                found.clear();
                tx.use_table(&self.raw_table)?;
                tx.get_batch(&self.raw_table, keys, |value| {
                    found.push(value.map(|value| self.values.row(value).into_owned()));
                    Ok(())
                })
            })?;
            for (key, row) in keys.iter().zip(&found) {
                match row {
                    Some(row) => into.push(key, row),
                    None => into.push_absent(),
                }
            }
        }
        Ok(())
    }
}
