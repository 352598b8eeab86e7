//! Handing work from thread to thread (T4, T5).
//!
//! A thread that runs out of work says so to every other one, over their rings, and sleeps. A thread that has more than
//! its degree lets it run offloads some: to those that asked, and to those that are underloaded, with half as many tasks as
//! it may have. What it hands over is whole subtrees: the later half of a range; or rows, before the step that comes next for
//! them.
//!
//! Paper: oode §2

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::ExecError;
use crate::program::{Driver, Step};
use crate::rings::Receiver;
use crate::row::Row;
use crate::run::tasks::{PageRange, State};
use crate::run::threads::{Handoff, Message};
use crate::run::worker::{Flow, Worker};

/// A thread that sleeps looks around this often, whatever happens.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// A range with fewer pages, or rows, left than this is not divided.
const DIVIDED_PAGES_MIN: u32 = 2;
pub(crate) const DIVIDED_ROWS_MIN: usize = 64;

impl Worker<'_> {
    /// Whether there are others to share this pipeline with.
    fn is_shared(&self) -> bool {
        self.shared.threads > 1 && !self.pipeline.in_order
    }

    /// Takes what others have sent, and offloads to those that asked or are underloaded.
    pub(crate) fn exchange(&mut self) -> Result<(), ExecError> {
        if !self.is_shared() {
            return Ok(());
        }
        let tasks = self.take_messages();
        // Relaxed: it is a hint.
        self.shared.peers[self.number]
            .load
            .store(self.schedule.load(), Ordering::Relaxed);
        // A task in a ring counts as busy, and this thread does already.
        self.shared.busy.fetch_sub(tasks, Ordering::AcqRel);
        if !self.schedule.has_work_for_others() {
            return Ok(());
        }
        for to in 0..self.shared.threads {
            let is_limited = self.schedule.is_at_degree();
            let load = self.shared.peers[to].load.load(Ordering::Relaxed);
            let is_underloaded = is_limited && load * 2 < self.schedule.degree();
            let wants_work = self.channels.has_requested[to] || is_underloaded;
            if to != self.number && wants_work && self.offload(to)? {
                self.channels.has_requested[to] = false;
            }
        }
        Ok(())
    }

    /// Takes all messages out, and tells how many tasks were among them.
    fn take_messages(&mut self) -> usize {
        let mut tasks = 0;
        for from in 0..self.shared.threads {
            while let Some(message) = self.channels.receivers[from]
                .as_mut()
                .and_then(Receiver::pop)
            {
                match message {
                    Message::Request => self.channels.has_requested[from] = true,
                    Message::Task { pipeline, .. } if pipeline != self.pipeline_number => {
                        self.counters.tasks_ended.add(1);
                    }
                    Message::Task {
                        position,
                        state,
                        row,
                        ..
                    } => {
                        let id = self.tasks.make(position);
                        let task = self.tasks.get(id);
                        (task.state, task.row) = (state, row);
                        // It begins when there is room (T2).
                        self.schedule.block_on_degree(position, id);
                        tasks += 1;
                    }
                }
            }
        }
        tasks
    }

    /// Drops what is left in the rings to this thread, when no thread sends any more.
    pub(crate) fn drop_messages(&mut self) {
        for receiver in self.channels.receivers.iter_mut().flatten() {
            while let Some(message) = receiver.pop() {
                if let Message::Task { .. } = message {
                    self.counters.tasks_ended.add(1);
                }
            }
        }
    }

    /// Hands work over to a thread, and tells whether there was some.
    fn offload(&mut self, to: usize) -> Result<bool, ExecError> {
        if let Some(state) = self.divide()? {
            self.counters.tasks.add(1);
            let sent = self.send(to, 0, state, Row::default());
            if let Err((state, row)) = sent {
                self.keep(0, state, row);
                return Ok(false);
            }
            return Ok(true);
        }
        let Some((position, at)) = self.nearest_to_root() else {
            return Ok(false);
        };
        let id = self.schedule.take_blocked(position, at);
        let left = (self.schedule.degree() / 2).clamp(1, self.channels.ring_items / 2);
        self.handoff = Some(Handoff { to, left });
        self.renew_budget();
        let before = self.counters.handed_over.get();
        let flow = self.run_task(id);
        self.handoff = None;
        let _: Flow = flow?;
        Ok(self.counters.handed_over.get() > before)
    }

    /// Of the tasks that wait for room the one nearest to the root, if its rows can begin a step elsewhere.
    fn nearest_to_root(&mut self) -> Option<(usize, usize)> {
        for (position, blocked) in self.schedule.blocked().iter().enumerate() {
            if !self.pipeline.steps[position..]
                .iter()
                .any(Step::is_expansion)
            {
                return None;
            }
            for (at, id) in blocked.iter().enumerate() {
                // One that has to read first gives no rows now.
                if !matches!(self.tasks.get(*id).state, State::Range(_)) {
                    return Some((position, at));
                }
            }
        }
        None
    }

    /// The later half of what one of the drivers has still to go through.
    fn divide(&mut self) -> Result<Option<State>, ExecError> {
        for id in self.schedule.blocked_drivers() {
            match &mut self.tasks.get(id).state {
                State::Range(range) if range.end - range.next >= DIVIDED_PAGES_MIN => {
                    let middle = range.next + (range.end - range.next) / 2;
                    let later = PageRange {
                        next: middle,
                        ..*range
                    };
                    range.end = middle;
                    return Ok(Some(State::Range(later)));
                }
                State::Materialized { next, end } if *end - *next >= DIVIDED_ROWS_MIN => {
                    let middle = *next + (*end - *next) / 2;
                    let later = State::Materialized {
                        next: middle,
                        end: *end,
                    };
                    *end = middle;
                    return Ok(Some(later));
                }
                State::Batch(walk) => {
                    let Driver::Read(step) = &self.pipeline.driver else {
                        continue;
                    };
                    let entry = &self.shared.program.sources[step.source];
                    let later = walk.split_off(&*entry.source);
                    if let Some(later) =
                        later.map_err(|error| ExecError::source(&entry.name, error))?
                    {
                        return Ok(Some(State::Batch(Box::new(later))));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Sends a row that is about to begin a step to the thread that gets such rows. Tells whether it did.
    pub(crate) fn hand_over_row(&mut self, position: usize, row: &Row, words: usize) -> bool {
        let Some(handoff) = &mut self.handoff else {
            return false;
        };
        let to = handoff.to;
        handoff.left -= 1;
        if handoff.left == 0 {
            self.handoff = None;
        }
        let mut own = Row::default();
        own.copy_from(row, words, row.heap.len());
        match self.send(to, position, State::Start, own) {
            Ok(()) => {
                self.counters.tasks.add(1);
                true
            }
            Err(_) => {
                // The ring is full. The row goes on here.
                self.handoff = None;
                false
            }
        }
    }

    /// Sends a task.
    ///
    /// # Errors
    /// The task, where the ring is full.
    fn send(
        &mut self,
        to: usize,
        position: usize,
        state: State,
        row: Row,
    ) -> Result<(), (State, Row)> {
        let Some(sender) = &mut self.channels.senders[to] else {
            return Err((state, row));
        };
        // Before it can be taken out (T5).
        self.shared.busy.fetch_add(1, Ordering::AcqRel);
        let message = Message::Task {
            pipeline: self.pipeline_number,
            position,
            state,
            row,
        };
        match sender.push(message) {
            Ok(()) => {
                self.counters.handed_over.add(1);
                self.wake_peer(to);
                Ok(())
            }
            Err(back) => {
                self.shared.busy.fetch_sub(1, Ordering::AcqRel);
                Err(match back {
                    Message::Task { state, row, .. } => (state, row),
                    Message::Request => (State::Start, Row::default()),
                })
            }
        }
    }

    /// Keeps a task here that could not be sent.
    fn keep(&mut self, position: usize, state: State, row: Row) {
        let id = self.tasks.make(position);
        let task = self.tasks.get(id);
        (task.state, task.row) = (state, row);
        self.schedule.block_on_degree(position, id);
    }

    fn wake_peer(&self, to: usize) {
        self.shared.peers[to].sleep.wake();
    }

    /// This thread has nothing to do: sleeps until it has. Tells whether the pipeline has ended instead.
    pub(crate) fn is_over(&mut self) -> bool {
        debug_assert_eq!(
            self.tasks.live(),
            0,
            "a task is blocked that nothing resumes (S2)"
        );
        let shared = self.shared;
        if shared.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            // No thread is busy, and no ring holds a task.
            shared.end_pipeline();
            return true;
        }
        shared.peers[self.number].load.store(0, Ordering::Relaxed);
        if self.is_shared() {
            for to in 0..shared.threads {
                // A ring that is full holds enough to be asked by.
                if let Some(sender) = &mut self.channels.senders[to]
                    && sender.push(Message::Request).is_ok()
                {
                    self.wake_peer(to);
                }
            }
        }
        loop {
            if shared.has_ended() {
                return true;
            }
            let tasks = self.take_messages();
            if tasks > 0 {
                // The first of them makes this thread busy again.
                shared.busy.fetch_sub(tasks - 1, Ordering::AcqRel);
                return false;
            }
            let channels = &mut self.channels;
            let sleep = &shared.peers[self.number].sleep;
            sleep.sleep_unless(SLEEP_MAX, || channels.has_messages() || shared.has_ended());
        }
    }
}
