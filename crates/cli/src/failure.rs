//! Failures of commands.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use namiki::query::{PlanTextError, QueryError};
use namiki::{BackupError, Generation, LoadError, Lsn, OpenError, ReadError, Stamp, WorkerId};
use namiki_segment::SegmentError;
use namiki_terminal::{CommandFailure, Ending, WaitInterrupted, number_format};

/// The reason for which a command failed. The message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A failure that is not specific to databases.
    #[error(transparent)]
    Command(#[from] CommandFailure),
    /// A temporary folder cannot be created here.
    #[error("cannot create a folder in {}; --dir or TMPDIR names another place", parent.display())]
    Temporary {
        /// The folder in which it was to be created.
        parent: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The path does not exist.
    #[error("{} does not exist; name the directory of a database", .0.display())]
    NoDirectory(PathBuf),
    /// The path is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory is that of a cluster's node, and its manifest is damaged.
    #[error("{} is damaged, so the folder of the node's tables is not known: name that itself, db or db2", .0.display())]
    NodeFile(PathBuf),
    /// The directory is not that of a database.
    #[error("{} holds files but no database: it has no MANIFEST; name the directory of a database", .0.display())]
    NotADatabase(PathBuf),
    /// The directory is empty, or the creation of a database was interrupted early.
    #[error("{} holds no database: it is empty, or the creation of one was interrupted before anything was in it", .0.display())]
    NoDatabase(PathBuf),
    /// The directory for a new database is not empty.
    #[error("{} is not empty, and the demo creates a new database; name a new or an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The table does not exist.
    #[error("there is no table {table:?}: {}", place(dir, there))]
    NoTable {
        /// The database's directory.
        dir: PathBuf,
        /// The name.
        table: String,
        /// The existing tables.
        there: Vec<String>,
    },
    /// A table in segments has columns, but neither a key nor a value.
    #[error(
        "table {table:?} is in segments, but this command is for tables in memory; namiki query {0} PLAN reads it, and namiki \
         export {0} --all writes it",
        dir.display()
    )]
    InSegments {
        /// The database's directory.
        dir: PathBuf,
        /// The table.
        table: String,
    },
    /// The key does not exist.
    #[error("table {table:?} has no key {key}")]
    NoKey {
        /// The table.
        table: String,
        /// The key, as text.
        key: String,
    },
    /// A row cannot be represented in CSV.
    #[error(
        "the {what} of the row with the key {key} in table {table:?} is not of type {of}, and CSV cannot represent that; export \
         the table with --format jsonl"
    )]
    NoCsv {
        /// The table.
        table: String,
        /// The row's key.
        key: String,
        /// `key` or `value`.
        what: String,
        /// Its type.
        of: String,
    },
    /// A line of a file is not a row that can be imported.
    #[error("line {line} of {}: {why}{}", path.display(), before_it(*done))]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The problem.
        why: String,
        /// Number of rows before it that are in the table.
        done: u64,
    },
    /// A file belongs to a table with other types.
    #[error(
        "table {table:?} maps {found}, and {} has rows of {expected}; import it into another table",
        path.display()
    )]
    OtherTypes {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The types of the table.
        found: String,
        /// The types of the file.
        expected: String,
    },
    /// All tables can only be exported into an empty folder.
    #[error("{} is not empty; name a new folder, or an empty one", .0.display())]
    FolderNotEmpty(PathBuf),
    /// A folder contains no complete export.
    #[error("{} holds no export: it has no tables.json, which namiki export --all writes last", .0.display())]
    NoExport(PathBuf),
    /// A database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A backup was not taken or restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The backup has no restore point at or before the time.
    #[error("{} has no restore point at or before {time}: {first}", backup.display())]
    NoRestorePoint {
        /// The backup.
        backup: PathBuf,
        /// The requested time.
        time: String,
        /// Its first restore point.
        first: String,
    },
    /// The clock was set back, so the time occurred more than once.
    #[error(
        "{} was at {time} more than once, because the computer's clock was set back: name one of the restore points {points} by its \
         number; --list shows all",
        backup.display()
    )]
    AmbiguousTime {
        /// The backup.
        backup: PathBuf,
        /// The requested time.
        time: String,
        /// The candidates.
        points: String,
    },
    /// A log cannot be read back.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// A transaction failed.
    #[error(transparent)]
    Transaction(#[from] namiki::Error),
    /// A table could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A query could not run, or has stopped.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The file is not a plan.
    #[error("{} is not a plan; docs/plan-files.md describes plans", path.display())]
    PlanFile {
        /// The file.
        path: PathBuf,
        /// The problem, with its place.
        #[source]
        source: PlanTextError,
    },
    /// A data segment is damaged.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A row's page is sound, but the row does not fit its table.
    #[error("a row of table {table:?} in {} does not fit the table's columns; load the table again", path.display())]
    RowNonsense {
        /// The table.
        table: String,
        /// The segment of its rows.
        path: PathBuf,
    },
    /// The pages of an index are sound, but its keys are not those of the table's rows.
    #[error(
        "index {index:?} of table {table:?}, in {}, does not have the keys of the table's rows; load the table again",
        path.display()
    )]
    IndexDiffers {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The segment of its entries.
        path: PathBuf,
    },
    /// Files of a database exist, but its manifest is missing.
    #[error("{} is missing, although {} is there; restore it from a backup", manifest.display(), left.display())]
    ManifestMissing {
        /// The expected path of the manifest.
        manifest: PathBuf,
        /// The log, or the table journal.
        left: PathBuf,
    },
    /// The manifest contradicts itself.
    #[error("the manifest {} is damaged: {why}; restore it from a backup", path.display())]
    ManifestNonsense {
        /// The manifest.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A frame is complete and its checksum holds, but its contents are invalid.
    #[error(
        "{worker} of {generation} of the log: frame {sequence} is complete but invalid: {why}; restore the log from a \
         backup"
    )]
    FrameNonsense {
        /// The log's generation.
        generation: Generation,
        /// The stream.
        worker: WorkerId,
        /// The frame.
        sequence: u64,
        /// The problem.
        why: String,
    },
    /// A log sequence number occurs twice.
    #[error(
        "{lsn} occurs twice in {generation} of the log, the second time with {stamp}: files were copied or swapped; restore \
         the log from a backup"
    )]
    Twice {
        /// The log's generation.
        generation: Generation,
        /// The number.
        lsn: Lsn,
        /// The second commit that has it.
        stamp: Stamp,
    },
    /// The process that runs the payments ended before it was killed.
    #[error(
        "the process that ran the payments ended by itself ({status}) before it was killed{}",
        after_colon(said)
    )]
    VictimEnded {
        /// Its exit status.
        status: ExitStatus,
        /// Its message.
        said: String,
    },
    /// A program that this one starts is not installed.
    #[error(
        "there is no {}, {}: neither {} nor on PATH ({}); build it with {}",
        program,
        purpose,
        beside.as_ref().map_or("beside this program".to_owned(), |dir| format!("in {}", dir.display())),
        on_path.display(),
        build
    )]
    NoCompanion {
        /// Its file name.
        program: &'static str,
        /// Its purpose.
        purpose: &'static str,
        /// The command that builds it.
        build: &'static str,
        /// The folder of this program, if known.
        beside: Option<PathBuf>,
        /// The value of PATH.
        on_path: OsString,
    },
    /// The demo found missing data, and has printed which.
    #[error("the database is not as it was acknowledged; please report this as a bug")]
    Broken,
    /// The demo ended before a payment was acknowledged, so it has shown nothing.
    #[error(
        "no payment was acknowledged before the kill, so nothing was put to the test; pay for longer, with --seconds"
    )]
    NothingAcknowledged,
}

/// The clause about the rows before a bad line.
fn before_it(done: u64) -> String {
    match done {
        0 => String::new(),
        done => format!(
            "; {} before it are imported: correct the line, and continue with --resume",
            number_format::counted(done, "row")
        ),
    }
}

/// The clause about the existing tables.
fn place(dir: &Path, there: &[String]) -> String {
    let dir = dir.display();
    match there {
        [] => format!("{dir} has no tables yet"),
        some => {
            let names: Vec<String> = some.iter().map(|name| format!("{name:?}")).collect();
            format!("{dir} has {}", names.join(", "))
        }
    }
}

/// A process's standard error, as the continuation of a sentence.
fn after_colon(said: &str) -> String {
    let said = said.trim();
    match said.strip_prefix("namiki: ").unwrap_or(said) {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

impl Failure {
    /// Its effect on the program's end.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Command(failure) => failure.ending(),
            Self::Open(OpenError::Interrupted)
            | Self::Load(LoadError::Interrupted)
            | Self::Backup(BackupError::Interrupted) => Ending::Interrupted,
            Self::Backup(BackupError::Source(source))
                if matches!(**source, OpenError::Interrupted) =>
            {
                Ending::Interrupted
            }
            _ => Ending::Failed,
        }
    }

    /// The failure of a read of a file, or of standard input.
    pub(crate) fn input(path: &Path, error: io::Error) -> Self {
        if WaitInterrupted::is(&error) {
            CommandFailure::Interrupted.into()
        } else {
            device("read", path)(error)
        }
    }

    /// The failure of a write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        CommandFailure::output(error).into()
    }
}

/// [`CommandFailure::device`] as a failure of this program.
pub(crate) fn device(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let failed = CommandFailure::device(doing, path);
    move |source| failed(source).into()
}

/// The failure of an invalid command line.
pub(crate) fn usage(why: impl Into<String>) -> Failure {
    CommandFailure::Usage(why.into()).into()
}
