//! A network namespace for each node, joined by a bridge, so that messages between two nodes can be
//! dropped in one direction alone. Needs root, and the program `ip`.
//!
//! ```text
//!   clients 10.77.B.254 ── bridge ──┬── 10.77.B.1  node 1
//!                                   ├── 10.77.B.2  node 2
//!                                   └── …
//! ```
//! To drop a direction, the sender's neighbour table gets a wrong entry: its frames then go to an
//! address that no device has. Neither end is notified, as with a broken switch.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use namiki_cluster::NodeId;
use namiki_cluster::config::{Member, NodeConfig, new_cluster_number};

use super::shape::Shape;
use super::system_program::run_program;
use crate::error::BenchError;

const PEER_PORT: u16 = 7400;
const CLIENT_PORT: u16 = 7500;
const METRICS_PORT: u16 = 7600;
/// A device address that no device has.
const NOWHERE: &str = "02:4e:4d:ff:ff:ff";

/// The namespaces and their bridge. They are removed on drop; the nodes must have exited before.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// Short, because names of devices are limited.
    name: String,
    subnet: String,
    nodes: u64,
}

fn ip(arguments: &str) -> Result<(), BenchError> {
    run_program("a network namespace", "ip", arguments.split(' '))
}

fn hardware_address(node: u64) -> String {
    format!("02:4e:4d:00:00:{node:02x}")
}

impl Namespaces {
    /// Creates namespaces for `nodes` nodes.
    pub(super) fn create(nodes: u16) -> Result<Self, BenchError> {
        let process = std::process::id();
        let made = Self {
            name: format!("nk{}", process % 100_000),
            subnet: format!("10.77.{}", process % 250),
            nodes: nodes.into(),
        };
        let (name, subnet) = (&made.name, &made.subnet);
        ip(&format!("link add {name} type bridge"))?;
        ip(&format!("addr add {subnet}.254/24 dev {name}"))?;
        ip(&format!("link set {name} up"))?;
        for node in 1..=made.nodes {
            let space = made.space(node);
            let address = hardware_address(node);
            ip(&format!("netns add {space}"))?;
            ip(&format!(
                "link add {space} type veth peer name eth0 address {address} netns {space}"
            ))?;
            ip(&format!("link set {space} master {name} up"))?;
            ip(&format!("-n {space} addr add {subnet}.{node}/24 dev eth0"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} link set eth0 up"))?;
        }
        Ok(made)
    }

    fn space(&self, node: u64) -> String {
        format!("{}n{node}", self.name)
    }

    /// Creates the directories of a new cluster, as `namiki cluster start` does.
    pub(super) fn make_nodes(
        &self,
        program: &Path,
        dir: &Path,
        shape: &Shape,
    ) -> Result<(), BenchError> {
        let address = |node: u64, port: u16| format!("{}.{node}:{port}", self.subnet);
        let member = |node: u64| Member {
            id: NodeId::first(node),
            peer: address(node, PEER_PORT),
            client: address(node, CLIENT_PORT),
            city: None,
        };
        let members: Vec<Member> = (1..=self.nodes).map(member).collect();
        let cluster = new_cluster_number();
        for node in 1..=self.nodes {
            let dir = dir.join(format!("node-{node}"));
            fs::create_dir_all(&dir).map_err(BenchError::file("create", &dir))?;
            let mut config =
                NodeConfig::new(cluster, NodeId::first(node), "data".into(), members.clone());
            config.workers = shape.workers;
            config.group_size = shape.group_size;
            config.group_wait = Duration::from_micros(shape.group_wait_us);
            config.groups_in_flight = shape.groups_in_flight;
            config.set_election_timeout(Duration::from_millis(shape.election_timeout_ms));
            config.log_bytes_max = shape.max_log_mib << 20;
            config.allow_cuts = true;
            config.metrics_listen = Some(address(node, METRICS_PORT));
            let text = config.to_text();
            let text = text.map_err(|error| BenchError::Cluster(error.to_string()))?;
            let path = dir.join("namiki.toml");
            fs::write(&path, text).map_err(BenchError::file("write", &path))?;
            let init = Command::new(program)
                .args(["node", "init", "--config"])
                .arg(&path)
                .status()
                .map_err(BenchError::file("run", program))?;
            if !init.success() {
                return Err(BenchError::Cluster(format!(
                    "node {node} cannot be made, see above"
                )));
            }
        }
        Ok(())
    }

    /// Starts a node in its namespace. Its process is found in the same way as those of `namiki
    /// cluster`.
    pub(super) fn start_node(
        &self,
        program: &Path,
        dir: &Path,
        node: u64,
    ) -> Result<(), BenchError> {
        let dir = dir.join(format!("node-{node}"));
        let path = dir.join("log.txt");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(BenchError::file("open", &path))?;
        let process = Command::new("ip")
            .args(["netns", "exec", &self.space(node)])
            .arg(program)
            .args(["node", "--detach", "--config"])
            .arg(dir.join("namiki.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(BenchError::file("run", "ip"))?;
        let path = dir.join("pid");
        fs::write(&path, process.id().to_string()).map_err(BenchError::file("write", &path))?;
        // Without a wait, an exited process would stay as a zombie.
        std::thread::spawn(move || {
            let mut process = process;
            process.wait()
        });
        Ok(())
    }

    /// Drops all messages from one node to another from now on.
    pub(super) fn drop_link(&self, from: u64, to: u64) -> Result<(), BenchError> {
        self.set_neighbour(from, to, NOWHERE)
    }

    /// Restores all links.
    pub(super) fn heal(&self) -> Result<(), BenchError> {
        for from in 1..=self.nodes {
            for to in (1..=self.nodes).filter(|to| *to != from) {
                self.set_neighbour(from, to, &hardware_address(to))?;
            }
        }
        Ok(())
    }

    fn set_neighbour(&self, from: u64, to: u64, address: &str) -> Result<(), BenchError> {
        let (space, subnet) = (self.space(from), &self.subnet);
        ip(&format!(
            "-n {space} neigh replace {subnet}.{to} lladdr {address} dev eth0 nud permanent"
        ))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in 1..=self.nodes {
            if let Err(error) = ip(&format!("netns del {}", self.space(node))) {
                eprintln!("{}", error.with_causes());
            }
        }
        if let Err(error) = ip(&format!("link del {}", self.name)) {
            eprintln!("{}", error.with_causes());
        }
    }
}
