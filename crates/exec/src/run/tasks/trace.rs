//! Trace of a thread's tasks, for the golden scripts. Outside of tests it compiles to nothing.

use super::task::{PageKey, State, TaskId};

/// An event of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Runs,
    Ends,
    BlockedOnDegree,
    BlockedOnExtent,
    Ready,
}

/// An event of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadEvent {
    Submitted,
    Completed,
    /// The cache had no room for the page.
    Unplaced,
}

#[cfg(any(not(test), loom))]
mod silent {
    use super::{Event, PageKey, ReadEvent, State, TaskId};

    #[inline(always)]
    pub(crate) fn made(_: TaskId, _: usize, _: &State) {}
    #[inline(always)]
    pub(crate) fn task(_: TaskId, _: Event) {}
    #[inline(always)]
    pub(crate) fn waits(_: TaskId, _: PageKey, _: usize, _: bool) {}
    #[inline(always)]
    pub(crate) fn read(_: PageKey, _: usize, _: ReadEvent) {}
    #[inline(always)]
    pub(crate) fn sent(_: usize, _: usize, _: &State) {}
}

#[cfg(any(not(test), loom))]
pub(crate) use silent::*;

#[cfg(all(test, not(loom)))]
mod recording {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::{Event, PageKey, ReadEvent, State, TaskId};

    /// The record of this operating system thread.
    #[derive(Default)]
    struct Trace {
        lines: Vec<String>,
        /// Names of the tables, by the numbers of their segments.
        tables: Vec<String>,
        /// The worker that acts.
        worker: usize,
        /// Numbers of tasks in the order in which they were made, by worker and slot.
        numbers: HashMap<(usize, TaskId), usize>,
        made: usize,
    }

    thread_local! {
        static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
    }

    fn record(line: impl FnOnce(&mut Trace) -> String) {
        TRACE.with_borrow_mut(|trace| {
            if let Some(trace) = trace {
                let line = line(trace);
                trace.lines.push(line);
            }
        });
    }

    /// Records from now on, with these names for the segments.
    pub(crate) fn begin(tables: Vec<String>) {
        let trace = Trace {
            tables,
            ..Trace::default()
        };
        TRACE.set(Some(trace));
    }

    /// The lines since the last call, of which the next ones are of this worker.
    pub(crate) fn lines_before(worker: usize) -> Vec<String> {
        TRACE.with_borrow_mut(|trace| {
            let Some(trace) = trace else {
                return Vec::new();
            };
            trace.worker = worker;
            std::mem::take(&mut trace.lines)
        })
    }

    impl Trace {
        fn task(&self, id: TaskId) -> String {
            let number = self.numbers.get(&(self.worker, id));
            number.map_or("a task".to_owned(), |number| format!("task {number}"))
        }

        fn pages(&self, first: PageKey, pages: usize) -> String {
            let table = &self.tables[first.segment as usize];
            let first = first.page.0 as usize;
            if pages == 1 {
                format!("{table}/{first}")
            } else {
                format!("{table}/{first}..{}", first + pages)
            }
        }

        fn state(&self, state: &State) -> String {
            match state {
                State::Start => "row".to_owned(),
                State::Leaf(leaf) => format!("look-up in {}", self.pages(*leaf, 1)),
                State::Walk(_) => "walk".to_owned(),
                State::Range(range) => format!("range of pages {}..{}", range.next, range.end),
                State::Extent(extent) => {
                    let first = extent.first.0 as usize;
                    format!("extent of pages {first}..{}", first + extent.pages)
                }
                State::Batch(_) => "rows in memory".to_owned(),
                State::Chain { .. } => "chain of a hash table".to_owned(),
                State::Materialized { next, end } => format!("rows {next}..{end}"),
                State::Long(_) => "long value".to_owned(),
            }
        }
    }

    fn step(position: usize) -> String {
        if position == 0 {
            "driver".to_owned()
        } else {
            format!("step {position}")
        }
    }

    /// A task is made, or taken over from another worker.
    pub(crate) fn made(id: TaskId, position: usize, state: &State) {
        record(|trace| {
            trace.made += 1;
            trace.numbers.insert((trace.worker, id), trace.made);
            format!(
                "{} made: {}, {}",
                trace.task(id),
                step(position),
                trace.state(state)
            )
        });
    }

    pub(crate) fn task(id: TaskId, event: Event) {
        let what = match event {
            Event::Runs => "runs",
            Event::Ends => "ended",
            Event::BlockedOnDegree => "blocked on the degree",
            Event::BlockedOnExtent => "blocked on extents",
            Event::Ready => "ready",
        };
        record(|trace| format!("{} {what}", trace.task(id)));
    }

    /// A task waits for pages; `is_new`: it is the first.
    pub(crate) fn waits(id: TaskId, first: PageKey, pages: usize, is_new: bool) {
        let how = if is_new { "" } else { ", which is being read" };
        record(|trace| {
            format!(
                "{} waits for {}{how}",
                trace.task(id),
                trace.pages(first, pages)
            )
        });
    }

    pub(crate) fn read(first: PageKey, pages: usize, event: ReadEvent) {
        let what = match event {
            ReadEvent::Submitted => "submitted",
            ReadEvent::Completed => "arrived",
            ReadEvent::Unplaced => "has no room in the cache",
        };
        record(|trace| format!("{} {what}", trace.pages(first, pages)));
    }

    /// A task is sent to another worker.
    pub(crate) fn sent(to: usize, position: usize, state: &State) {
        record(|trace| {
            let state = trace.state(state);
            format!("handed over to worker {to}: {}, {state}", step(position))
        });
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) use recording::*;
