//! Tasks of a thread: state machines as plain data, and the schedule that decides which one runs
//! next.

#[cfg(all(test, not(loom)))]
mod golden_scripts;
#[cfg(all(test, not(loom)))]
mod progress_model;
mod schedule;
mod task;
mod task_slab;
pub(crate) mod trace;
mod worker_tasks;

pub(crate) use schedule::Schedule;
pub(crate) use task::{BatchWalk, Extent, NONE, PageKey, PageRange, State, Step, TaskId, Walk};
#[cfg(test)]
pub(crate) use task_slab::TaskSlab;
pub(crate) use worker_tasks::WorkerTasks;
