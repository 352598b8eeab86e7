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
//!   loops. Extents take at most half of a degree of two and more: the pages of those that have arrived stay until their
//!   rows are through, so extents on their way must never keep these from going on.
//! - T3. A page that several tasks of a thread wait for is read once.
//! - T4. What one thread gives to another are subtrees: a part of a range, or a row that has not yet begun its next
//!   step. Each goes through a ring with one producer and one consumer.
//! - T5. A pipeline has ended when no thread is busy and no ring holds a task; the thread that finds it so says it.
//!
//! Paper: oode §2, §3

mod adaptive_degree;
mod admission;
mod barrier;
mod batched_lookup;
mod column_decoding;
mod counters;
mod executor;
mod frame_share;
mod gather;
mod hand_over;
mod hash_probe;
mod long_values;
mod materialized_scan;
mod options;
mod output;
mod page_reads;
mod pending_reads;
mod resident_rows;
mod row_flow;
mod rows;
mod segment_lookup;
mod segment_scan;
mod shared;
mod task;
mod task_states;
mod thread_pool;
mod window;
mod window_reads;
mod worker;
mod worker_channels;
mod worker_sink;

pub use executor::Executor;
pub use options::{Degree, Mode, Options};
pub use rows::{AnswerRow, Canceller, Rows};
