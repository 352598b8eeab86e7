//! A cluster on this machine, for trying out failures of nodes.
//!
//! Its nodes are real processes that communicate over the loopback device, each the same program as
//! on a machine of its own.
//!
//! | file | contents |
//! |---|---|
//! | `layout.rs` | its directory |
//! | `processes.rs` | its processes |
//! | `cuts.rs` | its links |
//! | `members.rs` | nodes that join and leave |
//! | `replace.rs` | a node that has lost its directory |

mod cuts;
mod layout;
mod members;
mod processes;
mod replace;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use namiki_cluster::config::NodeConfig;
use rustix::process::Signal;

use self::cuts::link;
pub(crate) use self::layout::LocalCluster;
use self::layout::{DEFAULT_PORT, LocalNode, NewCluster};
pub(crate) use self::members::{add, remove};
pub(crate) use self::replace::replace;
use crate::failure::{Failure, device, print, usage};
use crate::status::{self, Links, ProcessState};

/// Timeout of an election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of an orderly stop of a node.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a kill.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one status request to a node that is starting.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Args, Debug)]
pub(crate) struct StartArguments {
    /// Number of nodes, from 1 to 9. A majority of them must run, so choose 1, 3 or 5. Default 3
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

/// Starts the cluster in a folder, or a new one, and waits until it has a leader.
pub(crate) fn start(dir: &Path, arguments: &StartArguments) -> Result<(), Failure> {
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

/// Kills a node at once.
pub(crate) fn kill(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    let node = node_of(cluster, name)?;
    let pid = node.signal(Signal::KILL)?;
    if !node.wait_for_end(KILL_TIMEOUT)? {
        return Err(Failure::DoesNotEnd(node.id));
    }
    print(&format!("node {} (process {pid}) was killed\n", node.id))
}

/// Pauses a node: its process exists, and does not answer.
pub(crate) fn pause(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    signal(cluster, name, Signal::STOP, "paused")
}

/// Resumes a paused node.
pub(crate) fn resume(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
    signal(cluster, name, Signal::CONT, "resumed")?;
    // It may have missed that links were cut or healed.
    cluster.set_cuts(&cluster.cuts()?)
}

/// Stops a node in good order, if it runs, and starts it.
pub(crate) fn restart(cluster: &LocalCluster, name: &str) -> Result<(), Failure> {
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

/// Cuts the link between two nodes.
pub(crate) fn cut(cluster: &LocalCluster, text: &str) -> Result<(), Failure> {
    let (one, other) = link_of(cluster, text)?;
    let mut cuts = cluster.cuts()?;
    cuts.insert((one, other));
    cluster.set_cuts(&cuts)?;
    print(&format!(
        "the link between nodes {one} and {other} is cut\n"
    ))
}

/// Restores a link, or all of them.
pub(crate) fn heal(cluster: &LocalCluster, text: Option<&str>) -> Result<(), Failure> {
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

/// Stops all nodes in good order, and removes the folder if that is asked for.
pub(crate) fn stop(cluster: &LocalCluster, remove: bool) -> Result<(), Failure> {
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
