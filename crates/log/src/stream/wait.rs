//! Waiting until a commit is hardened.

use std::time::{Duration, Instant};

use namiki_platform::Lsn;

use super::{Stream, Ticket};
use crate::config::{Group, Held};
use crate::error::LogError;
use crate::sync::Ordering;

/// Rounds of looking at a flight before sleeping: about a microsecond, which a flight on emulated
/// NVM takes, and one to a disk does not notice. A model looks once, as it tries all orders anyway.
const SPIN_ROUNDS: u32 = if cfg!(loom) { 1 } else { 32 };

impl<H: Held> Stream<H> {
    /// Returns when the commit is hardened. In groups by count it waits for the group at most
    /// `group_wait_max` and then leads a flush, or leads at once if that is `Duration::MAX`; in
    /// automatic groups it leads a flush, or waits for the one in flight first.
    ///
    /// # Errors
    /// The error that poisoned the log: the outcome of the commit is unknown.
    /// [`LogError::ForeignTicket`] for a ticket that this stream cannot have given out.
    pub fn wait_hardened(&self, ticket: Ticket) -> Result<(), LogError> {
        self.check_ticket(ticket)?;
        if self.is_hardened(ticket) {
            return Ok(());
        }
        let _waking = self.waking();
        let patience = match self.group {
            Group::Count(n) if n.get() > 1 && self.group_wait_max != Duration::MAX => {
                Instant::now().checked_add(self.group_wait_max)
            }
            _ => None,
        };
        let mut state = self.state.lock();
        if state.in_flight >= Some(ticket.number) && state.launched.is_none() {
            drop(state);
            for _ in 0..SPIN_ROUNDS {
                std::hint::spin_loop();
                if self.is_hardened(ticket) {
                    return Ok(());
                }
            }
            state = self.state.lock();
        }
        if let Some(deadline) = patience {
            loop {
                if state.hardened >= ticket.number {
                    return Ok(());
                }
                self.check_poison()?;
                if state.in_flight >= Some(ticket.number) && state.launched.is_some() {
                    break;
                }
                let parity = (state.flight_of(ticket.number) & 1) as usize;
                let (back, passed) = self.patient[parity].wait_until(state, deadline);
                state = back;
                if passed {
                    break;
                }
            }
        }
        self.harden_through(state, ticket.number)
    }

    /// Whether there can be such a commit in this stream.
    pub(crate) fn check_ticket(&self, ticket: Ticket) -> Result<(), LogError> {
        // Acquire, like any look at how far the stream is; whoever has the ticket sees its commit.
        let appended = self.appended.load(Ordering::Acquire);
        if ticket.worker == self.worker && ticket.number <= appended {
            return Ok(());
        }
        Err(LogError::ForeignTicket {
            worker: ticket.worker,
            number: ticket.number,
            asked: self.worker,
            appended,
        })
    }

    /// Hardens whatever the stream has drawn at or below `lsn`.
    pub(crate) fn harden_lsn(&self, lsn: Lsn) -> Result<(), LogError> {
        let _waking = self.waking();
        // Under the lock nobody is between draw and buffer.
        let state = self.state.lock();
        let through = if state.filling.records > 0 && state.filling.first_lsn <= lsn {
            state.appended
        } else {
            state.in_flight.unwrap_or(0)
        };
        self.harden_through(state, through)
    }
}
