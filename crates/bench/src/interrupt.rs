//! Ctrl-C ends the run that is under way; its row is still checked and printed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use crate::error::BenchError;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Listens for Ctrl-C from now on. A second one ends the program at once.
pub(crate) fn install() -> Result<(), BenchError> {
    ctrlc::set_handler(|| {
        // Relaxed: the flag carries no other data.
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("ending the run; once more to quit at once");
    })
    .map_err(|error| BenchError::System {
        doing: "listen for Ctrl-C",
        source: std::io::Error::other(error),
    })
}

/// Whether Ctrl-C was pressed.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error once Ctrl-C was pressed: between runs, nothing is lost by leaving.
pub(crate) fn check() -> Result<(), BenchError> {
    if asked() {
        return Err(BenchError::Interrupted);
    }
    Ok(())
}

/// The flag itself, for whoever looks at it by themselves.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&ASKED)
}
