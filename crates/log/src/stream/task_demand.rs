//! What tasks want of a stream, and how the flusher serves them.
//!
//! A thread that waits for a commit leads its batch. A task has no thread to lend, and the thread
//! that polls it must not wait for a device; so it leaves a *demand* and calls the flusher, which
//! does for it what a waiting thread does for itself, with the same regard for groups.
//!
//! # Invariants
//! - D1. A task enters the list of tasks to be woken, looks, leaves its demand, and calls the
//!   flusher, in this order.
//! - D2. The call is left out only if another thread is bound to make one, or to look by itself:
//!   the leader of the flush under way, at its end, or the flusher that waits for the deadline of
//!   the next. Both are known under the stream's lock, as is how far the stream is hardened.
//! - D3. The end of a flush, and an unattended flush, calls the flusher if there is a demand beyond
//!   it.

use std::collections::BTreeMap;
use std::time::Instant;

use namiki_platform::sync::{AtomicU64, Mutex, Ordering};

use super::Stream;
use super::state::State;
use crate::config::GroupResource;

/// See the module.
pub(super) struct Demand {
    /// The last commit that a task wants hardened.
    through: AtomicU64,
    /// For such commits, through which LSN or epoch everything is wanted once they are hardened.
    /// The flusher takes it then.
    then: Mutex<BTreeMap<u64, u64>>,
}

impl Demand {
    pub(super) fn new() -> Self {
        Self {
            through: AtomicU64::new(0),
            then: Mutex::new(BTreeMap::new()),
        }
    }
}

impl<H: GroupResource> Stream<H> {
    /// A task wants the commit `number` hardened, and after that everything through the LSN or
    /// epoch `then`, if that is not 0. It is in the list of those to be woken (D1).
    pub(crate) fn demand(&self, number: u64, then: u64) {
        if then > 0 {
            self.demand.then.lock().insert(number, then);
        }
        self.demand.through.fetch_max(number, Ordering::Relaxed);
        if self.needs_flusher(number) {
            self.shared.call_flusher();
        }
    }

    /// Has the flusher harden everything appended before the call, as for a task that waits for it, and does not wait. No
    /// effect without a flusher.
    pub fn request_flush(&self) {
        if self.has_pending() && self.shared.check_process().is_ok() {
            let appended = self.state.lock().appended;
            self.demand(appended, 0);
        }
    }

    /// Whether no thread is bound to see the demand for this commit (D2).
    fn needs_flusher(&self, number: u64) -> bool {
        let Some(mut state) = self.state.try_lock() else {
            return true;
        };
        if state.hardened >= number {
            return true;
        }
        match state.batches.under_way() {
            Some(_) => state.batches.is_unattended(),
            None => {
                !state.group_wait.is_served(state.batches.next()) || state.waits_until().is_none()
            }
        }
    }

    /// Calls the flusher if a task wants something that is not hardened, or was not until now: a
    /// batch ends, or is left alone.
    pub(super) fn pass_on_demand(&self, state: &State<H>) {
        // Relaxed: a task that relies on this call has left its demand before it had the lock.
        if self.demand.through.load(Ordering::Relaxed) > state.hardened {
            self.shared.call_flusher();
        }
    }

    /// Whether tasks want a commit that is not hardened.
    pub(crate) fn is_demanded(&self) -> bool {
        self.demand.through.load(Ordering::Relaxed) > self.hardened_commits()
    }

    /// Leads the batch that tasks want if its group is complete, or submits it; otherwise says
    /// until when it waits. The end of a batch under way is a reason to be called again. What goes
    /// wrong, tasks find out.
    pub(crate) fn serve(&self, submits: bool) -> Option<Instant> {
        let _wake = self.wake_on_drop();
        let mut state = self.state.lock();
        if !self.is_demanded() || !state.may_lead() || self.check_poison().is_err() {
            return None;
        }
        let deadline = state.waits_until();
        if deadline.is_some() {
            let next = state.batches.next();
            state.group_wait.serve(next);
        } else if submits {
            drop(self.submit(state));
        } else {
            drop(self.lead(state));
        }
        deadline
    }

    /// Completes an unattended flush, if tasks wait for the stream.
    pub(crate) fn complete_demanded(&self) {
        let _wake = self.wake_on_drop();
        let mut state = self.state.lock();
        if self.is_demanded()
            && let Some(submitted) = state.batches.join()
        {
            drop(self.complete(state, submitted));
        }
    }

    /// Takes what tasks want beyond commits of the stream that are hardened; 0: nothing.
    pub(crate) fn take_demand(&self) -> u64 {
        let mut then = self.demand.then.lock();
        let mut wanted = 0;
        while let Some(first) = then.first_entry()
            && *first.key() <= self.hardened_commits()
        {
            wanted = wanted.max(first.remove());
        }
        wanted
    }
}
