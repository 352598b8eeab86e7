//! Why a command ended without having done what it was asked to.

use std::io;
use std::path::{Path, PathBuf};

use namiki_client::ClientError;
use namiki_client::tls::{IssueError, TlsError};
use namiki_cluster::ServerError;
use namiki_cluster::config::ConfigError;
use namiki_cluster::storage::StoreError;
use namiki_terminal::{CommandFailure, Ending};

/// Why a command failed. The message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It is not about clusters.
    #[error(transparent)]
    Command(#[from] CommandFailure),
    /// A node's configuration cannot be used.
    #[error("{} is no configuration of a node", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// A node does not start.
    #[error("the node does not start")]
    Server(#[source] Box<ServerError>),
    /// A node's directory cannot be made.
    #[error("the node's directory is not made")]
    NodeDirectory(#[source] Box<StoreError>),
    /// A node stopped by itself.
    #[error("the node has stopped: {0}; start it again when that is mended")]
    NodeStopped(String),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Certificates cannot be made.
    #[error(transparent)]
    Certificates(#[from] IssueError),
    /// There is no local cluster.
    #[error("{} holds no cluster; namiki cluster start makes one, or --dir names another place", .0.display())]
    NoCluster(PathBuf),
    /// There is a local cluster of another kind.
    #[error("{} holds a cluster with {key} {found}, not {asked}; start it without --{flag}, or name another place with --dir", dir.display())]
    OtherCluster {
        /// Where.
        dir: PathBuf,
        /// What differs, for people.
        key: &'static str,
        /// The flag that was passed.
        flag: &'static str,
        /// What the cluster has.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// The cluster has no such node.
    #[error("the cluster has no node {0:?}; name a number of namiki cluster status, or leader")]
    NoNode(String),
    /// A node's process is not there.
    #[error("node {0} does not run; namiki cluster restart {0} starts it")]
    NotRunning(u64),
    /// A node's process is already there.
    #[error("node {node} runs already, as process {pid}")]
    Running {
        /// The node.
        node: u64,
        /// Its process.
        pid: u32,
    },
    /// A node that is to be replaced is there.
    #[error(
        "node {node} runs as process {pid}, so it has not lost its directory; if it is to have a new one all the same, end it first: \
         namiki cluster kill {node}"
    )]
    NotLost {
        /// The node.
        node: u64,
        /// Its process.
        pid: u32,
    },
    /// A member runs as what it was, and may have forgotten what it has acknowledged.
    #[error(
        "node {node} votes, and no replacement of it does: nothing was replaced. If it has lost its directory and runs on one that was made \
         without --replacement, end it at once: it has forgotten what it acknowledged"
    )]
    NothingToReplace {
        /// The node.
        node: u64,
    },
    /// An address leads to another node.
    #[error(
        "at {address} runs node {found}, not node {expected}; compare the key `client` of [[member]] with the machines"
    )]
    OtherNode {
        /// Where clients find the node.
        address: String,
        /// The node of the configuration.
        expected: u64,
        /// The one that answers.
        found: u64,
    },
    /// A node's first directory is to be made in a cluster that runs.
    #[error(
        "the cluster runs: node {node} answers. If node {own} has lost its directory, say --replacement: an empty one under its old \
         identity would lose what it acknowledged. If it has never run, say --first"
    )]
    ClusterRuns {
        /// The node that is to be made.
        own: u64,
        /// The one that answers.
        node: u64,
    },
    /// A replacement was replaced.
    #[error("node {node} was replaced once more meanwhile, and is incarnation {incarnation} now")]
    ReplacedAgain {
        /// The node.
        node: u64,
        /// What it is now.
        incarnation: u64,
    },
    /// A node's process ended as soon as it was started.
    #[error("node {node} ended by itself: {said}; its log is {}", log.display())]
    NodeEnded {
        /// The node.
        node: u64,
        /// The last that it said.
        said: String,
        /// Where it says more.
        log: PathBuf,
    },
    /// No leader is elected.
    #[error(
        "no leader was elected within {seconds} s; namiki cluster status shows the nodes, and DIR/node-N/log.txt what each says"
    )]
    NoLeader {
        /// How long was waited.
        seconds: u64,
    },
    /// A node does not end.
    #[error("node {0} does not end; namiki cluster kill {0} ends it at once")]
    DoesNotEnd(u64),
    /// No ports are free.
    #[error("no {0} ports are free on 127.0.0.1 from {1} on; --port names other ones")]
    NoPorts(usize, u16),
    /// A node does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Failure {
    /// What it means for the program.
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

/// The failure of a command line that makes no sense.
pub(crate) fn usage(why: impl Into<String>) -> Failure {
    CommandFailure::Usage(why.into()).into()
}

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    Ok(namiki_terminal::print(text)?)
}
