//! Tasks of a thread: state machines as plain data, and the schedule that decides which one runs next.

#[cfg(all(test, not(loom)))]
mod progress_model;
mod schedule;
mod task;

pub(crate) use schedule::Schedule;
pub(crate) use task::{
    BatchWalk, Extent, LongRead, NONE, PageKey, PageRange, State, Step, TaskId, Tasks, Walk,
};
