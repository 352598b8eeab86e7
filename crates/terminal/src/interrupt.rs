//! Ctrl-C: the first asks the running command to stop soon, the second ends the process at once.
//!
//! Running code checks a flag. Code that waits for a descriptor cannot: for standard output to be
//! read (`output.rs`), or for input to be written (`input.rs`). It also waits for a second
//! descriptor ([`wait_for`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::command_failure::{CommandFailure, WaitInterrupted};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Readable from the first Ctrl-C on.
static WAKE: OnceLock<OwnedFd> = OnceLock::new();
/// Ctrl-C is how the command is meant to end.
static IS_THE_END: AtomicBool = AtomicBool::new(false);

/// Installs the handler: from now on Ctrl-C (and SIGTERM) sets the flag instead of ending the
/// process.
pub fn listen() {
    // Without it, a command that waits for its output to be read ends with the second Ctrl-C.
    if let Ok(wake) = eventfd(0, EventfdFlags::CLOEXEC) {
        let _ = WAKE.set(wake);
    }
    // It can only fail if the system has no signals to listen to; Ctrl-C then ends the process as
    // it always did.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        if let Some(wake) = WAKE.get() {
            // It cannot fail: it adds one to zero.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    });
}

/// The same, for a command that runs until Ctrl-C, which then is its normal end.
pub fn listen_for_the_end() {
    IS_THE_END.store(true, Ordering::Relaxed);
    listen();
}

/// Becomes true with the first Ctrl-C.
#[must_use]
pub fn asked() -> &'static Arc<AtomicBool> {
    &ASKED
}

/// Waits until a descriptor is ready, or Ctrl-C was pressed.
///
/// # Errors
/// [`WaitInterrupted`], if it was, and the descriptor is not ready. That of the system.
pub fn wait_for(descriptor: impl AsFd, ready: PollFlags) -> io::Result<()> {
    let Some(wake) = WAKE.get() else {
        return Ok(());
    };
    let mut descriptors = [
        PollFd::from_borrowed_fd(descriptor.as_fd(), ready),
        PollFd::new(wake, PollFlags::IN),
    ];
    loop {
        match poll(&mut descriptors, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A ready descriptor takes precedence: rows that were printed before Ctrl-C must be seen.
    if descriptors[0].revents().is_empty() {
        return Err(io::Error::other(WaitInterrupted));
    }
    Ok(())
}

/// Fails once Ctrl-C was pressed.
///
/// # Errors
/// [`CommandFailure::Interrupted`].
pub fn check() -> Result<(), CommandFailure> {
    if ASKED.load(Ordering::Relaxed) {
        return Err(CommandFailure::Interrupted);
    }
    Ok(())
}

/// Whether Ctrl-C was pressed in a command that was not meant to end so.
#[must_use]
pub fn is_unexpected() -> bool {
    ASKED.load(Ordering::Relaxed) && !IS_THE_END.load(Ordering::Relaxed)
}
