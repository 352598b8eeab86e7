//! Tickets of committed transactions, with which callers wait for durability.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use namiki_log::{AckWaiter, LogError};
use namiki_platform::Stamp;

use crate::commit::commit_path::Awaits;
use crate::commit::engine::Engine;
use crate::error::Error;
use crate::table::raw_table::Owner;

/// A committed transaction: its position in the serial order, and the condition of its durability.
///
/// Ask [`Database::is_acknowledged`](crate::Database::is_acknowledged), or wait with
/// [`Database::wait`](crate::Database::wait) or, in a task,
/// [`Database::acknowledged`](crate::Database::acknowledged). Until then, the transaction must not be reported as
/// done.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) owner: Owner,
    pub(crate) stamp: Stamp,
    pub(crate) awaits: Awaits,
}

impl Ticket {
    /// The commit stamp. It rises with every version of a key, and a reader of a version has at least its stamp.
    /// Under TicToc, transactions are equivalent to running one by one in this order, readers of a version after its
    /// writer; under Silo and strict two-phase locking, where readers leave no trace, one that overwrites what
    /// another has read may have the lower stamp.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }
}

/// Ends when a transaction is durable: see [`Database::acknowledged`](crate::Database::acknowledged).
#[must_use = "a future does nothing unless it is polled"]
pub struct Acknowledged {
    engine: Arc<Engine>,
    ticket: Ticket,
    flushed_by_caller: bool,
    ack_waiter: AckWaiter,
}

impl Acknowledged {
    pub(crate) fn new(engine: Arc<Engine>, ticket: Ticket) -> Self {
        Self {
            engine,
            ticket,
            flushed_by_caller: false,
            ack_waiter: AckWaiter::default(),
        }
    }

    /// The same future, for a program that flushes the session's stream itself, as soon as its tasks
    /// have nothing else to do: see [`Database::flush_stream`](crate::Database::flush_stream). It
    /// does not call the log's own thread for the group of the commit. A group that is not flushed
    /// is flushed after [`Builder::group_wait_max`](crate::Builder::group_wait_max), as any other.
    /// Without that thread (`group_wait_max` is `Duration::MAX`, or the system allows none), the
    /// poll flushes the group itself.
    pub fn flushed_by_caller(mut self) -> Self {
        self.flushed_by_caller = true;
        self
    }

    /// The group of the commit, if it is logged and the caller flushes it.
    fn group_of_caller(&self) -> Option<namiki_log::Ticket> {
        if !self.flushed_by_caller {
            return None;
        }
        match self.ticket.awaits {
            Awaits::Nothing => None,
            Awaits::Group(group) => Some(group),
            Awaits::Prefix(group, _) | Awaits::Epoch(group, _) => group,
        }
    }
}

impl Future for Acknowledged {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (ticket, waker) = (&this.ticket, context.waker());
        if ticket.owner != this.engine.owner {
            return Poll::Ready(Err(Error::ForeignTicket));
        }
        let Some(log) = &this.engine.log else {
            return Poll::Ready(Ok(()));
        };
        if let Some(group) = this.group_of_caller() {
            match log.poll_flushed(group, waker, &mut this.ack_waiter) {
                Poll::Ready(Ok(())) => {}
                not_flushed => return not_flushed.map_err(not_acknowledged),
            }
        }
        let polled = match ticket.awaits {
            Awaits::Nothing => Poll::Ready(Ok(())),
            Awaits::Group(group) => log.poll_hardened(group, waker, &mut this.ack_waiter),
            Awaits::Prefix(group, lsn) => log.poll_covered(group, lsn, waker, &mut this.ack_waiter),
            Awaits::Epoch(group, epoch) => {
                log.poll_certified(group, epoch, waker, &mut this.ack_waiter)
            }
        };
        polled.map_err(not_acknowledged)
    }
}

impl Drop for Acknowledged {
    fn drop(&mut self) {
        if let Some(log) = &self.engine.log {
            log.leave(&mut self.ack_waiter);
        }
    }
}

impl std::fmt::Debug for Acknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acknowledged")
            .field("ticket", &self.ticket)
            .finish_non_exhaustive()
    }
}

/// Returns when the commit may be acknowledged.
pub(crate) fn wait(engine: &Engine, ticket: &Ticket) -> Result<(), Error> {
    if ticket.owner != engine.owner {
        return Err(Error::ForeignTicket);
    }
    let Some(log) = &engine.log else {
        return Ok(());
    };
    let waited = match ticket.awaits {
        Awaits::Nothing => Ok(()),
        Awaits::Group(group) => log.stream(group.worker).wait_hardened(group),
        Awaits::Prefix(group, lsn) => group
            .map_or(Ok(()), |group| {
                log.stream(group.worker).wait_hardened(group)
            })
            .and_then(|()| log.wait_covered(lsn)),
        Awaits::Epoch(group, epoch) => log.wait_certified(group, epoch),
    };
    waited.map_err(not_acknowledged)
}

/// Waiting for an acknowledgement, or flushing for one, has failed.
pub(crate) fn not_acknowledged(error: LogError) -> Error {
    match error {
        LogError::Forked => Error::Forked,
        other => Error::OutcomeUnknown(other),
    }
}

/// Whether the commit may be acknowledged.
pub(crate) fn is_acknowledged(engine: &Engine, ticket: &Ticket) -> bool {
    if ticket.owner != engine.owner {
        return false;
    }
    let Some(log) = &engine.log else { return true };
    let acknowledged = || match ticket.awaits {
        Awaits::Nothing => true,
        Awaits::Group(group) => log.stream(group.worker).is_hardened(group),
        Awaits::Prefix(_, lsn) => log.is_covered(lsn),
        Awaits::Epoch(_, epoch) => log.is_certified(epoch),
    };
    acknowledged() || {
        // It may have been written concurrently. If the log has failed, it was not.
        match ticket.awaits {
            Awaits::Nothing => {}
            Awaits::Group(group) => drop(log.stream(group.worker).poll()),
            Awaits::Prefix(_, lsn) => log.poll_below(lsn),
            Awaits::Epoch(_, epoch) => log.poll_epoch(epoch),
        }
        acknowledged()
    }
}
