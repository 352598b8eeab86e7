//! The thread that takes checkpoints when they are due, puts restore points into the log, and takes deleted keys out of the
//! indexes when no transaction does.
//!
//! It keeps the tables in memory, and not the database open. Where the system allows no further thread, checkpoints are taken
//! on demand and at the end alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stoppable_thread::{Stop, StoppableThread};
use super::take_checkpoint::Work;

/// Between two looks whether one is due.
const LOOK: Duration = Duration::from_millis(100);
/// After one that has failed: what was in its way may be gone then.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Starts the thread.
pub(super) fn start(work: &Arc<Work>) -> StoppableThread {
    let work = Arc::clone(work);
    StoppableThread::start("namiki-checkpoint", move |stop| take_when_due(&work, stop))
}

fn take_when_due(work: &Work, stop: &Stop) {
    let mut last = Instant::now();
    let (mut last_point, mut frame_bytes) = (Instant::now(), 0);
    let mut pause = LOOK;
    let mut waiting_before = 0;
    while !stop.wait(pause) {
        pause = LOOK;
        work.look();
        if work.is_over() {
            continue;
        }
        let points = work.settings.restore_points;
        if points.is_some_and(|interval| last_point.elapsed() >= interval) {
            last_point = Instant::now();
            // One that failed is none; what was in its way, commits tell.
            frame_bytes = work.mark_restore_point(frame_bytes).unwrap_or(frame_bytes);
        }
        waiting_before = work.take_out_removed(waiting_before);
        let bytes = work.log_bytes_since();
        let is_long_ago = |interval| last.elapsed() >= interval;
        let is_time = bytes > 0 && work.settings.interval.is_some_and(is_long_ago);
        if !work.is_due() && !is_time {
            continue;
        }
        if work.checkpoint(false).is_err() {
            pause = AFTER_FAILURE;
        }
        last = Instant::now();
    }
}
