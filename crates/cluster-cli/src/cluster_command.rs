//! `namiki cluster`, that is `namiki-cluster`: the commands for a cluster.
//!
//! Without `--config` or `--endpoints`, they are for the cluster in a folder of this machine (`local/`).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::backup::{self, BackupArguments};
use crate::certificates::{self, CertificatesArguments};
use crate::failure::{Failure, device};
use crate::local::{self, LocalCluster, StartArguments};
use crate::members;
use crate::sessions::{self, SessionsArguments};
use crate::status::{self, StatusArguments};
use crate::verify::{self, VerifyArguments};

pub(crate) const HELP: &str = "\
A first tour:
  namiki cluster start --nodes 5      five processes, one of which becomes the leader
  namiki cluster status               which node leads, and how far each one is
  namiki bench cluster --dir namiki-cluster --seconds 10    runs payments
  namiki cluster kill leader          another one leads within a second; nothing acknowledged is lost
  namiki cluster restart 1            restarts it; it catches up
  namiki cluster kill 2; rm -r namiki-cluster/node-2/data; namiki cluster replace 2    replaces a lost disk
  namiki cluster add                  a sixth node joins, and votes when it has the data
  namiki cluster remove 6             it leaves again
  namiki cluster cut 1-2              cuts the link between these two
  namiki cluster heal                 restores all links
  namiki cluster stop                 ends all processes; start them again with namiki cluster start

The cluster is in the folder namiki-cluster unless --dir names another one.";

/// The default folder of a cluster.
pub(crate) const DEFAULT_DIR: &str = "namiki-cluster";

/// A command for a cluster: the one on this machine, or one that is given by its nodes.
#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Start the cluster in the folder, or a new one, and wait until it has a leader
    Start(StartArguments),
    /// Show each node: role, version, term, log positions, lag, commands per second. Also for a
    /// cluster on several machines. The exit status tells whether the cluster is healthy
    Status(StatusArguments),
    /// Compare the rows and sessions of all nodes at one entry of the log, while they serve. The exit status is 1 if a node differs
    Verify(VerifyArguments),
    /// Copy the tables of a node, as they are now, into a directory: read it as a database, or restore it into a new cluster
    Backup(BackupArguments),
    /// List the sessions of clients, or close those that programs have left behind
    Sessions(SessionsArguments),
    /// Kill a node at once (SIGKILL), as a power failure would
    Kill(NodeArgument),
    /// Pause a node (SIGSTOP): its process exists, but does not answer
    Pause(NodeArgument),
    /// Resume a paused node
    Resume(NodeArgument),
    /// Restart a node; a running one is stopped in good order first
    Restart(NodeArgument),
    /// Give a node that has lost its directory a new one, and wait until it votes. The node must
    /// not run; the rest of its old directory is moved aside
    Replace {
        /// The node's number
        #[arg(value_name = "NODE")]
        node: u64,
        /// For a cluster on several machines: the configuration of any node. The new directory was
        /// created with namiki node init --replacement, and its node runs
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Add a node to a cluster that serves, and wait until it votes
    Add {
        /// The node's number, which no member has. On this machine: the next one by default
        #[arg(value_name = "NODE")]
        node: Option<u64>,
        /// For a cluster on several machines: a configuration that lists the node. Its directory was created with namiki node init
        /// --join, and it runs
        #[arg(long, value_name = "FILE", requires = "node")]
        config: Option<PathBuf>,
    },
    /// Remove a node from a cluster that serves, for good: its directory cannot return. The node stops
    Remove {
        /// The node's number
        #[arg(value_name = "NODE")]
        node: u64,
        /// For a cluster on several machines: the configuration of any node
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Tell a cluster on several machines the addresses of a node that has moved to another one, with its directory
    Move {
        /// The node's number
        #[arg(value_name = "NODE")]
        node: u64,
        /// A configuration that lists the node with its new addresses
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Cut the link between two nodes, in both directions
    Cut {
        /// Two nodes, such as 1-3 or leader-2
        #[arg(value_name = "A-B")]
        link: String,
    },
    /// Restore cut links
    Heal {
        /// Restore only this link
        #[arg(value_name = "A-B")]
        link: Option<String>,
    },
    /// Create an authority and certificates for nodes and clients, to try TLS on several machines
    Certificates(CertificatesArguments),
    /// Stop all nodes in good order
    Stop {
        /// Remove the folder, too, with all data
        #[arg(long)]
        remove: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct NodeArgument {
    /// A node's number, or leader
    #[arg(value_name = "NODE")]
    node: String,
}

/// Runs the command. `dir`: the folder of the cluster on this machine.
pub(crate) fn run(command: &ClusterCommand, dir: &Path) -> Result<(), Failure> {
    let dir = std::path::absolute(dir).map_err(device("find", dir))?;
    let open = || LocalCluster::open(&dir);
    let sites = || {
        let cluster = open()?;
        Ok((cluster.sites()?, cluster.options.clone()))
    };
    match command {
        ClusterCommand::Start(arguments) => local::start(&dir, arguments),
        ClusterCommand::Status(arguments) => status::run(arguments, open),
        ClusterCommand::Verify(arguments) => verify::run(arguments, sites),
        ClusterCommand::Backup(arguments) => backup::run(arguments, sites),
        ClusterCommand::Sessions(arguments) => sessions::run(arguments, sites),
        ClusterCommand::Kill(node) => local::kill(&open()?, &node.node),
        ClusterCommand::Pause(node) => local::pause(&open()?, &node.node),
        ClusterCommand::Resume(node) => local::resume(&open()?, &node.node),
        ClusterCommand::Restart(node) => local::restart(&open()?, &node.node),
        ClusterCommand::Replace {
            node,
            config: Some(config),
        } => members::replace(*node, config),
        ClusterCommand::Replace { node, config: None } => local::replace(&open()?, *node),
        ClusterCommand::Add {
            node: Some(node),
            config: Some(config),
        } => members::add(*node, config),
        ClusterCommand::Add { node, .. } => local::add(&dir, *node),
        ClusterCommand::Remove {
            node,
            config: Some(config),
        } => members::remove(*node, config),
        ClusterCommand::Remove { node, config: None } => local::remove(&open()?, *node),
        ClusterCommand::Move { node, config } => members::relocate(*node, config),
        ClusterCommand::Cut { link } => local::cut(&open()?, link),
        ClusterCommand::Heal { link } => local::heal(&open()?, link.as_deref()),
        ClusterCommand::Certificates(arguments) => certificates::make(arguments),
        ClusterCommand::Stop { remove } => local::stop(&open()?, *remove),
    }
}
