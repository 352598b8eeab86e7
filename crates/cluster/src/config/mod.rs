//! The configuration of a node: a file in TOML.
//!
//! ```toml
//! cluster = "5f0c1d…"                # 32 hexadecimal digits, the same on all nodes
//! node = 1                           # the number of this node
//! directory = "/var/lib/namiki"      # its logs; created by `namiki node init`
//! workers = 4                        # the same on all nodes; fixed when the directory is created
//!
//! [[member]]                         # this node and others; of a new cluster, all of them
//! id = 1
//! peer = "10.0.0.1:7400"             # where it listens for nodes
//! client = "10.0.0.1:7500"           # where it listens for clients
//! ```
//!
//! This section secures connections; the paths are relative to the file's folder:
//!
//! ```toml
//! [tls]
//! authority = "ca.pem"               # has signed the certificates of all nodes and clients
//! certificate = "node-1.pem"         # for the name node-1.CLUSTER.namiki
//! key = "node-1.key"
//! ```
//!
//! Everything else has a default. An error names the key and the remedy.

mod error;
mod file;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::ConfigError;
use file::{File, FileMember, FileTls, defaults};
use namiki_client::TlsOptions;
use namiki_client::protocol::NodeAddresses;
use namiki_platform::hash::hash_of;
use validate::check_address;

use crate::network::NodeId;
use crate::transport::{City, Limits, PeerSettings, Timing, TransportSettings};

/// Largest number of commands of a group.
const GROUP_SIZE_MAX: u32 = 100_000;

/// A node's configuration. [`NodeConfig::parse`] returns only valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The cluster: nodes of other clusters are refused.
    pub cluster: u128,
    /// This node's number; its directory determines the incarnation.
    pub node: NodeId,
    /// The directory of its logs.
    pub directory: PathBuf,
    /// Listen address for nodes. Default: its `peer` address.
    pub peer_listen: String,
    /// Listen address for clients. Default: its `client` address.
    pub client_listen: String,
    /// Listen address for scrapers of `/metrics` and `/healthz`. Default: none.
    pub metrics_listen: Option<String>,
    /// The nodes that this one dials until the log says more, this one included, in ascending order. For a new cluster: its members.
    pub members: Vec<Member>,
    /// Workers, each with a log and a lane; the same on all nodes. Default 2.
    pub workers: u16,
    /// Commands per group: the paper's LogGrpSize. Default 10,000.
    pub group_size: u32,
    /// Largest number of a worker's groups in flight to a majority. With 1, the next group waits
    /// for the one before. Default 64.
    pub groups_in_flight: u32,
    /// Longest time that a command waits for its group to fill. Default 1 ms.
    pub group_wait: Duration,
    /// A follower that receives nothing from a leader for this time, or up to twice as long, asks
    /// for votes. Default 300 ms.
    pub election_timeout: Duration,
    /// Interval of a leader's heartbeats. Default 50 ms.
    pub heartbeat: Duration,
    /// The directory takes no more commands beyond this size, since nothing is truncated yet. Default 64 GiB.
    pub log_bytes_max: u64,
    /// Memory of the newest payloads, for the applier and for nodes that fetch missing ones. Default
    /// 256 MiB.
    pub payload_cache_bytes: u64,
    /// Sessions of all clients, if this node leads; one more is refused. Default 100,000.
    pub sessions_max: u32,
    /// Sessions of one client (a certificate, or an address without certificates), if this node
    /// leads. Default 10,000.
    pub client_sessions_max: u32,
    /// If this node leads, it closes a session that was not used for this time: what became of its
    /// last groups is forgotten. Default `None`: no session is closed but by its client, or an operator.
    pub session_idle_close: Option<Duration>,
    /// Whether delays between the members' cities are emulated. Default no.
    pub emulate_cities: bool,
    /// Whether delays are emulated in the receiver instead of on the links: each payload of a
    /// worker from another city is delayed by a round trip, one after the other. The paper emulates
    /// distances in this way (raft-pwal §4.2). Default no.
    pub delay_in_handler: bool,
    /// Whether clients may cut links. For tests. Default no.
    pub allow_cuts: bool,
    /// The files of the node's certificate. Default none: connections are not secured.
    pub tls: Option<TlsOptions>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number. The first incarnations are the voters of a new cluster.
    pub id: NodeId,
    /// Its address for other nodes: a host name or IP address, and a port.
    pub peer: String,
    /// Its address for clients.
    pub client: String,
    /// Its city, if delays are emulated.
    pub city: Option<City>,
}

/// A random number for a new cluster.
#[must_use]
pub fn new_cluster_number() -> u128 {
    // The system's randomness, from which the keys of hash maps are derived.
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

impl NodeConfig {
    /// A configuration with defaults for everything that is not passed.
    #[must_use]
    pub fn new(cluster: u128, node: NodeId, directory: PathBuf, members: Vec<Member>) -> Self {
        let own = members.iter().find(|member| member.id == node);
        let (peer_listen, client_listen) = own
            .map(|own| (own.peer.clone(), own.client.clone()))
            .unwrap_or_default();
        Self {
            cluster,
            node,
            directory,
            peer_listen,
            client_listen,
            metrics_listen: None,
            members,
            workers: defaults::workers(),
            group_size: defaults::group_size(),
            groups_in_flight: defaults::groups_in_flight(),
            group_wait: Duration::from_micros(defaults::group_wait_us()),
            election_timeout: Duration::from_millis(defaults::election_timeout_ms()),
            heartbeat: Duration::from_millis(defaults::heartbeat_ms()),
            log_bytes_max: defaults::log_bytes_max(),
            payload_cache_bytes: defaults::payload_cache_bytes(),
            sessions_max: defaults::sessions_max(),
            client_sessions_max: defaults::client_sessions_max(),
            session_idle_close: None,
            emulate_cities: false,
            delay_in_handler: false,
            allow_cuts: false,
            tls: None,
        }
    }

    /// Reads a file. A relative `directory` is relative to the file's, and so are the paths of
    /// certificates: all become absolute, as a process may change its working directory.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text)?;
        let path = &*std::path::absolute(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        if let Some(folder) = path.parent() {
            config.directory = folder.join(&config.directory);
            if let Some(tls) = &mut config.tls {
                for path in [&mut tls.authority, &mut tls.certificate, &mut tls.key] {
                    *path = folder.join(&*path);
                }
            }
        }
        Ok(config)
    }

    /// Sets the address for scrapers.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if it is not an address.
    pub fn set_metrics_listen(&mut self, address: String) -> Result<(), ConfigError> {
        check_address("metrics_listen", &address)?;
        self.metrics_listen = Some(address);
        Ok(())
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] or [`ConfigError::Value`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| {
            // On one line: the error's own text shows the place on several.
            let why = error.message();
            ConfigError::Syntax(match error.span() {
                Some(span) => {
                    let before = text.get(..span.start).unwrap_or_default();
                    let number = before.matches('\n').count();
                    let line = text.lines().nth(number).unwrap_or_default();
                    // A missing key concerns a table, which spans several lines.
                    if !span.is_empty() && span.len() <= line.len() {
                        format!("line {}, `{}`: {why}", number + 1, line.trim())
                    } else {
                        format!("line {}: {why}", number + 1)
                    }
                }
                None => why.to_owned(),
            })
        })?;
        Self::check(file)
    }

    /// The text of a file with this content.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] if a path is not Unicode.
    pub fn to_text(&self) -> Result<String, ConfigError> {
        let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
        let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        let own = self.own_member();
        let unlike = |listen: &str, address: &str| (listen != address).then(|| listen.to_owned());
        let file = File {
            cluster: format!("{:032x}", self.cluster),
            node: self.node.number(),
            directory: self.directory.clone(),
            peer_listen: own.and_then(|own| unlike(&self.peer_listen, &own.peer)),
            client_listen: own.and_then(|own| unlike(&self.client_listen, &own.client)),
            metrics_listen: self.metrics_listen.clone(),
            workers: self.workers,
            group_size: self.group_size,
            groups_in_flight: self.groups_in_flight,
            group_wait_us: micros(self.group_wait),
            election_timeout_ms: millis(self.election_timeout),
            heartbeat_ms: millis(self.heartbeat),
            log_bytes_max: self.log_bytes_max,
            payload_cache_bytes: self.payload_cache_bytes,
            sessions_max: self.sessions_max,
            client_sessions_max: self.client_sessions_max,
            session_idle_close_s: self.session_idle_close.map(|it| it.as_secs()),
            emulate_cities: self.emulate_cities,
            delay_in_handler: self.delay_in_handler,
            allow_cuts: self.allow_cuts,
            tls: self.tls.as_ref().map(|tls| FileTls {
                authority: tls.authority.clone(),
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
            }),
            member: self.members.iter().map(Member::to_file).collect(),
        };
        toml::to_string(&file).map_err(|error| ConfigError::Syntax(error.to_string()))
    }

    /// Sets the election timeout of a follower, with a heartbeat interval that fits it.
    pub fn set_election_timeout(&mut self, timeout: Duration) {
        self.election_timeout = timeout;
        self.heartbeat = (timeout / 6).min(self.heartbeat);
    }

    /// The numbers of the members: of a new cluster, those with which it begins.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        self.members.iter().map(|it| it.id.number()).collect()
    }

    /// This node's entry among the members.
    #[must_use]
    pub fn own_member(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.id == self.node)
    }

    /// The settings of the transport. `node` is this node, with its directory's incarnation; the cluster began with these `founders`.
    #[must_use]
    pub fn transport(&self, node: NodeId, founders: &[NodeId]) -> TransportSettings {
        let own_city = self.own_member().and_then(|member| member.city);
        let others = self.members.iter().filter(|it| it.id != self.node);
        let peers = others.map(|member| {
            let delay = match (own_city, member.city) {
                (Some(own), Some(other)) if self.emulate_cities => own.delay_to(other),
                _ => Duration::ZERO,
            };
            let (delay, handling) = if self.delay_in_handler {
                (Duration::ZERO, 2 * delay)
            } else {
                (delay, Duration::ZERO)
            };
            PeerSettings {
                node: member.id.number(),
                addresses: member.addresses(),
                delay,
                handling,
            }
        });
        TransportSettings {
            cluster: self.cluster,
            node,
            founders: hash_of_founders(founders),
            workers: self.workers,
            peers: peers.collect(),
            group_commands_max: GROUP_SIZE_MAX,
            allow_cuts: self.allow_cuts,
            limits: Limits::default(),
            timing: Timing::default(),
        }
    }
}

/// A hash of the members with which a cluster began.
fn hash_of_founders(founders: &[NodeId]) -> u64 {
    let mut numbers: Vec<u64> = founders.iter().map(|it| it.number()).collect();
    numbers.sort_unstable();
    let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    hash_of(3, &bytes)
}

impl Member {
    /// Its addresses.
    #[must_use]
    pub fn addresses(&self) -> NodeAddresses {
        NodeAddresses {
            peer: self.peer.clone(),
            client: self.client.clone(),
        }
    }

    fn to_file(&self) -> FileMember {
        FileMember {
            id: self.id.number(),
            peer: self.peer.clone(),
            client: self.client.clone(),
            city: self.city.map(|city| city.name().to_owned()),
        }
    }
}
