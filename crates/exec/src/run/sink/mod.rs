//! The end of a pipeline: each thread's part, their merge, and the queue of answer rows.

mod output;
mod sink_part;
mod worker_sink;

pub(crate) use output::Output;
pub(crate) use sink_part::{Materialized, SinkPart};
pub(crate) use worker_sink::WorkerSink;
