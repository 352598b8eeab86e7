//! A cluster of processes on this machine, which is started, harmed and stopped through the program
//! `namiki-cluster`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use namiki_client::protocol::{NodeStatus, Role};
use namiki_client::tls::CertificateFiles;
use namiki_client::{
    ClientError, ClientOptions, Security, StatesAtEntry, states_at_one_entry, status,
};
use namiki_cluster::config::NodeConfig;
use rustix::process::{Pid, Signal, kill_process};

use super::namespaces::Namespaces;
use super::shape::Shape;
use super::start_times::WatchedNode;
use crate::error::BenchError;
use crate::interrupt;

const PROGRAM: &str = "namiki-cluster";
/// Time limit for a node to report its status.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit until a certain node leads.
const LEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// A pause that is long enough for others to elect a leader.
const LEAD_BACKOFF: Duration = Duration::from_millis(1200);
/// Time limit for a node to hash all its rows.
const HASH_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a node to heal.
const HEAL_TIMEOUT: Duration = Duration::from_secs(180);
/// Time limit for a node to exit.
const END_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
/// The system's clock ticks per second in `/proc`: fixed on Linux.
const TICKS_PER_S: f64 = 100.0;
/// Blocks of ports for clusters: the first port of all, their number, and the ports of each.
const FIRST_PORT: u16 = 14_000;
const PORT_BLOCKS: usize = 80;
const BLOCK_PORTS: u16 = 200;

/// A running cluster. It is stopped on drop, unless it was running before.
#[derive(Debug)]
pub(super) struct LocalCluster {
    program: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) nodes: Vec<Node>,
    /// The options by which clients connect to this cluster, and to no other one that has taken one
    /// of its ports.
    pub(super) options: ClientOptions,
    /// Whether it keeps running after drop.
    keep_running: bool,
    /// Held as long as the cluster is used.
    ports: PortBlock,
    pub(super) namespaces: Option<Namespaces>,
}

/// A node of the cluster.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) address: String,
    /// The address of its metrics.
    pub(super) metrics: Option<String>,
    /// That of its data.
    pub(super) directory: PathBuf,
    dir: PathBuf,
}

impl LocalCluster {
    /// Starts the cluster in a folder: the existing one, or a new one.
    pub(super) fn start(dir: &Path, shape: &Shape) -> Result<Self, BenchError> {
        // An absolute path, as in the nodes' command lines, by which their processes are found.
        let dir = std::path::absolute(dir).map_err(BenchError::file("find", dir))?;
        let mut cluster = Self {
            program: find_program()?,
            dir,
            nodes: Vec::new(),
            options: ClientOptions::default(),
            keep_running: false,
            ports: PortBlock::take(),
            namespaces: None,
        };
        cluster.read_nodes()?;
        let running = cluster.nodes.iter().filter(|node| node.pid().is_some());
        cluster.keep_running = running.count() > 0;
        if shape.namespaces {
            cluster.start_in_namespaces(shape)?;
            return Ok(cluster);
        }
        let mut arguments = vec![
            "start".to_owned(),
            format!("--port={}", cluster.ports.first),
            format!("--nodes={}", shape.nodes),
            format!("--workers={}", shape.workers),
            format!("--group-size={}", shape.group_size),
            format!("--group-wait-us={}", shape.group_wait_us),
            format!("--groups-in-flight={}", shape.groups_in_flight),
            format!("--wan={}", shape.wan.name()),
            format!("--election-timeout-ms={}", shape.election_timeout_ms),
            format!("--max-log={}", shape.max_log_mib),
        ];
        if shape.tls {
            arguments.push("--tls".to_owned());
        }
        // An existing cluster has its own.
        if cluster.nodes.is_empty() {
            arguments.push("--metrics".to_owned());
        }
        cluster.run(arguments)?;
        cluster.read_nodes()?;
        Ok(cluster)
    }

    fn start_in_namespaces(&mut self, shape: &Shape) -> Result<(), BenchError> {
        let namespaces = Namespaces::create(shape.nodes)?;
        namespaces.make_nodes(&self.program, &self.dir, shape)?;
        self.namespaces = Some(namespaces);
        self.read_nodes()?;
        self.start_all()?;
        let begin = Instant::now();
        while self.leader().is_none() {
            interrupt::check()?;
            if begin.elapsed() > LEAD_TIMEOUT {
                let seconds = LEAD_TIMEOUT.as_secs();
                let why =
                    format!("the nodes have no leader after {seconds} s; their log.txt say why");
                return Err(BenchError::Cluster(why));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Starts all nodes, which must be down.
    pub(super) fn start_all(&self) -> Result<(), BenchError> {
        let Some(namespaces) = &self.namespaces else {
            return self.run(["start"]);
        };
        let mut nodes = self.nodes.iter();
        nodes.try_for_each(|node| namespaces.start_node(&self.program, &self.dir, node.id))
    }

    /// Restarts a node, which must be down.
    pub(super) fn restart(&self, node: u64) -> Result<(), BenchError> {
        match &self.namespaces {
            None => self.run(["restart", &node.to_string()]),
            Some(namespaces) => namespaces.start_node(&self.program, &self.dir, node),
        }
    }

    /// Restarts a node, which is stopped in good order first.
    pub(super) fn restart_in_order(&self, node: u64) -> Result<(), BenchError> {
        self.signal(node, Signal::TERM);
        self.wait_for_end(node)?;
        self.restart(node)
    }

    /// The shape of the cluster in a folder, if there is one.
    pub(super) fn shape(dir: &Path) -> Result<Option<Shape>, BenchError> {
        let (mut first, mut nodes) = (None, 0);
        while let Some(config) = read_config(&dir.join(format!("node-{}", nodes + 1)))? {
            nodes += 1;
            first.get_or_insert(config);
        }
        Ok(first.map(|config| Shape::of(&config, nodes)))
    }

    fn read_nodes(&mut self) -> Result<(), BenchError> {
        self.nodes.clear();
        for id in 1.. {
            let dir = self.dir.join(format!("node-{id}"));
            let Some(config) = read_config(&dir)? else {
                break;
            };
            self.options.cluster = Some(config.cluster);
            if let Some(tls) = &config.tls {
                // A local cluster has all its certificates in one folder.
                let folder = tls.authority.parent().unwrap_or(Path::new("."));
                let client = CertificateFiles::in_folder(folder).client();
                let security = Security::tls(&client);
                let security = security.map_err(|error| BenchError::Cluster(error.to_string()));
                self.options.security = security?;
            }
            self.nodes.push(Node {
                id,
                address: config.client_listen,
                metrics: config.metrics_listen,
                directory: config.directory,
                dir,
            });
        }
        Ok(())
    }

    /// Runs a command of `namiki cluster`.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<(), BenchError> {
        let output = Command::new(&self.program)
            .arg("--dir")
            .arg(&self.dir)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::file("run", &self.program))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let said = said.strip_prefix("namiki-cluster: ").unwrap_or(said);
        Err(BenchError::Cluster(said.to_owned()))
    }

    /// The clients' connection options with this timeout.
    pub(super) fn within(&self, timeout: Duration) -> ClientOptions {
        ClientOptions {
            timeout,
            ..self.options.clone()
        }
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// The status of each node that answers.
    pub(super) fn statuses(&self) -> Vec<NodeStatus> {
        let (nodes, options) = (self.nodes.iter(), self.within(STATUS_TIMEOUT));
        let statuses = nodes.filter_map(|node| status(&node.address, &options).ok());
        statuses.collect()
    }

    /// Prints the status of each node on standard error.
    pub(super) fn describe(&self) {
        for node in &self.nodes {
            match status(&node.address, &self.within(STATUS_TIMEOUT)) {
                Ok(status) => eprintln!(
                    "node {}: {:?} of term {}, leader {:?}, last {}, on disk {}, committed {}, applied {}, matched {:?}",
                    node.id,
                    status.role,
                    status.term,
                    status.leader,
                    status.last_lsn,
                    status.persisted_lsn,
                    status.committed_lsn,
                    status.applied_lsn,
                    status.matched
                ),
                Err(error) => eprintln!("node {}: {error}", node.id),
            }
        }
    }

    /// The leader's node.
    pub(super) fn leader(&self) -> Option<u64> {
        Some(self.leader_and_term()?.0)
    }

    /// The leader's node, and its term.
    pub(super) fn leader_and_term(&self) -> Option<(u64, u64)> {
        let leaders = self.statuses().into_iter();
        let leaders = leaders.filter(|status| status.role == Role::Leader);
        let leader = leaders.max_by_key(|status| status.term)?;
        Some((leader.node, leader.term))
    }

    /// The rows and sessions of all nodes after one entry, as hashes.
    pub(super) fn states_at_one_entry(&self) -> Result<StatesAtEntry, ClientError> {
        states_at_one_entry(&self.addresses(), &self.within(HASH_TIMEOUT))
    }

    /// Makes this node the leader: other leaders are paused until they lose leadership.
    pub(super) fn let_lead(&self, node: u64) -> Result<(), BenchError> {
        let begin = Instant::now();
        while begin.elapsed() < LEAD_TIMEOUT && !interrupt::asked() {
            match self.leader() {
                Some(leader) if leader == node => return Ok(()),
                Some(leader) => {
                    let leader = leader.to_string();
                    self.run(["pause", &leader])?;
                    std::thread::sleep(LEAD_BACKOFF);
                    self.run(["resume", &leader])?;
                }
                None => std::thread::sleep(STATUS_TIMEOUT),
            }
        }
        interrupt::check()?;
        let seconds = LEAD_TIMEOUT.as_secs();
        let why = format!("node {node} has not come to lead within {seconds} s; try it again");
        Err(BenchError::Cluster(why))
    }

    /// The process of the leader's node.
    pub(super) fn leader_process(&self) -> Option<u32> {
        self.process_of(self.leader()?)
    }

    pub(super) fn process_of(&self, node: u64) -> Option<u32> {
        self.node(node)?.pid()
    }

    /// The nodes' processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().filter_map(Node::pid)
    }

    /// The nodes' directories, with what is left of lost ones.
    pub(super) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.nodes.iter().map(|node| node.dir.clone())
    }

    /// Ends a node and removes its directory, as if its disk were lost. The copy of it goes too: it is of an incarnation
    /// that is replaced, and such a node refuses to run.
    pub(super) fn lose(&self, id: u64) -> Result<(), BenchError> {
        self.run(["kill", &id.to_string()])?;
        let directory = self.directory_of(id)?;
        let copy = self.copy_of(id);
        let removed = fs::remove_dir_all(&directory);
        removed.map_err(BenchError::file("remove", &directory))?;
        match fs::remove_dir_all(&copy) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(BenchError::file("remove", &copy)(error))
            }
            _ => Ok(()),
        }
    }

    /// The directory of a node's data.
    pub(super) fn directory_of(&self, id: u64) -> Result<PathBuf, BenchError> {
        let node = self.node(id);
        let config = node.map_or(Ok(None), |node| read_config(&node.dir))?;
        let Some(config) = config else {
            return Err(no_node(id));
        };
        Ok(config.directory)
    }

    /// The place of an earlier copy of a node's directory.
    pub(super) fn copy_of(&self, id: u64) -> PathBuf {
        self.dir.join(format!("copy-{id}"))
    }

    /// The file with the lines that a node has logged.
    pub(super) fn log_of(&self, id: u64) -> Result<PathBuf, BenchError> {
        let node = self.node(id).ok_or_else(|| no_node(id))?;
        Ok(node.dir.join("log.txt"))
    }

    /// Waits until a node votes, lacks no payload, and has applied what is committed now.
    pub(super) fn wait_until_whole(&self, id: u64) -> Result<(), BenchError> {
        self.wait_until_has(id, None, |it| it.applied_lsn, HEAL_TIMEOUT)
            .map(drop)
    }

    /// Waits until a voting node that lacks no payload has an entry, by a number in its status. `None`: the last one that is
    /// committed now. Returns that entry.
    pub(super) fn wait_until_has(
        &self,
        id: u64,
        mut entry: Option<u64>,
        has: fn(&NodeStatus) -> u64,
        timeout: Duration,
    ) -> Result<u64, BenchError> {
        let begin = Instant::now();
        loop {
            let statuses = self.statuses();
            if entry.is_none() {
                let leader = statuses.iter().find(|it| it.role == Role::Leader);
                entry = leader.map(|it| it.committed_lsn);
            }
            let voting = statuses.iter().find(|it| {
                let votes = matches!(it.role, Role::Leader | Role::Follower);
                it.node == id && votes && it.missing_payloads == 0
            });
            if let (Some(entry), Some(node)) = (entry, voting)
                && has(node) >= entry
            {
                return Ok(entry);
            }
            interrupt::check()?;
            if begin.elapsed() > timeout {
                let seconds = timeout.as_secs();
                let why = format!("node {id} has not healed within {seconds} s: {statuses:?}");
                return Err(BenchError::Check(why));
            }
            std::thread::sleep(POLL);
        }
    }

    /// A node that is to be watched while it starts.
    pub(super) fn watched(&self, id: u64) -> Result<WatchedNode<'_>, BenchError> {
        let node = self.node(id).ok_or_else(|| no_node(id))?;
        Ok(WatchedNode {
            address: &node.address,
            options: &self.options,
        })
    }

    fn node(&self, id: u64) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Sends SIGKILL to all nodes, one immediately after the other.
    pub(super) fn kill_all(&self) -> Result<(), BenchError> {
        for node in &self.nodes {
            self.signal(node.id, Signal::KILL);
        }
        self.nodes
            .iter()
            .try_for_each(|node| self.wait_for_end(node.id))
    }

    /// Sends a signal to a node. A process that exited by itself is for the witness to detect.
    fn signal(&self, node: u64, signal: Signal) {
        let process = self.process_of(node);
        let process = process.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(process) = process {
            let _ = kill_process(process, signal);
        }
    }

    /// Waits until a node's process has exited.
    pub(super) fn wait_for_end(&self, node: u64) -> Result<(), BenchError> {
        let begin = Instant::now();
        while self.process_of(node).is_some() {
            interrupt::check()?;
            if begin.elapsed() > END_TIMEOUT {
                let seconds = END_TIMEOUT.as_secs();
                let why = format!("node {node} was to end, and still runs after {seconds} s");
                return Err(BenchError::Cluster(why));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Processor seconds used by each node's process.
    pub(super) fn cpu_seconds(&self) -> HashMap<u32, f64> {
        let pids = self.nodes.iter().filter_map(Node::pid);
        let seconds = pids.filter_map(|pid| Some((pid, cpu_seconds_of(&pid.to_string())?)));
        seconds.collect()
    }
}

impl Node {
    /// The node's process, if it exists.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.dir.join("pid")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let path = self.dir.join("namiki.toml");
        let path = path.as_os_str().as_encoded_bytes();
        let mut arguments = command_line.split(|byte| *byte == 0);
        arguments.any(|argument| argument == path).then_some(pid)
    }
}

fn no_node(id: u64) -> BenchError {
    BenchError::Cluster(format!(
        "there is no node {id} in the folder of the cluster"
    ))
}

/// The configuration of the node in a folder, if there is one.
fn read_config(dir: &Path) -> Result<Option<NodeConfig>, BenchError> {
    let path = dir.join("namiki.toml");
    if !path.exists() {
        return Ok(None);
    }
    let config = NodeConfig::read(&path).map_err(|error| BenchError::Cluster(error.to_string()));
    config.map(Some)
}

/// A block of ports for a new cluster. While all its nodes are down, another benchmark's cluster
/// could take their ports: so the last port of the block, which no node has, says that it is taken.
#[derive(Debug)]
struct PortBlock {
    first: u16,
    _taken: Option<TcpListener>,
}

impl PortBlock {
    /// One that no other benchmark has. If all are taken, the first one: the cluster looks for free
    /// ports from there on.
    fn take() -> Self {
        let process = std::process::id() as usize;
        let mut blocks = (0..PORT_BLOCKS).map(|at| (process + at) % PORT_BLOCKS);
        let taken = blocks.find_map(|block| {
            let first = FIRST_PORT + block as u16 * BLOCK_PORTS;
            let last = first + BLOCK_PORTS - 1;
            Some((first, TcpListener::bind(("127.0.0.1", last)).ok()?))
        });
        let (first, listener) = taken.unzip();
        Self {
            first: first.unwrap_or(FIRST_PORT),
            _taken: listener,
        }
    }
}

/// Processor seconds used by a process, user and system together.
pub(super) fn cpu_seconds_of(process: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11);
    let (user, system): (f64, f64) = (ticks.next()?.parse().ok()?, ticks.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_S)
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if !self.keep_running
            && let Err(error) = self.run(["stop"])
        {
            eprintln!("{} may still run: {error}", self.dir.display());
        }
    }
}

/// Finds the program `namiki-cluster`, in the folder of this program or on PATH.
fn find_program() -> Result<PathBuf, BenchError> {
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let mut programs = folders.map(|folder| folder.join(PROGRAM));
    let found = programs.find(|program| program.is_file() && program.is_absolute());
    found.ok_or_else(|| {
        BenchError::Cluster(
            "there is no namiki-cluster, the program that runs nodes, beside this one nor on PATH; build it with cargo build \
             --release -p namiki-cluster-cli"
                .to_owned(),
        )
    })
}
