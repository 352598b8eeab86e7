//! Execution of a plan: many small tasks in each of a few threads, every page read asynchronous.
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
//! A thread sends rows through the steps of a pipeline, depth first, until one needs a page that is
//! not resident. Only then is there a task: it holds the row so far and where in its step it
//! stopped, waits for the page, and lets the row's siblings run. So resident data cost no task, and
//! a query unfolds as far as its faults lead.
//!
//! Each thread is a [`Worker`](worker::Worker), which composes parts that keep their own
//! invariants:
//!
//! | part | what it owns | invariants |
//! |---|---|---|
//! | [`WorkerTasks`](tasks::WorkerTasks) | tasks, their schedule, the degree | W, S in `tasks/schedule.rs` |
//! | [`WorkerReads`](reads::WorkerReads) | faults, requests, completions | Q, D in `reads/device_queue.rs` |
//! | [`WorkerChannels`](threads::WorkerChannels) | rings to other threads, hand-over | C, P in `threads/peers.rs` |
//! | [`WorkerGathers`](gathers::WorkerGathers) | look-ups in memory, batched | G |
//! | [`WorkerSink`](sink::WorkerSink) | rows that arrived, their memory, the budget | K |
//!
//! # Rules
//! - T1. A thread runs the newest ready task first, then the newest of the deepest step that is
//!   blocked on the degree. A range requests its next extents before the rows of those that have
//!   arrived, so that the device has work. So the number of tasks is bounded by the degree times
//!   the number of steps, and by what the rings to the thread hold, not by the query. Kept by
//!   `tasks/schedule.rs`.
//! - T2. At most as many tasks wait as the degree, or the window if there is one, allows. A step
//!   that would make one more stops, and is a task that is blocked until there is room. With a
//!   degree of one this is the ordered execution of nested loops. With a greater one extents take
//!   at most half, so that their rows can wait for pages. Kept by `tasks/schedule.rs`.
//! - T3. A page that several tasks of a thread wait for is read once. Kept by
//!   `reads/pending_reads.rs`.
//! - T4. One thread gives another subtrees: a part of a range, or a row that has not begun its next
//!   step. Each goes through a ring with one producer and one consumer. Kept by
//!   `threads/worker_channels.rs`.
//! - T5. A pipeline has ended when no thread is busy and no ring holds a task; the thread that
//!   finds this ends it. Kept by `threads/peers.rs`.
//! - T6. A task counts against the degree only while what it waits for comes without any other
//!   task: a single page, or an extent that has its frames. A range without frames for its next
//!   extent is no such task. It is blocked outside of the degree, and resumed when an extent of its
//!   thread has arrived or ended. Kept by `tasks/schedule.rs`.
//!
//! # Progress
//! T6 keeps a thread from waiting for itself, with every degree, number of threads and cache size.
//! Frames and pins are acquired in one order. A holder waits at most for what comes later in it:
//!
//! 1. Frames of extents are held by extents in flight and by tasks that read rows from one. These
//!    rows wait for single pages.
//! 2. Frames of single pages are held by reads in flight, and by pages that wait for an unpinned
//!    page to leave the cache.
//! 3. Pins of pages in the cache are held by running threads. A thread releases them before it
//!    waits for work, for its consumer or for room. So it waits with them at most for its device.
//!
//! So an extent that has arrived always runs, its frames return, and the range behind it is
//! resumed. A range holds nothing while it waits, whichever thread it came from. Queries do not
//! wait for each other's frames: each has its own from its beginning to its end
//! (`threads/admission.rs`). They share the cache, and pages leave that. `tasks/progress_model.rs`
//! tries all orders in which tasks, devices and threads may act.
//!
//! Paper: oode §2, §3

mod adaptive_degree;
mod counters;
mod executor;
mod frame_share;
mod gathers;
mod hand_over;
mod options;
mod pipeline_state;
mod query_report;
mod reads;
mod rows;
mod shared;
mod sink;
mod step_buffers;
mod steps;
mod task_states;
mod tasks;
mod threads;
mod worker;

pub use executor::Executor;
pub use options::{Degree, Mode, Options};
pub use rows::{AnswerRow, Canceller, Rows};
