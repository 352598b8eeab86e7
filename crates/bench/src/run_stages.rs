//! Stages of a run (load, warm-up, timed stage), which its threads pass through together, and their
//! results.
//!
//! No wait here is unbounded: the coordinator detects threads that ended early, panicked ones
//! included, and waiting threads detect the end of the run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::args::{Length, Switch, TimedArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;
use crate::worker_threads::{join, spawn};

/// Polling interval of a waiting thread.
const LOOK_EVERY: Duration = Duration::from_micros(100);
/// Interval between progress messages of a long run.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The state of a run. Threads *arrive* at the end of each stage and wait for the next to begin.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    begun: AtomicU32,
    arrived: AtomicU32,
    stop: AtomicBool,
    over: AtomicBool,
}

impl Stages {
    /// Reports the end of a stage and waits for the next. Returns false if the run has failed and
    /// no stage follows.
    pub(crate) fn next(&self, stage: u32) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.begun.load(Ordering::Acquire) < stage {
            if self.over.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        !self.over.load(Ordering::Acquire)
    }

    /// Whether the current stage is to end.
    #[inline]
    pub(crate) fn must_stop(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the current stage for all threads, because there is no space to continue.
    pub(crate) fn end_early(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until all threads have finished stage number `stage`, counted from 0 for their
    /// preparation, or until some thread has exited.
    pub(crate) fn wait_for<T>(&self, stage: u32, threads: &[ScopedJoinHandle<'_, T>]) {
        let expected = (stage + 1) * threads.len() as u32;
        while self.arrived.load(Ordering::Acquire) < expected {
            if threads.iter().any(ScopedJoinHandle::is_finished) {
                self.abandon();
                return;
            }
            if interrupt::asked() {
                self.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Begins the next stage, lets it run for its length, and ends it.
    pub(crate) fn run_for<T>(
        &self,
        stage: u32,
        length: Length,
        what: &str,
        threads: &[ScopedJoinHandle<'_, T>],
    ) {
        self.stop.store(false, Ordering::Relaxed);
        self.begun.store(stage, Ordering::Release);
        let began = Instant::now();
        let mut said = began;
        if let Length::Time(time) = length
            && time >= PROGRESS_EVERY
        {
            eprintln!("{what}: for {:.0} s", time.as_secs_f64());
        }
        let expected = (stage + 1) * threads.len() as u32;
        loop {
            let done = self.arrived.load(Ordering::Acquire) >= expected
                || threads.iter().any(ScopedJoinHandle::is_finished);
            let elapsed = began.elapsed();
            let left = match length {
                Length::Time(time) => time.saturating_sub(elapsed),
                Length::Operations(_) => LOOK_EVERY,
            };
            if done || left.is_zero() || self.must_stop() || interrupt::asked() {
                break;
            }
            if said.elapsed() >= PROGRESS_EVERY {
                eprintln!("{what}: {:.0} s", elapsed.as_secs_f64());
                said = Instant::now();
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
        if !matches!(length, Length::Operations(_)) || interrupt::asked() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Tells all threads to exit.
    pub(crate) fn abandon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Release);
    }
}

/// The result of one thread in one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageResult {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Operations, commits or writes.
    pub(crate) done: u64,
    /// Failed attempts.
    pub(crate) aborted: u64,
    pub(crate) latencies: Latencies,
}

/// The result of all threads in one stage.
#[derive(Clone, Debug)]
pub(crate) struct Total {
    /// From the start of the first thread to the end of the last.
    pub(crate) seconds: f64,
    pub(crate) done: u64,
    pub(crate) aborted: u64,
    pub(crate) latencies: Latencies,
}

/// A quotient, if it is meaningful.
pub(crate) fn quotient(of: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| of / by)
}

impl Total {
    fn of<'a>(results: impl Iterator<Item = &'a StageResult>) -> Self {
        let mut total = Self {
            seconds: 0.0,
            done: 0,
            aborted: 0,
            latencies: Latencies::new(),
        };
        let mut span: Option<(Instant, Instant)> = None;
        for result in results {
            total.done += result.done;
            total.aborted += result.aborted;
            total.latencies.add_all(&result.latencies);
            let (began, ended) = span.unwrap_or((result.began, result.ended));
            span = Some((began.min(result.began), ended.max(result.ended)));
        }
        total.seconds = span.map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
        total
    }

    /// Operations per second, if any time elapsed.
    pub(crate) fn per_second(&self) -> Option<f64> {
        self.rate(self.done)
    }

    /// The rate of `amount` per second, if any time elapsed.
    pub(crate) fn rate(&self, amount: u64) -> Option<f64> {
        quotient(amount as f64, self.seconds)
    }

    /// `amount` per operation, if there were any operations.
    pub(crate) fn per_operation(&self, amount: f64) -> Option<f64> {
        quotient(amount, self.done as f64)
    }
}

/// A run: its workers at the end, their results, and the measurements taken before and after it.
pub(crate) struct Staged<W, L> {
    pub(crate) workers: Vec<W>,
    pub(crate) total: Total,
    pub(crate) before: L,
    pub(crate) after: L,
}

/// Creates `count` workers in threads of their own and runs them through a warm-up and the timed
/// stage together. Takes a measurement before and after the timed stage.
pub(crate) fn staged<W: Send, L>(
    count: usize,
    timed: &TimedArgs,
    what: &str,
    make: impl Fn(usize) -> Result<W, BenchError> + Sync,
    stage: impl Fn(&mut W, Length, &Stages) -> Result<StageResult, BenchError> + Sync,
    mut look: impl FnMut() -> Result<L, BenchError>,
) -> Result<Staged<W, L>, BenchError> {
    let lengths = [(timed.warmup_length(), what), (timed.length(), what)];
    let mut through = through_stages(
        count,
        timed.pin,
        &lengths,
        make,
        |worker, _, length, stages| stage(worker, length, stages),
        |_| look(),
    )?;
    let (Some(after), Some(before)) = (through.looks.pop(), through.looks.pop()) else {
        return Err(BenchError::Interrupted);
    };
    // Nothing was timed if Ctrl-C came earlier, or before the first operation.
    let total = through.totals.pop().filter(|_| through.totals.len() == 1);
    let total = total.filter(|total| total.done > 0 || !interrupt::asked());
    Ok(Staged {
        workers: through.workers,
        total: total.ok_or(BenchError::Interrupted)?,
        before,
        after,
    })
}

/// The result of threads that passed through stages: the result of each stage, and the measurement
/// taken after it. After Ctrl-C the last stages are missing.
pub(crate) struct Through<W, L> {
    pub(crate) workers: Vec<W>,
    pub(crate) totals: Vec<Total>,
    pub(crate) looks: Vec<L>,
}

/// Creates `count` workers in threads of their own and runs them through stages together. Each
/// worker gets the number of its stage, counted from 0. A measurement is taken after each stage
/// while the workers wait.
pub(crate) fn through_stages<W: Send, L>(
    count: usize,
    pin: Switch,
    lengths: &[(Length, &str)],
    make: impl Fn(usize) -> Result<W, BenchError> + Sync,
    stage: impl Fn(&mut W, usize, Length, &Stages) -> Result<StageResult, BenchError> + Sync,
    mut look: impl FnMut(usize) -> Result<L, BenchError>,
) -> Result<Through<W, L>, BenchError> {
    let stages = Stages::default();
    let through = |thread| {
        let mut worker = make(thread)?;
        let mut results = Vec::with_capacity(lengths.len());
        for (number, (length, _)) in lengths.iter().enumerate() {
            if !stages.next(number as u32 + 1) {
                return Ok((worker, results));
            }
            // A failed thread ends all others.
            let done = stage(&mut worker, number, *length, &stages);
            results.push(done.inspect_err(|_| stages.abandon())?);
        }
        stages.next(lengths.len() as u32 + 1);
        Ok((worker, results))
    };
    let (results, looks) = std::thread::scope(|scope| {
        let handles = spawn(scope, count, pin, through);
        stages.wait_for(0, &handles);
        let mut looks = Vec::with_capacity(lengths.len());
        for (number, (length, what)) in lengths.iter().enumerate() {
            // A stage that ends at its beginning has no meaningful result.
            if number > 0 && interrupt::asked() {
                break;
            }
            stages.run_for(number as u32 + 1, *length, what, &handles);
            stages.wait_for(number as u32 + 1, &handles);
            looks.push(look(number));
        }
        stages.abandon();
        let results = join(handles)?;
        let looks: Result<Vec<L>, BenchError> = looks.into_iter().collect();
        Ok::<_, BenchError>((results, looks?))
    })?;
    let (workers, results): (Vec<W>, Vec<Vec<StageResult>>) = results.into_iter().unzip();
    let finished = results.iter().map(Vec::len).min().unwrap_or(0);
    let totals = (0..finished).map(|number| Total::of(results.iter().map(|r| &r[number])));
    Ok(Through {
        totals: totals.collect(),
        workers,
        looks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_early_ends_the_run_for_all() {
        let stages = Stages::default();
        let outcome = std::thread::scope(|scope| {
            let threads = spawn(scope, 3, Switch::Off, |thread| {
                if thread == 1 {
                    return Err(BenchError::Check("planted".to_owned()));
                }
                Ok(stages.next(1))
            });
            stages.wait_for(0, &threads);
            stages.abandon();
            join(threads)
        });
        assert!(matches!(outcome, Err(BenchError::Check(_))));
    }
}
