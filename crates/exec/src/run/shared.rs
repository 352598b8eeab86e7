//! The state that the threads of a query share.
//!
//! State that changes often belongs to each thread. Here threads write only the count of a limit
//! for each row, and the count of busy threads and tasks for each task that is handed over.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use namiki_platform::ProcessToken;
use namiki_platform::disk::{Disk, Frame, FramePool};
use namiki_segment::{PageCache, Segment};
use parking_lot::{Condvar, Mutex};

use super::counters::WorkerCounters;
use super::options::Options;
use super::pipeline_state::PipelineState;
use super::query_report::QueryReport;
use super::sink::{Output, SinkPart};
use super::threads::{Barrier, Peers, QueryPermit};
use crate::error::ExecError;
use crate::plan::Plan;
use crate::program::{Program, SourceEntry};
use crate::query_statistics::Statistics;
use crate::row::Slot;
use crate::sinks::{MergeControl, QueryMemory};
use crate::source::Tables;

/// The resources for the queries of one executor.
#[derive(Clone)]
pub(crate) struct Resources {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) pool: Arc<FramePool>,
    pub(crate) cache: Arc<PageCache<Frame>>,
}

/// The access to the rows of a source.
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
    /// The plan and the tables that the program was made from.
    pub(crate) planned: (Plan, Tables),
    pub(crate) options: Options,
    /// The process of the query's threads.
    pub(crate) process: ProcessToken,
    /// Page frames of each thread, not counting those in the cache.
    pub(crate) frames_per_thread: usize,
    /// Returned when the last thread has left.
    permit: Mutex<Option<QueryPermit>>,
    /// Storage of each of the program's sources.
    pub(crate) storage: Vec<Storage>,
    /// All segments, by their numbers in the query, and the table or index that each belongs to.
    pub(crate) segments: Vec<(Arc<Segment>, String)>,
    /// The columns of the answer.
    pub(crate) output_slots: Vec<Slot>,
    pub(crate) output: Output,
    pub(crate) counters: Vec<CachePadded<WorkerCounters>>,
    pub(crate) peers: Peers,
    pub(crate) pipelines: Vec<PipelineState>,
    /// Each thread's part of the pipeline that ends, and the bytes that are charged for it.
    parts: Mutex<Vec<(SinkPart, usize)>>,
    barrier: Barrier,
    failure: Mutex<Option<ExecError>>,
    pub(crate) memory: QueryMemory,
    pub(crate) report: QueryReport,
    /// Threads that have not left the query.
    threads_left: Mutex<usize>,
    all_left: Condvar,
}

/// The storage of each source, and the segments of all, each once.
fn storage_of(sources: &[SourceEntry]) -> (Vec<Storage>, Vec<(Arc<Segment>, String)>) {
    let mut segments: Vec<(Arc<Segment>, String)> = Vec::new();
    let storage = |entry: &SourceEntry| {
        let Some(parts) = entry.source.segments() else {
            return Storage::Resident;
        };
        let number = |part: &Arc<Segment>| {
            let known = segments.iter().position(|(it, _)| it.id() == part.id());
            known.unwrap_or_else(|| {
                segments.push((Arc::clone(part), entry.name.clone()));
                segments.len() - 1
            }) as u32
        };
        Storage::Paged(parts.iter().map(number).collect())
    };
    let storage = sources.iter().map(storage).collect();
    (storage, segments)
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
        let (storage, segments) = storage_of(&program.sources);
        Self {
            output_slots: program.output.iter().map(|(_, slot)| *slot).collect(),
            output: Output::new(
                options.output_rows_max.saturating_mul(threads),
                options.output_bytes_max.saturating_mul(threads),
            ),
            counters: (0..threads).map(|_| CachePadded::default()).collect(),
            peers: Peers::new(threads),
            pipelines: program.pipelines.iter().map(PipelineState::new).collect(),
            parts: Mutex::default(),
            barrier: Barrier::new(threads),
            failure: Mutex::default(),
            memory: QueryMemory::new(options.memory_bytes_max),
            report: QueryReport::new(program.pipelines.len(), segments.len()),
            process: ProcessToken::current(),
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
        self.failure.lock().get_or_insert(error);
        self.peers.stop();
        self.output.abandon();
    }

    /// Ends the query for its caller. A forked child has no query to end, and locks that may be
    /// held for ever.
    pub(crate) fn cancel(&self) {
        if self.process.is_current() {
            self.fail(ExecError::Cancelled);
        }
    }

    /// The error that ended the query.
    pub(crate) fn failure(&self) -> Option<ExecError> {
        self.failure.lock().clone()
    }

    /// Waits for all threads to end a pipeline, and merges their parts. A thread's `part` has
    /// `charged_bytes`.
    pub(crate) fn end_of_pipeline(&self, pipeline: usize, part: SinkPart, charged_bytes: usize) {
        let (_, operator) = part.bytes();
        self.parts.lock().push((part, charged_bytes));
        self.barrier.wait(|| {
            let parts = std::mem::take(&mut *self.parts.lock());
            let held_bytes = parts.iter().map(|(_, bytes)| bytes).sum();
            let parts = parts.into_iter().map(|(part, _)| part).collect();
            if !self.peers.is_stopped() {
                let is_stopped = || self.peers.is_stopped();
                let control = MergeControl::new(&self.memory, &is_stopped, operator, held_bytes);
                match SinkPart::merge(parts, &control) {
                    Ok(Some(result)) => self.pipelines[pipeline].set_materialized(result),
                    Ok(None) => {}
                    Err(error) => self.fail(error),
                }
            }
            self.peers.begin_pipeline();
        });
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
            self.report.end();
            drop(self.permit.lock().take());
            self.output.close();
            self.all_left.notify_all();
        }
    }

    /// Waits until all threads have left. A forked child has none.
    pub(crate) fn wait_until_left(&self) {
        if !self.process.is_current() {
            return;
        }
        let mut left = self.threads_left.lock();
        while *left > 0 {
            self.all_left.wait(&mut left);
        }
    }

    /// Number of rows that each operator has given, from the root on, each before its inputs. Empty
    /// in a forked child.
    pub(crate) fn operator_rows(&self) -> Vec<u64> {
        if !self.process.is_current() {
            return Vec::new();
        }
        self.report.rows_at(&self.program.places)
    }

    /// The work done so far; empty in a forked child.
    pub(crate) fn statistics(&self) -> Statistics {
        if !self.process.is_current() {
            return Statistics::default();
        }
        self.report.statistics(&self.counters)
    }
}
