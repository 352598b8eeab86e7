//! Errors of a node's storage.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_log::{LogError, ReadError};
use namiki_platform::Generation;
use namiki_platform::disk::is_full;

use super::log_budget::BudgetExhausted;
use super::log_suffix::LogPosition;
use super::node_identity::NodeIdentity;
use crate::entry::{ENTRY_VERSION, PayloadName};
use crate::log_space::LOG_REMEDY;
use crate::network::NodeId;

/// The reason for which a node's storage has refused a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory of a new node is not empty.
    #[error(
        "{} is not empty, and a new node's directory has to be: choose another, or start the node that is there",
        dir.display()
    )]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory contains no node.
    #[error(
        "there is no node in {}, and an empty directory never starts as a voter: check the path; create the node if it \
         is new, and replace it if it has lost its disk",
        dir.display()
    )]
    Empty {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process has the directory open.
    #[error("{} is in use by another process: stop that one first", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory belongs to another node, or to another cluster.
    #[error(
        "{} belongs to node {} of cluster {:032x}, not to node {} of cluster {cluster:032x}: check the path and the \
         configuration",
        dir.display(), found.node.number(), found.cluster, node.number()
    )]
    WrongNode {
        /// The directory.
        dir: PathBuf,
        /// The identity in its manifest.
        found: NodeIdentity,
        /// The cluster that was expected.
        cluster: u128,
        /// The node that was expected.
        node: NodeId,
    },
    /// The directory's manifest cannot be read.
    #[error("{} is damaged: {why}; replace the node", path.display())]
    DamagedManifest {
        /// The manifest.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// Another Namiki wrote the directory.
    #[error(
        "{} has format {found}, and this program reads format {known} alone: use the program that wrote it, or replace \
         the node",
        path.display()
    )]
    OtherFormat {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format that this program reads.
        known: u32,
    },
    /// The log cannot be read: durable data is gone, or the disk fails. The source names the file.
    #[error(
        "the log of the node in {} cannot be read: repair the disk, or replace the node; an old copy of the directory is no remedy, because it \
         lacks what the node has acknowledged since",
        dir.display()
    )]
    UnreadableLog {
        /// The node's directory.
        dir: PathBuf,
        /// The problem, with its file.
        #[source]
        source: ReadError,
    },
    /// Stream 0 of the only voter is damaged. Nothing in the directory was changed.
    #[error(
        "the log of the node in {} is damaged behind entry {last}, and there is no other node that knows what followed: restore a \
         backup into a new cluster; nothing in the directory was changed",
        dir.display()
    )]
    ForgottenAlone {
        /// The node's directory.
        dir: PathBuf,
        /// The last entry before the damage.
        last: u64,
        /// The damage, with its file.
        #[source]
        source: ReadError,
    },
    /// A record of the log has a good checksum, but is invalid.
    #[error(
        "the log of the node in {} is invalid: stream {stream} of {generation}, frame {sequence}: {why}; replace \
         the node",
        dir.display()
    )]
    SenselessLog {
        /// The node's directory.
        dir: PathBuf,
        /// The stream.
        stream: u16,
        /// The generation.
        generation: Generation,
        /// The frame.
        sequence: u64,
        /// The problem.
        why: String,
    },
    /// The log has an entry of a later version of the program.
    #[error(
        "entry {index} in the log of the node in {} has version {version}, and this program knows entries of version {ENTRY_VERSION}: \
         start the node with the version of the program that it had, or a later one",
        dir.display()
    )]
    LaterEntry {
        /// The node's directory.
        dir: PathBuf,
        /// The entry.
        index: u64,
        /// Its version.
        version: u8,
    },
    /// The image that the node starts from is older than the one with which its log was truncated:
    /// entries between the two are gone.
    #[error(
        "the log in {} continues an image through entry {}, and the image that is there ends with entry {}: the newer \
         one is lost; replace the node",
        dir.display(), needed.index, found.index
    )]
    SnapshotLost {
        /// The node's directory.
        dir: PathBuf,
        /// The last truncation.
        needed: LogPosition,
        /// The image.
        found: LogPosition,
    },
    /// The image that the node starts from has another history than its log.
    #[error(
        "the log in {} continues entry {} of term {}, and in the image that is there its term is {}: replace the node",
        dir.display(), needed.index, needed.term, found.term
    )]
    OtherSnapshot {
        /// The node's directory.
        dir: PathBuf,
        /// The last truncation.
        needed: LogPosition,
        /// The image.
        found: LogPosition,
    },
    /// The disk is full. Nothing was appended; free some space and append again.
    #[error("no space is left on the disk for {}: free some", path.display())]
    DiskFull {
        /// The file that could not be created.
        path: PathBuf,
        /// The disk's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The log has reached its limit. Nothing was appended.
    #[error(
        "the log in {} has {bytes} bytes, and its limit is {bytes_max}: {}",
        dir.display(),
        LOG_REMEDY
    )]
    LogFull {
        /// The node's directory.
        dir: PathBuf,
        /// Its length.
        bytes: u64,
        /// Its limit.
        bytes_max: u64,
    },
    /// A record or payload is longer than a log buffer. Nothing was appended.
    #[error(
        "{bytes} bytes are more than the {bytes_max} that fit into a log buffer: raise `buffer_bytes`"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that fits.
        bytes_max: usize,
    },
    /// The log has failed, and accepts nothing more; data that was not durable is in doubt. The
    /// source names the file.
    #[error("the log in {} has failed: repair the disk, and start the node again", dir.display())]
    FailedLog {
        /// The node's directory.
        dir: PathBuf,
        /// The first failure.
        #[source]
        source: LogError,
    },
    /// The storage was closed.
    #[error("the storage in {} is closed", dir.display())]
    Closed {
        /// The node's directory.
        dir: PathBuf,
    },
    /// The options or the identity are inconsistent.
    #[error("invalid options for the storage of a node: {why}")]
    InvalidOptions {
        /// The option, and the reason.
        why: String,
    },
    /// The worker does not exist.
    #[error(
        "worker {worker} is not one of the node's {workers}: all nodes of a cluster have the same number of workers"
    )]
    NoSuchWorker {
        /// The given worker.
        worker: u16,
        /// Number of workers.
        workers: u16,
    },
    /// The payload was never appended here: fetch it from another node.
    #[error("payload {name:?} is not in {}: fetch it from another node", dir.display())]
    NoSuchPayload {
        /// The node's directory.
        dir: PathBuf,
        /// Its name.
        name: PayloadName,
    },
    /// The payload is in a buffer, and not on the disk yet: flush, or read it after the flush.
    #[error("payload {name:?} is not on the disk yet")]
    NotDurable {
        /// Its name.
        name: PayloadName,
    },
    /// The bytes in the payload's place do not match its digest: fetch it from another node.
    #[error(
        "{} is damaged: payload {name:?} at byte {offset_bytes} does not match its digest; fetch it from another node",
        path.display()
    )]
    DamagedPayload {
        /// Its name.
        name: PayloadName,
        /// The file.
        path: PathBuf,
        /// Its position in the file.
        offset_bytes: u64,
    },
    /// A disk operation failed.
    #[error("{doing} {} failed: repair the disk", path.display())]
    Device {
        /// The operation, such as "reading".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    pub(super) fn device(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_full(&source) {
            let source = Arc::new(source);
            Self::DiskFull { path, source }
        } else {
            Self::Device {
                doing,
                path,
                source,
            }
        }
    }

    /// Converts an error of the log in `dir` on a write.
    pub(super) fn of_log(dir: &Path, error: LogError) -> Self {
        let dir = dir.to_owned();
        match error {
            LogError::CommitTooLarge { bytes, bytes_max } => Self::TooLong { bytes, bytes_max },
            LogError::DiskFull { path, source } => match BudgetExhausted::in_error(&source) {
                Some(exhausted) => Self::LogFull {
                    dir,
                    bytes: exhausted.bytes,
                    bytes_max: exhausted.bytes_max,
                },
                None => Self::DiskFull { path, source },
            },
            LogError::Closed => Self::Closed { dir },
            LogError::InvalidConfig { reason } => Self::InvalidOptions { why: reason },
            source => Self::FailedLog { dir, source },
        }
    }
}
