//! The wait list of threads that wait for a flush to end, or to lead one (`stream/mod.rs`, S3).

use std::time::Instant;

use namiki_platform::sync::{Condvar, MutexGuard};

/// A condition variable for each parity of a batch's number.
#[derive(Default)]
pub(super) struct FlushWaiters([Condvar; 2]);

impl FlushWaiters {
    fn of(&self, batch: u64) -> &Condvar {
        &self.0[(batch & 1) as usize]
    }

    /// Waits for the end of `batch`, or to lead it.
    pub(super) fn wait<'a, T>(&self, batch: u64, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.of(batch).wait(guard)
    }

    /// The same until a deadline.
    pub(super) fn wait_until<'a, T>(
        &self,
        batch: u64,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        self.of(batch).wait_until(guard, deadline).0
    }

    /// The batch has ended: wakes its waiters, and one to lead the next.
    pub(super) fn ended(&self, batch: u64) {
        self.of(batch).notify_all();
        self.of(batch + 1).notify_one();
    }

    pub(super) fn wake_all(&self) {
        for condvar in &self.0 {
            condvar.notify_all();
        }
    }
}
