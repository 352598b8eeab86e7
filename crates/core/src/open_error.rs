//! Why a database could not be opened.

use std::io;
use std::path::PathBuf;

use namiki_log::{LogError, ReadError};
use namiki_platform::debug_as_sentence;
use namiki_segment::SegmentError;

use crate::storage::index::{IndexKind, IndexNotInBuild};

debug_as_sentence!(OpenError);

impl OpenError {
    /// Whether the image of the tables, or what describes it, is damaged or lost: what a replica can get from another node.
    #[must_use]
    pub fn is_damaged_image(&self) -> bool {
        matches!(
            self,
            Self::DamagedManifest { .. }
                | Self::DamagedTables { .. }
                | Self::ImageNotInManifest { .. }
                | Self::DamagedImageList { .. }
                | Self::Image { .. }
                | Self::ImageRows { .. }
        )
    }
}

/// Why a database could not be opened. Nothing that it holds was lost or changed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another handle in this one, has the directory open.
    #[error("{dir} is in use by another process or handle; close it first")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The tables belong to a node of a cluster, or to a backup of one: its log alone changes them.
    #[error(
        "{dir} has the tables of a cluster's node: read them with `open_read_only`, or change them by a client of the cluster"
    )]
    OfANode {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory keeps earlier backups in addition to the last one, which opening it for
    /// writing would damage.
    #[error(
        "{dir} is a backup that keeps earlier ones; restore it to another directory, or open it to read it alone"
    )]
    KeepsEarlierBackups {
        /// The directory.
        dir: PathBuf,
    },
    /// Another program has opened the database during the opening, in spite of the lock: the
    /// directory was moved, or the file system does not lock. The manifest is left as the other
    /// program wrote it.
    #[error(
        "{path} was written by another program during the recovery; let one program open the database"
    )]
    AnotherWriter {
        /// The manifest's file.
        path: PathBuf,
    },
    /// The directory holds files, but no database.
    #[error("{dir} holds files but no database; choose an empty or a new directory")]
    NotADatabase {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no database, and the builder was told not to create one.
    #[error(
        "{dir} holds no database; name the directory of one, or let it be made (Builder::create)"
    )]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// A release with another format on disk wrote the catalogue. Each release before 1.0 reads one format.
    #[error(
        "{path} has format {found}, and this release reads format {known} only; run `namiki export` of the release that \
         wrote it, and `namiki import` of this one"
    )]
    OtherFormat {
        /// The manifest, its table journal or its image list.
        path: PathBuf,
        /// The format that the file claims.
        found: u32,
        /// The format of this release.
        known: u32,
    },
    /// The manifest's checksum or contents are wrong.
    #[error("the manifest {path} is damaged: {why}; restore it from a backup")]
    DamagedManifest {
        /// The manifest's file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The table journal is damaged, not just torn at its end by a crash, or is not the manifest's.
    #[error(
        "the table journal {path} is damaged at byte {offset_bytes}: {why}; restore it from a backup, together \
         with the manifest"
    )]
    DamagedTables {
        /// The journal's file.
        path: PathBuf,
        /// Where.
        offset_bytes: u64,
        /// The fault.
        why: String,
    },
    /// A segment that was loaded exists, and the manifest does not name it: the manifest is older
    /// than the segment. An opening with it would lose the table. Nothing was changed. Put the
    /// right manifest back; if this one is right nevertheless, as in a copy that was made while a
    /// table was loaded, move the file away.
    #[error(
        "segment {file} was loaded and is not in the manifest, which is older: put the right MANIFEST back, or move \
         the file away if the table is to be forgotten"
    )]
    SegmentNotInManifest {
        /// The segment's file.
        file: PathBuf,
    },
    /// An image list exists, and the manifest does not name it: the manifest is older than the
    /// image, and the log that it needs may have been removed. Nothing was changed. Put the right
    /// manifest back.
    #[error(
        "image list {file} is not in the manifest, which is older: put the right MANIFEST back, or restore the database \
         from a backup"
    )]
    ImageNotInManifest {
        /// The list's file.
        file: PathBuf,
    },
    /// The image list that the manifest names is missing or damaged, or another is in its place.
    #[error(
        "the image list {path} cannot be used, and nothing was changed: {why}; restore it from a backup, together with \
         the manifest and the image"
    )]
    DamagedImageList {
        /// The list's file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// Rows of a table in memory cannot be read from their file in the image: it is missing or damaged, or another is in
    /// its place.
    #[error(
        "rows of table {table:?} cannot be loaded from {path}, and nothing was changed; restore that file from a backup"
    )]
    Image {
        /// The table's name.
        table: String,
        /// The file.
        path: PathBuf,
        /// The fault.
        #[source]
        source: Box<SegmentError>,
    },
    /// A file of the image is sound, but its rows are not those of the image list.
    #[error(
        "{path} does not have the rows of table {table:?} that the image list says, and nothing was changed: {why}; restore \
         the image from a backup"
    )]
    ImageRows {
        /// The table's name.
        table: String,
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A log is damaged, not just torn at its end by a crash, or cannot be read.
    #[error(
        "the log cannot be recovered, and nothing was changed; namiki check names what is wrong"
    )]
    Log(#[from] ReadError),
    /// Commits are missing that were durable once: log files were lost or cut short.
    #[error(
        "{generation} of the log holds {found} of the {expected} commits that were durable: log files were lost or cut \
         short; restore the database from a backup"
    )]
    MissingCommits {
        /// The generation.
        generation: namiki_platform::Generation,
        /// The number of commits that the log must have.
        expected: u64,
        /// How many were found.
        found: u64,
    },
    /// A log record is whole but invalid: a bug, or a log that is not this database's.
    #[error(
        "the commit with {stamp} in {generation} of the log cannot be decoded: {why}; restore it from a backup"
    )]
    Undecodable {
        /// The log's generation.
        generation: namiki_platform::Generation,
        /// The commit.
        stamp: namiki_platform::Stamp,
        /// The fault.
        why: String,
    },
    /// A log record of an operation is whole but does not follow from those before it: a bug, or a log that is not
    /// this database's.
    #[error(
        "the operation with {lsn} in {generation} of the log cannot be replayed: {why}; restore it from a backup"
    )]
    BrokenTransaction {
        /// The log's generation.
        generation: namiki_platform::Generation,
        /// The operation.
        lsn: namiki_platform::Lsn,
        /// The fault.
        why: String,
    },
    /// A table has more keys than its index has room for. Open the database with another index for it: a
    /// hash index has room for any number, see [`Builder::table_index`](crate::Builder::table_index).
    #[error(
        "table {table:?} has more keys than its index, {index}, has room for; open the database with another \
         index for it, such as hash"
    )]
    TableFull {
        /// The table's name.
        table: String,
        /// The index.
        index: IndexKind,
    },
    /// The new log could not be started.
    #[error("cannot start a log in {dir}")]
    StartLog {
        /// The directory.
        dir: PathBuf,
        /// The error of the log.
        #[source]
        source: LogError,
    },
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// This build lacks the chosen index.
    #[error(transparent)]
    IndexNotInBuild(#[from] IndexNotInBuild),
    /// The recovery was interrupted, see [`Builder::interrupt`](crate::Builder::interrupt).
    #[error("recovery was interrupted; nothing was changed")]
    Interrupted,
    /// The device failed.
    #[error("cannot access {path}")]
    Device {
        /// The path that was accessed.
        path: PathBuf,
        /// The device's error.
        #[source]
        source: io::Error,
    },
}
