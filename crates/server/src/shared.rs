//! The parts of a server that all its threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use namiki_sql::Engine;
use slog::Logger;
use tokio::sync::{Semaphore, watch};

use crate::access::attempts::Attempts;
use crate::access::cancel_numbers::CancelNumbers;
use crate::access::role_file::RoleFile;
use crate::metrics::{Counters, Metrics};
use crate::settings::Limits;

/// The phases of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It serves clients.
    Serving,
    /// It accepts no more clients; sessions end after the statement that they run.
    Stopping,
    /// Sessions that have not ended are dropped.
    Aborting,
}

/// The shared parts.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) roles: RoleFile,
    pub(crate) cancel_numbers: Arc<CancelNumbers>,
    /// Connections over TCP without a login.
    pub(crate) tcp_attempts: Arc<Attempts>,
    /// Connections over the Unix socket without a login.
    pub(crate) unix_attempts: Arc<Attempts>,
    /// Permits of sessions.
    pub(crate) sessions: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) input: Arc<InputBudget>,
    pub(crate) metrics: Metrics,
    pub(crate) logger: Logger,
    /// See [`Shared::enter`].
    pub(crate) phase: watch::Sender<Phase>,
    /// Whether the phase is not the first one any more. Sessions look at it for each request; readers of the phase share a
    /// lock.
    pub(crate) is_stopping: AtomicBool,
    /// The user that the server runs as.
    pub(crate) own_uid: u32,
}

impl Shared {
    /// Whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Begins the next phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.is_stopping
            .store(phase > Phase::Serving, Ordering::Release);
        self.phase.send_replace(phase);
    }
}

/// A thread's view of a server.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    /// The number of the thread, counted from 0; modulo the number of log streams, that of its stream.
    pub(crate) thread: u16,
}

impl Context {
    /// The thread's counters.
    pub(crate) fn counters(&self) -> &Counters {
        self.shared.metrics.of(usize::from(self.thread))
    }
}

/// A limit on the bytes of all sessions together: of unfinished requests, and of what they hold from one request to the
/// next (statements, parameters, rows that were found).
#[derive(Debug)]
pub(crate) struct InputBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl InputBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            bytes: AtomicUsize::new(0),
        })
    }

    /// Bytes that are charged at present.
    pub(crate) fn charged(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The part of the budget that a session has taken. Dropping it returns the part.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<InputBudget>,
    /// Bytes of unfinished requests.
    buffered: usize,
    /// Bytes that the session holds.
    held: usize,
    /// What the budget knows of both.
    charged: usize,
}

impl Charge {
    /// Bytes of a session without a charge.
    const FREE_BYTES: usize = 64 << 10;

    pub(crate) fn new(budget: &Arc<InputBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            buffered: 0,
            held: 0,
            charged: 0,
        }
    }

    /// Adjusts the charge to the bytes that a session has buffered. Returns false if the budget is
    /// exhausted; the session has to end then.
    pub(crate) fn set_buffered(&mut self, bytes: usize) -> bool {
        self.buffered = bytes;
        self.adjust()
    }

    /// Adjusts the charge to the bytes that a session holds. Returns false if the budget is exhausted;
    /// the session has to give back what it has taken last.
    pub(crate) fn set_held(&mut self, bytes: usize) -> bool {
        self.held = bytes;
        self.adjust()
    }

    fn adjust(&mut self) -> bool {
        let bytes = self.buffered.saturating_add(self.held);
        let bytes = bytes.saturating_sub(Self::FREE_BYTES);
        let (total, before) = (&self.budget.bytes, self.charged);
        self.charged = bytes;
        if bytes > before {
            let grown = bytes - before;
            let others = total.fetch_add(grown, Ordering::Relaxed);
            return others.saturating_add(grown) <= self.budget.bytes_max;
        }
        if bytes < before {
            total.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        (self.buffered, self.held) = (0, 0);
        self.adjust();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_one_budget() {
        let budget = InputBudget::new(1_000);
        let (mut first, mut second) = (Charge::new(&budget), Charge::new(&budget));
        assert!(first.set_buffered(Charge::FREE_BYTES));
        assert_eq!(budget.charged(), 0);
        assert!(first.set_held(600));
        assert_eq!(budget.charged(), 600);
        assert!(!second.set_buffered(Charge::FREE_BYTES + 600));
        drop(second);
        assert_eq!(budget.charged(), 600);
        let mut third = Charge::new(&budget);
        assert!(third.set_held(Charge::FREE_BYTES + 400));
        assert!(first.set_buffered(0));
        assert_eq!(budget.charged(), 400);
        assert!(first.set_held(Charge::FREE_BYTES + 10));
        drop((first, third));
        assert_eq!(budget.charged(), 0);
    }
}
