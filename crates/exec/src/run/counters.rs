//! Counters of a query, by thread.

use crossbeam_utils::CachePadded;
use namiki_platform::per_worker_counters::Counter;

use crate::query_statistics::LiveCounters;

/// Counters of one thread. No other thread writes them.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    /// Requests to the device that have completed.
    pub(crate) reads: Counter,
    /// Pages of these requests.
    pub(crate) pages: Counter,
    /// Faults on pages that were being read already.
    pub(crate) merged_faults: Counter,
    /// Tasks that were made.
    pub(crate) tasks: Counter,
    /// Tasks that have ended.
    pub(crate) tasks_ended: Counter,
    /// Tasks that wait now, as a difference of two counters.
    pub(crate) waits_begun: Counter,
    pub(crate) waits_ended: Counter,
    /// Most tasks that waited at a time; each new maximum adds the difference.
    pub(crate) waiting_max: Counter,
    /// Tasks that were handed over to another thread.
    pub(crate) handed_over: Counter,
    /// Rows of the answer.
    pub(crate) rows: Counter,
    /// Rows that went through steps of the plan.
    pub(crate) rows_between: Counter,
    /// Processor time.
    pub(crate) cpu_ns: Counter,
    /// Calls that submit reads or wait for them.
    pub(crate) turns: Counter,
    /// The current degree, as a difference of two counters.
    pub(crate) degree_up: Counter,
    pub(crate) degree_down: Counter,
}

impl WorkerCounters {
    pub(crate) fn waiting(&self) -> u64 {
        // Read in this order, so that a wait that ends in between does not make it negative.
        let ended = self.waits_ended.get();
        self.waits_begun.get().saturating_sub(ended)
    }

    pub(crate) fn degree(&self) -> u64 {
        self.degree_up.get().saturating_sub(self.degree_down.get())
    }
}

/// Sums of all threads.
pub(crate) fn sum(workers: &[CachePadded<WorkerCounters>]) -> LiveCounters {
    let mut sum = LiveCounters::default();
    for worker in workers {
        // Ended before made, so that a task that ends in between does not make the difference
        // negative.
        let ended = worker.tasks_ended.get();
        let made = worker.tasks.get();
        sum.reads += worker.reads.get();
        sum.pages += worker.pages.get();
        sum.merged_faults += worker.merged_faults.get();
        sum.tasks += made;
        sum.tasks_live = sum.tasks_live.wrapping_add(made.wrapping_sub(ended));
        sum.tasks_in_flight += worker.waiting();
        sum.rows += worker.rows.get();
    }
    // A task may end in another thread than the one that made it.
    sum.tasks_live = (sum.tasks_live as i64).max(0) as u64;
    sum
}
