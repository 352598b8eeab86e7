//! The retry state of a transaction, which it carries from one attempt to the next: conflicts in a
//! row, commit priority, and its wait age.
//!
//! ```text
//!   conflicts in a row     before the next attempt
//!          1               nothing
//!          2 …  8          yield
//!          9 …             sleep, for a random part of a bound that doubles
//!         64 … 95          the same, with exclusive commit priority when the token is its
//!         96 … 287         without: priority has not helped
//!        288 …             with priority again, and so on
//! ```
//!
//! The state begins anew with each transaction, not with each attempt: when the last attempt has committed, when it has
//! failed for good, and when it has panicked.

use std::time::Duration;

use super::policy::{
    PRIORITY_AFTER, PRIORITY_AGAIN_AFTER, PRIORITY_ATTEMPTS, RETRY_BACKOFF_MAX, RETRY_BACKOFF_MIN,
    RETRY_YIELDS,
};
use super::priority::{PriorityTicket, PriorityToken};
use super::wait_age::WaitAge;

/// The state that a transaction carries over its attempts.
#[derive(Debug)]
pub(crate) struct RetryState {
    /// Attempts in a row that ended in a conflict.
    conflicts: u32,
    /// Priority is requested from this number of conflicts on.
    priority_after: u32,
    /// It holds the priority token.
    has_priority: bool,
    /// Attempts that ended in a conflict although it had priority.
    conflicts_with_priority: u32,
    /// Its position among the requests for priority, once it has made one.
    ticket: Option<PriorityTicket>,
    in_task: bool,
    /// Its place among all that have waited for a lock.
    pub(crate) wait_age: WaitAge,
}

/// The backoff of a transaction before its next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backoff {
    Nothing,
    Yield,
    /// A sleep for a random part of this.
    Sleep(Duration),
}

/// The request for priority that a task makes before it commits next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PriorityRequest {
    #[default]
    None,
    New,
    /// It had priority in the attempt before.
    Again,
}

impl Default for RetryState {
    fn default() -> Self {
        Self {
            conflicts: 0,
            priority_after: PRIORITY_AFTER,
            has_priority: false,
            conflicts_with_priority: 0,
            ticket: None,
            in_task: false,
            wait_age: WaitAge::default(),
        }
    }
}

impl RetryState {
    /// An attempt ended in a conflict. Returns how many did, in a row.
    pub(crate) fn note_conflict(&mut self) -> u32 {
        self.conflicts += 1;
        self.conflicts
    }

    /// How many attempts in a row ended in a conflict.
    pub(crate) fn conflicts_in_a_row(&self) -> u32 {
        self.conflicts
    }

    /// The backoff before the next attempt, so that two transactions that conflicted do not
    /// conflict again.
    pub(crate) fn backoff(&self) -> Backoff {
        match self.conflicts {
            0 | 1 => Backoff::Nothing,
            2..=RETRY_YIELDS => Backoff::Yield,
            conflicts => {
                let doublings = (conflicts - RETRY_YIELDS - 1).min(u32::BITS - 1);
                let longest = RETRY_BACKOFF_MIN.saturating_mul(1 << doublings);
                Backoff::Sleep(longest.min(RETRY_BACKOFF_MAX))
            }
        }
    }

    /// After a conflict: requests priority for the next attempts, if it is time to; or releases it, if it has not
    /// helped. May wait in the queue for the token.
    pub(crate) fn request_priority(&mut self, token: &PriorityToken) {
        if self.wants_priority(token) {
            let granted = token.request(&mut self.ticket);
            self.priority_requested(granted);
        }
    }

    /// The same without the request itself: returns whether to make one. The caller then calls
    /// [`RetryState::priority_requested`].
    pub(crate) fn wants_priority(&mut self, token: &PriorityToken) -> bool {
        if self.conflicts < self.priority_after {
            return false;
        }
        if !self.has_priority {
            return true;
        }
        token.extend_grace();
        self.conflicts_with_priority += 1;
        if self.conflicts_with_priority == PRIORITY_ATTEMPTS {
            self.release_priority(token);
            self.ticket = None;
            self.priority_after = self.conflicts.saturating_add(PRIORITY_AGAIN_AFTER);
        }
        false
    }

    /// A request for priority was granted, or not in time.
    pub(crate) fn priority_requested(&mut self, granted: bool) {
        self.has_priority = granted;
        self.conflicts_with_priority = 0;
    }

    /// After a conflict of a task, which may be polled late: releases the token until the task requests it next. Returns
    /// that request.
    pub(crate) fn suspend_priority(&mut self, token: &PriorityToken) -> PriorityRequest {
        let is_new = self.wants_priority(token);
        let had = self.has_priority;
        self.release_priority(token);
        match (had, is_new) {
            (true, _) => PriorityRequest::Again,
            (false, true) => PriorityRequest::New,
            (false, false) => PriorityRequest::None,
        }
    }

    /// A suspended priority is granted again, or not in time.
    pub(crate) fn priority_resumed(&mut self, granted: bool) {
        self.has_priority = granted;
    }

    /// Its position among the requests, once it has made one.
    pub(crate) fn priority_ticket(&mut self) -> &mut Option<PriorityTicket> {
        &mut self.ticket
    }

    /// Whether it runs in a task.
    pub(crate) fn is_in_task(&self) -> bool {
        self.in_task
    }

    /// It runs in a task, which waits for the holder of the token before an attempt, and not in the middle of one.
    pub(crate) fn run_in_task(&mut self, in_task: bool) {
        self.in_task = in_task;
    }

    /// Whether to wait for the transaction with priority. Not if it queued for priority just now.
    #[inline]
    pub(crate) fn yields_to(&self, token: &PriorityToken) -> bool {
        self.should_yield(token) && !self.in_task
    }

    /// The same before an attempt.
    #[inline]
    pub(crate) fn should_yield(&self, token: &PriorityToken) -> bool {
        token.is_taken() && !self.has_priority && self.ticket.is_none()
    }

    /// Releases the priority token.
    pub(crate) fn release_priority(&mut self, token: &PriorityToken) {
        if std::mem::take(&mut self.has_priority) {
            token.release();
        }
    }

    /// The next attempt is of another transaction: it has no priority and no wait age.
    #[inline(always)]
    pub(crate) fn start_afresh(&mut self, token: &PriorityToken) {
        // Priority is requested after conflicts only.
        if self.conflicts > 0 || self.wait_age.has_waited() {
            self.reset(token);
        }
    }

    #[inline(never)]
    fn reset(&mut self, token: &PriorityToken) {
        self.release_priority(token);
        *self = Self {
            in_task: self.in_task,
            ..Self::default()
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn after(conflicts: u32, token: &PriorityToken) -> RetryState {
        let mut retry = RetryState::default();
        for _ in 0..conflicts {
            retry.note_conflict();
            retry.request_priority(token);
        }
        retry
    }

    #[test]
    fn back_off_grows_up_to_a_maximum() {
        let token = PriorityToken::new();
        let backoff = |conflicts| after(conflicts, &token).backoff();
        assert_eq!(backoff(1), Backoff::Nothing);
        assert_eq!(backoff(2), Backoff::Yield);
        assert_eq!(backoff(RETRY_YIELDS), Backoff::Yield);
        assert_eq!(backoff(RETRY_YIELDS + 1), Backoff::Sleep(RETRY_BACKOFF_MIN));
        let twice = 2 * RETRY_BACKOFF_MIN;
        assert_eq!(backoff(RETRY_YIELDS + 2), Backoff::Sleep(twice));
        assert_eq!(backoff(PRIORITY_AFTER), Backoff::Sleep(RETRY_BACKOFF_MAX));
    }

    #[test]
    fn priority_is_requested_and_given_up_by_turns() {
        let token = PriorityToken::new();
        let held_after = |conflicts| {
            let mut retry = after(conflicts, &token);
            let held = retry.has_priority;
            assert_eq!(held, token.is_taken());
            retry.start_afresh(&token);
            held
        };
        let given_up = PRIORITY_AFTER + PRIORITY_ATTEMPTS;
        let again = given_up + PRIORITY_AGAIN_AFTER;
        for (conflicts, held) in [
            (PRIORITY_AFTER - 1, false),
            (PRIORITY_AFTER, true),
            (given_up - 1, true),
            (given_up, false),
            (again - 1, false),
            (again, true),
            (again + PRIORITY_ATTEMPTS, false),
        ] {
            assert_eq!(held_after(conflicts), held, "after {conflicts} conflicts");
        }
    }

    #[test]
    fn a_transaction_in_the_queue_yields_to_no_other() {
        let token = PriorityToken::with_wait_max(Duration::ZERO);
        let mut holder = after(PRIORITY_AFTER, &token);
        let queued = after(PRIORITY_AFTER, &token);
        assert!(!holder.yields_to(&token) && !queued.yields_to(&token));
        let mut other = after(PRIORITY_AFTER - 1, &token);
        assert!(other.yields_to(&token));
        holder.start_afresh(&token);
        assert!(!other.yields_to(&token));
        other.note_conflict();
        other.request_priority(&token);
        assert!(
            holder.yields_to(&token),
            "another transaction runs there now"
        );
    }

    #[test]
    fn another_transaction_begins_without_priority() {
        let token = PriorityToken::new();
        let mut retry = after(PRIORITY_AFTER, &token);
        retry.start_afresh(&token);
        assert!(!token.is_taken() && retry.ticket.is_none());
        assert_eq!(retry.note_conflict(), 1);
        assert_eq!(retry.backoff(), Backoff::Nothing);
    }
}
