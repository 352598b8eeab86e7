//! The executor: threads, page frames and a page cache, shared by all queries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use namiki_platform::ProcessToken;
use namiki_platform::disk::{Disk, Frame, FramePool, PAGE_BYTES, ReadQueue};
use namiki_segment::PageCache;

use super::rows::Rows;
use crate::bind::bind;
use crate::error::ExecError;
use crate::explain::{Explanation, explain};
use crate::plan::Plan;
use crate::planner::choose;
use crate::program::compile;
use crate::run::frame_share::frames_wanted;
use crate::run::options::Options;
use crate::run::shared::{Resources, Shared};
use crate::run::threads::{Admission, RingEnds, ThreadPool};
use crate::run::worker::Worker;
use crate::source::Tables;

/// Frames for reads in flight, in addition to those of the cache.
const FRAMES_IN_FLIGHT: usize = 4096;

/// One in this many of the cache's frames may be in flight instead, if many threads read deeply.
const CACHE_SHARE_IN_FLIGHT: usize = 2;

/// A smaller cache could be pinned as a whole by the pages that threads look at.
const CACHE_PAGES_MIN: usize = 512;

/// Runs queries. Made once, and shared by all callers.
///
/// Each query has threads of its own while it runs; they are kept for later ones. Up to 64 queries
/// run at once, with up to 256 threads: one that begins while others run may get fewer than it asks
/// for, and a part of the page frames.
pub struct Executor {
    resources: Resources,
    admission: Arc<Admission>,
    threads: Arc<ThreadPool>,
    process: ProcessToken,
}

impl Executor {
    /// An executor that reads from this disk and keeps up to `cache_bytes` of pages, at least 2
    /// MiB. Memory for the pages is mapped now and used as pages come.
    ///
    /// # Errors
    /// [`ExecError::System`] if there is not that much memory.
    pub fn new(disk: &Arc<dyn Disk>, cache_bytes: usize) -> Result<Self, ExecError> {
        let pages = (cache_bytes / PAGE_BYTES).max(CACHE_PAGES_MIN);
        let pool =
            FramePool::new(pages + FRAMES_IN_FLIGHT).map_err(|source| ExecError::System {
                doing: "map memory for pages",
                source: source.into(),
            })?;
        Ok(Self {
            resources: Resources {
                disk: Arc::clone(disk),
                pool,
                cache: PageCache::new(pages * PAGE_BYTES),
            },
            admission: Admission::new(FRAMES_IN_FLIGHT + pages / CACHE_SHARE_IN_FLIGHT),
            threads: Arc::default(),
            process: ProcessToken::current(),
        })
    }

    /// Starts a query. Its rows can be taken at once. It runs ahead of them as far as its options
    /// allow.
    ///
    /// # Errors
    /// [`ExecError::Plan`] if the plan is wrong, [`ExecError::System`] if no thread can be started,
    /// [`ExecError::TooManyQueries`] if the limit of queries is reached, [`ExecError::Forked`] in a
    /// forked child of the process that made the executor. All other errors come with the rows.
    pub fn run(&self, plan: &Plan, tables: &Tables, options: &Options) -> Result<Rows, ExecError> {
        if !self.process.is_current() {
            return Err(ExecError::Forked);
        }
        // A plan is right or wrong regardless of choices.
        bind(plan, tables)?;
        let plan = choose(plan, tables, &options.prices, options.is_ordered());
        let program = compile(&bind(&plan, tables)?);
        let planned = (plan, tables.clone());
        let resources = self.resources.clone();
        let frames = frames_wanted(options);
        let permit = self.admission.admit(options.thread_count(), frames)?;
        let shared = Shared::new(resources, program, planned, options.clone(), permit);
        let shared = Arc::new(shared);
        let threads = shared.peers.count();
        let mut started = 0;
        for (number, rings) in RingEnds::between(threads).into_iter().enumerate() {
            let own = Arc::clone(&shared);
            let work =
                move |queue: &mut Option<Box<dyn ReadQueue>>| work(&own, number, rings, queue);
            if let Err(source) = self.threads.run(Box::new(work)) {
                shared.fail(ExecError::System {
                    doing: "start a thread",
                    source: source.into(),
                });
                // The started threads wait for the others at the end of each pipeline.
                (started..threads).for_each(|_| shared.abort_worker());
                shared.wait_until_left();
                break;
            }
            started += 1;
        }
        match shared.failure() {
            Some(error) if started < threads => Err(error),
            _ => Ok(Rows::new(shared)),
        }
    }

    /// Explains how a plan would run with these options, and its estimated cost. Reads nothing.
    ///
    /// # Errors
    /// [`ExecError::Plan`] if the plan is wrong.
    pub fn explain(
        &self,
        plan: &Plan,
        tables: &Tables,
        options: &Options,
    ) -> Result<Explanation, ExecError> {
        // A plan is right or wrong regardless of choices.
        bind(plan, tables)?;
        let plan = choose(plan, tables, &options.prices, options.is_ordered());
        bind(&plan, tables)?;
        Ok(explain(
            &plan,
            tables,
            &options.prices,
            options.is_ordered(),
        ))
    }

    /// The page cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<PageCache<Frame>> {
        &self.resources.cache
    }

    /// Page frames outside the cache: reads in flight and pages that tasks hold. 0 when no query
    /// runs.
    #[must_use]
    pub fn frames_in_flight(&self) -> usize {
        let in_use = self.resources.pool.in_use();
        in_use.saturating_sub(self.resources.cache.counters().resident_pages)
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("cache", &self.resources.cache)
            .finish_non_exhaustive()
    }
}

/// The work of one thread of a query.
fn work(shared: &Shared, number: usize, rings: RingEnds, queue: &mut Option<Box<dyn ReadQueue>>) {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Worker::new(shared, number, rings, queue).run();
    }));
    let Err(panic) = ran else {
        shared.leave();
        return;
    };
    shared.fail(ExecError::panicked(&*panic));
    // It waits for reads in flight.
    *queue = None;
    shared.abort_worker();
}
