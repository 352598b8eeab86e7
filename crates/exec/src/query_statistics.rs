//! Statistics of a query, for its caller.

use std::time::Duration;

use serde::Serialize;

/// Live counters of a query. While it runs, the numbers are of about the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveCounters {
    /// Requests to the device that have completed.
    pub reads: u64,
    /// Pages of these requests.
    pub pages: u64,
    /// Faults on pages that were being read already.
    pub merged_faults: u64,
    /// Tasks that were made.
    pub tasks: u64,
    /// Tasks that exist now.
    pub tasks_live: u64,
    /// Tasks that wait for a page now, in all threads.
    pub tasks_in_flight: u64,
    /// Rows of the answer that were made, taken or not.
    pub rows: u64,
}

/// Statistics of a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Counts.
    #[serde(flatten)]
    pub counters: LiveCounters,
    /// Number of different pages that were read.
    pub distinct_pages: u64,
    /// Most tasks that waited at a time in one thread.
    pub tasks_in_flight_max: u64,
    /// Tasks that were handed over to another thread.
    pub handed_over: u64,
    /// Rows that went from one step of the plan to the next.
    pub rows_between: u64,
    /// Calls that submitted reads or waited for them.
    pub turns: u64,
    /// The time from the call that started it to its end.
    pub elapsed: Duration,
    /// Processor time of its threads.
    pub cpu: Duration,
    /// Threads.
    pub threads: usize,
    /// Tasks per thread at the end, also of an adaptive degree.
    pub degree: usize,
    /// How reads were carried out; empty without reads.
    pub device: String,
}
