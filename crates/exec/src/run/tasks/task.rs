//! Tasks: state machines that are plain data, in a slab that keeps their memory.
//!
//! A task is a row so far, the step it is in, and where in that step it stopped.
//!
//! Paper: oode §1, §2

use namiki_platform::disk::Frame;
use namiki_segment::{Cursor, LongReader, PageNo};

use crate::bind::KeyBounds;
use crate::row::Row;
use crate::source::RowBatch;

/// A task's number in its thread.
pub(crate) type TaskId = u32;

/// No task.
pub(crate) const NONE: TaskId = u32::MAX;

/// Which page: the number of its segment in the query, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageKey {
    pub(crate) segment: u32,
    pub(crate) page: PageNo,
}

/// Where in its step a task is.
#[derive(Default)]
pub(crate) enum State {
    /// It has not begun.
    #[default]
    Start,
    /// It looks a key up, in this leaf.
    Leaf(PageKey),
    /// It goes through the rows behind a prefix.
    Walk(Walk),
    /// It gives out parts of a range of pages.
    Range(PageRange),
    /// It goes through the rows of pages side by side.
    Extent(Box<Extent>),
    /// It goes through rows of a source in memory.
    Batch(Box<BatchWalk>),
    /// It goes through a chain of a hash table.
    Chain { hash: u64, at: u32 },
    /// It goes through rows that an earlier pipeline kept, or combinations of values, by their numbers.
    Materialized { next: usize, end: usize },
    /// It reads a long value, and then goes on.
    Long(Box<LongRead>),
}

/// A walk through the rows behind a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// Which of the source's segments.
    pub(crate) part: usize,
    /// Where in it; nothing before the first row was looked for.
    pub(crate) cursor: Option<Cursor>,
}

/// Pages of a segment that have not been asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRange {
    /// Which of the source's segments.
    pub(crate) part: usize,
    pub(crate) next: u32,
    pub(crate) end: u32,
}

/// Pages side by side, and where in them a walk is.
pub(crate) struct Extent {
    pub(crate) part: usize,
    pub(crate) first: PageNo,
    pub(crate) pages: usize,
    /// The pages, once they have arrived; empty where they are in the cache.
    pub(crate) frames: Vec<Frame>,
    /// How many of these are checked.
    pub(crate) frames_checked: usize,
    /// The next row: of this page, from the first on, this one.
    pub(crate) at_page: usize,
    pub(crate) at_row: usize,
}

/// Rows of a source in memory, a batch at a time.
#[derive(Default)]
pub(crate) struct BatchWalk {
    pub(crate) rows: RowBatch,
    pub(crate) at: usize,
    /// Where the next batch begins: behind this key, unless there was none before.
    pub(crate) behind: Option<Vec<u8>>,
    /// The batch was shorter than asked for: there is no more.
    pub(crate) is_last: bool,
    /// How many rows to ask for next.
    pub(crate) rows_next: usize,
    /// The part of the driver's range that it goes through; nothing for a walk of another step.
    pub(crate) part: Option<KeyBounds>,
}

/// A long value on its way.
pub(crate) struct LongRead {
    pub(crate) segment: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) reader: LongReader,
    pub(crate) bytes: Vec<u8>,
    /// What comes then; nothing if this was the only row.
    pub(crate) then: Option<State>,
}

/// What a step of a task comes to.
pub(crate) enum Step {
    /// It has ended.
    Done,
    /// It needs this page.
    Wait(PageKey),
    /// It can go on when there is room.
    Again,
    /// It can go on when an extent has arrived.
    BlockOnExtent,
    /// The pipeline needs no more rows.
    Stop,
}

/// A task.
#[derive(Default)]
pub(crate) struct Task {
    /// The step it is in: 0 for the pipeline's driver, otherwise one more than the step's number.
    pub(crate) position: usize,
    pub(crate) state: State,
    pub(crate) row: Row,
    /// The next in a list of tasks that wait for the same page.
    next: TaskId,
}

/// The tasks of a thread. What ended leaves its memory to the next.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Task>,
    free: Vec<TaskId>,
}

impl Tasks {
    /// A task with the memory of an earlier one. Its state is [`State::Start`]; its row is to be filled.
    #[inline]
    pub(crate) fn make(&mut self, position: usize) -> TaskId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Task::default());
            self.slots.len() as TaskId - 1
        });
        self.slots[id as usize].position = position;
        id
    }

    /// Ends a task.
    #[inline]
    pub(crate) fn end(&mut self, id: TaskId) {
        self.slots[id as usize].state = State::Start;
        self.free.push(id);
    }

    #[inline]
    pub(crate) fn get(&mut self, id: TaskId) -> &mut Task {
        &mut self.slots[id as usize]
    }

    /// Puts a task before others that wait for the same page.
    #[inline]
    pub(crate) fn link(&mut self, id: TaskId, next: TaskId) {
        self.slots[id as usize].next = next;
    }

    /// The next that waits for the same page.
    #[inline]
    pub(crate) fn next(&self, id: TaskId) -> TaskId {
        self.slots[id as usize].next
    }

    /// How many there are.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Ends all.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}
