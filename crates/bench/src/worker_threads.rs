//! Threads of a run: started, pinned to processors if requested, and joined.

use std::thread::{Scope, ScopedJoinHandle};

use namiki_platform::cpu_affinity::{self, Cpu};

use crate::args::Switch;
use crate::error::BenchError;

/// Starts `count` threads, each pinned to a processor if requested and if there are enough.
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
                    // If the processor has been taken away since, this costs accuracy and not
                    // correctness.
                    let _ = cpu_affinity::pin_current(&[cpu]);
                }
                body(thread)
            })
        })
        .collect()
}

/// Runs `body`, and the threads that it starts, on `count` processors alone if requested and if
/// there are enough. For threads that a library starts and that cannot be pinned one by one.
pub(crate) fn on_processors<T: Send>(
    count: usize,
    pin: Switch,
    body: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let cpus = processors(count, pin);
    std::thread::scope(|scope| {
        // A new thread, so that the affinity of this one does not change.
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

/// The results of all threads, or the first failure.
pub(crate) fn join<T>(
    threads: Vec<ScopedJoinHandle<'_, Result<T, BenchError>>>,
) -> Result<Vec<T>, BenchError> {
    let results: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    results
        .into_iter()
        .map(|result| result.unwrap_or(Err(BenchError::Panicked)))
        .collect()
}

/// The share of `thread` in `total`, divided among `threads`. The shares add up to `total`.
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
