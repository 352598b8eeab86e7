//! What the threads of a query share. What changes often is each thread's own; of what is here threads write for each row
//! only the count of a limit, and for each task that is handed over the count of what is busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use namiki_platform::ProcessToken;
use namiki_platform::disk::{Disk, Frame, FramePool};
use namiki_segment::{PageCache, Segment};
use parking_lot::{Condvar, Mutex};

use crate::bind::KeyBounds;
use crate::error::ExecError;
use crate::plan::Plan;
use crate::program::{Program, Step};
use crate::query_statistics::Statistics;
use crate::row::Slot;
use crate::run::counters::{WorkerCounters, sum};
use crate::run::options::Options;
use crate::run::sink::{Materialized, Output, SinkPart};
use crate::run::threads::{Barrier, Peers, QueryPermit};
use crate::sinks::{MergeControl, QueryMemory};
use crate::source::Tables;

/// What queries of one executor run on.
#[derive(Clone)]
pub(crate) struct Resources {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) pool: Arc<FramePool>,
    pub(crate) cache: Arc<PageCache<Frame>>,
}

/// How the rows of a source are reached.
pub(crate) enum Storage {
    /// By calls.
    Resident,
    /// In these segments of the query, in the order of their keys.
    Paged(Vec<u32>),
}

/// See the module.
pub(crate) struct Shared {
    pub(crate) resources: Resources,
    pub(crate) program: Program,
    /// What the program was made from.
    pub(crate) planned: (Plan, Tables),
    pub(crate) options: Options,
    /// That of the query's threads.
    pub(crate) process: ProcessToken,
    /// Page frames that each thread may have, beside those in the cache.
    pub(crate) frames_per_thread: usize,
    /// Given back when the last thread has left.
    permit: Mutex<Option<QueryPermit>>,
    /// Of each of the program's sources.
    pub(crate) storage: Vec<Storage>,
    /// All segments, by their numbers in the query, and the table or index that each belongs to.
    pub(crate) segments: Vec<(Arc<Segment>, String)>,
    /// The columns of the answer.
    pub(crate) output_slots: Vec<Slot>,
    pub(crate) output: Output,
    pub(crate) counters: Vec<CachePadded<WorkerCounters>>,
    pub(crate) peers: Peers,
    /// Of each step of each pipeline that is a limit, how many rows may still pass.
    limits: Vec<Vec<AtomicU64>>,
    /// Of each pipeline, the parts of its driver's range that its threads begin with, if that is in memory.
    resident_parts: Vec<OnceLock<Result<Vec<KeyBounds>, ExecError>>>,
    /// What each pipeline has kept.
    materialized: Vec<OnceLock<Arc<Materialized>>>,
    /// What each thread has kept in the pipeline that ends, and what it has taken in memory.
    parts: Mutex<Vec<(SinkPart, usize)>>,
    failure: Mutex<Option<ExecError>>,
    barrier: Barrier,
    pub(crate) memory: QueryMemory,
    /// Of each pipeline the rows that began each step, and those that came to the sink.
    step_rows: Mutex<Vec<Vec<u64>>>,
    /// The pages that were read, a bit for each page of each segment.
    pages_read: Mutex<Vec<Vec<u64>>>,
    device: Mutex<String>,
    started: Instant,
    elapsed: OnceLock<std::time::Duration>,
    /// Threads that have not left the query.
    threads_left: Mutex<usize>,
    all_left: Condvar,
}

impl Shared {
    pub(crate) fn new(
        resources: Resources,
        program: Program,
        planned: (Plan, Tables),
        options: Options,
        permit: QueryPermit,
    ) -> Self {
        let threads = permit.threads;
        let mut segments: Vec<(Arc<Segment>, String)> = Vec::new();
        let mut storage = Vec::with_capacity(program.sources.len());
        for entry in &program.sources {
            storage.push(match entry.source.segments() {
                None => Storage::Resident,
                Some(parts) => Storage::Paged(
                    parts
                        .iter()
                        .map(|part| {
                            let known = segments.iter().position(|(it, _)| it.id() == part.id());
                            known.unwrap_or_else(|| {
                                segments.push((Arc::clone(part), entry.name.clone()));
                                segments.len() - 1
                            }) as u32
                        })
                        .collect(),
                ),
            });
        }
        let limits = program.pipelines.iter().map(|pipeline| {
            let limit = |step: &Step| match step {
                Step::Limit(rows) => AtomicU64::new(*rows),
                _ => AtomicU64::new(0),
            };
            pipeline.steps.iter().map(limit).collect()
        });
        Self {
            limits: limits.collect(),
            resident_parts: program.pipelines.iter().map(|_| OnceLock::new()).collect(),
            materialized: program.pipelines.iter().map(|_| OnceLock::new()).collect(),
            output_slots: program.output.iter().map(|(_, slot)| *slot).collect(),
            output: Output::new(
                options.output_rows_max.saturating_mul(threads),
                options.output_bytes_max.saturating_mul(threads),
            ),
            counters: (0..threads).map(|_| CachePadded::default()).collect(),
            peers: Peers::new(threads),
            parts: Mutex::default(),
            failure: Mutex::default(),
            barrier: Barrier::new(threads),
            memory: QueryMemory::new(options.memory_bytes_max),
            step_rows: Mutex::new(vec![Vec::new(); program.pipelines.len()]),
            pages_read: Mutex::new(vec![Vec::new(); segments.len()]),
            device: Mutex::default(),
            started: Instant::now(),
            process: ProcessToken::current(),
            elapsed: OnceLock::new(),
            threads_left: Mutex::new(threads),
            all_left: Condvar::new(),
            frames_per_thread: permit.frames / threads,
            permit: Mutex::new(Some(permit)),
            resources,
            program,
            planned,
            options,
            storage,
            segments,
        }
    }

    /// Ends the query with an error, unless it has one.
    pub(crate) fn fail(&self, error: ExecError) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            *failure = Some(error);
        }
        drop(failure);
        self.peers.stop();
        self.output.abandon();
    }

    /// Ends the query for its caller. A forked child has no query to end, and locks that may be held for ever.
    pub(crate) fn cancel(&self) {
        if self.process.is_current() {
            self.fail(ExecError::Cancelled);
        }
    }

    /// The error that ended the query.
    pub(crate) fn failure(&self) -> Option<ExecError> {
        self.failure.lock().clone()
    }

    /// Lets one row pass a limit. Gives how many may pass after it; nothing if it may not.
    pub(crate) fn pass_limit(&self, pipeline: usize, step: usize) -> Option<u64> {
        let left = &self.limits[pipeline][step];
        let take = |left: u64| left.checked_sub(1);
        // Relaxed: a count that orders nothing.
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.ok().map(|before| before - 1)
    }

    /// The parts that the range of a pipeline is divided into, which the first thread that asks makes: the source may have
    /// other rows when the next one asks.
    pub(crate) fn resident_parts(
        &self,
        pipeline: usize,
        make: impl FnOnce() -> Result<Vec<KeyBounds>, ExecError>,
    ) -> Result<&[KeyBounds], ExecError> {
        let parts = self.resident_parts[pipeline].get_or_init(make);
        parts.as_deref().map_err(Clone::clone)
    }

    /// What a pipeline has kept. It was set before the barrier after that pipeline.
    pub(crate) fn materialized(&self, pipeline: usize) -> Option<&Arc<Materialized>> {
        self.materialized[pipeline].get()
    }

    /// Waits for all threads to end a pipeline, and merges what they have kept. A thread's part has taken `held_bytes`.
    pub(crate) fn end_of_pipeline(&self, pipeline: usize, part: SinkPart, held_bytes: usize) {
        let (_, operator) = part.bytes();
        self.parts.lock().push((part, held_bytes));
        self.barrier.wait(|| {
            let parts = std::mem::take(&mut *self.parts.lock());
            let held_bytes = parts.iter().map(|(_, bytes)| bytes).sum();
            let parts = parts.into_iter().map(|(part, _)| part).collect();
            if !self.peers.is_stopped() {
                let is_stopped = || self.peers.is_stopped();
                let control = MergeControl::new(&self.memory, &is_stopped, operator, held_bytes);
                match SinkPart::merge(parts, &control) {
                    Ok(Some(kept)) => _ = self.materialized[pipeline].set(Arc::new(kept)),
                    Ok(None) => {}
                    Err(error) => self.fail(error),
                }
            }
            self.peers.begin_pipeline();
        });
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

    /// How many rows each operator has given, from the root on, each before its inputs. Of pipelines that run, nothing
    /// is known yet.
    pub(crate) fn operator_rows(&self) -> Vec<u64> {
        if !self.process.is_current() {
            return Vec::new();
        }
        let rows = self.step_rows.lock();
        let places = self.program.places.iter();
        let of = places.map(|place| rows[place.pipeline].get(place.step).copied().unwrap_or(0));
        of.collect()
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

    pub(crate) fn set_device(&self, device: &str) {
        let mut own = self.device.lock();
        if own.is_empty() {
            device.clone_into(&mut own);
        }
    }

    /// A thread leaves the query before its end, or never came. The query must have failed.
    pub(crate) fn abort_worker(&self) {
        self.barrier.withdraw();
        self.leave();
    }

    /// A thread leaves the query. The last one ends it.
    pub(crate) fn leave(&self) {
        let mut left = self.threads_left.lock();
        *left -= 1;
        if *left == 0 {
            _ = self.elapsed.set(self.started.elapsed());
            drop(self.permit.lock().take());
            self.output.close();
            self.all_left.notify_all();
        }
    }

    /// Waits until all threads have left. In a forked child there are none.
    pub(crate) fn wait_until_left(&self) {
        if !self.process.is_current() {
            return;
        }
        let mut left = self.threads_left.lock();
        while *left > 0 {
            self.all_left.wait(&mut left);
        }
    }

    /// What has been done so far; nothing in a forked child.
    pub(crate) fn statistics(&self) -> Statistics {
        if !self.process.is_current() {
            return Statistics::default();
        }
        let distinct = self.pages_read.lock();
        let bits = distinct
            .iter()
            .flatten()
            .map(|word| u64::from(word.count_ones()));
        let of = |count: fn(&WorkerCounters) -> u64| {
            self.counters
                .iter()
                .map(|counters| count(counters))
                .sum::<u64>()
        };
        let max = |count: fn(&WorkerCounters) -> u64| {
            self.counters
                .iter()
                .map(|counters| count(counters))
                .max()
                .unwrap_or(0)
        };
        Statistics {
            counters: sum(&self.counters),
            distinct_pages: bits.sum(),
            tasks_in_flight_max: max(|counters| counters.waiting_max.get()),
            handed_over: of(|counters| counters.handed_over.get()),
            rows_between: of(|counters| counters.rows_between.get()),
            turns: of(|counters| counters.turns.get()),
            elapsed: *self.elapsed.get().unwrap_or(&self.started.elapsed()),
            cpu: std::time::Duration::from_nanos(of(|counters| counters.cpu_ns.get())),
            threads: self.peers.count(),
            degree: max(WorkerCounters::degree) as usize,
            device: self.device.lock().clone(),
        }
    }
}
