//! Failures of commands.

use std::io;
use std::path::{Path, PathBuf};

use namiki_client::ClientError;
use namiki_client::tls::{IssueError, TlsError};
use namiki_cluster::config::ConfigError;
use namiki_cluster::storage::StoreError;
use namiki_cluster::{ImageCopyError, RestoreError, ServerError};
use namiki_terminal::{CommandFailure, Ending};

/// The reason for which a command failed. The message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A failure that is not specific to clusters.
    #[error(transparent)]
    Command(#[from] CommandFailure),
    /// A node's configuration file is invalid.
    #[error("{} is not a node's configuration", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<ConfigError>,
    },
    /// A node cannot start.
    #[error("the node cannot start")]
    Server(#[source] Box<ServerError>),
    /// A node's directory cannot be created.
    #[error("the node's directory cannot be created")]
    NodeDirectory(#[source] Box<StoreError>),
    /// No node was found to copy.
    #[error("no node answers: start one, or name others")]
    NoNodeAnswers,
    /// A node was not compared.
    #[error("{name} cannot be compared: {why}")]
    NotCompared {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// Nodes have other rows or sessions than others.
    #[error(
        "{nodes} at entry {lsn}: stop a node that differs from most, keep its directory for a report, and replace it"
    )]
    NodesDiffer {
        /// The entry.
        lsn: u64,
        /// Which.
        nodes: String,
    },
    /// A node's tables cannot be copied.
    #[error("the backup is not complete")]
    NotBackedUp(#[source] Box<ImageCopyError>),
    /// A file of a node's tables is shorter than it says.
    #[error(
        "file {file} of the node's image ends at byte {offset}: back it up again, or another node"
    )]
    BackupEnds {
        /// The file.
        file: u32,
        /// The offset.
        offset: u64,
    },
    /// A node's directory cannot be created from a backup.
    #[error("the node's directory cannot be created from the backup")]
    NotRestored(#[source] Box<RestoreError>),
    /// A node stopped by itself.
    #[error("the node has stopped: {0}; start it again when that is repaired")]
    NodeStopped(String),
    /// A node is no member any more.
    #[error("{0}")]
    NodeGone(String),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Certificates cannot be issued.
    #[error(transparent)]
    Certificates(#[from] IssueError),
    /// The local cluster does not exist.
    #[error("{} holds no cluster; create one with namiki cluster start, or name another place with --dir", .0.display())]
    NoCluster(PathBuf),
    /// The local cluster has other settings.
    #[error("{} holds a cluster with {key} {found}, not {asked}; leave --{flag} out, or name another place with --dir", dir.display())]
    OtherCluster {
        /// The cluster's directory.
        dir: PathBuf,
        /// The setting that differs, in words.
        key: &'static str,
        /// The flag that was passed.
        flag: &'static str,
        /// The cluster's value.
        found: String,
        /// The requested value.
        asked: String,
    },
    /// The cluster has no such node.
    #[error("the cluster has no node {0:?}; name a number of namiki cluster status, or leader")]
    NoNode(String),
    /// The cluster has no such session.
    #[error(
        "the cluster has no session {0}; namiki cluster sessions lists them, and nothing was closed"
    )]
    NoSession(u64),
    /// A node's process does not run.
    #[error("node {0} is not running; start it with namiki cluster restart {0}")]
    NotRunning(u64),
    /// The status of the cluster shows problems.
    #[error("the cluster is not healthy: problems are listed in its status, {problems} in all")]
    NotHealthy {
        /// Their number.
        problems: usize,
    },
    /// A node's process runs already.
    #[error(
        "node {node} is already running, as process {pid}; namiki cluster restart {node} stops and starts it"
    )]
    Running {
        /// The node.
        node: u64,
        /// Its process.
        pid: u32,
    },
    /// A node that is to be replaced runs.
    #[error(
        "node {node} runs as process {pid}, so it has not lost its directory; to give it a new one nevertheless, end it first: \
         namiki cluster kill {node}"
    )]
    NotLost {
        /// The node.
        node: u64,
        /// Its process.
        pid: u32,
    },
    /// A node that is to join is a member.
    #[error(
        "node {node} is a member already: choose another number, or replace the node if it has lost its directory (--replacement)"
    )]
    IsMember {
        /// The node.
        node: u64,
    },
    /// A node that is to join was made for another beginning of the cluster: other members, or another backup.
    #[error(
        "the directory of node {node} was made for a cluster that begins with other members, or another backup: stop it, and make the directory \
         anew by namiki node init --join"
    )]
    OtherFounders {
        /// The node.
        node: u64,
    },
    /// A configuration does not have the node.
    #[error("the configuration has no [[member]] with the id {node}: its addresses are needed")]
    NotListed {
        /// The node.
        node: u64,
    },
    /// A member runs under its old identity, and may have lost data that it has acknowledged.
    #[error(
        "node {node} votes, and it is not a replacement: nothing was replaced. If it has lost its directory and runs on one that was made \
         without --replacement, end it at once: it has lost data that it acknowledged"
    )]
    NothingToReplace {
        /// The node.
        node: u64,
    },
    /// An address leads to another node.
    #[error(
        "node {found} runs at {address}, not node {expected}; compare the key `client` of [[member]] with the machines"
    )]
    OtherNode {
        /// The node's address for clients.
        address: String,
        /// The node of the configuration.
        expected: u64,
        /// The node that answers.
        found: u64,
    },
    /// A node's first directory is to be created while the cluster runs.
    #[error(
        "the cluster runs: node {node} answers. If node {own} has lost its directory, pass --replacement: an empty one under its old \
         identity would lose data that it acknowledged. If it has never run, pass --first"
    )]
    ClusterRuns {
        /// The node that is to be created.
        own: u64,
        /// The node that answers.
        node: u64,
    },
    /// A replacement was itself replaced.
    #[error(
        "another command has replaced node {node} in the meantime; it is incarnation {incarnation} now: run namiki cluster status"
    )]
    ReplacedAgain {
        /// The node.
        node: u64,
        /// Its current incarnation.
        incarnation: u64,
    },
    /// A node's process ended as soon as it was started.
    #[error("node {node} ended by itself: {said}; its log is {}", log.display())]
    NodeEnded {
        /// The node.
        node: u64,
        /// Its last message.
        said: String,
        /// The path of its log.
        log: PathBuf,
    },
    /// No leader was elected.
    #[error(
        "no leader was elected within {seconds} s; namiki cluster status shows the nodes; their logs are DIR/node-N/log.txt"
    )]
    NoLeader {
        /// The length of the wait.
        seconds: u64,
    },
    /// A node does not terminate.
    #[error("node {0} does not terminate; end it at once with namiki cluster kill {0}")]
    DoesNotEnd(u64),
    /// No ports are free.
    #[error("no {0} ports are free on 127.0.0.1 from {1} on; name others with --port")]
    NoPorts(usize, u16),
    /// A node does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Failure {
    /// Its effect on the program's end.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Command(failure) => failure.ending(),
            _ => Ending::Failed,
        }
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

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    Ok(namiki_terminal::print(text)?)
}
