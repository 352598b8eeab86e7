//! The report of a query: what its threads have done, added up.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::counters::{WorkerCounters, sum};
use crate::program::Place;
use crate::query_statistics::Statistics;

/// See the module.
pub(crate) struct QueryReport {
    /// For each pipeline, the number of rows that began each step, and of those that reached the
    /// sink.
    step_rows: Mutex<Vec<Vec<u64>>>,
    /// One bit for each page of each segment that was read.
    pages_read: Mutex<Vec<Vec<u64>>>,
    device: Mutex<String>,
    started: Instant,
    elapsed: OnceLock<Duration>,
}

impl QueryReport {
    /// The report of a query that starts now.
    pub(crate) fn new(pipelines: usize, segments: usize) -> Self {
        Self {
            step_rows: Mutex::new(vec![Vec::new(); pipelines]),
            pages_read: Mutex::new(vec![Vec::new(); segments]),
            device: Mutex::default(),
            started: Instant::now(),
            elapsed: OnceLock::new(),
        }
    }

    /// Adds the rows that began each step of a pipeline in a thread.
    pub(crate) fn add_step_rows(&self, pipeline: usize, rows: &[u64]) {
        let mut all = self.step_rows.lock();
        let own = &mut all[pipeline];
        own.resize(own.len().max(rows.len()), 0);
        for (sum, rows) in own.iter_mut().zip(rows) {
            *sum += rows;
        }
    }

    /// Number of rows counted at each place. Pipelines that run are not known yet.
    pub(crate) fn rows_at(&self, places: &[Place]) -> Vec<u64> {
        let rows = self.step_rows.lock();
        let of = |place: &Place| rows[place.pipeline].get(place.step).copied().unwrap_or(0);
        places.iter().map(of).collect()
    }

    /// Adds the pages that a thread has read.
    pub(crate) fn add_pages_read(&self, pages: &[Vec<u64>]) {
        let mut all = self.pages_read.lock();
        for (all, own) in all.iter_mut().zip(pages) {
            all.resize(all.len().max(own.len()), 0);
            for (all, own) in all.iter_mut().zip(own) {
                *all |= own;
            }
        }
    }

    /// Notes how reads are carried out.
    pub(crate) fn set_device(&self, device: &str) {
        let mut own = self.device.lock();
        if own.is_empty() {
            device.clone_into(&mut own);
        }
    }

    /// The query ends now.
    pub(crate) fn end(&self) {
        _ = self.elapsed.set(self.started.elapsed());
    }

    /// The work done so far.
    pub(crate) fn statistics(&self, threads: &[CachePadded<WorkerCounters>]) -> Statistics {
        let bits = self.pages_read.lock();
        let bits = bits.iter().flatten();
        let distinct_pages = bits.map(|word| u64::from(word.count_ones())).sum();
        let of = |count: fn(&WorkerCounters) -> u64| -> u64 {
            threads.iter().map(|counters| count(counters)).sum()
        };
        let max = |count: fn(&WorkerCounters) -> u64| {
            let counts = threads.iter().map(|counters| count(counters));
            counts.max().unwrap_or(0)
        };
        Statistics {
            counters: sum(threads),
            distinct_pages,
            tasks_in_flight_max: max(|counters| counters.waiting_max.get()),
            handed_over: of(|counters| counters.handed_over.get()),
            rows_between: of(|counters| counters.rows_between.get()),
            turns: of(|counters| counters.turns.get()),
            elapsed: *self.elapsed.get().unwrap_or(&self.started.elapsed()),
            cpu: Duration::from_nanos(of(|counters| counters.cpu_ns.get())),
            threads: threads.len(),
            degree: max(WorkerCounters::degree) as usize,
            device: self.device.lock().clone(),
        }
    }
}
