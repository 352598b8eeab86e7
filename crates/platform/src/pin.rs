//! Which processors there are, and keeping a thread on one.
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
/// Whatever the operating system says.
pub fn available() -> io::Result<Vec<Cpu>> {
    let set = sched_getaffinity(None)?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(allowed.map(Cpu).collect())
}

/// Keeps the calling thread on `cpu` from now on.
///
/// # Errors
/// `InvalidInput` if there is no such processor or the process may not use it.
pub fn pin_current(cpu: Cpu) -> io::Result<()> {
    if cpu.0 >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no processor {}", cpu.0),
        ));
    }
    let mut set = CpuSet::new();
    set.set(cpu.0);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_processor_only() {
        // In a thread of its own, so that the test's is not pinned.
        std::thread::spawn(|| {
            let all = available().unwrap();
            assert!(!all.is_empty());
            let last = all[all.len() - 1];
            pin_current(last).unwrap();
            assert_eq!(available().unwrap(), [last]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            if available().unwrap().contains(&Cpu(cpu)) {
                continue;
            }
            let error = pin_current(Cpu(cpu)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
