//! How a query is run.
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
    /// One thread with one task in flight: the plan's loops one after the other, as a conventional engine runs
    /// them. What out-of-order execution is compared with.
    ///
    /// Paper: oode §3 (順序実行)
    Ordered,
    /// Whatever can be done next.
    #[default]
    OutOfOrder,
}

/// How many tasks of a thread may wait for pages at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Degree {
    /// So many; 0 counts as 1.
    ///
    /// Paper: oode §3.2 (スレッド内タスク数)
    Fixed(usize),
    /// As many as the device can use: raised while that brings more reads a second, lowered where it does not.
    Adaptive,
}

/// How a query is run. May change with every query.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Threads. Default: one for each processor.
    pub threads: NonZeroUsize,
    /// Tasks in each thread. Default: adaptive.
    pub degree: Degree,
    /// The order of execution. Default: out of order.
    pub mode: Mode,
    /// What hash tables, sorts, groups and limits of the query may keep in memory, in bytes, all threads together, their
    /// merging included; while a list grows, it is there twice, and what it has then is counted afterwards. Default: 1 GiB.
    pub memory_bytes_max: usize,
    /// Rows that wait for the consumer, at most, in each thread: then the thread waits for it. Default: 4096.
    pub output_rows_max: usize,
    /// Bytes of rows that wait for the consumer, at most, in each thread, as far as one row is not longer. Default:
    /// 4 MiB.
    pub output_bytes_max: usize,
    /// Tasks of a thread that may wait for pages while only as many reads as the degree says are in flight: these are read
    /// in the order of their pages, neighbours in one request. For joins that reach a good part of a table's pages.
    /// Default: 0, no more than the degree, in the order in which they were asked for.
    pub window_tasks: usize,
    /// What reads and rows are taken to cost where the planner has a choice.
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

    /// Threads, as the mode has them.
    pub(crate) fn thread_count(&self) -> usize {
        match self.mode {
            Mode::Ordered => 1,
            Mode::OutOfOrder => self.threads.get(),
        }
    }

    /// Tasks that a thread begins with.
    pub(crate) fn first_degree(&self) -> usize {
        match (self.mode, self.degree) {
            (Mode::Ordered, _) => 1,
            (Mode::OutOfOrder, Degree::Fixed(degree)) => degree.max(1),
            (Mode::OutOfOrder, Degree::Adaptive) => AdaptiveDegree::FIRST,
        }
    }

    /// Tasks that a thread can come to have.
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
