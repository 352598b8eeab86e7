//! State that the threads of a query show each other: load, sleep, and the end of a pipeline.
//!
//! # Invariants
//! - P1. `busy` counts the threads that have not run out of work and the tasks in rings. A task is
//!   counted before it enters a ring. A thread that takes it out is busy, or becomes it with the
//!   task.
//! - P2. So a pipeline has ended if and only if `busy` is 0 (T5). The thread that brings it to 0
//!   says so.
//! - P3. A flag that ends something is set before sleeping threads are woken.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::rings::SleepFlag;

/// A sleeping thread looks for work this often, even if it is not woken.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// State of one thread.
struct Peer {
    /// Number of its tasks, about.
    load: CachePadded<AtomicUsize>,
    sleep: SleepFlag,
}

/// See the module.
pub(crate) struct Peers {
    threads: Vec<Peer>,
    busy: CachePadded<AtomicUsize>,
    /// The pipeline needs nothing more.
    ended: AtomicBool,
    /// The query has failed, or was cancelled.
    stopped: AtomicBool,
}

impl Peers {
    /// All threads busy, with the first pipeline.
    pub(crate) fn new(threads: usize) -> Self {
        let peer = || Peer {
            load: CachePadded::default(),
            sleep: SleepFlag::new(),
        };
        Self {
            threads: (0..threads).map(|_| peer()).collect(),
            busy: CachePadded::new(AtomicUsize::new(threads)),
            ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Number of threads.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Whether there is nothing more to do in this pipeline, or at all.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // Relaxed: a thread that misses it now sees it in its next pass. The barrier orders what
        // threads do after the end.
        self.ended.load(Ordering::Relaxed) || self.is_stopped()
    }

    /// Whether the query has failed or was cancelled.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the pipeline.
    pub(crate) fn end_pipeline(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.wake_all();
    }

    /// Prepares for the next pipeline, while all threads wait at the barrier.
    pub(crate) fn begin_pipeline(&self) {
        self.busy.store(self.count(), Ordering::Relaxed);
        self.ended.store(false, Ordering::Relaxed);
    }

    /// Ends the query.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.wake_all();
    }

    fn wake_all(&self) {
        (0..self.count()).for_each(|number| self.wake(number));
    }

    /// Wakes a thread that was sent something.
    pub(crate) fn wake(&self, number: usize) {
        self.threads[number].sleep.wake();
    }

    /// Lets a thread sleep until it is woken, unless `has_work` or the pipeline has ended.
    pub(crate) fn sleep_unless(&self, number: usize, has_work: impl FnOnce() -> bool) {
        let sleep = &self.threads[number].sleep;
        sleep.sleep_unless(SLEEP_MAX, || has_work() || self.has_ended());
    }

    /// Number of a thread's tasks, about: a hint.
    pub(crate) fn load(&self, number: usize) -> usize {
        self.threads[number].load.load(Ordering::Relaxed)
    }

    /// Publishes the number of a thread's tasks.
    pub(crate) fn publish_load(&self, number: usize, load: usize) {
        self.threads[number].load.store(load, Ordering::Relaxed);
    }

    /// Counts a task that is about to enter a ring (P1).
    pub(crate) fn task_enters_ring(&self) {
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts tasks that a busy thread has taken out of rings, or could not put into them.
    pub(crate) fn tasks_left_rings(&self, tasks: usize) {
        self.busy.fetch_sub(tasks, Ordering::AcqRel);
    }

    /// Counts tasks, one at least, that a thread without work has taken out of rings: the first
    /// makes it busy.
    pub(crate) fn becomes_busy(&self, tasks: usize) {
        self.tasks_left_rings(tasks - 1);
    }

    /// Counts a thread that has run out of work. Returns whether that has ended the pipeline (P2).
    pub(crate) fn runs_out_of_work(&self, number: usize) -> bool {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end_pipeline();
            return true;
        }
        self.publish_load(number, 0);
        false
    }
}
