//! Threads that go through the stages of a run together, and runs that take turns.
//!
//! Nothing here can wait forever: the coordinator sees threads that ended early, panicked ones included,
//! and threads that wait see the end of the run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use namiki_platform::cpu_affinity::{self, Cpu};

use crate::args::{Length, Switch, TimedArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;

/// How often a waiting thread looks again.
const LOOK_EVERY: Duration = Duration::from_micros(100);
/// Time between two signs of life of a long run.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Where a run is. Threads *arrive* at the end of each stage and wait for the next to begin.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    begun: AtomicU32,
    arrived: AtomicU32,
    stop: AtomicBool,
    over: AtomicBool,
}

impl Stages {
    /// Reports the end of a stage and waits for the next. False if there is none, because the run
    /// has failed somewhere.
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

    /// Whether the stage under way is to end.
    #[inline]
    pub(crate) fn must_stop(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the stage under way for all: there is no room to go on.
    pub(crate) fn end_early(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until all threads have come to the end of stage number `stage`, counted from 0 for
    /// their preparation, or some have ended altogether.
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

    /// Begins the next stage, lets it run for its length, and tells it to end.
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

    /// Ends all threads.
    pub(crate) fn abandon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Release);
    }
}

/// What a thread did in one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageResult {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Operations, commits or writes.
    pub(crate) done: u64,
    /// Attempts that came to nothing.
    pub(crate) aborted: u64,
    pub(crate) latencies: Latencies,
}

/// What all threads did in one stage.
#[derive(Clone, Debug)]
pub(crate) struct Total {
    /// From the first thread's beginning to the last one's end.
    pub(crate) seconds: f64,
    pub(crate) done: u64,
    pub(crate) aborted: u64,
    pub(crate) latencies: Latencies,
}

/// A quotient that says something.
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

    /// Operations in a second, if any time went by.
    pub(crate) fn per_second(&self) -> Option<f64> {
        self.rate(self.done)
    }

    /// So much of something in a second, if any time went by.
    pub(crate) fn rate(&self, amount: u64) -> Option<f64> {
        quotient(amount as f64, self.seconds)
    }

    /// So much of something for each operation, if there were any.
    pub(crate) fn per_operation(&self, amount: f64) -> Option<f64> {
        quotient(amount, self.done as f64)
    }
}

/// A run: its threads as they ended, what they did, and what was looked up on both sides of it.
pub(crate) struct Staged<W, L> {
    pub(crate) workers: Vec<W>,
    pub(crate) total: Total,
    pub(crate) before: L,
    pub(crate) after: L,
}

/// Makes `count` workers in threads of their own, has them go through a warm-up and the timed stage
/// together, and looks something up on both sides of the latter.
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
    // Nothing was timed if Ctrl-C came before, or before anything was done.
    let total = through.totals.pop().filter(|_| through.totals.len() == 1);
    let total = total.filter(|total| total.done > 0 || !interrupt::asked());
    Ok(Staged {
        workers: through.workers,
        total: total.ok_or(BenchError::Interrupted)?,
        before,
        after,
    })
}

/// Threads that went through stages: what each stage came to, and what was looked up after it. After
/// Ctrl-C the last stages are not there.
pub(crate) struct Through<W, L> {
    pub(crate) workers: Vec<W>,
    pub(crate) totals: Vec<Total>,
    pub(crate) looks: Vec<L>,
}

/// Makes `count` workers in threads of their own and has them go through stages together, each told
/// which one it is, counted from 0. While they wait after each, something is looked up.
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
            // A thread that fails ends all others.
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
            // A stage that ends as it begins has no meaningful result.
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

/// Starts `count` threads, each on a processor of its own if asked for and there are enough.
pub(crate) fn spawn<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    count: usize,
    pin: Switch,
    body: impl Fn(usize) -> T + Clone + Send + 'scope,
) -> Vec<ScopedJoinHandle<'scope, T>> {
    let cpus = processors(count, pin);
    (0..count)
        .map(|thread| {
            let body = body.clone();
            let cpu = cpus.get(thread).copied();
            scope.spawn(move || {
                if let Some(cpu) = cpu {
                    // A processor that was taken away meanwhile costs accuracy, not correctness.
                    let _ = cpu_affinity::pin_current(&[cpu]);
                }
                body(thread)
            })
        })
        .collect()
}

/// Runs `body`, and whatever threads it starts, on `count` processors alone if asked for and there are
/// enough: for threads that cannot be pinned one by one, because a library starts them.
pub(crate) fn on_processors<T: Send>(
    count: usize,
    pin: Switch,
    body: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let cpus = processors(count, pin);
    std::thread::scope(|scope| {
        // A thread of its own, so that ours stays as it is.
        let thread = scope.spawn(move || {
            if let Some(cpus) = cpus.get(..count) {
                // As above.
                let _ = cpu_affinity::pin_current(cpus);
            }
            body()
        });
        thread.join().unwrap_or(Err(BenchError::Panicked))
    })
}

fn processors(count: usize, pin: Switch) -> Vec<Cpu> {
    let cpus = cpu_affinity::available().unwrap_or_default();
    if pin == Switch::Off || cpus.len() < count {
        return Vec::new();
    }
    cpus
}

/// What all threads returned, or the first failure.
pub(crate) fn join<T>(
    threads: Vec<ScopedJoinHandle<'_, Result<T, BenchError>>>,
) -> Result<Vec<T>, BenchError> {
    let results: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    results
        .into_iter()
        .map(|result| result.unwrap_or(Err(BenchError::Panicked)))
        .collect()
}

/// The share of `total` that falls to `thread` of `threads`: all shares add up.
pub(crate) fn share(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    total / threads + u64::from(thread < total % threads)
}

/// Runs each combination once, then each once more, and so on: what the machine does meanwhile then
/// hits all alike.
pub(crate) fn in_turns<C>(
    repeat: u32,
    combinations: &[C],
    mut run: impl FnMut(&C, u32) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for round in 1..=repeat {
        for combination in combinations {
            interrupt::check()?;
            run(combination, round)?;
        }
    }
    interrupt::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_differ_by_one_at_most() {
        for total in [0, 1, 7, 64] {
            for threads in [1, 2, 3, 8] {
                let shares: Vec<u64> = (0..threads).map(|t| share(total, t, threads)).collect();
                assert_eq!(shares.iter().sum::<u64>(), total);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn combinations_take_turns() {
        let mut order = Vec::new();
        in_turns(2, &["a", "b"], |name, round| {
            order.push(format!("{name}{round}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(order, ["a1", "b1", "a2", "b2"]);
    }

    #[test]
    fn threads_stay_on_the_processors_of_their_parent() {
        let all = cpu_affinity::available().unwrap();
        let inherited = || {
            Ok(std::thread::spawn(cpu_affinity::available)
                .join()
                .unwrap()
                .unwrap())
        };
        let (one, any) = (all[..1].to_vec(), all.clone());
        assert_eq!(on_processors(1, Switch::On, inherited).unwrap(), one);
        assert_eq!(on_processors(1, Switch::Off, inherited).unwrap(), any);
        let many = on_processors(all.len() + 1, Switch::On, inherited).unwrap();
        assert_eq!(many, any, "there are not so many");
        assert_eq!(cpu_affinity::available().unwrap(), all);
    }

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
