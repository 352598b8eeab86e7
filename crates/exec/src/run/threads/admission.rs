//! Admission control: limits of concurrent queries, their threads and page frames.
//!
//! A query keeps its threads and frames while its consumer pauses, and other queries must run. So a
//! query gets its share before it begins, and never more. The first queries get what they ask for,
//! as long as the least share of each query that may still come is left.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::ExecError;

/// Queries that run at once.
const QUERIES_MAX: usize = 64;

/// Threads of all queries that run at once.
const THREADS_MAX: usize = 256;

/// With fewer frames a thread could not read at all: one for a page that a task waits for, one for
/// a driver's extent.
const FRAMES_PER_THREAD_MIN: usize = 2;

/// Threads and frames that are left, shared by all callers of an executor.
pub(crate) struct Admission {
    left: Mutex<Left>,
    /// Least frames of each query.
    frames_min: usize,
}

struct Left {
    queries: usize,
    threads: usize,
    frames: usize,
}

/// The share of a query, from its start until its last thread has left.
pub(crate) struct QueryPermit {
    admission: Arc<Admission>,
    pub(crate) threads: usize,
    /// Frames of reads in flight and of tasks; frames in the cache do not count.
    pub(crate) frames: usize,
}

impl Admission {
    /// Admission for `frames` frames, not counting those that the cache needs.
    pub(crate) fn new(frames: usize) -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new(Left {
                queries: QUERIES_MAX,
                threads: THREADS_MAX,
                frames,
            }),
            frames_min: (frames / QUERIES_MAX / 4).max(FRAMES_PER_THREAD_MIN),
        })
    }

    /// Admits a query that asks for threads, and for frames for each thread.
    ///
    /// # Errors
    /// [`ExecError::TooManyQueries`] if the limit of queries is reached.
    pub(crate) fn admit(
        self: &Arc<Self>,
        threads: usize,
        frames_per_thread: usize,
    ) -> Result<QueryPermit, ExecError> {
        let mut left = self.left.lock();
        let Some(others) = left.queries.checked_sub(1) else {
            return Err(ExecError::TooManyQueries {
                running: QUERIES_MAX,
            });
        };
        let frames_max = left.frames - others * self.frames_min;
        let threads_max = (left.threads - others).min(frames_max / FRAMES_PER_THREAD_MIN);
        let threads = threads.min(threads_max);
        // No permit is less than the least share: a returned permit is then enough for the next
        // query.
        let wanted = threads.saturating_mul(frames_per_thread);
        let frames = wanted.max(self.frames_min).min(frames_max);
        left.queries = others;
        left.threads -= threads;
        left.frames -= frames;
        Ok(QueryPermit {
            admission: Arc::clone(self),
            threads,
            frames,
        })
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        let mut left = self.admission.left.lock();
        left.queries += 1;
        left.threads += self.threads;
        left.frames += self.frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_admitted_query_has_its_least_share() {
        for frames in [256, 2_304, 40_000] {
            let admission = Admission::new(frames);
            let all: Vec<QueryPermit> = (0..QUERIES_MAX)
                .map(|_| admission.admit(128, 600).unwrap())
                .collect();
            let taken: usize = all.iter().map(|permit| permit.frames).sum();
            assert!(taken <= frames);
            for permit in &all {
                assert!(permit.threads > 0);
                assert!(permit.frames >= permit.threads * FRAMES_PER_THREAD_MIN);
            }
            // The first one has much more.
            assert!(all[0].frames >= frames / 2);
            let refused = admission.admit(1, 1);
            assert!(matches!(
                refused,
                Err(ExecError::TooManyQueries { running: 64 })
            ));
            drop(all);
            let threads = admission.admit(100, 2).unwrap().threads;
            assert_eq!(threads, if frames < 1_000 { 65 } else { 100 });
        }
    }

    /// A returned permit is enough for any query that is admitted in its place.
    #[test]
    fn small_queries_leave_room_for_those_that_follow() {
        for frames in [256, 40_000, 1 << 20] {
            let admission = Admission::new(frames);
            let small: Vec<QueryPermit> = (0..QUERIES_MAX / 2)
                .map(|_| admission.admit(1, 2).unwrap())
                .collect();
            let large = admission.admit(256, 1 << 20).unwrap();
            drop(small);
            let others: Vec<QueryPermit> = (1..QUERIES_MAX)
                .map(|_| admission.admit(4, 1_000).unwrap())
                .collect();
            for permit in others.iter().chain([&large]) {
                assert!(permit.threads > 0, "{frames} frames");
                assert!(permit.frames >= permit.threads * FRAMES_PER_THREAD_MIN);
            }
        }
    }
}
