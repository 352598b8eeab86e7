//! Options of a query.
//!
//! Paper: oode §3.1, §3.2

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::planner::Prices;
use crate::run::adaptive_degree::AdaptiveDegree;

/// The order of execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One thread with one task in flight: the plan's loops one after the other, as a conventional
    /// engine runs them. The baseline of out-of-order execution.
    ///
    /// Paper: oode §3 (順序実行)
    Ordered,
    /// Any task that can run.
    #[default]
    OutOfOrder,
}

/// The number of a thread's tasks that may wait for pages at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Degree {
    /// A fixed number; 0 counts as 1.
    ///
    /// Paper: oode §3.2 (スレッド内タスク数)
    Fixed(usize),
    /// The number that the device can use: raised while that gives more reads a second, lowered
    /// where it does not.
    Adaptive,
}

/// Options of a query. They may change with every query.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Threads. Default: one for each processor.
    pub threads: NonZeroUsize,
    /// Tasks in each thread. Default: adaptive.
    pub degree: Degree,
    /// The order of execution. Default: out of order.
    pub mode: Mode,
    /// Memory limit of the query's hash tables, sorts, groups and limits in bytes, for all threads
    /// together, merging included. A growing list exists twice for a moment, and is counted
    /// afterwards. Default: 1 GiB.
    pub memory_bytes_max: usize,
    /// Limit of rows that wait for the consumer in each thread; at the limit the thread waits.
    /// Default: 4096.
    pub output_rows_max: usize,
    /// Limit of bytes of rows that wait for the consumer in each thread; one longer row is allowed.
    /// Default: 4 MiB.
    pub output_bytes_max: usize,
    /// Tasks of a thread that may wait for pages, with no more reads in flight than the degree:
    /// pages are read in their order, neighbours in one request. For joins that reach a good part
    /// of a table's pages. Default: 0, for no more tasks than the degree, and reads in the order of
    /// requests.
    pub window_tasks: usize,
    /// Assumed prices of reads and rows, for the planner's choices.
    pub prices: Prices,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: namiki_platform::threads::processors(),
            degree: Degree::Adaptive,
            mode: Mode::OutOfOrder,
            memory_bytes_max: 1 << 30,
            output_rows_max: 4096,
            output_bytes_max: 4 << 20,
            window_tasks: 0,
            prices: Prices::default(),
        }
    }
}

impl Options {
    /// As a conventional engine runs it: one thread, one task.
    #[must_use]
    pub fn ordered() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            degree: Degree::Fixed(1),
            mode: Mode::Ordered,
            ..Self::default()
        }
    }

    /// Whether one task runs at a time.
    pub(crate) fn is_ordered(&self) -> bool {
        self.mode == Mode::Ordered
    }

    /// Number of threads in this mode.
    pub(crate) fn thread_count(&self) -> usize {
        match self.mode {
            Mode::Ordered => 1,
            Mode::OutOfOrder => self.threads.get(),
        }
    }

    /// First number of tasks of a thread.
    pub(crate) fn first_degree(&self) -> usize {
        match (self.mode, self.degree) {
            (Mode::Ordered, _) => 1,
            (Mode::OutOfOrder, Degree::Fixed(degree)) => degree.max(1),
            (Mode::OutOfOrder, Degree::Adaptive) => AdaptiveDegree::FIRST,
        }
    }

    /// Greatest number of tasks of a thread.
    pub(crate) fn degree_max(&self) -> usize {
        if self.is_adaptive() {
            AdaptiveDegree::MAX
        } else {
            self.first_degree()
        }
    }

    /// Whether the number of tasks follows the device.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.mode == Mode::OutOfOrder && self.degree == Degree::Adaptive
    }
}
