//! Why a command ended without having done what it was asked to.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use namiki::query::{PlanTextError, QueryError};
use namiki::{BackupError, Generation, LoadError, Lsn, OpenError, ReadError, Stamp, WorkerId};
use namiki_segment::SegmentError;
use namiki_terminal::{CommandFailure, Ending, WaitInterrupted, number_format};

/// Why a command failed. The message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It is not about databases.
    #[error(transparent)]
    Command(#[from] CommandFailure),
    /// There can be no temporary folder here.
    #[error("cannot make a folder in {}; --dir or TMPDIR names another place", parent.display())]
    Temporary {
        /// Where it was to be.
        parent: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is nothing of this name.
    #[error("{} does not exist; name the directory of a database", .0.display())]
    NoDirectory(PathBuf),
    /// The path names something else.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory to be read is some other one.
    #[error("{} holds files but no database: it has no MANIFEST; name the directory of a database", .0.display())]
    NotADatabase(PathBuf),
    /// The directory is empty, or the creation of a database was interrupted before there was one.
    #[error("{} holds no database: it is empty, or the creation of one was interrupted before anything was in it", .0.display())]
    NoDatabase(PathBuf),
    /// The directory for a new database is not empty.
    #[error("{} is not empty, and the demo makes a new database; name a new or an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// There is no table of this name.
    #[error("there is no table {table:?}: {}", place(dir, there))]
    NoTable {
        /// The database's directory.
        dir: PathBuf,
        /// The name.
        table: String,
        /// The tables that there are.
        there: Vec<String>,
    },
    /// A table in segments has columns, and neither a key nor a value.
    #[error(
        "table {table:?} is in segments, and this is for tables in memory; namiki query {0} PLAN reads it, and namiki \
         export {0} --all writes it",
        dir.display()
    )]
    InSegments {
        /// The database's directory.
        dir: PathBuf,
        /// The table.
        table: String,
    },
    /// The key is not there.
    #[error("table {table:?} has no key {key}")]
    NoKey {
        /// The table.
        table: String,
        /// The key, as it is shown.
        key: String,
    },
    /// What is in a row has no form in CSV.
    #[error(
        "the {what} of the row with the key {key} in table {table:?} is no {of}, and CSV has no form for that; export \
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
    /// A line of a file is no row that can be imported.
    #[error("line {line} of {}: {why}{}", path.display(), before_it(*done))]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
        /// Rows before it that are in the table.
        done: u64,
    },
    /// A file is of a table with other types.
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
        /// Those of the file.
        expected: String,
    },
    /// All tables are exported into an empty folder alone.
    #[error("{} is not empty; name a new folder, or an empty one", .0.display())]
    FolderNotEmpty(PathBuf),
    /// A folder has no export in it that ended.
    #[error("{} holds no export: it has no tables.json, which namiki export --all writes last", .0.display())]
    NoExport(PathBuf),
    /// A database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A backup was not taken or restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The backup has no restore point that is so old.
    #[error("{} has no restore point at or before {time}: {first}", backup.display())]
    NoRestorePoint {
        /// The backup.
        backup: PathBuf,
        /// The time that was asked for.
        time: String,
        /// What it has.
        first: String,
    },
    /// The clock was set back, and showed the time more than once.
    #[error(
        "{} was at {time} more than once, because the computer's clock was set back: name one of the restore points {points} by its \
         number; --list shows all",
        backup.display()
    )]
    AmbiguousTime {
        /// The backup.
        backup: PathBuf,
        /// The time that was asked for.
        time: String,
        /// The points that it may mean.
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
    /// A query was not run, or has stopped.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The file is no plan.
    #[error("{} is no plan; docs/plan-files.md says what one has", path.display())]
    PlanFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        source: PlanTextError,
    },
    /// A segment of the image is not as it was written.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A row's page is sound, and the row is none of its table.
    #[error("a row of table {table:?} in {} does not fit the table's columns; load the table again", path.display())]
    RowNonsense {
        /// The table.
        table: String,
        /// The segment of its rows.
        path: PathBuf,
    },
    /// The pages of an index are sound, and it is another table's.
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
    /// There are files of a database and nothing that says what they are.
    #[error("{} is missing, although {} is there; restore it from a backup", manifest.display(), left.display())]
    ManifestMissing {
        /// Where the manifest should be.
        manifest: PathBuf,
        /// The log, or the table journal.
        left: PathBuf,
    },
    /// The manifest contradicts itself.
    #[error("the manifest {} is damaged: {why}; restore it from a backup", path.display())]
    ManifestNonsense {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A frame is whole, its checksum holds, and yet it makes no sense.
    #[error(
        "{worker} of {generation} of the log: frame {sequence} is whole but makes no sense: {why}; restore the log from a \
         backup"
    )]
    FrameNonsense {
        /// The log's generation.
        generation: Generation,
        /// The stream.
        worker: WorkerId,
        /// The frame.
        sequence: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A log sequence number was given out twice.
    #[error(
        "{lsn} is twice in {generation} of the log, the second time with {stamp}: files were copied or swapped; restore \
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
        /// How it ended.
        status: ExitStatus,
        /// What it said about that.
        said: String,
    },
    /// A program that this one starts is not installed.
    #[error(
        "there is no {}, {}: neither {} nor on PATH ({}); build it with cargo build --release -p {}",
        program,
        purpose,
        beside.as_ref().map_or("beside this program".to_owned(), |dir| format!("in {}", dir.display())),
        on_path.display(),
        package
    )]
    NoCompanion {
        /// Its file.
        program: &'static str,
        /// What it is for.
        purpose: &'static str,
        /// The package that it is built from.
        package: &'static str,
        /// The folder of this program, if that is known.
        beside: Option<PathBuf>,
        /// The folders of the environment.
        on_path: OsString,
    },
    /// The demo found something missing. What, it has said.
    #[error("the database is not as it was acknowledged; please report this as a bug")]
    Broken,
    /// The demo was over before a payment was acknowledged, so it has shown nothing.
    #[error(
        "no payment was acknowledged before the kill, so nothing was put to the test; pay for longer, with --seconds"
    )]
    NothingAcknowledged,
}

/// What is known of the rows before a bad line.
fn before_it(done: u64) -> String {
    match done {
        0 => String::new(),
        done => format!(
            "; {} before it are imported: mend the line, and go on with --resume",
            number_format::counted(done, "row")
        ),
    }
}

/// The tables that there are.
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

/// What a process said on standard error, to go on a sentence with.
fn after_colon(said: &str) -> String {
    let said = said.trim();
    match said.strip_prefix("namiki: ").unwrap_or(said) {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

impl Failure {
    /// What it means for the program.
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

/// The failure of a command line that makes no sense.
pub(crate) fn usage(why: impl Into<String>) -> Failure {
    CommandFailure::Usage(why.into()).into()
}
