//! The thread that takes checkpoints when they are due, puts restore points into the log, and takes deleted keys out of the
//! indexes when no transaction does.
//!
//! It keeps the tables in memory, but does not keep the database open. If the system allows no
//! further thread, checkpoints are taken only on demand and at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::take_checkpoint::Work;
use crate::live::stoppable_thread::{Stop, StoppableThread};

/// The interval between two checks whether one is due.
const LOOK: Duration = Duration::from_millis(100);
/// The interval between two checks of a shared device's regions: small ones fill up fast.
const LOOK_AT_REGIONS: Duration = Duration::from_millis(10);
/// Between two checkpoints of which the first has left too little room in a region, or failed while commits are refused.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause after one that has failed: the cause may be gone then.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Starts the thread.
pub(super) fn start(work: &Arc<Work>) -> StoppableThread {
    let work = Arc::clone(work);
    let engine = Arc::clone(&work.parts.engine);
    // Before the thread runs: the first commit may be one that waits for it. Where the system allows no thread, the body is
    // dropped, and none waits.
    engine.room_requests.set_served(work.takes_checkpoints());
    let serving = Serving(Arc::clone(&work));
    let thread = StoppableThread::start("namiki-checkpoint", move |stop| {
        let serving = serving;
        take_when_due(&serving.0, stop);
    });
    thread.when_stopped(move || engine.room_requests.wake())
}

/// Commits that are refused wait for the thread, until this is dropped.
struct Serving(Arc<Work>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.parts.engine.room_requests.set_served(false);
    }
}

/// Waits for `longest`, or until the thread has to stop, or until a region is full enough for a
/// checkpoint (not after a failure). Returns whether the thread has to stop.
fn wait(work: &Work, stop: &Stop, longest: Duration) -> bool {
    let until = Instant::now() + longest;
    if longest > LOOK || work.is_over() || !work.has_regions() {
        let requests = &work.parts.engine.room_requests;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            requests.wait_for_one(left, || stop.is_wanted());
            if stop.is_wanted() || longest <= LOOK || left.is_zero() {
                return stop.is_wanted();
            }
            // The cause of the last checkpoint's failure may persist.
            answer(work, false);
        }
    }
    while Instant::now() < until && !work.is_region_due() {
        if stop.wait(LOOK_AT_REGIONS) {
            return true;
        }
    }
    stop.is_wanted()
}

/// Answers the commits that wait for room.
fn answer(work: &Work, has_made: bool) {
    let requests = &work.parts.engine.room_requests;
    if let Some(through) = requests.pending() {
        requests.answer(through, has_made);
    }
}

fn take_when_due(work: &Work, stop: &Stop) {
    let mut last = Instant::now();
    let (mut last_point, mut frame_bytes) = (Instant::now(), 0);
    let mut pause = LOOK;
    let mut waiting_before = 0;
    // No room could be made, for a reason that may be temporary.
    let mut is_refused = false;
    while !wait(work, stop, pause) {
        pause = LOOK;
        work.look();
        if work.is_over() {
            answer(work, false);
            continue;
        }
        let points = work.settings.restore_points;
        if points.is_some_and(|interval| last_point.elapsed() >= interval) {
            last_point = Instant::now();
            // A point that failed does not exist; commits report the cause.
            frame_bytes = work.mark_restore_point(frame_bytes).unwrap_or(frame_bytes);
        }
        waiting_before = work.take_out_removed(waiting_before);
        let is_asked = work.parts.engine.room_requests.pending().is_some();
        // Where commits wait for regions beforehand, a checkpoint is due by itself unless one was refused nevertheless.
        let is_wanted = is_asked && work.log.is_short_of_room();
        if is_refused || is_wanted || work.refuses_commits() {
            let made = work.make_room();
            is_refused = made.is_err();
            if is_refused {
                pause = if is_asked { AGAIN } else { AFTER_FAILURE };
            }
            answer(work, made.unwrap_or(false));
            last = Instant::now();
            continue;
        }
        answer(work, true);
        let bytes = work.log_bytes_since();
        let is_long_ago = |interval| last.elapsed() >= interval;
        let is_time = bytes > 0 && work.settings.interval.is_some_and(is_long_ago);
        let is_region_short = work.is_region_short() && is_long_ago(AGAIN);
        if !work.is_due() && !is_time && !is_region_short {
            continue;
        }
        // A backup may delay it for long, and commits that request room need an answer.
        match work.checkpoint_within(LOOK) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => pause = AFTER_FAILURE,
        }
        last = Instant::now();
    }
}
