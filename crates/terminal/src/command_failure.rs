//! Failures that any command may have, and their exit status.
//!
//! The exit status is 0 on success, 1 if something failed or was found wrong, 2 if the command line
//! is invalid, 130 after Ctrl-C (except for commands that are meant to end so).

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A failure that is independent of the command's subject. Programs wrap it in failures of their
/// own.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Ctrl-C was pressed when everything was done.
    #[error("interrupted at the very end: everything was done")]
    InterruptedAtTheEnd,
    /// Standard output was closed by its reader. This is not reported.
    #[error("standard output was closed")]
    OutputClosed,
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// The system cannot start a thread.
    #[error("cannot start a thread; `ulimit -u` shows the limit for this user")]
    NoThread(#[source] io::Error),
    /// A file, a directory or a process of our own cannot be used.
    #[error("cannot {doing} {}", path.display())]
    Device {
        /// The verb of the operation, such as "read".
        doing: &'static str,
        /// The file, directory or process.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Ctrl-C was pressed while the program waited for a descriptor (`interrupt.rs`).
#[derive(Debug, thiserror::Error)]
#[error("interrupted while waiting for another program")]
pub struct WaitInterrupted;

impl WaitInterrupted {
    /// Whether an error is this one.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|why| why.is::<Self>())
    }
}

impl CommandFailure {
    /// The failure of something that was tried on a file, a folder or a process.
    pub fn device(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Device {
            doing,
            path,
            source,
        }
    }

    /// The failure of a write to standard output.
    #[must_use]
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            _ if WaitInterrupted::is(&error) => Self::Interrupted,
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }

    /// Its effect on the program's end.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match self {
            Self::Usage(_) => Ending::Usage,
            Self::Interrupted | Self::InterruptedAtTheEnd => Ending::Interrupted,
            Self::OutputClosed => Ending::OutputClosed,
            Self::Output(_) | Self::NoThread(_) | Self::Device { .. } => Ending::Failed,
        }
    }
}

/// The end of a program after a failure: its exit status, and whether it counts as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The reader of the output has read enough, as in `namiki dump-log DIR | head`.
    OutputClosed,
    /// Something failed, or was found wrong.
    Failed,
    /// The command line is invalid.
    Usage,
    /// Ctrl-C.
    Interrupted,
}

impl Ending {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Failed => ExitCode::from(1),
            Self::Usage => ExitCode::from(2),
            Self::Interrupted => ExitCode::from(130),
        }
    }
}
