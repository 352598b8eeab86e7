//! The engine's threads: those that plan, and the second pool, on which plans run.
//!
//! Neither waits for the other. A plan is a task that gives its thread back after some batches, and while its client does
//! not take its rows; planning cannot be interrupted, so a limited number of texts are planned at once, and long texts never
//! take all of the threads.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinHandle};

use crate::cancel::{Cancelled, Cause};
use crate::engine_options::EngineOptions;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The stack of each thread: planning and expressions recurse.
const STACK_BYTES: usize = 8 << 20;
/// Bytes of a text from which on it counts as long: tens of milliseconds of planning at most below that.
const LONG_TEXT: usize = 2048;

/// The threads, and the permits to use them.
pub(crate) struct Pools {
    /// The second pool.
    pub(crate) statements: Handle,
    planners: Handle,
    /// Statements that may run on the second pool at once.
    running: Arc<Semaphore>,
    running_max: usize,
    /// Texts that may be planned at once, and long ones among them.
    planning: Arc<Semaphore>,
    planning_long: Arc<Semaphore>,
    runtimes: Vec<Runtime>,
}

impl Pools {
    /// Starts the threads.
    ///
    /// # Errors
    /// 53200 if the system allows none.
    pub(crate) fn start(options: &EngineOptions) -> SqlResult<Self> {
        let planners = options.planner_threads.max(1);
        let statements = start("sql", options.statement_threads.max(1), None)?;
        // Its one task thread keeps the time limits of statements; texts are planned on the others.
        let planning = start("sql-plan", 1, Some(planners))?;
        let running_max = options.long_statements_max.max(1);
        Ok(Self {
            statements: statements.handle().clone(),
            planners: planning.handle().clone(),
            running: Arc::new(Semaphore::new(running_max)),
            running_max,
            planning: Arc::new(Semaphore::new(planners)),
            planning_long: Arc::new(Semaphore::new((planners - 1).max(1))),
            runtimes: vec![statements, planning],
        })
    }

    /// A permit to run a statement on the second pool.
    ///
    /// # Errors
    /// 57P01 while the engine is shut down; 57014 after a cancellation.
    pub(crate) async fn long_statement(
        &self,
        cancelled: &Cancelled,
    ) -> SqlResult<OwnedSemaphorePermit> {
        permit(&self.running, cancelled).await
    }

    /// Plans something on a thread for that. After a cancellation, no_caller waits for it any more.
    ///
    /// # Errors
    /// What `work` returns; XX000 if it panics; 57P01 and 57014 as above.
    pub(crate) async fn plan<T: Send + 'static>(
        &self,
        text_bytes: usize,
        cancelled: &Cancelled,
        work: impl FnOnce() -> SqlResult<T> + Send + 'static,
    ) -> SqlResult<T> {
        // First this one: a long text that waits holds no thread.
        let long = if text_bytes >= LONG_TEXT {
            Some(permit(&self.planning_long, cancelled).await?)
        } else {
            None
        };
        let permit = permit(&self.planning, cancelled).await?;
        let task = self.planners.spawn_blocking(move || {
            let _permits = (permit, long);
            work()
        });
        cancelled
            .unless(task)
            .await?
            .map_err(|error| failed_task(&error))?
    }

    /// Runs this where it may block, as one of the statements of the second pool. Returns whether it runs: not if there are
    /// too many of them.
    pub(crate) fn beside_statements(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() else {
            return false;
        };
        self.statements.spawn_blocking(move || {
            let _permit = permit;
            work();
        });
        true
    }

    /// Cancels a statement after a time, unless what this returns is dropped before.
    pub(crate) fn limit_time(&self, statement: &Cancelled, longest: Duration) -> TaskGuard {
        let statement = statement.clone();
        let task = self.planners.spawn(async move {
            tokio::time::sleep(longest).await;
            statement.set(Cause::Timeout);
        });
        TaskGuard::new(&task)
    }

    /// The number of statements on the second pool.
    #[cfg(test)]
    pub(crate) fn running_statements(&self) -> usize {
        self.running_max - self.running.available_permits()
    }

    /// Waits until no statement runs on the second pool, and lets no further one begin.
    pub(crate) async fn close(&self) {
        let permits = u32::try_from(self.running_max).unwrap_or(u32::MAX);
        // Fails only if the semaphore was closed before.
        let _ = self.running.acquire_many(permits).await;
        for semaphore in [&self.running, &self.planning, &self.planning_long] {
            semaphore.close();
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        for runtime in self.runtimes.drain(..) {
            // The last handle may be dropped in a task, which must not wait for threads.
            runtime.shutdown_background();
        }
    }
}

/// A task that is stopped when this is dropped, unless it has ended.
pub(crate) struct TaskGuard(AbortHandle);

impl TaskGuard {
    pub(crate) fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error of a task that has panicked, or was stopped with its pool.
pub(crate) fn failed_task(error: &tokio::task::JoinError) -> SqlError {
    SqlError::new(
        sqlstate::INTERNAL_ERROR,
        format!("a task has failed: {error}"),
    )
}

/// Threads for tasks, and at most `blocking_max` threads that may block.
fn start(name: &str, threads: usize, blocking_max: Option<usize>) -> SqlResult<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .enable_time();
    if let Some(blocking_max) = blocking_max {
        builder.max_blocking_threads(blocking_max);
    }
    builder.build().map_err(|error| {
        SqlError::new(
            sqlstate::OUT_OF_MEMORY,
            format!("cannot start threads: {error}"),
        )
    })
}

async fn permit(
    semaphore: &Arc<Semaphore>,
    cancelled: &Cancelled,
) -> SqlResult<OwnedSemaphorePermit> {
    let permit = cancelled
        .unless(Arc::clone(semaphore).acquire_owned())
        .await?;
    permit.map_err(|_| SqlError::new(sqlstate::ADMIN_SHUTDOWN, "the server is shutting down"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pools(options: &EngineOptions) -> (Arc<Pools>, Runtime) {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        (Arc::new(Pools::start(options).unwrap()), runtime)
    }

    #[test]
    fn a_short_text_waits_for_no_long_one() {
        let (pools, runtime) = pools(&EngineOptions::default());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(parking_lot::Mutex::new(held));
        let no_caller = Cancelled::default();
        // More long texts than threads.
        for _ in 0..5 {
            let (pools, held, no_caller) =
                (Arc::clone(&pools), Arc::clone(&held), no_caller.clone());
            runtime.spawn(async move {
                let wait = move || {
                    let _ = held.lock().recv();
                    Ok(())
                };
                pools.plan(LONG_TEXT, &no_caller, wait).await
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        let short = runtime.block_on(async {
            let planned = pools.plan(10, &no_caller, || Ok(7));
            tokio::time::timeout(Duration::from_secs(20), planned).await
        });
        drop(release);
        assert_eq!(short.unwrap().unwrap(), 7);
    }

    #[test]
    fn a_time_limit_cancels_unless_it_is_dropped() {
        let (pools, _runtime) = pools(&EngineOptions::default());
        let (one, other) = (Cancelled::default(), Cancelled::default());
        drop(pools.limit_time(&other, Duration::from_millis(5)));
        let _limit = pools.limit_time(&one, Duration::from_millis(5));
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while one.check().is_ok() {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(other.check().is_ok());
    }
}
