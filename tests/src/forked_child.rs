//! A forked child that continues in this program, as a server forks its workers.
#![expect(unsafe_code, reason = "forks, which no library here does")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A child that runs longer is considered hung.
const LONGEST: Duration = Duration::from_secs(60);

/// The id of an unprivileged user.
const UNPRIVILEGED: u32 = 65534;

/// Runs `work` in a forked child. Returns true if the child returned true. The child ends without
/// running this process's exit handlers.
///
/// # Panics
/// If the child cannot be created, or hangs; then it is killed.
pub fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    match fork_here() {
        Some(done) => done,
        None => end_child(catch_unwind(AssertUnwindSafe(work)).unwrap_or(false)),
    }
}

/// Forks a child that continues at this point. Returns `None` in the child. In the parent, returns
/// after the child has ended: true if it called [`end_child`] with true.
///
/// # Panics
/// If the child cannot be created, or hangs; then it is killed.
pub fn fork_here() -> Option<bool> {
    // SAFETY: the child continues with a copy of this thread alone. It uses the memory allocator,
    // which the C library keeps usable after a fork, and nothing that another thread of this
    // process may have locked: the caller promises that, or tests it.
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

/// Ends a forked child without running the exit handlers of its parent.
pub fn end_child(done: bool) -> ! {
    // SAFETY: ends this process, and touches none of its memory.
    unsafe { libc::_exit(i32::from(!done)) }
}

/// Drops a value in a forked child that other threads of this process borrow and continue to use.
/// Then runs `look` in the child, and returns whether it returned true.
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

/// Prevents this process from starting threads for the rest of its life: it sets the limit of its
/// user to zero, and gives up root, which is exempt from the limit. Call it in a forked child.
///
/// # Panics
/// If the system call fails.
pub fn allow_no_threads() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: changes limits of this process alone, and reads `none`, which lives during the call.
    assert!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) } == 0);
    // SAFETY: changes the process's privileges, and no memory.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: as above.
        assert!(unsafe { libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) } == 0);
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err());
}

/// Keeps a file or directory accessible to this process after it has given up root.
///
/// # Errors
/// Those of the system call.
pub fn give_to_unprivileged(path: &Path) -> io::Result<()> {
    // SAFETY: only returns a number.
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
