//! Ctrl-C: the first asks whatever runs to stop soon, the second stops it at once.
//!
//! Whatever runs looks at a flag. What waits for standard output to be read cannot, and is woken by a descriptor
//! (`output.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use rustix::event::{EventfdFlags, eventfd};

use crate::failure::Failure;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Readable from the first Ctrl-C on.
static WAKE: OnceLock<OwnedFd> = OnceLock::new();
/// Ctrl-C is how the command is meant to end.
static IS_THE_END: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C (and a request to terminate) is noted instead of ending the process.
pub(crate) fn listen() {
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

/// The same, for a command that runs until Ctrl-C: it ends well then.
pub(crate) fn listen_for_the_end() {
    IS_THE_END.store(true, Ordering::Relaxed);
    listen();
}

/// Becomes true with the first Ctrl-C.
pub(crate) fn asked() -> &'static Arc<AtomicBool> {
    &ASKED
}

/// A descriptor that is readable from the first Ctrl-C on.
pub(crate) fn wake() -> Option<BorrowedFd<'static>> {
    WAKE.get().map(OwnedFd::as_fd)
}

/// Fails once Ctrl-C was pressed.
pub(crate) fn check() -> Result<(), Failure> {
    if ASKED.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// Whether Ctrl-C was pressed in a command that was not meant to end so.
pub(crate) fn is_unexpected() -> bool {
    ASKED.load(Ordering::Relaxed) && !IS_THE_END.load(Ordering::Relaxed)
}
