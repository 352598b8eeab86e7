//! Readers of rows: a transaction, which remembers its reads, or a view.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki::{ByteTable, RowScan, ScanRange, Session, Transaction, View};
use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// A source of rows.
pub(crate) enum Reader<'a> {
    /// Reads are validated when the transaction commits.
    Transaction(&'a mut Transaction),
    /// Reads are of one moment and meet no conflicts.
    View(&'a View),
    /// Each read is one of the handle's: planning takes long, and a transaction is not held up by it.
    Handle(&'a ReadHandle),
}

impl Reader<'_> {
    /// Calls `read` with the bytes of a row.
    pub(crate) fn with_row<T>(
        &mut self,
        table: &ByteTable,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> T,
    ) -> SqlResult<T> {
        match self {
            Self::Transaction(tx) => Ok(read(tx.row(table, key)?)),
            Self::View(view) => Ok(view.with_row(table, key, read)?),
            Self::Handle(handle) => handle.with(|reader| reader.with_row(table, key, read)),
        }
    }

    /// Visits the rows of a range.
    pub(crate) fn scan<B>(
        &mut self,
        table: &ByteTable,
        range: ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> SqlResult<Option<B>> {
        match self {
            Self::Transaction(tx) => Ok(tx.scan_rows(table, range, visit)?),
            Self::View(view) => Ok(view.scan_rows(table, range, visit)?),
            Self::Handle(handle) => handle.with(|reader| reader.scan(table, range, visit)),
        }
    }

    /// Visits further rows of a range.
    pub(crate) fn resume<B>(
        &mut self,
        table: &ByteTable,
        scan: &mut RowScan,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> SqlResult<Option<B>> {
        match self {
            Self::Transaction(tx) => Ok(tx.resume_scan(table, scan, visit)?),
            Self::View(view) => Ok(view.resume_scan(table, scan, visit)?),
            Self::Handle(handle) => handle.with(|reader| reader.resume(table, scan, visit)),
        }
    }

    /// Whether the reader remembers at most `rows_max` rows; a view remembers none.
    ///
    /// # Errors
    /// 53200 otherwise.
    pub(crate) fn check_limit(&self, rows_max: usize) -> SqlResult<()> {
        match self {
            Self::Transaction(tx) if tx.read_count() > rows_max => Err(SqlError::new(
                sqlstate::OUT_OF_MEMORY,
                format!("a transaction may read at most {rows_max} rows"),
            )
            .with_hint("Run the query outside of the transaction block, where it reads a view.")),
            _ => Ok(()),
        }
    }
}

/// What a plan reads from, on whichever thread it runs.
#[derive(Clone)]
pub(crate) enum ReadHandle {
    /// A view.
    View(Arc<View>),
    /// The running transaction of a session that the connection has lent, until it takes it back.
    Session(Arc<Mutex<Option<Box<Session>>>>),
}

impl ReadHandle {
    /// Reads something.
    ///
    /// # Errors
    /// What `read` returns, and 25P01 if the session runs no transaction.
    pub(crate) fn with<T>(
        &self,
        read: impl FnOnce(&mut Reader<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        match self {
            Self::View(view) => read(&mut Reader::View(view)),
            Self::Session(session) => match &mut *session.lock() {
                Some(session) => session.statement(|tx| read(&mut Reader::Transaction(tx))),
                None => Err(SqlError::new(
                    sqlstate::QUERY_CANCELED,
                    "the statement has ended before its plan",
                )),
            },
        }
    }
}

impl std::fmt::Debug for ReadHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::View(_) => "View",
            Self::Session(_) => "Transaction",
        })
    }
}
