//! What ends a row program before its end: a cancellation, and limits of memory.

use namiki::Transaction;

use crate::cancel::Cancelled;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// Rows between two looks at a cancellation.
const ROWS_BETWEEN: usize = 64;

/// What ends a row program before its end.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) cancelled: Cancelled,
    /// Rows that a transaction may read.
    pub(crate) rows_max: usize,
    /// Bytes that a transaction may write.
    pub(crate) written_bytes_max: usize,
    /// Rows that a program may visit on the thread that calls it, where other clients wait; `None`: it is not that thread.
    pub(crate) rows_here_max: Option<usize>,
}

impl Guard {
    /// A guard that stops nothing: for parts of commands that have limits of their own.
    pub(crate) fn none() -> Self {
        Self {
            cancelled: Cancelled::default(),
            rows_max: usize::MAX,
            written_bytes_max: usize::MAX,
            rows_here_max: None,
        }
    }

    /// Goes on to the next row of a scan; `rows` were visited.
    ///
    /// # Errors
    /// 57014 after a cancellation, 53200 beyond the limit, and one that says that the program is to be run on the second pool.
    #[inline]
    pub(crate) fn visit(&self, rows: usize) -> SqlResult<()> {
        if !rows.is_multiple_of(ROWS_BETWEEN) || rows == 0 {
            return Ok(());
        }
        self.cancelled.check()?;
        if self.rows_here_max.is_some_and(|most| rows >= most) {
            return Err(SqlError::long_program());
        }
        if rows > self.rows_max {
            return Err(too_many_rows(self.rows_max));
        }
        Ok(())
    }

    /// After a scan: the reads of earlier statements count, too.
    ///
    /// # Errors
    /// 53200 beyond the limit.
    pub(crate) fn check_reads(&self, tx: &Transaction) -> SqlResult<()> {
        if tx.read_count() > self.rows_max {
            return Err(too_many_rows(self.rows_max));
        }
        Ok(())
    }

    /// Goes on to the next change of a row.
    ///
    /// # Errors
    /// 57014 after a cancellation, 53200 beyond the limit.
    #[inline]
    pub(crate) fn change(&self, tx: &Transaction) -> SqlResult<()> {
        self.cancelled.check()?;
        if tx.written_bytes() > self.written_bytes_max {
            return Err(SqlError::new(
                sqlstate::OUT_OF_MEMORY,
                format!(
                    "a transaction may write at most {} bytes",
                    self.written_bytes_max
                ),
            )
            .with_hint("Change fewer rows in each transaction. COPY into a table that the same transaction has made or truncated has no limit."));
        }
        Ok(())
    }
}

fn too_many_rows(most: usize) -> SqlError {
    SqlError::new(
        sqlstate::OUT_OF_MEMORY,
        format!("a transaction may read at most {most} rows"),
    )
    .with_hint(
        "Change fewer rows in each transaction, such as ranges of the key. A SELECT outside of a transaction block has no \
         limit.",
    )
}
