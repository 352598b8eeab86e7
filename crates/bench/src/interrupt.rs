//! Ctrl-C ends the run that is under way; its row is still checked and printed.
//!
//! A second one ends the program immediately. Nothing is dropped then, so files that must be removed at the
//! end are registered with [`remove_at_exit`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::error::BenchError;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// What a second Ctrl-C removes.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How often a folder is removed again that threads still make files in.
const REMOVALS_MAX: u32 = 100;

/// Listens for Ctrl-C, and requests to terminate, from now on.
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

/// An error once Ctrl-C was pressed: between runs, nothing is lost by leaving.
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

/// Has a second Ctrl-C remove this file or folder as long as the mark is held.
pub(crate) fn remove_at_exit(path: &Path) -> ScratchMark {
    scratch().push(path.to_owned());
    ScratchMark(path.to_owned())
}

/// Says that a file or folder does not outlive the program.
#[derive(Debug)]
pub(crate) struct ScratchMark(PathBuf);

impl Drop for ScratchMark {
    fn drop(&mut self) {
        scratch().retain(|path| *path != self.0);
    }
}

fn scratch() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is in order whatever its holder did.
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_scratch() {
    let paths = scratch().clone();
    for _ in 0..REMOVALS_MAX {
        for path in &paths {
            // What cannot be removed now is tried again below.
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
