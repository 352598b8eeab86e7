//! `namiki cluster`, that is `namiki-cluster`: a cluster on this machine, for trying out failures
//! of nodes.
//!
//! Its nodes are real processes that communicate over the loopback device, each the same program as
//! on a machine of its own.
//!
//! | file | contents |
//! |---|---|
//! | `layout.rs` | its directory |
//! | `processes.rs` | its processes |
//! | `cuts.rs` | its links |
//! | `members.rs` | nodes that join, leave and move |
//! | `replace.rs` | a node that has lost its directory |
//! | `promotion.rs` | a new member on its way to its vote |
//! | `certificates.rs` | certificates for any cluster |

mod certificates;
mod cuts;
mod layout;
mod members;
mod processes;
mod promotion;
mod replace;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use namiki_cluster::config::NodeConfig;
use rustix::process::Signal;

use self::certificates::CertificatesArguments;
use self::cuts::link;
use self::layout::{DEFAULT_PORT, LocalCluster, LocalNode, NewCluster};
use crate::backup::{self, BackupArguments};
use crate::failure::{Failure, device, print, usage};
use crate::status::{self, Links, ProcessState, StatusArguments};
use crate::verify::{self, VerifyArguments};

/// Timeout of an election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of an orderly stop of a node.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one status request to a node that is starting.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
const INTERVAL: Duration = Duration::from_millis(20);

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

/// A command for a cluster on this machine.
#[derive(Subcommand, Debug)]
pub(crate) enum LocalCommand {
    /// Start the cluster in the folder, or a new one, and wait until it has a leader
    Start(StartArguments),
    /// Show each node: role, version, term, log positions, lag, commands per second. Also for a
    /// cluster on several machines. The exit status tells whether the cluster is healthy
    Status(StatusArguments),
    /// Compare the rows and sessions of all nodes at one entry of the log, while they serve. The exit status is 1 if a node differs
    Verify(VerifyArguments),
    /// Copy the tables of a node, as they are now, into a directory: read it as a database, or restore it into a new cluster
    Backup(BackupArguments),
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

#[derive(Args, Debug)]
pub(crate) struct StartArguments {
    /// Number of nodes: 1, 3 or 5, as a majority of them must run. Default 3
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: Option<u16>,
    /// Workers of each node, each with a log of its own. Default 2
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// Emulated distances between nodes. japan: Tokyo, Nagoya, Osaka, Fukuoka, Sapporo, as in the
    /// paper. japan-in-handler: the same, but each follower sleeps while it handles a payload, as
    /// in the paper's emulation
    #[arg(long)]
    wan: Option<Wan>,
    /// Commands in a log group (the paper's LogGrpSize). Default 10000
    #[arg(long)]
    group_size: Option<u32>,
    /// Longest time that a command waits for its group to fill, in microseconds. Default 1000
    #[arg(long)]
    group_wait_us: Option<u64>,
    /// Groups of a worker in flight to a majority at the same time. With 1, each group waits for
    /// the one before. Default 64
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    groups_in_flight: Option<u32>,
    /// Time that a follower waits for a leader before it asks for votes, in milliseconds. Default
    /// 300
    #[arg(long)]
    election_timeout_ms: Option<u64>,
    /// Largest size of a node's logs, in MiB. Default 65536
    #[arg(long)]
    max_log: Option<u64>,
    /// Encrypt and authenticate connections, with certificates that are created in the folder
    #[arg(long)]
    tls: bool,
    /// Let each node serve /metrics and /healthz on 127.0.0.1, at its port for nodes plus 150
    #[arg(long)]
    metrics: bool,
    /// The first port to try
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
}

/// Distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wan {
    None,
    Japan,
    JapanInHandler,
}

impl Wan {
    fn of(config: &NodeConfig) -> Self {
        match (config.emulate_cities, config.delay_in_handler) {
            (false, _) => Self::None,
            (true, false) => Self::Japan,
            (true, true) => Self::JapanInHandler,
        }
    }

    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |it| it.get_name().to_owned())
    }
}

/// Runs the command.
pub(crate) fn run(command: &LocalCommand, dir: &Path) -> Result<(), Failure> {
    let dir = std::path::absolute(dir).map_err(device("find", dir))?;
    let open = || LocalCluster::open(&dir);
    let sites = || {
        let cluster = open()?;
        Ok((cluster.sites()?, cluster.options.clone()))
    };
    match command {
        LocalCommand::Start(start_arguments) => start(&dir, start_arguments),
        LocalCommand::Status(arguments) => status::run(arguments, open),
        LocalCommand::Verify(arguments) => verify::run(arguments, sites),
        LocalCommand::Backup(arguments) => backup::run(arguments, sites),
        LocalCommand::Kill(node) => kill(&open()?, &node.node),
        LocalCommand::Pause(node) => signal(&open()?, &node.node, Signal::STOP, "paused"),
        LocalCommand::Resume(node) => resume(&open()?, &node.node),
        LocalCommand::Restart(node) => restart(&open()?, &node.node),
        LocalCommand::Replace {
            node,
            config: Some(config),
        } => replace::remote(*node, config),
        LocalCommand::Replace { node, config: None } => replace::local(&open()?, *node),
        LocalCommand::Add {
            node: Some(node),
            config: Some(config),
        } => members::add_remote(*node, config),
        LocalCommand::Add { node, .. } => members::add_local(&dir, *node),
        LocalCommand::Remove {
            node,
            config: Some(config),
        } => members::remove_remote(*node, config),
        LocalCommand::Remove { node, config: None } => members::remove_local(&open()?, *node),
        LocalCommand::Move { node, config } => members::move_remote(*node, config),
        LocalCommand::Cut { link } => cut(&open()?, link),
        LocalCommand::Heal { link } => heal(&open()?, link.as_deref()),
        LocalCommand::Certificates(arguments) => certificates::make(arguments),
        LocalCommand::Stop { remove } => stop(&open()?, *remove),
    }
}

fn start(dir: &Path, arguments: &StartArguments) -> Result<(), Failure> {
    let cluster = match LocalCluster::find(dir)? {
        Some(cluster) => {
            check_same(&cluster, arguments)?;
            cluster
        }
        None => create(dir, arguments)?,
    };
    for node in &cluster.nodes {
        if node.process()? == ProcessState::Down {
            node.start()?;
        }
    }
    wait_for_leader(&cluster)?;
    let cuts = cluster.cuts()?;
    if !cuts.is_empty() {
        cluster.set_cuts(&cuts)?;
    }
    status::print_once(&cluster)
}

fn create(dir: &Path, arguments: &StartArguments) -> Result<LocalCluster, Failure> {
    let new = NewCluster {
        nodes: arguments.nodes.unwrap_or(3),
        cities: arguments.wan.is_some_and(|wan| wan != Wan::None),
        tls: arguments.tls,
        metrics: arguments.metrics,
        port: arguments.port,
        adjust: &|config| {
            config.delay_in_handler = arguments.wan == Some(Wan::JapanInHandler);
            if let Some(workers) = arguments.workers {
                config.workers = workers;
            }
            if let Some(group_size) = arguments.group_size {
                config.group_size = group_size;
            }
            if let Some(micros) = arguments.group_wait_us {
                config.group_wait = Duration::from_micros(micros);
            }
            if let Some(groups) = arguments.groups_in_flight {
                config.groups_in_flight = groups;
            }
            if let Some(millis) = arguments.election_timeout_ms {
                config.set_election_timeout(Duration::from_millis(millis));
            }
            if let Some(mib) = arguments.max_log {
                config.log_bytes_max = mib.saturating_mul(1 << 20);
            }
        },
    };
    LocalCluster::create(dir, &new)
}

/// Fails if a flag contradicts the cluster in the folder.
fn check_same(cluster: &LocalCluster, arguments: &StartArguments) -> Result<(), Failure> {
    let config = &cluster.nodes[0].config;
    let made = |made: bool| if made { "made" } else { "none" }.to_owned();
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    let millis = config.election_timeout.as_millis();
    let compared = [
        (
            ("nodes", "nodes"),
            text(arguments.nodes.map(u64::from)),
            cluster.nodes.len().to_string(),
        ),
        (
            ("workers", "workers"),
            text(arguments.workers.map(u64::from)),
            config.workers.to_string(),
        ),
        (
            ("distances", "wan"),
            arguments.wan.map(Wan::name),
            Wan::of(config).name(),
        ),
        (
            ("certificates", "tls"),
            arguments.tls.then(|| made(true)),
            made(config.tls.is_some()),
        ),
        (
            ("ports for metrics", "metrics"),
            arguments.metrics.then(|| made(true)),
            made(config.metrics_listen.is_some()),
        ),
        (
            ("group size", "group-size"),
            text(arguments.group_size.map(u64::from)),
            config.group_size.to_string(),
        ),
        (
            ("group wait in µs", "group-wait-us"),
            text(arguments.group_wait_us),
            config.group_wait.as_micros().to_string(),
        ),
        (
            ("groups in flight", "groups-in-flight"),
            text(arguments.groups_in_flight.map(u64::from)),
            config.groups_in_flight.to_string(),
        ),
        (
            ("election timeout in ms", "election-timeout-ms"),
            text(arguments.election_timeout_ms),
            millis.to_string(),
        ),
        (
            ("largest log in MiB", "max-log"),
            text(arguments.max_log),
            (config.log_bytes_max >> 20).to_string(),
        ),
    ];
    for ((key, flag), asked, found) in compared {
        if let Some(asked) = asked
            && asked != found
        {
            return Err(Failure::OtherCluster {
                dir: cluster.dir.clone(),
                key,
                flag,
                found,
                asked,
            });
        }
    }
    Ok(())
}

fn wait_for_leader(cluster: &LocalCluster) -> Result<(), Failure> {
    let begin = Instant::now();
    while begin.elapsed() < ELECTION_TIMEOUT {
        if cluster.leader()?.is_some() {
            return Ok(());
        }
        for node in &cluster.nodes {
            if node.process()? == ProcessState::Down {
                return Err(node.why_ended());
            }
        }
        thread::sleep(INTERVAL);
    }
    Err(Failure::NoLeader {
        seconds: ELECTION_TIMEOUT.as_secs(),
    })
}

/// The node of this number, or the leader.
fn node_of<'a>(cluster: &'a LocalCluster, name: &str) -> Result<&'a LocalNode, Failure> {
    if name == "leader" {
        let leader = cluster.leader()?.ok_or(Failure::NoLeader { seconds: 0 })?;
        return cluster.node(leader);
    }
    let id = name.parse();
    cluster.node(id.map_err(|_| Failure::NoNode(name.to_owned()))?)
}

fn signal(cluster: &LocalCluster, name: &str, signal: Signal, done: &str) -> Result<(), Failure> {
    let node = node_of(cluster, name)?;
    let pid = node.signal(signal)?;
    print(&format!("node {} (process {pid}) is {done}\n", node.id))
}

fn kill(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    let node = node_of(cluster, name)?;
    let pid = node.signal(Signal::KILL)?;
    if !node.wait_for_end(KILL_TIMEOUT)? {
        return Err(Failure::DoesNotEnd(node.id));
    }
    print(&format!("node {} (process {pid}) was killed\n", node.id))
}

fn resume(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    signal(cluster, name, Signal::CONT, "resumed")?;
    // It may have missed that links were cut or healed.
    cluster.set_cuts(&cluster.cuts()?)
}

fn restart(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    let node = node_of(cluster, name)?;
    end(node)?;
    let pid = start_node(cluster, node)?;
    cluster.repeat_cuts()?;
    print(&format!("node {} runs as process {pid}\n", node.id))
}

/// Starts a node, and waits until it answers.
fn start_node(cluster: &LocalCluster, node: &LocalNode) -> Result<u32, Failure> {
    let pid = node.start()?;
    let begin = Instant::now();
    while namiki_client::status(node.address(), &cluster.within(ANSWER_TIMEOUT)).is_err() {
        if node.process()? == ProcessState::Down {
            return Err(node.why_ended());
        }
        if begin.elapsed() > ELECTION_TIMEOUT {
            return Err(Failure::NotRunning(node.id));
        }
        thread::sleep(INTERVAL);
    }
    Ok(pid)
}

/// Stops a node in good order, if it runs.
fn end(node: &LocalNode) -> Result<(), Failure> {
    match node.process()? {
        ProcessState::Down => return Ok(()),
        ProcessState::Paused(_) => {
            node.signal(Signal::CONT)?;
        }
        ProcessState::Running(_) => {}
    }
    node.signal(Signal::TERM)?;
    if !node.wait_for_end(STOP_TIMEOUT)? {
        return Err(Failure::DoesNotEnd(node.id));
    }
    Ok(())
}

fn link_of(cluster: &LocalCluster, text: &str) -> Result<(u64, u64), Failure> {
    let Some((one, other)) = text.split_once('-') else {
        let why = format!("{text:?} is not a link; write two nodes, such as 1-3");
        return Err(usage(why));
    };
    let (one, other) = (node_of(cluster, one)?.id, node_of(cluster, other)?.id);
    if one == other {
        let why = format!("node {one} has no link to itself; write two nodes, such as 1-3");
        return Err(usage(why));
    }
    Ok(link(one, other))
}

fn cut(cluster: &LocalCluster, text: &str) -> Result<(), Failure> {
    let (one, other) = link_of(cluster, text)?;
    let mut cuts = cluster.cuts()?;
    cuts.insert((one, other));
    cluster.set_cuts(&cuts)?;
    print(&format!(
        "the link between nodes {one} and {other} is cut\n"
    ))
}

fn heal(cluster: &LocalCluster, text: Option<&str>) -> Result<(), Failure> {
    let Some(text) = text else {
        cluster.set_cuts(&Links::new())?;
        return print("all links are whole\n");
    };
    let (one, other) = link_of(cluster, text)?;
    let mut cuts = cluster.cuts()?;
    cuts.remove(&(one, other));
    cluster.set_cuts(&cuts)?;
    print(&format!(
        "the link between nodes {one} and {other} is restored\n"
    ))
}

fn stop(cluster: &LocalCluster, remove: bool) -> Result<(), Failure> {
    // All at the same time: the last one alone could not transfer its leadership.
    let ended = thread::scope(|scope| {
        let nodes = cluster.nodes.iter();
        let ending: Vec<_> = nodes.map(|node| scope.spawn(|| end(node))).collect();
        let ended = ending.into_iter().map(|thread| thread.join());
        // A thread that panics has printed why.
        ended
            .map(|ended| ended.unwrap_or(Ok(())))
            .collect::<Result<Vec<()>, _>>()
    });
    ended?;
    if remove {
        fs::remove_dir_all(&cluster.dir).map_err(device("remove", &cluster.dir))?;
    }
    let nodes = cluster.nodes.len();
    let removed = if remove {
        ", and its folder was removed"
    } else {
        ""
    };
    print(&format!(
        "the cluster of {nodes} nodes is stopped{removed}\n"
    ))
}
