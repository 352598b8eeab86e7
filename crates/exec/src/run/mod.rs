//! Running a plan: many small tasks in each of a few threads, every page read asynchronous.
//!
//! ```text
//!  thread 0                                   thread 1
//!  ┌───────────────────────────────┐          ┌──────────────────────┐
//!  │ ready ─▶ step ─▶ sink         │          │                      │
//!  │   ▲        │ fault            │  tasks   │                      │
//!  │   │        ▼                  │ ───────▶ │         …            │
//!  │ arrived ◀─ pending ◀─ queue   │ ◀─────── │                      │
//!  └───────────────────────────────┘ requests └──────────────────────┘
//! ```
//!
//! A thread takes rows through the steps of a pipeline, depth first, until one needs a page that is not resident. Only
//! then is there a task: it holds the row so far and where in its step it stopped, waits for the page, and lets the
//! row's siblings go on. So data that are resident cost no task, and a query unfolds as far as its faults lead.
//!
//! # Rules
//! - T1. A thread runs what is ready newest first, then what had to stop for lack of room, deepest step first. (A range asks
//!   for its next extents before those that have arrived, so that the device has work meanwhile.) So
//!   the tasks that there are at a time are bounded by the degree times the number of steps, and by what the rings to the
//!   thread hold when it takes them out, not by the query.
//! - T2. No more tasks wait than the degree says, or the window where there is one; a step that would make one more
//!   stops, and is a task that goes on when there is room. With a degree of one that is the ordered execution of nested
//!   loops. Of a degree of two and more, extents take at most half, so that their rows can wait for pages meanwhile.
//! - T3. A page that several tasks of a thread wait for is read once.
//! - T4. What one thread gives to another are subtrees: a part of a range, or a row that has not yet begun its next
//!   step. Each goes through a ring with one producer and one consumer.
//! - T5. A pipeline has ended when no thread is busy and no ring holds a task; the thread that finds it so says it.
//! - T6. A task counts against the degree only while what it waits for comes without any other task: it is a single page, or an
//!   extent that has its frames. A range that finds no frames for its next extent is not such a task. It is blocked outside of the
//!   degree, and is resumed when an extent of its thread has arrived or has ended.
//!
//! # Progress
//! T6 keeps a thread from waiting for itself, with every degree, number of threads and size of the cache. Frames and pins are
//! acquired in one order, and what holds some waits at most for what comes later in it:
//!
//! 1. Frames of extents are held by extents on their way and by tasks that go through the rows of one. These rows wait for
//!    single pages.
//! 2. Frames of single pages are held by reads on their way, and by pages that wait for an unpinned page to leave the cache.
//! 3. Pins of pages in the cache are held by threads that run. A thread releases them before it waits for work, for its
//!    consumer or for room, so that at most it waits for its device with them.
//!
//! So an extent that has arrived always goes on, its frames come back, and the range behind it is resumed. A range itself holds
//! nothing while it waits, whichever thread it came from. Queries do not wait for each other's frames: each has its own
//! from its beginning to its end (`admission`), and what it shares with others is the cache, and pages leave that.
//! `tasks/progress_model.rs` tries all orders in which tasks, devices and threads may act.
//!
//! Paper: oode §2, §3

mod adaptive_degree;
mod counters;
mod executor;
mod frame_share;
mod gathers;
mod hand_over;
mod options;
mod reads;
mod rows;
mod shared;
mod sink;
mod steps;
mod task_states;
mod tasks;
mod threads;
mod worker;

pub use executor::Executor;
pub use options::{Degree, Mode, Options};
pub use rows::{AnswerRow, Canceller, Rows};
