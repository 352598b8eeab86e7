//! A worker: one thread of a query, and the loop that runs its tasks.
//!
//! The worker composes parts that keep their own invariants, and is the only one that knows them
//! all. Its methods are here, in `task_states.rs` (running a task), in `hand_over.rs` (work for
//! other threads), and in `steps/` (the steps of a pipeline).
//!
//! Paper: oode §1, §2

use std::panic::{AssertUnwindSafe, catch_unwind};

use namiki_platform::disk::ReadQueue;

use super::counters::WorkerCounters;
use super::frame_share::FrameShare;
use super::gathers::WorkerGathers;
use super::reads::WorkerReads;
use super::shared::{Shared, Storage};
use super::sink::{SinkPart, WorkerSink};
use super::step_buffers::StepBuffers;
use super::tasks::WorkerTasks;
use super::threads::{RingEnds, WorkerChannels};
use crate::error::ExecError;
use crate::program::{self, Driver, Pipeline, Reach};
use crate::row::Row;

/// The outcome of sending a row through the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Send the next row.
    Go,
    /// There is no room for more now.
    Full,
    /// No more rows are needed.
    Stop,
}

/// The outcome of a pass of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// There is more to do.
    Again,
    /// No task is left in this thread.
    OutOfWork,
    /// The pipeline has ended.
    Ended,
}

/// See the module.
pub(crate) struct Worker<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) counters: &'s WorkerCounters,
    /// Number of the thread in its query.
    pub(crate) number: usize,
    pub(crate) pipeline: &'s Pipeline,
    pub(crate) pipeline_number: usize,
    pub(crate) tasks: WorkerTasks<'s>,
    pub(crate) reads: WorkerReads<'s>,
    pub(crate) channels: WorkerChannels<'s>,
    pub(crate) gathers: WorkerGathers,
    pub(crate) sink: WorkerSink<'s>,
    pub(crate) buffers: StepBuffers,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        number: usize,
        rings: RingEnds,
        queue: &'s mut Option<Box<dyn ReadQueue>>,
    ) -> Self {
        let counters: &WorkerCounters = &shared.counters[number];
        let options = &shared.options;
        let (page_frames, extent_frames) =
            FrameShare::of_pages_and_extents(options, shared.frames_per_thread);
        let (output, slots) = (&shared.output, &shared.output_slots);
        Self {
            shared,
            counters,
            number,
            pipeline: &shared.program.pipelines[0],
            pipeline_number: 0,
            tasks: WorkerTasks::new(options, extent_frames, counters),
            reads: WorkerReads::new(shared, counters, page_frames, queue),
            channels: WorkerChannels::new(&shared.peers, counters, number, rings),
            gathers: WorkerGathers::default(),
            sink: WorkerSink::new(output, slots, &shared.memory, counters),
            buffers: StepBuffers::default(),
        }
    }

    /// Runs all pipelines, one after the other.
    pub(crate) fn run(&mut self) {
        for number in 0..self.shared.program.pipelines.len() {
            let (part, charged_bytes) = self.run_pipeline(number);
            self.shared.end_of_pipeline(number, part, charged_bytes);
        }
    }

    fn run_pipeline(&mut self, number: usize) -> (SinkPart, usize) {
        let peers = &self.shared.peers;
        self.pipeline = &self.shared.program.pipelines[number];
        self.pipeline_number = number;
        self.sink.begin(self.pipeline);
        if !peers.is_stopped() {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                self.begin()?;
                self.work()?;
                self.sink.finish(&|| peers.is_stopped())
            }));
            match ran {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.shared.fail(error),
                Err(panic) => {
                    self.shared.fail(ExecError::panicked(&*panic));
                    self.reads.abandon();
                }
            }
        }
        self.drain();
        let ended = self.sink.end(peers.is_stopped());
        let rows = self.sink.step_rows();
        self.shared.report.add_step_rows(number, rows);
        ended
    }

    /// Makes the first tasks of the pipeline: this thread's part of the driver.
    pub(crate) fn begin(&mut self) -> Result<(), ExecError> {
        self.plan_extents();
        self.gathers.begin(self.gathering_steps());
        self.channels
            .begin(self.pipeline_number, self.pipeline.in_order);
        let states = match &self.pipeline.driver {
            Driver::Read(step) => self.first_ranges(step)?,
            Driver::Materialized { pipeline, .. } => self.first_materialized_rows(*pipeline),
            Driver::Combinations { keys, .. } => self.first_rows(keys.combinations()),
        };
        // The last task made is the first to run.
        for state in states.into_iter().rev() {
            let id = self.tasks.make(0, state, &Row::default(), 0, 0);
            self.tasks.block_on_degree(id);
        }
        Ok(())
    }

    /// Says for each position whether rows are gathered there: where a step looks keys up in
    /// memory, unless one task runs at a time.
    fn gathering_steps(&self) -> Vec<bool> {
        let shared = self.shared;
        let is_resident = |step: &program::Step| match step {
            program::Step::Read(step) => {
                matches!(step.reach, Reach::Key(_))
                    && matches!(shared.storage[step.source], Storage::Resident)
            }
            _ => false,
        };
        let gathers = shared.options.first_degree() > 1;
        let steps = self.pipeline.steps.iter();
        let steps = steps.map(|step| gathers && is_resident(step));
        std::iter::once(false).chain(steps).collect()
    }

    fn work(&mut self) -> Result<(), ExecError> {
        loop {
            match self.pass()? {
                Pass::Again => {}
                Pass::Ended => return Ok(()),
                Pass::OutOfWork => {
                    if !self.wait_for_work() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// One pass of the loop: tasks, answer rows, other threads, device.
    pub(crate) fn pass(&mut self) -> Result<Pass, ExecError> {
        if self.run_tasks()? == Flow::Stop {
            return Ok(Pass::Ended);
        }
        self.reads.release_pins();
        self.sink.flush(self.tasks.schedule().waiting())?;
        if self.shared.peers.has_ended() {
            return Ok(Pass::Ended);
        }
        self.exchange()?;
        // Tasks that ran to hand rows over have pinned pages again.
        self.reads.release_pins();
        self.tasks.adapt();
        let has_work = self.tasks.schedule().has_next() || self.gathers.has_rows();
        let can_run = has_work && !self.tasks.schedule().is_at_degree();
        if self.reads.has_pending() {
            self.reads.turn(&mut self.tasks, !can_run)?;
        } else if !can_run {
            return Ok(Pass::OutOfWork);
        }
        Ok(Pass::Again)
    }

    /// Runs tasks, in the order of T1, and then gathered look-ups, until there is no room.
    fn run_tasks(&mut self) -> Result<Flow, ExecError> {
        self.sink.renew_budget();
        while !self.is_full() {
            // A task costs as much as a row, even if it gives none.
            self.sink.spend();
            let flow = if let Some(id) = self.tasks.next() {
                self.run_task(id)?
            } else if self.gathers.has_rows() {
                self.look_up_gathered_from(0)?
            } else {
                break;
            };
            if flow == Flow::Stop {
                return Ok(flow);
            }
        }
        Ok(Flow::Go)
    }

    /// Whether there is no room for more tasks now, or it is time to poll completions and rings.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.tasks.schedule().is_at_degree() && !self.channels.is_handing_over()
            || self.sink.is_budget_spent()
    }

    /// Ends all tasks and waits for the reads in flight: nothing of the pipeline is left in this
    /// thread.
    pub(crate) fn drain(&mut self) {
        self.reads.drain();
        self.tasks.clear();
        self.gathers.clear();
        self.channels.end_hand_over();
    }
}
