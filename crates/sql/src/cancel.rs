//! Cancelling the statement that runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// Numbers of statements of one connection: the one that runs, and the last one that was cancelled. Zero: none.
#[derive(Debug, Default)]
struct Numbers {
    running: AtomicU64,
    cancelled: AtomicU64,
}

/// Cancels statements of one connection.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<Numbers>);

impl CancelHandle {
    /// Cancels the statement that runs now, if one does. It ends with 57014, unless it ends before.
    pub fn cancel(&self) {
        let running = self.0.running.load(Ordering::Acquire);
        self.0.cancelled.fetch_max(running, Ordering::AcqRel);
    }

    /// The next statement begins.
    pub(crate) fn begin(&self, number: u64) -> Cancelled {
        self.0.running.store(number, Ordering::Release);
        Cancelled {
            numbers: Arc::clone(&self.0),
            number,
        }
    }

    /// No statement runs.
    pub(crate) fn end(&self) {
        self.0.running.store(0, Ordering::Release);
    }
}

/// Whether one statement was cancelled.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled {
    numbers: Arc<Numbers>,
    number: u64,
}

impl Cancelled {
    /// Whether it was cancelled.
    pub(crate) fn is_set(&self) -> bool {
        self.numbers.cancelled.load(Ordering::Acquire) == self.number
    }

    /// Goes on only if it was not cancelled.
    ///
    /// # Errors
    /// 57014 if it was.
    pub(crate) fn check(&self) -> SqlResult<()> {
        if self.is_set() {
            return Err(SqlError::new(
                sqlstate::QUERY_CANCELED,
                "canceling statement due to user request",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_reaches_one_statement_only() {
        let handle = CancelHandle::default();
        handle.cancel();
        let first = handle.begin(1);
        assert!(first.check().is_ok());
        handle.cancel();
        assert_eq!(
            first.check().unwrap_err().sqlstate(),
            sqlstate::QUERY_CANCELED
        );
        let second = handle.begin(2);
        assert!(second.check().is_ok());
        handle.end();
        handle.cancel();
        assert!(handle.begin(3).check().is_ok());
    }
}
