//! One thread of a run that receives its transactions in batches, as a server does from its
//! clients.
//!
//! A batch is answered when all of its transactions are durable. Until then the thread runs the
//! batches that follow. In the closed loop, a fixed number of batches of each thread is in flight:
//! the next batch arrives when one is answered. In the open loop, batches arrive at a fixed rate,
//! whether earlier ones are answered or not, and a backlog can build up.
//!
//! Paper: raft-pwal §2.2 (TxGrp)

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki_platform::clock::now_ns;

use super::body::{Body, Values};
use super::precomputed_keys::Drawn;
use super::worker::{Queue, Worker, stage_end};
use crate::args::Length;
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages};

/// Default number of batches of a thread in flight.
const IN_FLIGHT: u32 = 4;
/// Interval at which a thread that waits for the next batch checks for the end of the run.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Flags for batches.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct BatchArgs {
    /// Transactions that arrive together, and are answered together when all of them are durable
    #[arg(long, value_name = "N", conflicts_with_all = ["outstanding", "tasks"], value_parser = RangedU64ValueParser::<u32>::from(1..=1 << 24))]
    batch: Option<u32>,
    /// Batches of each thread in flight: the next arrives when one is answered [default: 4]
    #[arg(long, value_name = "N", requires = "batch", conflicts_with = "rate", value_parser = RangedU64ValueParser::<u32>::from(1..=1024))]
    in_flight: Option<u32>,
    /// Arrival rate in transactions per second, in batches, for all threads together, whether
    /// earlier batches are answered or not
    #[arg(long, value_name = "TPS", requires = "batch", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    rate: Option<u32>,
}

/// The batches that the threads of a run receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    /// Transactions per batch.
    pub(crate) size: u32,
    pub(crate) arrival: Arrival,
}

/// The arrival of batches at a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// Closed loop: the next batch arrives when one of this number is answered.
    InFlight(u32),
    /// Open loop: this number of transactions arrives per second, for all threads together.
    Rate(u32),
}

impl BatchArgs {
    /// The batches that the flags ask for, if there are any.
    pub(crate) fn batches(self) -> Option<Batches> {
        let arrival = match self.rate {
            Some(rate) => Arrival::Rate(rate),
            None => Arrival::InFlight(self.in_flight.unwrap_or(IN_FLIGHT)),
        };
        let size = self.batch?;
        Some(Batches { size, arrival })
    }
}

impl Batches {
    pub(crate) fn in_flight(self) -> Option<u32> {
        match self.arrival {
            Arrival::InFlight(batches) => Some(batches),
            Arrival::Rate(_) => None,
        }
    }

    pub(crate) fn rate(self) -> Option<u32> {
        match self.arrival {
            Arrival::InFlight(_) => None,
            Arrival::Rate(rate) => Some(rate),
        }
    }

    /// The arrivals at one of the threads from `now` on, in nanoseconds. Batches are dealt to the
    /// threads in rotation.
    fn arrivals(self, thread: usize, threads: usize, now: u64) -> Arrivals {
        match self.arrival {
            Arrival::InFlight(batches) => Arrivals::AtAnswers((0..batches).map(|_| now).collect()),
            Arrival::Rate(rate) => {
                let interval =
                    u64::from(self.size) * threads as u64 * 1_000_000_000 / u64::from(rate);
                Arrivals::AtTimes {
                    next: now + interval * thread as u64 / threads as u64,
                    interval,
                }
            }
        }
    }
}

/// The arrival times of a thread's next batches, in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
enum Arrivals {
    /// Batches that have arrived.
    AtAnswers(VecDeque<u64>),
    AtTimes {
        next: u64,
        interval: u64,
    },
}

impl Arrivals {
    /// Takes the next batch if it has arrived, and returns its arrival time.
    fn take(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::AtAnswers(arrived) => arrived.pop_front(),
            Self::AtTimes { next, interval } => (*next <= now).then(|| {
                let arrived = *next;
                *next += *interval;
                arrived
            }),
        }
    }

    /// Reports this number of answered batches.
    fn answered(&mut self, batches: usize) {
        if let Self::AtAnswers(arrived) = self
            && batches > 0
        {
            let now = now_ns();
            arrived.extend((0..batches).map(|_| now));
        }
    }

    /// Sleeps until the next batch arrives, or until the next check for the end of the run.
    fn sleep(&self, now: u64) {
        if let Self::AtTimes { next, .. } = self {
            let until = Duration::from_nanos(next.saturating_sub(now));
            std::thread::sleep(until.min(LOOK_EVERY));
        }
    }
}

impl<D: Drawn> Worker<'_, D> {
    /// As [`Worker::stage`], with transactions that come in batches. Latencies are per batch, from
    /// the arrival to the answer.
    pub(crate) fn stage_in_batches<B: Body>(
        &mut self,
        body: B,
        batches: Batches,
        length: Length,
        stages: &Stages,
    ) -> Result<StageResult, BenchError> {
        let end = stage_end(length, self.done.thread, self.threads);
        let before = self.done.committed();
        let attempts = self.session.attempts();
        let mut latencies = Latencies::new();
        let mut queue = Queue::default();
        let mut values = Values::new();
        let began = Instant::now();
        let mut arrivals = batches.arrivals(self.done.thread, self.threads, now_ns());
        let is_over = |this: &Self| this.done.committed() - before >= end || stages.must_stop();
        while !is_over(self) {
            let Some(arrived) = arrivals.take(now_ns()) else {
                // No further commit would fill the group.
                self.session.flush()?;
                if queue.is_empty() {
                    arrivals.sleep(now_ns());
                } else {
                    arrivals.answered(queue.wait_for_first(&self.session, &mut latencies)?);
                }
                continue;
            };
            let mut left = batches.size;
            while left > 0 && !is_over(self) {
                let Some(ticket) = self.run_next(body, &mut values)? else {
                    continue;
                };
                left -= 1;
                // The last transaction answers for the whole batch.
                queue.push(ticket, if left == 0 { arrived.max(1) } else { 0 });
                arrivals.answered(queue.acknowledge(&self.session, &mut latencies));
            }
        }
        queue.drain(&self.session, &mut latencies)?;
        let committed = self.done.committed() - before;
        Ok(StageResult {
            began,
            ended: Instant::now(),
            done: committed,
            aborted: self.session.attempts() - attempts - committed,
            latencies,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_open_loop_threads_receive_batches_by_turns() {
        let batches = Batches {
            size: 100,
            arrival: Arrival::Rate(1000),
        };
        let ms = 1_000_000;
        for (thread, first) in [(0, 5 * ms), (1, 105 * ms)] {
            let mut arrivals = batches.arrivals(thread, 2, 5 * ms);
            assert_eq!(arrivals.take(first - 1), None);
            assert_eq!(arrivals.take(first), Some(first));
            assert_eq!(arrivals.take(first), None);
            // Delayed arrivals are kept.
            for batch in 1..4 {
                assert_eq!(arrivals.take(1000 * ms), Some(first + batch * 200 * ms));
            }
        }
    }

    #[test]
    fn in_the_closed_loop_each_answer_brings_a_batch() {
        let batches = Batches {
            size: 100,
            arrival: Arrival::InFlight(2),
        };
        let mut arrivals = batches.arrivals(1, 2, 7);
        assert_eq!([arrivals.take(7), arrivals.take(7)], [Some(7), Some(7)]);
        assert_eq!(arrivals.take(8), None);
        arrivals.answered(0);
        assert_eq!(arrivals.take(8), None);
        arrivals.answered(1);
        assert!(arrivals.take(8).is_some());
    }
}
