//! One thread of a query: its tasks, and the loop that runs them.
//!
//! Paper: oode §1, §2

use std::panic::{AssertUnwindSafe, catch_unwind};

use namiki_platform::disk::{Completion, Frame, ReadQueue};
use namiki_segment::PageReader;

use crate::error::ExecError;
use crate::program::{self, Driver, Pipeline, Reach};
use crate::row::{Row, RowStore};
use crate::run::adaptive_degree::AdaptiveDegree;
use crate::run::counters::WorkerCounters;
use crate::run::gathers::Gather;
use crate::run::reads::Window;
use crate::run::reads::{PendingReads, ReadId};
use crate::run::shared::{Shared, Storage};
use crate::run::sink::SinkPart;
use crate::run::sink::{BATCH_BYTES, BATCH_ROWS};
use crate::run::tasks::Schedule;
use crate::run::tasks::{BatchWalk, Tasks};
use crate::run::threads::{Channels, Handoff};
use crate::sinks::MergeControl;
use crate::source::RowBatch;

/// Rows that go through steps, or are left out by one, before the thread looks at its completions and rings again.
const BUDGET_ROWS: i32 = 1024;

/// What became of a row that was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It is through: send the next one.
    Go,
    /// It is through, and there is no room for more now.
    Full,
    /// No more rows are needed.
    Stop,
}

/// See the module.
pub(crate) struct Worker<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) number: usize,
    pub(crate) counters: &'s WorkerCounters,
    pub(crate) pipeline: &'s Pipeline,
    pub(crate) pipeline_number: usize,
    pub(crate) tasks: Tasks,
    /// Which of them goes on, and which may wait.
    pub(crate) schedule: Schedule,
    adaptive: Option<AdaptiveDegree>,
    pub(crate) budget: i32,
    pub(crate) pending: PendingReads,
    /// Reads that are not in the queue yet.
    pub(crate) to_read: Vec<ReadId>,
    /// Faults that wait for their turn to be read, where there is a window.
    pub(crate) window: Window,
    /// Pages that were read, for which the cache had no room.
    pub(crate) unplaced: Vec<(ReadId, Frame)>,
    pub(crate) done: Vec<Completion>,
    pub(crate) queue: &'s mut Option<Box<dyn ReadQueue>>,
    pub(crate) reader: PageReader<Frame>,
    /// The rows of this pipeline that began each step, and those that came to the sink.
    pub(crate) step_rows: Vec<u64>,
    /// The pages that were read, a bit for each page of each segment.
    pub(crate) pages_read: Vec<Vec<u64>>,
    pub(crate) sink: SinkPart,
    sink_bytes: usize,
    pub(crate) channels: Channels,
    pub(crate) handoff: Option<Handoff>,
    /// Buffers for keys.
    buffers: Vec<Vec<u8>>,
    /// For text that is put together.
    pub(crate) scratch: Vec<u8>,
    pub(crate) batch: RowBatch,
    /// Of each position the rows that were gathered there.
    pub(crate) gathers: Vec<Gather>,
    pub(crate) gathered_row: Row,
    /// Whether rows are gathered there: a step looks keys up in memory.
    pub(crate) is_gathered: Vec<bool>,
    /// Memory of walks that have ended.
    #[expect(clippy::vec_box, reason = "boxed in states, to keep those small")]
    pub(crate) walks: Vec<Box<BatchWalk>>,
    /// Whether extents go through the cache.
    pub(crate) extents_cached: bool,
    cpu_ns: u64,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        number: usize,
        channels: Channels,
        queue: &'s mut Option<Box<dyn ReadQueue>>,
    ) -> Self {
        let pipeline = &shared.program.pipelines[0];
        let counters: &WorkerCounters = &shared.counters[number];
        let schedule = Schedule::new(&shared.options, shared.frames_per_thread);
        counters.degree_up.add(schedule.degree() as u64);
        Self {
            shared,
            number,
            counters,
            pipeline,
            pipeline_number: 0,
            tasks: Tasks::default(),
            schedule,
            adaptive: shared.options.is_adaptive().then(AdaptiveDegree::new),
            budget: 0,
            pending: PendingReads::default(),
            to_read: Vec::new(),
            window: Window::default(),
            unplaced: Vec::new(),
            done: Vec::new(),
            queue,
            reader: shared.resources.cache.reader(),
            step_rows: Vec::new(),
            pages_read: vec![Vec::new(); shared.segments.len()],
            sink: SinkPart::new(pipeline, &shared.output_slots),
            sink_bytes: 0,
            channels,
            handoff: None,
            buffers: Vec::new(),
            scratch: Vec::new(),
            batch: RowBatch::new(),
            gathers: Vec::new(),
            gathered_row: Row::default(),
            is_gathered: Vec::new(),
            walks: Vec::new(),
            extents_cached: false,
            cpu_ns: namiki_platform::clock::thread_cpu_ns(),
        }
    }

    /// Runs all pipelines, one after the other.
    pub(crate) fn run(&mut self) {
        for number in 0..self.shared.program.pipelines.len() {
            let part = self.run_pipeline(number);
            self.shared.end_of_pipeline(number, part, self.sink_bytes);
        }
    }

    fn run_pipeline(&mut self, number: usize) -> SinkPart {
        let shared = self.shared;
        self.pipeline = &shared.program.pipelines[number];
        self.pipeline_number = number;
        self.gathers
            .resize_with(self.pipeline.steps.len() + 1, Gather::default);
        self.sink = SinkPart::new(self.pipeline, &shared.output_slots);
        self.sink_bytes = 0;
        self.step_rows.clear();
        self.step_rows.resize(self.pipeline.steps.len() + 1, 0);
        if !shared.is_stopped() {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                self.begin()?;
                self.work()?;
                self.finish_sink()
            }));
            match ran {
                Ok(Ok(())) => {}
                Ok(Err(error)) => shared.fail(error),
                Err(panic) => {
                    shared.fail(ExecError::panicked(&*panic));
                    // It waits for what is in flight. What tasks are left is counted and dropped below, as after an error.
                    *self.queue = None;
                }
            }
        }
        self.drain();
        let done = SinkPart::new(self.pipeline, &shared.output_slots);
        let sink = std::mem::replace(&mut self.sink, done);
        self.count_cpu();
        shared.add_step_rows(number, &self.step_rows);
        match sink {
            SinkPart::Output(rows) => {
                if rows.len() > 0 && !shared.is_stopped() {
                    self.counters.rows.add(rows.len() as u64);
                    shared.output.send(rows);
                }
                SinkPart::Output(RowStore::default())
            }
            other => other,
        }
    }

    /// Makes the tasks that the pipeline begins with: this thread's part of what its driver goes through.
    fn begin(&mut self) -> Result<(), ExecError> {
        self.plan_extents();
        self.is_gathered = self.gathered_steps();
        self.channels.forget_requests();
        let states = match &self.pipeline.driver {
            Driver::Read(step) => self.first_ranges(step)?,
            Driver::Materialized { pipeline, .. } => self.first_materialized_rows(*pipeline),
            Driver::Combinations { keys, .. } => self.first_rows(keys.combinations()),
        };
        // The last one made is the first to run.
        for state in states.into_iter().rev() {
            let id = self.new_task(0, state, &Row::default(), 0, 0);
            self.schedule.block_on_degree(0, id);
        }
        Ok(())
    }

    /// At which positions rows are gathered: where a step looks keys up in memory, unless one task runs at a time.
    fn gathered_steps(&self) -> Vec<bool> {
        let shared = self.shared;
        let is_resident = |step: &program::Step| match step {
            program::Step::Read(step) => {
                matches!(step.reach, Reach::Key(_))
                    && matches!(shared.storage[step.source], Storage::Resident)
            }
            _ => false,
        };
        let gathers = shared.options.first_degree() > 1;
        let steps = self
            .pipeline
            .steps
            .iter()
            .map(|step| gathers && is_resident(step));
        std::iter::once(false).chain(steps).collect()
    }

    /// The loop (T1).
    fn work(&mut self) -> Result<(), ExecError> {
        loop {
            self.renew_budget();
            while !self.is_full() {
                // A task costs as much as a row, whatever comes of it.
                self.budget -= 1;
                let flow = if let Some(id) = self.schedule.next() {
                    self.run_task(id)?
                } else if self.has_gathered() {
                    self.look_up_all_gathered()?
                } else {
                    break;
                };
                if flow == Flow::Stop {
                    return Ok(());
                }
            }
            self.reader.release();
            self.flush()?;
            if self.shared.has_ended() {
                return Ok(());
            }
            self.exchange()?;
            // Tasks that ran to give rows away have pinned pages again.
            self.reader.release();
            self.adapt();
            let has_work = self.schedule.has_next() || self.has_gathered();
            let can_run = has_work && !self.schedule.is_at_degree();
            if self.pending.len() > 0 {
                self.turn(!can_run)?;
            } else if !can_run && self.is_over() {
                return Ok(());
            }
        }
    }

    /// Lets the degree follow the device.
    fn adapt(&mut self) {
        let is_limited = self.schedule.is_at_degree();
        if let Some(adaptive) = &mut self.adaptive {
            let reads = self.counters.reads.get();
            let degree = adaptive.look(namiki_platform::clock::now_ns, reads, is_limited);
            let before = self.schedule.degree();
            self.counters
                .degree_up
                .add(degree.saturating_sub(before) as u64);
            self.counters
                .degree_down
                .add(before.saturating_sub(degree) as u64);
            self.schedule.set_degree(degree);
        }
    }

    /// Whether there is no room for more tasks now, or it is time to look at other things.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.schedule.is_at_degree() && self.handoff.is_none() || self.budget <= 0
    }

    /// Requests in the queue.
    pub(crate) fn reads_in_flight(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.in_flight())
    }

    /// Lets rows go through steps again.
    pub(crate) fn renew_budget(&mut self) {
        self.budget = BUDGET_ROWS;
    }

    /// A buffer for a key.
    #[inline]
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    #[inline]
    pub(crate) fn return_buffer(&mut self, buffer: Vec<u8>) {
        self.buffers.push(buffer);
    }

    /// Hands rows of the answer over to the consumer, and looks at what the sink takes in memory.
    fn flush(&mut self) -> Result<(), ExecError> {
        if let SinkPart::Output(rows) = &mut self.sink {
            let is_full = rows.len() >= BATCH_ROWS || rows.bytes() >= BATCH_BYTES;
            if is_full || rows.len() > 0 && self.schedule.waiting() == 0 {
                let next = RowStore::new(&self.shared.output_slots);
                let full = std::mem::replace(rows, next);
                self.counters.rows.add(full.len() as u64);
                self.count_cpu();
                self.shared.output.send(full);
            }
            return Ok(());
        }
        let (bytes, operator) = self.sink.bytes();
        if bytes > self.sink_bytes {
            self.shared
                .memory
                .charge(bytes - self.sink_bytes, operator)?;
            self.sink_bytes = bytes;
        }
        Ok(())
    }

    /// Does what can be done with the rows of this thread alone, when all are there.
    fn finish_sink(&mut self) -> Result<(), ExecError> {
        let shared = self.shared;
        let is_stopped = || shared.is_stopped();
        let (_, operator) = self.sink.bytes();
        let control = MergeControl::new(&shared.memory, &is_stopped, operator, self.sink_bytes);
        let finished = self.sink.finish(&control);
        self.sink_bytes = control.held_bytes();
        finished
    }

    /// Ends all tasks and waits for the reads in flight: nothing of the pipeline is left in this thread.
    fn drain(&mut self) {
        self.reader.release();
        self.wait_for_reads();
        self.counters.tasks_ended.add(self.tasks.live() as u64);
        self.counters.waits_ended.add(self.schedule.clear() as u64);
        self.tasks.clear();
        self.pending.clear();
        self.to_read.clear();
        self.unplaced.clear();
        self.window.clear();
        self.gathers.iter_mut().for_each(Gather::clear);
        self.handoff = None;
    }

    fn count_cpu(&mut self) {
        let now = namiki_platform::clock::thread_cpu_ns();
        self.counters.cpu_ns.add(now.saturating_sub(self.cpu_ns));
        self.cpu_ns = now;
    }
}

impl Drop for Worker<'_> {
    /// No other thread sends any more: all have ended the last pipeline, or wait at its end for this one, which has
    /// panicked there.
    fn drop(&mut self) {
        self.drop_messages();
        self.shared.add_pages_read(&self.pages_read);
    }
}
