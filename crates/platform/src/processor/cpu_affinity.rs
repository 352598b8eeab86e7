//! Which processors there are, and keeping a thread on some of them.
//!
//! Two busy threads that are not pinned sometimes share a processor while another is idle, which
//! ruins a measurement.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A processor, as the operating system numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu(pub usize);

/// The processors on which the calling thread may run, in order: all that the process was given,
/// unless it has been pinned.
///
/// # Errors
/// The error of the operating system.
pub fn available() -> io::Result<Vec<Cpu>> {
    let set = sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(allowed.map(Cpu).collect())
}

/// Keeps the calling thread, and all that it will start, on these processors from now on.
///
/// # Errors
/// `InvalidInput` if one of them cannot exist, or the process may use none.
pub fn pin_current(cpus: &[Cpu]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if cpu.0 >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("there is no processor {}", cpu.0),
            ));
        }
        set.set(cpu.0);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a thread of its own, so that the test's is not pinned.
    fn pinned_to(cpus: &[Cpu]) -> io::Result<Vec<Cpu>> {
        std::thread::scope(|scope| {
            let pinned = scope.spawn(|| {
                pin_current(cpus)?;
                std::thread::scope(|scope| scope.spawn(available).join().unwrap())
            });
            pinned.join().unwrap()
        })
    }

    #[test]
    fn pinned_threads_and_their_children_stay_pinned() {
        let all = available().unwrap();
        let last = &all[all.len() - 1..];
        assert_eq!(pinned_to(last).unwrap(), last);
        assert_eq!(pinned_to(&all).unwrap(), all);
        assert_eq!(available().unwrap(), all);
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            if available().unwrap().contains(&Cpu(cpu)) {
                continue;
            }
            let error = pinned_to(&[Cpu(cpu)]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let none = pinned_to(&[]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    }
}
