//! Ending statements before their end: a client's request, a time limit, or a client that has gone.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// Cancels statements of one connection.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<Mutex<Option<Cancelled>>>);

impl CancelHandle {
    /// Cancels the statement that runs now, if one does. It ends with 57014, unless it ends before.
    pub fn cancel(&self) {
        if let Some(running) = &*self.0.lock() {
            running.set(Cause::Request);
        }
    }

    /// This statement begins, or goes on.
    pub(crate) fn begin(&self, statement: &Cancelled) {
        *self.0.lock() = Some(statement.clone());
    }

    /// Whether no statement runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().is_none()
    }

    /// No statement runs.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}

/// Why a statement was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A client has asked for it, or has gone.
    Request = 1,
    /// It has run for longer than `statement_timeout`.
    Timeout = 2,
}

/// Whether one statement was cancelled. A handle: cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancelled(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// A [`Cause`]; zero: none.
    cause: AtomicU8,
    waiting: Notify,
}

impl Cancelled {
    /// Cancels the statement. The first cause counts.
    pub(crate) fn set(&self, cause: Cause) {
        let first =
            self.0
                .cause
                .compare_exchange(0, cause as u8, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            self.0.waiting.notify_waiters();
        }
    }

    /// Whether both stand for one statement.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Goes on only if it was not cancelled.
    ///
    /// # Errors
    /// 57014 if it was.
    #[inline]
    pub(crate) fn check(&self) -> SqlResult<()> {
        match self.0.cause.load(Ordering::Acquire) {
            0 => Ok(()),
            cause => Err(cancelled(cause)),
        }
    }

    /// Waits for something, but no longer than the statement may run. What is waited for is dropped then.
    ///
    /// # Errors
    /// 57014 if the statement is cancelled first.
    pub(crate) async fn unless<F: Future>(&self, work: F) -> SqlResult<F::Output> {
        let mut set = pin!(self.0.waiting.notified());
        // From here on, no cancellation is missed.
        set.as_mut().enable();
        self.check()?;
        match select(set, pin!(work)).await {
            Either::Left(_) => Err(cancelled(self.0.cause.load(Ordering::Acquire))),
            Either::Right((done, _)) => Ok(done),
        }
    }
}

#[cold]
fn cancelled(cause: u8) -> SqlError {
    let why = if cause == Cause::Timeout as u8 {
        "statement timeout"
    } else {
        "user request"
    };
    SqlError::new(
        sqlstate::QUERY_CANCELED,
        format!("canceling statement due to {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_reaches_one_statement_only() {
        let handle = CancelHandle::default();
        handle.cancel();
        let first = Cancelled::default();
        handle.begin(&first);
        assert!(first.check().is_ok());
        handle.cancel();
        assert_eq!(
            first.check().unwrap_err().sqlstate(),
            sqlstate::QUERY_CANCELED
        );
        let second = Cancelled::default();
        handle.begin(&second);
        assert!(second.check().is_ok());
        handle.end();
        handle.cancel();
        assert!(second.check().is_ok());
    }

    #[test]
    fn the_first_cause_is_reported() {
        let statement = Cancelled::default();
        statement.set(Cause::Timeout);
        statement.set(Cause::Request);
        assert_eq!(
            statement.check().unwrap_err().message(),
            "canceling statement due to statement timeout"
        );
    }

    #[test]
    fn a_wait_ends_with_the_cancellation() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let statement = Cancelled::default();
        assert_eq!(runtime.block_on(statement.unless(async { 5 })).unwrap(), 5);
        let other = statement.clone();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            other.set(Cause::Request);
        });
        let waited = runtime.block_on(statement.unless(std::future::pending::<()>()));
        assert_eq!(waited.unwrap_err().sqlstate(), sqlstate::QUERY_CANCELED);
        canceller.join().unwrap();
        // And one that was cancelled before begins no wait.
        assert!(runtime.block_on(statement.unless(async {})).is_err());
    }
}
