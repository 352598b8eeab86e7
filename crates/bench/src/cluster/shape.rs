//! The shape of a cluster: its nodes, their logs, and the distances between them.

use namiki_cluster::config::NodeConfig;

use super::Wan;

/// The shape of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) nodes: u16,
    pub(super) workers: u16,
    pub(super) group_size: u32,
    pub(super) group_wait_us: u64,
    /// Groups in flight of a worker.
    pub(super) groups_in_flight: u32,
    pub(super) wan: Wan,
    /// Whether connections use TLS.
    pub(super) tls: bool,
    pub(super) election_timeout_ms: u64,
    pub(super) max_log_mib: u64,
    /// Whether each node has its own network namespace.
    pub(super) namespaces: bool,
}

/// The default of `namiki-bench cluster`. The group size is the paper's larger one.
impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 3,
            workers: 2,
            group_size: 5000,
            group_wait_us: 1000,
            groups_in_flight: 64,
            wan: Wan::None,
            tls: false,
            election_timeout_ms: 300,
            max_log_mib: 65_536,
            namespaces: false,
        }
    }
}

impl Shape {
    /// The shape of a cluster of `nodes` nodes with the settings of `config`.
    pub(super) fn of(config: &NodeConfig, nodes: u16) -> Self {
        let as_u64 = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            nodes,
            workers: config.workers,
            group_size: config.group_size,
            group_wait_us: as_u64(config.group_wait.as_micros()),
            groups_in_flight: config.groups_in_flight,
            wan: Wan::of(config),
            tls: config.tls.is_some(),
            election_timeout_ms: as_u64(config.election_timeout.as_millis()),
            max_log_mib: config.log_bytes_max >> 20,
            namespaces: false,
        }
    }
}
