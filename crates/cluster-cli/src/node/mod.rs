//! `namiki node`: one node of a cluster, in the foreground until it is stopped.

mod members;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use namiki_client::{ClientError, ClientOptions, status};
use namiki_cluster::config::NodeConfig;
use namiki_cluster::{Server, create_directory, restore_directory};
use namiki_platform::disk::{Disk, ReadOnlyDisk, open_best};
use namiki_terminal::{CommandFailure, allow_many_files, interrupt, log_lines};
use rustix::process::setsid;

pub(crate) use self::members::{Members, NewDirectory, options_of, running_node};
use crate::failure::{Failure, device, print, usage};

/// Interval of checks of the node.
const INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a status request to another node.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of checks of the certificate's files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(5);

const HELP: &str = "\
A cluster is three or five machines, each with one node. Every node has its own configuration; they differ in
`node`, and optionally in `directory`. A short one:

  cluster = \"5f0c1d7a8b9e4c3d2f1a0b9c8d7e6f50\"   # 32 hexadecimal digits of your choice, the same everywhere
  node = 1                                       # this node's id
  directory = \"/var/lib/namiki\"

  [[member]]                                     # every node of a new cluster, this one included
  id = 1
  peer = \"10.0.0.1:7400\"                         # for the other nodes
  client = \"10.0.0.1:7500\"                       # for clients

With a section [tls] (authority, certificate, key), connections are encrypted and authenticated; namiki cluster
certificates creates the files for a trial.

Then, on each machine:
  namiki node init --config node.toml            once: creates the directory
  namiki node --config node.toml                 runs the node; Ctrl-C or SIGTERM ends it in good order

To join a cluster that runs, with a number of its own and some of the members in its configuration:
  namiki node init --config node.toml --join     once; then run the node, and, on any machine:
  namiki cluster add 4 --config node.toml        makes it a member, and waits until it votes

To try a cluster on one machine, namiki cluster start writes the configurations itself.";

/// Arguments of `namiki node`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct NodeArguments {
    #[command(subcommand)]
    command: Option<NodeCommand>,
    /// The node's configuration, a file in TOML
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve /metrics (Prometheus) and /healthz at this address, such as 127.0.0.1:7600, instead
    /// of `metrics_listen` in the configuration
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Leave the terminal that the node was started from
    #[arg(long, hide = true)]
    detach: bool,
}

#[derive(Subcommand, Debug)]
enum NodeCommand {
    /// Create the directory of a new node. Do this once for each node: a node that has lost its
    /// directory must not return under its old identity
    Init {
        /// Create it although the cluster runs: this node has never run, so it has acknowledged
        /// nothing
        #[arg(long, conflicts_with = "replacement")]
        first: bool,
        /// Begin with a backup, as a node of a new cluster: every node of it with the same one. The configuration has a `cluster`
        /// that neither the backup's cluster nor one before it had (openssl rand -hex 16)
        #[arg(long, value_name = "DIR", conflicts_with = "replacement")]
        backup: Option<PathBuf>,
        /// Replace a lost directory: asks the cluster for the incarnation of the node, which must
        /// not run, and creates a directory of the next one. Then start the node, and run namiki
        /// cluster replace N --config FILE
        #[arg(long)]
        replacement: bool,
        /// Join a cluster that runs, as a new member: asks the nodes of the configuration for its members. Then start the node, and
        /// run namiki cluster add N --config FILE
        #[arg(long, conflicts_with_all = ["replacement", "first", "backup"])]
        join: bool,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &NodeArguments) -> Result<(), Failure> {
    let Some(path) = &arguments.config else {
        return Err(usage(
            "--config is missing: it names the node's configuration; namiki node --help shows an example",
        ));
    };
    let mut config = read_config(path)?;
    if let Some(address) = &arguments.metrics {
        if arguments.command.is_some() {
            return Err(usage(
                "--metrics belongs to a node that runs: namiki node --config FILE --metrics ADDRESS",
            ));
        }
        let set = config.set_metrics_listen(address.clone());
        set.map_err(|error| usage(format!("--metrics: {error}")))?;
    }
    match arguments.command {
        Some(NodeCommand::Init {
            ref backup,
            replacement,
            first,
            join,
        }) => {
            if let Some(backup) = backup {
                init_from_backup(&config, backup, first)
            } else if join {
                init_joining(&config)
            } else if replacement {
                init_replacement(&config)
            } else {
                init_first(&config, first)
            }
        }
        None => serve(&config, arguments.detach),
    }
}

/// Reads a node's configuration.
pub(crate) fn read_config(path: &Path) -> Result<NodeConfig, Failure> {
    NodeConfig::read(path).map_err(|source| Failure::Config {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

/// The fastest durable disk of a directory.
fn disk_of(directory: &Path) -> Result<Arc<dyn Disk>, Failure> {
    let (disk, _) = open_best(directory).map_err(device("write to", directory))?;
    Ok(disk)
}

/// The disk of a node's directory that does not exist yet.
fn disk_beside(config: &NodeConfig) -> Result<Arc<dyn Disk>, Failure> {
    let parent = config.directory.parent();
    let parent = parent.filter(|it| !it.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(device("make", parent))?;
    disk_of(parent)
}

/// Creates a node's directory.
pub(crate) fn init(config: &NodeConfig, new: &NewDirectory) -> Result<(), Failure> {
    let disk = disk_beside(config)?;
    let beginning = (&new.founders[..], new.backup);
    create_directory(config, new.incarnation, beginning, disk)
        .map_err(|error| Failure::NodeDirectory(Box::new(error)))
}

/// Creates a node's first directory. A node that has had one must not return with an empty one
/// under the same identity. So the other members are asked whether the cluster runs, unless the
/// operator is sure.
fn init_first(config: &NodeConfig, is_sure: bool) -> Result<(), Failure> {
    check_is_new(config, is_sure)?;
    init(config, &NewDirectory::of_new_cluster(config))
}

/// Fails if another member runs, or another cluster at its address, unless the operator is sure.
fn check_is_new(config: &NodeConfig, is_sure: bool) -> Result<(), Failure> {
    if is_sure {
        return Ok(());
    }
    let options = ClientOptions {
        timeout: STATUS_TIMEOUT,
        ..options_of(config)?
    };
    let others = config.members.iter().filter(|it| it.id != config.node);
    for other in others {
        match status(&other.client, &options) {
            Ok(status) if status.term > 0 => {
                return Err(Failure::ClusterRuns {
                    own: config.node.number(),
                    node: status.node,
                });
            }
            // The addresses belong to another cluster, or the cluster's number is wrong: the
            // directory would belong to no cluster.
            Err(error @ ClientError::OtherCluster { .. }) => return Err(error.into()),
            // The node runs and has never voted, or it does not run yet.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Creates the directory of a node of a new cluster, with the tables of a backup. A node that has had a directory under this
/// number must not return with one of the backup.
fn init_from_backup(config: &NodeConfig, backup: &Path, is_sure: bool) -> Result<(), Failure> {
    check_is_new(config, is_sure)?;
    let disk = disk_beside(config)?;
    let from: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new());
    let restored = restore_directory(config, (&from, backup), disk, |_, _| {})
        .map_err(|error| Failure::NotRestored(Box::new(error)))?;
    print(&format!(
        "{} was created from the backup, through entry {}; do so for every node, then start them\n",
        config.directory.display(),
        restored.through
    ))
}

/// Creates a node's next directory.
fn init_replacement(config: &NodeConfig) -> Result<(), Failure> {
    let mut cluster = Members::find(config, config.node.number(), &options_of(config)?)?;
    let new = cluster.next_directory()?;
    init(config, &new)?;
    say_created(config, new.incarnation, "replace")
}

/// Creates the directory of a node that joins the cluster.
fn init_joining(config: &NodeConfig) -> Result<(), Failure> {
    let mut cluster = Members::find(config, config.node.number(), &options_of(config)?)?;
    let new = cluster.joining_directory()?;
    init(config, &new)?;
    say_created(config, new.incarnation, "add")
}

/// Says what comes after the creation of a directory.
fn say_created(config: &NodeConfig, incarnation: u64, next: &str) -> Result<(), Failure> {
    let node = config.node.number();
    print(&format!(
        "{} was created for node {node}, incarnation {incarnation}; start the node, then namiki cluster {next} {node} --config FILE\n",
        config.directory.display()
    ))
}

fn serve(config: &NodeConfig, detach: bool) -> Result<(), Failure> {
    interrupt::listen_for_the_end();
    if detach {
        // It fails only for a process that is a session leader already, and so needs no new
        // session.
        let _ = setsid();
    }
    allow_many_files();
    // Dropped last, when the node has stopped.
    let (logger, _flush) = log_lines::logger().map_err(CommandFailure::NoThread)?;
    if !config.directory.exists() {
        return Err(usage(format!(
            "{} does not exist; namiki node init creates it for a new node. A node that has lost its directory is not a new one: namiki node init \
             --replacement creates its next directory",
            config.directory.display()
        )));
    }
    let disk = disk_of(&config.directory)?;
    let failed = |error| Failure::Server(Box::new(error));
    let mut server = Server::start(config, Arc::clone(&disk), logger.clone()).map_err(failed)?;
    slog::info!(logger, "the node runs"; "node" => %server.node(),
        "for_nodes" => &config.peer_listen, "for_clients" => &config.client_listen,
        "for_scrapers" => config.metrics_listen.as_deref().unwrap_or("none"));
    let mut looked = Instant::now();
    while !interrupt::asked().load(Ordering::Relaxed) {
        if server.is_to_restart() {
            let why = server.failure().unwrap_or_default();
            slog::info!(logger, "the node starts again: {}", why);
            let restarted = server.restart(config, Arc::clone(&disk), logger.clone());
            server = restarted.map_err(failed)?;
        }
        if let Some(why) = server.failure() {
            return Err(if server.is_gone() {
                Failure::NodeGone(why)
            } else {
                Failure::NodeStopped(why)
            });
        }
        if looked.elapsed() >= CERTIFICATE_INTERVAL {
            server.refresh_certificate();
            looked = Instant::now();
        }
        std::thread::sleep(INTERVAL);
    }
    slog::info!(logger, "the node stops");
    server.stop();
    Ok(())
}
