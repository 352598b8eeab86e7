//! The state of a pipeline that the threads of a query share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::bind::KeyBounds;
use crate::error::ExecError;
use crate::program::{Pipeline, Step};
use crate::run::sink::Materialized;

/// See the module.
pub(crate) struct PipelineState {
    /// Rows that may still pass each step that is a limit.
    limits: Vec<AtomicU64>,
    /// The parts of the driver's range that the threads begin with, if the range is in memory.
    resident_parts: OnceLock<Result<Vec<KeyBounds>, ExecError>>,
    /// Result of the pipeline, for later ones.
    materialized: OnceLock<Arc<Materialized>>,
}

impl PipelineState {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let limit = |step: &Step| match step {
            Step::Limit(rows) => AtomicU64::new(*rows),
            _ => AtomicU64::new(0),
        };
        Self {
            limits: pipeline.steps.iter().map(limit).collect(),
            resident_parts: OnceLock::new(),
            materialized: OnceLock::new(),
        }
    }

    /// Lets one row pass a limit. Returns how many may pass after it; `None` if the row may not.
    pub(crate) fn pass_limit(&self, step: usize) -> Option<u64> {
        let left = &self.limits[step];
        let take = |left: u64| left.checked_sub(1);
        // Relaxed: a count that orders nothing.
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.ok().map(|before| before - 1)
    }

    /// The parts of the driver's range. The first thread that asks makes them: the source may have
    /// other rows when the next one asks.
    pub(crate) fn resident_parts(
        &self,
        make: impl FnOnce() -> Result<Vec<KeyBounds>, ExecError>,
    ) -> Result<&[KeyBounds], ExecError> {
        let parts = self.resident_parts.get_or_init(make);
        parts.as_deref().map_err(Clone::clone)
    }

    /// Result of the pipeline. It was set before the barrier after the pipeline.
    pub(crate) fn materialized(&self) -> Option<&Arc<Materialized>> {
        self.materialized.get()
    }

    /// Keeps the result of the pipeline, while all threads wait at the barrier.
    pub(crate) fn set_materialized(&self, result: Materialized) {
        _ = self.materialized.set(Arc::new(result));
    }
}
