//! Waiting until a commit is hardened.

use std::time::Instant;

use namiki_platform::Lsn;
use namiki_platform::sync::MutexGuard;

use super::state::State;
use super::{Stream, Ticket};
use crate::config::GroupResource;
use crate::error::LogError;

/// Rounds of looking at a batch before sleeping: about a microsecond, which a batch on emulated NVM
/// takes, and one to a disk does not notice. A model looks once, as it tries all orders anyway.
const SPIN_ROUNDS: u32 = if cfg!(loom) { 1 } else { 32 };

impl<H: GroupResource> Stream<H> {
    /// Returns when the commit is hardened. If no flush is in flight, it waits until its group is
    /// complete, and then leads one: a group by count at most `group_wait_max` after its first
    /// waiter, an automatic one at most the duration of the last flush. If `group_wait_max` is
    /// `Duration::MAX`, it leads immediately.
    ///
    /// # Errors
    /// The error that poisoned the log: the outcome of the commit is unknown. [`LogError::Forked`];
    /// [`LogError::ForeignTicket`] for a ticket that this stream cannot have given out.
    pub fn wait_hardened(&self, ticket: Ticket) -> Result<(), LogError> {
        self.check_ticket(ticket)?;
        if self.is_hardened(ticket) {
            return Ok(());
        }
        self.shared.check_process()?;
        let _wake = self.wake_on_drop();
        let mut state = self.state.lock();
        if state.batches.under_way() >= Some(ticket.number) && !state.batches.is_unattended() {
            drop(state);
            for _ in 0..SPIN_ROUNDS {
                std::hint::spin_loop();
                if self.is_hardened(ticket) {
                    return Ok(());
                }
            }
            state = self.state.lock();
        }
        loop {
            if state.hardened >= ticket.number {
                return Ok(());
            }
            self.check_poison()?;
            state = if state.batches.under_way().is_some() {
                self.join(state, ticket.number)?
            } else {
                match state.waits_until() {
                    None => self.lead(state)?,
                    Some(deadline) => self.accumulate(state, deadline),
                }
            };
        }
    }

    /// Waits for more commits, at most until `deadline` if no other waiter has it (`stream/mod.rs`, S3).
    fn accumulate<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<H>>,
        deadline: Instant,
    ) -> MutexGuard<'a, State<H>> {
        let next = state.batches.next();
        if !state.group_wait.take_deadline(next) {
            return self.flush_waiters.wait(next, state);
        }
        let mut state = self.flush_waiters.wait_until(next, state, deadline);
        state.group_wait.leave_deadline(next);
        state
    }

    /// Whether there can be such a commit in this stream.
    pub(crate) fn check_ticket(&self, ticket: Ticket) -> Result<(), LogError> {
        let appended = self.progress.appended();
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
        let _wake = self.wake_on_drop();
        // Under the lock no commit is between draw and buffer.
        let state = self.state.lock();
        let filling = state.buffers.filling();
        let through = if filling.records > 0 && filling.first_lsn <= lsn {
            state.appended
        } else {
            state.batches.under_way().unwrap_or(0)
        };
        self.harden_through(state, through)
    }
}
