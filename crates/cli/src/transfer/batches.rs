//! Imports rows of a file into a table, in transactions of many rows each.
//!
//! A batch is durable as a whole before the next is read, so an import that ends early has imported
//! a prefix of its file; `--resume` continues it.

use namiki::Database;
use namiki_terminal::number_format::counted;
use namiki_terminal::{CommandFailure, WaitInterrupted, interrupt};

use super::row_file::{BadLine, FileRow, ReadError, RowReader};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::tables::TypedTable;

/// Number of rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Number of bytes of keys and values that also ends a batch. A longer row gets a batch of its own.
const BATCH_BYTES: usize = 2 << 20;

/// The treatment of an existing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfThere {
    /// An existing key is an error.
    Refuse,
    /// It is skipped if it has the same value, and otherwise an error.
    Resume,
    /// Its value is replaced.
    Replace,
}

/// Counts of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Imported {
    /// Number of written rows.
    pub(crate) written: u64,
    /// Number of rows that existed with the same value.
    pub(crate) there: u64,
}

/// The reason for which an import ended before its file did.
pub(crate) enum Stopped {
    /// A line is not a row, or its key exists.
    Line(BadLine),
    /// The file cannot be read.
    Io(std::io::Error),
    /// The database failed, or Ctrl-C was pressed.
    Failure(Box<Failure>),
}

impl From<ReadError> for Stopped {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Bad(bad) => Self::Line(bad),
            ReadError::Io(error) if WaitInterrupted::is(&error) => {
                CommandFailure::Interrupted.into()
            }
            ReadError::Io(error) => Self::Io(error),
        }
    }
}

impl<E: Into<Failure>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Failure(Box::new(error.into()))
    }
}

/// Writes the rows of a file; `done` has the current progress.
pub(crate) fn import(
    db: &Database,
    table: &TypedTable,
    rows: &mut dyn RowReader,
    if_there: IfThere,
    done: &mut Imported,
) -> Result<(), Stopped> {
    let mut progress = Progress::new();
    let mut batch: Vec<FileRow> = Vec::new();
    loop {
        interrupt::check()?;
        batch.clear();
        let mut bytes = 0;
        let mut ended = None;
        while batch.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            match rows.next_row() {
                Ok(Some(row)) => {
                    let more = row.key.len() + row.value.len();
                    if bytes + more > BATCH_BYTES {
                        // A long row gets a batch of its own.
                        write(db, table, &batch, if_there, done)?;
                        batch.clear();
                        bytes = 0;
                    }
                    bytes += more;
                    batch.push(row);
                }
                Ok(None) => {
                    ended = Some(Ok(()));
                    break;
                }
                // The rows before it are imported.
                Err(error) => {
                    ended = Some(Err(error));
                    break;
                }
            }
        }
        write(db, table, &batch, if_there, done)?;
        progress.say(|| format!("imported {}", counted(done.written + done.there, "row")));
        if let Some(ended) = ended {
            return Ok(ended?);
        }
    }
}

/// Writes a batch, or the rows before a key that must not exist.
fn write(
    db: &Database,
    table: &TypedTable,
    batch: &[FileRow],
    if_there: IfThere,
    done: &mut Imported,
) -> Result<(), Stopped> {
    if batch.is_empty() {
        return Ok(());
    }
    let written = db.transact(|tx| {
        let mut imported = Imported::default();
        for row in batch {
            let found = match if_there {
                IfThere::Replace => None,
                IfThere::Refuse | IfThere::Resume => tx.get(&table.table, &row.key[..])?,
            };
            match found {
                None => {
                    tx.put(&table.table, &row.key[..], &row.value[..])?;
                    imported.written += 1;
                }
                Some(same) if if_there == IfThere::Resume && same == row.value => {
                    imported.there += 1;
                }
                Some(_) => return Ok((imported, Some(row.line))),
            }
        }
        Ok((imported, None))
    });
    let (imported, clash) = match written {
        Err(namiki::Error::TransactionTooLarge { len_bytes, .. }) => {
            let why = format!(
                "the row takes {} of log, more than the limit of a transaction",
                namiki_terminal::number_format::bytes(len_bytes as u64)
            );
            let line = batch[0].line;
            return Err(Stopped::Line(BadLine { line, why }));
        }
        written => written?,
    };
    done.written += imported.written;
    done.there += imported.there;
    match clash {
        None => Ok(()),
        Some(line) => Err(Stopped::Line(BadLine {
            line,
            why: match if_there {
                IfThere::Resume => {
                    "its key is in the table with another value; --replace gives it this one"
                }
                _ => {
                    "its key is in the table; --resume skips rows with the same value, and --replace writes \
                     this value"
                }
            }
            .to_owned(),
        })),
    }
}
