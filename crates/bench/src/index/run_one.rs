//! One run: its stages in order, and the final check.

use namiki_index::Statistics;

use super::check::expected_presence::Facts;
use super::check::final_state::Finished;
use super::check::live_answers::Promises;
use super::check::payload_origin::Origins;
use super::check::thread_tally::ThreadTally;
use super::drawn_operations::{Choice, Operations};
use super::measured_index::Measured;
use super::result_row::{Outcome, Results};
use super::worker::Worker;
use crate::args::{Length, Switch};
use crate::error::BenchError;
use crate::run_stages::{quotient, through_stages};
use crate::worker_threads::{join, share, spawn};

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) choice: &'a Choice,
    /// Whether keys are loaded in ascending order.
    pub(crate) sorted: bool,
    pub(crate) warmup: Length,
    pub(crate) timed: Length,
    /// Number of operations with the clock around each.
    pub(crate) latency_ops: u64,
    /// The cost of two consecutive readings of the clock.
    pub(crate) clock_ns: u64,
    pub(crate) pin: Switch,
}

/// Number of operations with examined answers, of all threads together; fewer with scans.
const EXAMINED: u64 = 100_000;
const EXAMINED_ENTRIES: u64 = 2_000_000;

const LOAD: usize = 0;
const WARMUP: usize = 1;
const TIMED: usize = 2;
const LATENCIES: usize = 3;

/// The measurements taken while the threads wait.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    memory_bytes: Option<u64>,
    statistics: Option<Statistics>,
}

impl Plan<'_> {
    /// Runs and checks, unless the index does not support the workload.
    pub(crate) fn run<I: Measured>(&self, index: &I, what: &str) -> Result<Outcome, BenchError> {
        if let Some(why) = index.lacks(self.choice) {
            return Ok(Outcome::LeftOut(why));
        }
        let results = self.measure(index, what)?;
        Ok(Outcome::Measured(Box::new(results)))
    }

    fn measure<I: Measured>(&self, index: &I, what: &str) -> Result<Results, BenchError> {
        let choice = self.choice;
        let operations = self.draw()?;
        let all = operations.iter().map(|drawn| (drawn, u64::MAX));
        let facts = Facts::of(choice, all);
        let origins = Origins {
            facts: &facts,
            operations: &operations,
        };
        let promises = Promises::new(choice, origins);
        let loading = format!("{what}, loading");
        let lengths = [
            (Length::Operations(choice.initial), &*loading),
            (self.warmup, what),
            (self.timed, what),
            (self.timed_or(self.latency_ops), what),
            (self.timed_or(self.examined()), what),
        ];
        let mut through = through_stages(
            choice.threads,
            self.pin,
            &lengths,
            |thread| {
                Ok(Worker {
                    index,
                    choice,
                    load: Some(Operations::load(choice, thread, self.sorted)),
                    operations: &operations[thread],
                    done: ThreadTally::new(thread),
                })
            },
            |worker, stage, length, stages| {
                let share = |all| share(all, worker.done.thread, choice.threads);
                let most = match length {
                    Length::Operations(all) => share(all),
                    Length::Time(_) => u64::MAX,
                };
                match stage {
                    LOAD => worker.load(stages),
                    WARMUP | TIMED => worker.run(most, stages),
                    LATENCIES => {
                        let most = share(self.latency_ops);
                        worker.run_timing_each(most, stages)
                    }
                    _ => {
                        let most = share(self.examined());
                        worker.run_examining(most, stages, &promises)
                    }
                }
            },
            |stage| {
                let look = Look::default();
                Ok(match stage {
                    LOAD => Look {
                        memory_bytes: index.memory_bytes(),
                        ..look
                    },
                    WARMUP | TIMED => Look {
                        statistics: index.statistics(),
                        ..look
                    },
                    _ => look,
                })
            },
        )?;
        // Nothing was timed if Ctrl-C came earlier.
        let [load, _, timed, ..] = &through.totals[..] else {
            return Err(BenchError::Interrupted);
        };
        let done: Vec<ThreadTally> = through
            .workers
            .drain(..)
            .map(|worker| worker.done)
            .collect();
        let finished = Finished {
            choice,
            operations: &operations,
            done: &done,
        };
        finished.check(index)?;
        let curve = through.totals.get(LATENCIES);
        let loaded = through.looks[LOAD].memory_bytes;
        let rate = |rate: Option<f64>| rate.map(|rate| rate / 1e6);
        Ok(Results {
            ops: timed.done,
            seconds: timed.seconds,
            mops: rate(timed.per_second().filter(|_| timed.done > 0)),
            load_mops: rate(load.per_second().filter(|_| load.done > 0)),
            latency_ns: curve.and_then(|total| total.latencies.percentiles(self.clock_ns)),
            bytes_per_key: loaded.and_then(|bytes| quotient(bytes as f64, choice.initial as f64)),
            stats: through.looks[TIMED].statistics,
            stats_before: through.looks[WARMUP].statistics,
        })
    }

    /// The operations of each thread, drawn in parallel.
    fn draw(&self) -> Result<Vec<Operations>, BenchError> {
        std::thread::scope(|scope| {
            join(spawn(scope, self.choice.threads, self.pin, |thread| {
                Ok(Operations::draw(self.choice, thread, self.wanted(thread)))
            }))
        })
    }

    /// The number of operations that a thread executes after the load, if it is known.
    fn wanted(&self, thread: usize) -> u64 {
        let share = |all| share(all, thread, self.choice.threads);
        self.choice.drawn(match self.timed {
            Length::Operations(all) => {
                Some(share(all) + share(self.latency_ops) + share(self.examined()))
            }
            Length::Time(_) => None,
        })
    }

    fn examined(&self) -> u64 {
        let most = if self.choice.scans() {
            EXAMINED_ENTRIES / self.choice.scan_length.min(self.choice.keys.count)
        } else {
            EXAMINED
        };
        let most = most.clamp(1, EXAMINED);
        match self.timed {
            Length::Operations(all) => most.min(all),
            Length::Time(_) => most,
        }
    }

    /// This number of operations, but no longer than the timed part if that is a duration.
    fn timed_or(&self, operations: u64) -> Length {
        match self.timed {
            Length::Time(_) if operations > 0 => self.timed,
            _ => Length::Operations(operations),
        }
    }
}
