//! Handing work over to other threads (`run/mod.rs`, T4).
//!
//! A thread that runs out of work says so to every other one, over their rings, and sleeps. A
//! thread with more tasks than its degree lets it run offloads some: to those that asked, and to
//! those that are underloaded, with less than half as many tasks as they may have. It hands over
//! whole subtrees: the later half of a range; or rows, before their next step.
//!
//! Paper: oode §2

use super::tasks::{PageRange, State};
use super::worker::{Flow, Worker};
use crate::error::ExecError;
use crate::program::{Driver, Step};

/// A range with fewer pages, or rows, than this is not divided.
const DIVIDED_PAGES_MIN: u32 = 2;
pub(crate) const DIVIDED_ROWS_MIN: usize = 64;

impl Worker<'_> {
    /// Takes messages of other threads, and offloads to those that asked or are underloaded.
    pub(crate) fn exchange(&mut self) -> Result<(), ExecError> {
        if !self.channels.is_shared() {
            return Ok(());
        }
        self.channels.receive(&mut self.tasks);
        if !self.tasks.schedule().has_work_for_others() {
            return Ok(());
        }
        for to in 0..self.shared.peers.count() {
            if self.channels.wants_work(to, self.tasks.schedule()) && self.offload(to)? {
                self.channels.has_served(to);
            }
        }
        Ok(())
    }

    /// Hands work over to a thread. Returns whether there was any.
    fn offload(&mut self, to: usize) -> Result<bool, ExecError> {
        if let Some(state) = self.divide()? {
            self.counters.tasks.add(1);
            let Err(state) = self.channels.send_part(to, state) else {
                return Ok(true);
            };
            self.tasks.adopt(0, state, crate::row::Row::default());
            return Ok(false);
        }
        // Rows of these positions begin a step that another thread can run.
        let last = self.pipeline.steps.iter().rposition(Step::is_expansion);
        let Some(id) = self.tasks.take_nearest_to_root(last.map_or(0, |at| at + 1)) else {
            return Ok(false);
        };
        let degree = self.tasks.schedule().degree();
        self.channels.begin_hand_over(to, degree);
        self.sink.renew_budget();
        let before = self.counters.handed_over.get();
        let flow = self.run_task(id);
        self.channels.end_hand_over();
        let _: Flow = flow?;
        Ok(self.counters.handed_over.get() > before)
    }

    /// Takes the later half of what one of the driver's tasks has still to read.
    fn divide(&mut self) -> Result<Option<State>, ExecError> {
        for id in self.tasks.schedule().blocked_drivers() {
            match self.tasks.state(id) {
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
                    let later = later.map_err(|error| ExecError::source(&entry.name, error))?;
                    if let Some(later) = later {
                        return Ok(Some(State::Batch(Box::new(later))));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Sleeps until there is work for this thread, which has none. Returns whether there is:
    /// otherwise the pipeline has ended.
    pub(crate) fn wait_for_work(&mut self) -> bool {
        debug_assert!(
            self.tasks.is_empty(),
            "a task is blocked that nothing resumes (S2)"
        );
        if self.channels.ask_for_work() {
            return false;
        }
        while !self.shared.peers.has_ended() {
            if self.channels.take_work(&mut self.tasks) {
                return true;
            }
            self.channels.sleep();
        }
        false
    }
}
