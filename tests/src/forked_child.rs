//! A child that is forked and runs on in this program, as a server forks its workers.
#![expect(unsafe_code, reason = "forks, which no library here does")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A child that has not ended by then hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// A user without rights.
const UNPRIVILEGED: u32 = 65534;

/// Runs `work` in a forked child and says how that ended: true if it returned true. The child ends
/// without running what this process has registered for its own end.
///
/// # Panics
/// If there can be no child, or it hangs: it is killed then.
pub fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    match fork_here() {
        Some(done) => done,
        None => end_child(catch_unwind(AssertUnwindSafe(work)).unwrap_or(false)),
    }
}

/// Forks a child that goes on where its parent is: nothing in the child; in the parent, once the child has ended, whether
/// it did so by [`end_child`] with true.
///
/// # Panics
/// If there can be no child, or it hangs: it is killed then.
pub fn fork_here() -> Option<bool> {
    // SAFETY: the child runs on with a copy of this thread alone. It uses the memory allocator, which
    // the C library keeps usable after a fork, and nothing that another thread of this process may
    // have locked: that is what the caller promises, or is there to find out.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        return None;
    }
    let began = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: waits for the child made above, and stores its status in a variable of this function.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(waited >= 0, "cannot wait for the child");
        if waited == child {
            return Some(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        }
        if began.elapsed() > LONGEST {
            // SAFETY: the child was not waited for, so its id is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends a forked child, without running what its parent has registered for its own end.
pub fn end_child(done: bool) -> ! {
    // SAFETY: ends this process, and touches none of its memory.
    unsafe { libc::_exit(i32::from(!done)) }
}

/// Drops in a forked child what other threads of this process borrow and go on with; then runs `look` there, and says
/// whether it returned true.
///
/// # Panics
/// As [`in_forked_child`].
pub fn dropped_in_forked_child<T>(borrowed: &T, look: impl FnOnce() -> bool) -> bool {
    in_forked_child(|| {
        // SAFETY: the memory is the child's own copy. The threads that borrow it are not there, and nothing uses it
        // after this: the child ends after `look`, without running what this process has registered.
        drop(unsafe { std::ptr::read(borrowed) });
        look()
    })
}

/// From now on this process can start no thread, for ever: it gives up root, which no limit binds, and
/// allows its user no further one. To be called in a forked child.
///
/// # Panics
/// If the system refuses.
pub fn allow_no_threads() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: changes limits of this process alone, and reads `none`, which lives meanwhile.
    assert!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) } == 0);
    // SAFETY: changes what this process may do, and no memory.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: as above.
        assert!(unsafe { libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) } == 0);
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err());
}

/// Lets this process have a file or directory when it has given up root.
///
/// # Errors
/// Whatever the system says.
pub fn give_to_unprivileged(path: &Path) -> io::Result<()> {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give_to_unprivileged(&entry?.path())?;
        }
    }
    std::os::unix::fs::chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))
}
