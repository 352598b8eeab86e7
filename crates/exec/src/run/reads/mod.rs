//! Page reads of a thread: one read for all tasks that wait for a page, submitted in batches.

mod device_queue;
mod pending_reads;
mod window;
mod worker_reads;

pub(crate) use worker_reads::WorkerReads;
