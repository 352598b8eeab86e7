//! What a cluster is like that is to be made.

/// What a new cluster is like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) nodes: u16,
    pub(super) workers: u16,
    pub(super) group_size: u32,
    pub(super) group_wait_us: u64,
    /// Of a worker.
    pub(super) groups_in_flight: u32,
    pub(super) wan: &'static str,
    /// Whether connections are protected.
    pub(super) tls: bool,
    pub(super) election_timeout_ms: u64,
    pub(super) max_log_mib: u64,
    /// Whether each node has a network of its own.
    pub(super) namespaces: bool,
}
