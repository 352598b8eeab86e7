//! Observes a run while it goes on: a thread takes a sample of all workers' commits, of the bytes
//! written and of the files at the end of each interval.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use namiki_platform::clock::now_ns;

use super::amplification::Device;
use super::commit_times::{CommitTimes, Stalls};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::page_cache::file_bytes;

/// Time between looks at the clock.
const LOOK: Duration = Duration::from_millis(5);

/// Measurements of one interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// From the beginning of the run to the end of the interval.
    pub(super) end_seconds: f64,
    /// The length of the interval.
    pub(super) seconds: f64,
    pub(super) committed: u64,
    pub(super) latencies: Latencies,
    /// Bytes written to the device in the interval, if the system counts them.
    pub(super) device_bytes: Option<u64>,
    /// Bytes of all files at the end.
    pub(super) file_bytes: u64,
}

/// A function that is told each interval at its end.
pub(super) type Publish<'a> = dyn Fn(&Interval) -> Result<(), BenchError> + Sync + 'a;

/// The observer of one run.
pub(crate) struct Watch<'a> {
    every: Duration,
    /// `None` if the system counts nothing for it.
    device: Option<Device>,
    publish: &'a Publish<'a>,
    threads: Vec<Mutex<CommitTimes>>,
    began: OnceLock<Mark>,
    ended: OnceLock<Mark>,
}

/// The beginning or the end of the timed part of a run.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ns: u64,
    device_bytes: Option<u64>,
}

/// The whole timed part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) stalls: Stalls,
    /// Bytes written to the device, if the system counts them.
    pub(super) device_bytes: Option<u64>,
}

fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before?))
}

impl<'a> Watch<'a> {
    /// An observer of a run of `threads` threads.
    pub(super) fn new(
        threads: u16,
        every: Duration,
        device: Option<Device>,
        publish: &'a Publish<'a>,
    ) -> Self {
        Self {
            every,
            device,
            publish,
            threads: (0..threads)
                .map(|_| Mutex::new(CommitTimes::new()))
                .collect(),
            began: OnceLock::new(),
            ended: OnceLock::new(),
        }
    }

    /// Marks the beginning of the timed part at the first call, and its end at the second.
    pub(crate) fn mark(&self) -> Result<(), BenchError> {
        let mark = self.now()?;
        if self.began.set(mark).is_err() {
            // A third stage would be a mistake of the caller, and changes nothing.
            let _ = self.ended.set(mark);
        }
        Ok(())
    }

    fn now(&self) -> Result<Mark, BenchError> {
        let device_bytes = self.device.as_ref().map(Device::written_bytes);
        Ok(Mark {
            device_bytes: device_bytes.transpose()?,
            at_ns: now_ns(),
        })
    }

    /// Records a commit of this thread now, if the timed part has begun.
    #[inline]
    pub(crate) fn committed(&self, thread: usize, latency_ns: Option<u64>) {
        if let Some(began) = self.began.get() {
            let at_ns = now_ns().saturating_sub(began.at_ns);
            locked(&self.threads[thread]).add(at_ns, latency_ns);
        }
    }

    /// Runs `work`, and takes samples of it and of `dir`, where its files are.
    pub(crate) fn beside<T>(
        &self,
        dir: &Path,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let observer = scope.spawn(|| self.observe(dir, &over));
            let done = work();
            over.store(true, Ordering::Relaxed);
            let observed = observer.join().map_err(|_| BenchError::Panicked)?;
            let done = done?;
            observed.map(|()| done)
        })
    }

    /// Publishes intervals until the timed part has ended. The last one is published if it is at
    /// least half as long as the others, or the only one.
    fn observe(&self, dir: &Path, over: &AtomicBool) -> Result<(), BenchError> {
        let began = loop {
            match self.began.get() {
                Some(began) => break *began,
                None if over.load(Ordering::Relaxed) => return Ok(()),
                None => std::thread::sleep(LOOK),
            }
        };
        let (mut last, mut committed, mut number) = (began, 0, 0);
        loop {
            let due_ns = began.at_ns + (number + 1) * self.every.as_nanos() as u64;
            let end = loop {
                if let Some(ended) = self.ended.get() {
                    break Some(*ended);
                }
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if now_ns() >= due_ns {
                    break None;
                }
                std::thread::sleep(LOOK);
            };
            let mark = end.map_or_else(|| self.now(), Ok)?;
            let length_ns = mark.at_ns - last.at_ns;
            if end.is_some() && number > 0 && u128::from(length_ns) * 2 < self.every.as_nanos() {
                return Ok(());
            }
            let (all, latencies) = self.take();
            (self.publish)(&Interval {
                end_seconds: (mark.at_ns - began.at_ns) as f64 / 1e9,
                seconds: length_ns as f64 / 1e9,
                committed: all - committed,
                latencies,
                device_bytes: since(mark.device_bytes, last.device_bytes),
                file_bytes: file_bytes(dir)?,
            })?;
            if end.is_some() {
                return Ok(());
            }
            (last, committed, number) = (mark, all, number + 1);
        }
    }

    /// The number of commits so far, and the latencies since the previous call.
    fn take(&self) -> (u64, Latencies) {
        let (mut committed, mut latencies) = (0, Latencies::new());
        for thread in &self.threads {
            let empty = Latencies::new();
            let (of_thread, taken) = locked(thread).take(empty);
            committed += of_thread;
            latencies.add_all(&taken);
        }
        (committed, latencies)
    }

    /// The whole timed part, once it has ended.
    pub(super) fn whole(&self) -> Option<Whole> {
        let (began, ended) = (self.began.get()?, self.ended.get()?);
        let threads: Vec<CommitTimes> = self.threads.iter().map(|it| locked(it).clone()).collect();
        Some(Whole {
            stalls: Stalls::of(&threads, ended.at_ns - began.at_ns),
            device_bytes: since(ended.device_bytes, began.device_bytes),
        })
    }
}

/// A thread that panicked has left whole numbers.
fn locked(thread: &Mutex<CommitTimes>) -> MutexGuard<'_, CommitTimes> {
    thread.lock().unwrap_or_else(PoisonError::into_inner)
}
