//! Ctrl-C ends the current run; its row is still checked and printed.
//!
//! A second Ctrl-C ends the program immediately and runs no destructor. Files that must be removed
//! at the end are therefore registered with [`remove_at_exit`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::error::BenchError;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The files and folders that a second Ctrl-C removes.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Maximal number of attempts to remove a folder in which threads still create files.
const REMOVALS_MAX: u32 = 100;

/// Installs the handler for Ctrl-C and for requests to terminate.
pub(crate) fn install() -> Result<(), BenchError> {
    ctrlc::set_handler(|| {
        // Relaxed: the flag carries no other data.
        if ASKED.swap(true, Ordering::Relaxed) {
            remove_scratch();
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

/// Returns an error after Ctrl-C. Leaving between runs loses no results.
pub(crate) fn check() -> Result<(), BenchError> {
    if asked() {
        return Err(BenchError::Interrupted);
    }
    Ok(())
}

/// The flag itself, for code that polls it.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&ASKED)
}

/// Registers a file or folder for removal by a second Ctrl-C while the mark is held.
pub(crate) fn remove_at_exit(path: &Path) -> ScratchMark {
    scratch().push(path.to_owned());
    ScratchMark(path.to_owned())
}

/// Marks a file or folder that must not outlive the program.
#[derive(Debug)]
pub(crate) struct ScratchMark(PathBuf);

impl Drop for ScratchMark {
    fn drop(&mut self) {
        scratch().retain(|path| *path != self.0);
    }
}

fn scratch() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    // A panic of a holder leaves the list of paths valid.
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_scratch() {
    let paths = scratch().clone();
    for _ in 0..REMOVALS_MAX {
        for path in &paths {
            // The next round retries a removal that fails.
            let _ = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
        }
        if !paths.iter().any(|path| path.exists()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for path in paths.iter().filter(|path| path.exists()) {
        eprintln!("{} is left behind", path.display());
    }
}
