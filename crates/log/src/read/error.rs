//! Errors of reading a log.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::debug_as_sentence;
use namiki_platform::disk::{FileKind, NotADirectory, NotAFile};
use namiki_platform::{Generation, Lsn, WorkerId};

use crate::format::VERSION;

debug_as_sentence!(ReadError);

/// The log is that of a database, or of a node of a cluster, for which an old copy is no remedy.
const REMEDY: &str =
    "restore the database from a backup, or, if this is a node of a cluster, replace the node";

/// The reason that a log cannot be read. None of it should be replayed then.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Something that was hardened is gone: damage, not the torn tail of a crash. Restore from a
    /// copy.
    #[error("{}", damaged(file, *offset_bytes, *missing, what))]
    Damaged {
        /// The file, or the directory if that is missing.
        file: PathBuf,
        /// The offset of the first missing byte.
        offset_bytes: u64,
        /// Whether there is no such file or directory at all; `offset_bytes` is 0 then.
        missing: bool,
        /// The damage.
        what: &'static str,
    },
    /// Commits are missing although a later frame says that they were hardened.
    #[error(
        "{lsn} is missing from the log, although everything below {horizon} was hardened; {REMEDY}"
    )]
    HardenedMissing {
        /// The first that is missing.
        lsn: Lsn,
        /// The horizon that a frame recorded.
        horizon: Lsn,
    },
    /// The first log file of a stream that is kept is missing, or the frame with which it begins:
    /// lost, for what was recycled lies before it.
    #[error(
        "log file {} is missing, or its first frame: the manifest says that the log of {worker} begins there, with \
         frame {sequence}; {REMEDY}",
        file.display()
    )]
    BeginningLost {
        /// The log file.
        file: PathBuf,
        /// The stream.
        worker: WorkerId,
        /// The sequence number of the frame.
        sequence: u64,
    },
    /// A frame is there that the manifest does not know of: the manifest is older than the log, or
    /// was changed. Continuing with it would lose later acknowledged commits.
    #[error(
        "log file {} holds commits of {worker} in {generation}, of which the manifest does not know: it \
         is older than the log; restore the manifest that belongs to it",
        file.display()
    )]
    NotInManifest {
        /// The file.
        file: PathBuf,
        /// The generation that the frame is of.
        generation: Generation,
        /// The stream that it is of.
        worker: WorkerId,
    },
    /// Another Namiki wrote this.
    #[error(
        "log file {} has format {version}, and this program reads format {VERSION} alone: export the tables with the \
         program that wrote it, and import them with this one",
        file.display()
    )]
    OtherVersion {
        /// The file.
        file: PathBuf,
        /// Its format.
        version: u32,
    },
    /// The file belongs to another database.
    #[error("log file {} belongs to another database; put the right file back", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// An entry of another kind is in the place of a log file.
    #[error(
        "log file {} is {kind}, and has to be a file or a link to one: put the file back, or mend the link",
        file.display()
    )]
    NotAFile {
        /// The name.
        file: PathBuf,
        /// The kind of the entry.
        kind: FileKind,
    },
    /// An entry of another kind is in the place of a stream's directory.
    #[error(
        "{} is {kind}, and has to be a directory of log files: put the directory back, or mend the link",
        path.display()
    )]
    NotADirectory {
        /// The name.
        path: PathBuf,
        /// The kind of the entry.
        kind: FileKind,
    },
    /// The disk refused to read.
    #[error("cannot read log file {}", file.display())]
    Device {
        /// The file or directory.
        file: PathBuf,
        /// The error of the disk.
        #[source]
        source: io::Error,
    },
}

impl ReadError {
    /// The disk refused to open or read a file.
    pub(crate) fn device(file: &Path, source: io::Error) -> Self {
        let path = file.to_owned();
        if let Some(found) = NotAFile::in_error(&source) {
            let kind = found.kind;
            return Self::NotAFile { file: path, kind };
        }
        if let Some(found) = NotADirectory::in_error(&source) {
            let kind = found.kind;
            return Self::NotADirectory { path, kind };
        }
        Self::Device { file: path, source }
    }

    /// Something that has to be there is not.
    pub(super) fn missing(file: &Path, what: &'static str) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            offset_bytes: 0,
            missing: true,
            what,
        }
    }

    /// Something is there, and is not what it has to be.
    pub(crate) fn damaged(file: &Path, offset_bytes: u64, what: &'static str) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            offset_bytes,
            missing: false,
            what,
        }
    }
}

fn damaged(file: &Path, offset_bytes: u64, missing: bool, what: &str) -> String {
    let file = file.display();
    if missing {
        format!("{file} is missing from the log: {what}; put it back, or {REMEDY}")
    } else {
        format!("log file {file} is damaged at byte {offset_bytes}: {what}; {REMEDY}")
    }
}
