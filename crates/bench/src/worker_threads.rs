//! Threads of a run: started, each on a processor of its own if asked for, and joined.

use std::thread::{Scope, ScopedJoinHandle};

use namiki_platform::cpu_affinity::{self, Cpu};

use crate::args::Switch;
use crate::error::BenchError;

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
}
