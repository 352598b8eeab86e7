//! Ctrl-C: the first asks whatever runs to stop soon, the second stops it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use crate::failure::Failure;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on Ctrl-C (and a request to terminate) is noted instead of ending the process.
pub(crate) fn listen() {
    // It can only fail if the system has no signals to listen to; Ctrl-C then ends the process as
    // it always did.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Becomes true with the first Ctrl-C.
pub(crate) fn asked() -> &'static Arc<AtomicBool> {
    &ASKED
}

/// Fails once Ctrl-C was pressed.
pub(crate) fn check() -> Result<(), Failure> {
    if ASKED.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    Ok(())
}
