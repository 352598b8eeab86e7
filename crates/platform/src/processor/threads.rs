//! Starting threads, which the system may refuse: a container limits how many there are.
//!
//! Code that starts a thread handles the failure to do so: the caller can do most of the work.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

thread_local! {
    /// Number of threads that this one can still start; `None` if the system decides.
    static ALLOWED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The processors that this process may use, or one if the system does not say.
///
/// The system is asked once: it reads files about the process and its control groups, which takes
/// longer than opening a small database.
#[must_use]
pub fn processors() -> NonZeroUsize {
    static PROCESSORS: OnceLock<NonZeroUsize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

/// Starts a thread.
///
/// # Errors
/// Whatever the system says, such as `WouldBlock` where a limit is reached (`pids.max`,
/// `RLIMIT_NPROC`).
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    ask_limit()?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Starts a thread in a scope.
///
/// # Errors
/// As [`start`].
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    ask_limit()?;
    Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work)
}

/// For tests: runs `work`, in which this thread can start at most this number of threads.
#[doc(hidden)]
pub fn with_limit<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<usize>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALLOWED.set(self.0);
        }
    }
    let _restore = Restore(ALLOWED.replace(Some(threads)));
    work()
}

fn ask_limit() -> io::Result<()> {
    match ALLOWED.get() {
        None => Ok(()),
        Some(0) => Err(io::ErrorKind::WouldBlock.into()),
        Some(more) => {
            ALLOWED.set(Some(more - 1));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_what_runs_under_it() {
        with_limit(1, || {
            start("one", || ()).unwrap().join().unwrap();
            assert!(start("two", || ()).is_err());
            std::thread::scope(|scope| assert!(start_scoped(scope, "three", || ()).is_err()));
        });
        start("four", || ()).unwrap().join().unwrap();
    }
}
