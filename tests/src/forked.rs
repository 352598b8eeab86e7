//! A child that is forked and runs on in this program, as a server forks its workers.
#![expect(unsafe_code, reason = "forks, which no library here does")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// A child that has not ended by then hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs `work` in a forked child and says how that ended: true if it returned true. The child ends
/// without running what this process has registered for its own end.
///
/// # Panics
/// If there can be no child, or it hangs: it is killed then.
pub fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs on with a copy of this thread alone. It uses the memory allocator, which
    // the C library keeps usable after a fork, and nothing that another thread of this process may
    // have locked: that is what `work` promises, or is there to find out.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: ends this process, and touches none of its memory.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    let began = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: waits for the child made above, whose status goes into a variable of this function.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(waited >= 0, "cannot wait for the child");
        if waited == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        if began.elapsed() > LONGEST {
            // SAFETY: the child was not waited for, so its id is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}
