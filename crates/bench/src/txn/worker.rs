//! One thread of a run: it commits transactions, and acknowledges them in order once they are
//! durable.
//!
//! As in the paper, a worker does not wait until its commit is durable. It queues the ticket and
//! continues; a commit counts when it leaves the queue.
//!
//! Paper: tictoc-pwal §3.2 (the commit queue)

use std::collections::VecDeque;
use std::time::Instant;

use namiki::{Database, Error, Session, Ticket};
use namiki_platform::clock::now_ns;

use super::body::{Body, Job, Outcome, Values};
use super::precomputed_keys::Drawn;
use super::thread_commits::Done;
use super::workload::{Records, record_of, tag};
use crate::args::Length;
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages};
use crate::worker_threads::share;

/// A thread and its state.
pub(crate) struct Worker<'a, D: Drawn> {
    pub(crate) threads: usize,
    pub(crate) db: &'a Database,
    pub(crate) session: Session,
    pub(crate) records: &'a Records<D::Key>,
    /// The encoded keys of its ring.
    pub(crate) drawn: D,
    /// Maximal number of commits that await their acknowledgement; 0 if there is no log to wait
    /// for.
    pub(crate) outstanding_max: usize,
    /// Number of transactions known before the first of them runs; with 1, only that one.
    pub(crate) pipeline: u64,
    /// The sampling interval: one in this many transactions is timed.
    pub(crate) sample_every: u32,
    /// The transactions of all stages so far.
    pub(crate) done: Done,
}

/// Commits in order, each with its start time, or 0 if it is not timed.
#[derive(Default)]
pub(super) struct Queue(VecDeque<(Ticket, u64)>);

impl<D: Drawn> Worker<'_, D> {
    /// Prefetches the records of the transactions that were received together with this one.
    fn look_ahead(&mut self, number: u64) {
        let received = number..number + self.pipeline;
        let (ring, drawn) = (&self.done.ring, &self.drawn);
        let keys = received.flat_map(|number| {
            let (keys, first) = ring.at(number);
            let places = keys.iter().zip(first..);
            places.map(|(key, place)| drawn.key(record_of(*key), place))
        });
        self.session.prefetch(self.records, keys);
    }

    /// Runs the next transaction. Returns `None` after too many conflicts. The transaction is then
    /// retried under its number, unless the stage is over.
    #[inline(always)]
    pub(crate) fn run_next<B: Body>(
        &mut self,
        body: B,
        values: &mut Values,
    ) -> Result<Option<Ticket>, BenchError> {
        let number = self.done.next_number();
        if self.pipeline > 1 && number.is_multiple_of(self.pipeline) {
            self.look_ahead(number);
        }
        let (keys, first) = self.done.ring.at(number);
        let job = Job {
            records: self.records,
            keys,
            first,
            drawn: &self.drawn,
            tag: tag(self.done.thread, number),
        };
        let ticket = match self.session.transact_async(|tx| body.run(tx, job, values)) {
            Ok((Outcome::Done, ticket)) => ticket,
            Ok((Outcome::Refused, ticket)) => {
                self.done.refuse();
                ticket
            }
            Err(Error::TooManyConflicts { .. }) => return Ok(None),
            Err(Error::Aborted(why)) => return Err(BenchError::Check(why)),
            Err(error) => return Err(error.into()),
        };
        self.done.commit();
        Ok(Some(ticket))
    }

    /// Runs transactions until told to stop or the stage is complete, and returns when all are
    /// acknowledged.
    pub(crate) fn stage<B: Body>(
        &mut self,
        body: B,
        length: Length,
        stages: &Stages,
    ) -> Result<StageResult, BenchError> {
        let end = stage_end(length, self.done.thread, self.threads);
        let before = self.done.committed();
        let attempts = self.session.attempts();
        let mut latencies = Latencies::new();
        let mut queue = Queue::default();
        let mut values = Vec::new();
        let mut until_sample = 1;
        let began = Instant::now();
        while self.done.committed() - before < end && !stages.must_stop() {
            until_sample -= 1;
            let start = if until_sample == 0 {
                until_sample = self.sample_every;
                now_ns().max(1)
            } else {
                0
            };
            let Some(ticket) = self.run_next(body, &mut values)? else {
                continue;
            };
            if self.outstanding_max == 0 {
                if start != 0 {
                    latencies.add_ns(now_ns() - start);
                }
                continue;
            }
            queue.push(ticket, start);
            queue.acknowledge(&self.session, &mut latencies);
            if queue.0.len() >= self.outstanding_max {
                queue.wait_for_first(&self.session, &mut latencies)?;
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

/// The number of transactions after which a thread ends a stage of this length.
pub(crate) fn stage_end(length: Length, thread: usize, threads: usize) -> u64 {
    match length {
        Length::Time(_) => u64::MAX,
        Length::Operations(total) => share(total, thread, threads),
    }
}

impl Queue {
    #[inline]
    pub(super) fn push(&mut self, ticket: Ticket, start: u64) {
        self.0.push_back((ticket, start));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the durable commits from the front. Returns how many of these are timed.
    #[inline]
    pub(super) fn acknowledge(&mut self, session: &Session, latencies: &mut Latencies) -> usize {
        let mut timed = 0;
        while let Some((ticket, start)) = self.0.front()
            && session.is_acknowledged(ticket)
        {
            if *start != 0 {
                latencies.add_ns(now_ns() - start);
                timed += 1;
            }
            self.0.pop_front();
        }
        timed
    }

    /// Waits for the first commit, and removes it and the others that are durable by then. Returns
    /// how many of these are timed.
    pub(super) fn wait_for_first(
        &mut self,
        session: &Session,
        latencies: &mut Latencies,
    ) -> Result<usize, BenchError> {
        if let Some((ticket, _)) = self.0.front() {
            session.wait(ticket)?;
        }
        Ok(self.acknowledge(session, latencies))
    }

    /// Waits for all commits.
    pub(super) fn drain(
        &mut self,
        session: &Session,
        latencies: &mut Latencies,
    ) -> Result<(), BenchError> {
        if !self.is_empty() {
            session.flush()?;
        }
        while !self.is_empty() {
            self.wait_for_first(session, latencies)?;
        }
        Ok(())
    }
}
