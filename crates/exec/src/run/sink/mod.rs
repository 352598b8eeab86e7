//! The end of a pipeline: each thread's part, their merge, and the queue of answer rows.

mod output;
mod sink_part;

pub(crate) use output::{BATCH_BYTES, BATCH_ROWS, Output};
pub(crate) use sink_part::{Materialized, SinkPart};
