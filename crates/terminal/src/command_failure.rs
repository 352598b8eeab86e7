//! How any command may fail, whatever it is about, and the exit status that says so.
//!
//! It is 0 if all is well, 1 if something failed or was found wrong, 2 if the command line makes no sense, 130
//! after Ctrl-C (but for commands that are meant to end so).

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command failed, where that has nothing to do with what it is about. Programs wrap it in what else can fail.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// The command line asks for something that there is not.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Ctrl-C came when all was done.
    #[error("interrupted at the very end: all was done")]
    InterruptedAtTheEnd,
    /// Standard output was closed by its reader. No reason to complain.
    #[error("standard output was closed")]
    OutputClosed,
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// The system starts no thread.
    #[error("cannot start a thread; `ulimit -u` says how many this user may have")]
    NoThread(#[source] io::Error),
    /// A file, a directory or a process of our own cannot be used.
    #[error("cannot {doing} {}", path.display())]
    Device {
        /// What was being done, as in "read".
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Ctrl-C was pressed while a descriptor was waited for (`interrupt.rs`).
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

    /// What it means for the program.
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

/// What a failure means for the program: its exit status, and whether it is one at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The reader of the output has read enough, as in `namiki dump-log DIR | head`.
    OutputClosed,
    /// Something failed, or was found wrong.
    Failed,
    /// The command line makes no sense.
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
