//! Errors that end a command, and their exit statuses.

use std::io;
use std::path::PathBuf;

use namiki::{LogError, OpenError, ReadError};
use namiki_index::IndexError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// A run's self-check failed: a bug in the measured code, or in the benchmark.
    #[error("check failed: {0}")]
    Check(String),
    /// The user pressed Ctrl-C. The results measured until then have been printed.
    #[error("interrupted")]
    Interrupted,
    /// A thread of a run panicked; its message is on standard error.
    #[error("a thread of the run panicked")]
    Panicked,
    /// The database could not be opened.
    #[error("cannot open the database")]
    Open(#[source] OpenError),
    /// A transaction failed permanently.
    #[error("a transaction failed")]
    Transaction(#[from] namiki::Error),
    /// The log failed.
    #[error("the log failed")]
    Log(#[from] LogError),
    /// An index refused a key or a payload.
    #[error("the index refused an operation")]
    Index(#[from] IndexError),
    /// A store under comparison failed.
    #[cfg(feature = "compare")]
    #[error("{store} failed")]
    Store {
        /// The name of the store.
        store: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A cluster does not start, or one of its commands fails.
    #[error("{0}")]
    Cluster(String),
    /// A client of a cluster failed.
    #[error("a client failed")]
    Client(#[from] namiki_client::ClientError),
    /// A query failed.
    #[error("the query failed")]
    Query(#[source] namiki_exec::ExecError),
    /// The tables to query could not be created.
    #[error("tables cannot be loaded")]
    Load(#[source] namiki::LoadError),
    /// A file with rows cannot be read.
    #[error("a table cannot be read")]
    Segment(#[from] namiki_segment::SegmentError),
    /// A log that was just written cannot be read back.
    #[error("the log cannot be read back")]
    Read(#[from] ReadError),
    /// A file or folder operation failed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The operation that failed.
        doing: &'static str,
        /// The file or folder concerned.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A folder for temporary files cannot be created here.
    #[error("cannot create a folder in {}; --dir or TMPDIR names another place", parent.display())]
    Scratch {
        /// The parent of that folder.
        parent: PathBuf,
        #[source]
        source: io::Error,
    },
    /// An operation of the operating system on something other than a file failed.
    #[error("cannot {doing}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    /// Standard output does not accept the results.
    #[error("cannot write the results")]
    Output(#[source] io::Error),
}

impl From<OpenError> for BenchError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Interrupted => Self::Interrupted,
            error => Self::Open(error),
        }
    }
}

impl BenchError {
    /// Adds the file's name to its error.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            doing,
            path,
            source,
        }
    }

    /// Adds the operation to an error of the system.
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    /// 2 for a command line that makes no sense, as `clap` has it; 130, which shells report after
    /// Ctrl-C; 1 for all other errors.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
            _ => 1,
        }
    }

    /// Whether the reader of the results has closed its end, as `head` does. This is not reported.
    pub(crate) fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The error and what caused it, in one line.
    pub(crate) fn with_causes(&self) -> String {
        namiki_platform::ErrorSentence(self).to_string()
    }
}
