//! A node with its storage and its transport, as a program runs it.

use std::num::NonZeroU128;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_log::Prepare;
use namiki_platform::ErrorSentence;
use namiki_platform::disk::Disk;

use crate::config::NodeConfig;
use crate::control::SessionLimits;
use crate::failure::NodeFailure;
use crate::groups::producer::RequestLimits;
use crate::groups::worker::GroupOptions;
use crate::metrics::Metrics;
use crate::monitor::{self, Monitor, MonitorError};
use crate::network::NodeId;
use crate::node::{Node, NodeOptions, OpenError, OpenedNode};
use crate::security::{SecurityFailure, security_of, warn_if_open};
use crate::storage::{NodeIdentity, NodeStore, StoreError, StoreOptions};
use crate::transport::{Listeners, NodeSecurity, RunningTransport, Transport, TransportError};

/// Room in a log buffer for the last command of a group and for headers.
const BUFFER_SLACK_BYTES: usize = (1 << 20) + (64 << 10);

/// Time for which a restart within the process tries again, and the pause in between.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// The reason for which a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A problem of its directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A problem of its certificate.
    #[error(transparent)]
    Security(#[from] SecurityFailure),
    /// A problem of its sockets.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A problem of its observation.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// A problem of its parts.
    #[error(transparent)]
    Node(#[from] NodeFailure),
    /// The directory was made for another number of workers.
    #[error(
        "the directory {directory} was made with {key} = {found}, and the configuration has {configured}: the value cannot change"
    )]
    Differs {
        /// The directory.
        directory: String,
        /// The key of the configuration.
        key: &'static str,
        /// The directory's value.
        found: u64,
        /// The configuration's value.
        configured: u64,
    },
}

/// A running node. Dropping it stops it as a crash would.
pub struct Server {
    monitor: Option<Monitor>,
    // Before the node, so that nothing arrives for one that is gone.
    transport: Option<RunningTransport>,
    node: Option<Node>,
    id: NodeId,
    election_timeout: Duration,
    security: NodeSecurity,
}

/// What a node keeps over a restart within its process.
#[derive(Clone, Default)]
struct Kept {
    /// The tables are to be read before it starts.
    waits_for_tables: bool,
    metrics: Option<Arc<Metrics>>,
}

/// Creates a new node's directory: its first one, or the replacement of a lost one with the next
/// incarnation. `founders`: the numbers of the members with which the cluster began; `backup`: the one that it began with.
///
/// # Errors
/// [`StoreError::NotEmpty`]; the disk's own.
///
/// # Panics
/// If the incarnation is not in 1 to [`NodeId::MAX`].
pub fn create_directory(
    config: &NodeConfig,
    incarnation: u64,
    (founders, backup): (&[u64], Option<u128>),
    disk: Arc<dyn Disk>,
) -> Result<(), StoreError> {
    let identity = NodeIdentity {
        cluster: config.cluster,
        node: NodeId::new(config.node.number(), incarnation),
        workers: config.workers,
    };
    let founders: Vec<NodeId> = founders.iter().copied().map(NodeId::first).collect();
    let backup = backup.and_then(NonZeroU128::new);
    NodeStore::create_with_tables(
        disk,
        &config.directory,
        &identity,
        &founders,
        backup,
        |_, _| Ok(()),
    )
}

impl ServerError {
    /// Whether the cause may be gone in a moment.
    fn may_pass(&self) -> bool {
        match self {
            // A port may still be taken, or a certificate be in the middle of its replacement.
            Self::Security(_) | Self::Transport(_) | Self::Monitor(_) => true,
            // The start removes superseded tables, and other programs their files.
            Self::Store(error) => matches!(error, StoreError::DiskFull { .. }),
            Self::Node(_) | Self::Differs { .. } => false,
        }
    }
}

impl From<OpenError> for ServerError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => Self::Store(error),
            OpenError::Tables(error) => Self::Node(error),
        }
    }
}

impl Server {
    /// Starts a node that has a directory: reads its log, then joins the cluster.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(
        config: &NodeConfig,
        disk: Arc<dyn Disk>,
        logger: slog::Logger,
    ) -> Result<Self, ServerError> {
        Self::start_with(config, disk, logger, Kept::default())
    }

    fn start_with(
        config: &NodeConfig,
        disk: Arc<dyn Disk>,
        logger: slog::Logger,
        kept: Kept,
    ) -> Result<Self, ServerError> {
        let security = security_of(config, &logger)?;
        // First, so that a wrong address is reported at once.
        let listeners = Listeners::bind(&config.peer_listen, &config.client_listen)?;
        let scrapers = monitor::bind(config)?;
        warn_if_open(&listeners, &security, &logger);
        let identity = check_directory(config, &*disk, &config.directory)?;
        let groups = GroupOptions {
            commands: config.group_size as usize,
            wait_ns: u64::try_from(config.group_wait.as_nanos()).unwrap_or(u64::MAX),
            in_flight_max: config.groups_in_flight as usize,
            ..GroupOptions::default()
        };
        let options = StoreOptions {
            log_file_bytes: 64 << 20,
            buffer_bytes: groups.payload_bytes + BUFFER_SLACK_BYTES,
            prepare: Prepare::Background,
            max_log_bytes: Some(config.log_bytes_max),
            loads_tables: kept.waits_for_tables,
            ..StoreOptions::default()
        };
        let opened = OpenedNode::open(disk, &config.directory, options)?;
        let settings = config.transport(identity.node, &opened.recovered().founders);
        let transport = Transport::new(listeners, settings, security.clone(), logger.clone());
        let options = NodeOptions {
            election_timeout: config.election_timeout,
            heartbeat: config.heartbeat,
            groups,
            limits: RequestLimits {
                sessions: SessionLimits {
                    all: config.sessions_max,
                    client: config.client_sessions_max,
                },
                session_idle_close: config.session_idle_close,
                ..RequestLimits::default()
            },
            cache_bytes: usize::try_from(config.payload_cache_bytes).unwrap_or(usize::MAX),
            // Two nodes that draw the same timeouts would split the votes.
            seed: config.cluster as u64 ^ u64::from(std::process::id()),
            addresses: (config.members.iter())
                .map(|it| (it.id.number(), it.addresses()))
                .collect(),
            logger,
            ..NodeOptions::default()
        };
        let node = Node::start_counting(&options, opened, transport.network(), kept.metrics)?;
        let transport = transport.start(node.inbox())?;
        let observer = node.observer(
            transport.connections(),
            config.directory.clone(),
            config.election_timeout,
        );
        let monitor = Monitor::start(observer, scrapers)?;
        Ok(Self {
            monitor: Some(monitor),
            id: identity.node,
            transport: Some(transport),
            node: Some(node),
            election_timeout: config.election_timeout,
            security,
        })
    }

    /// The node: its number, and its directory's incarnation.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.id
    }

    /// Whether the node has stopped to be [started again](Self::restart) at once: with tables of another node, or to get some.
    #[must_use]
    pub fn is_to_restart(&self) -> bool {
        let failure = self.node.as_ref().and_then(Node::failure);
        failure.is_some_and(|it| {
            matches!(
                *it,
                NodeFailure::ImageInstalled { .. } | NodeFailure::TablesDamaged { .. }
            )
        })
    }

    /// Whether the node has stopped because it is no member of the cluster any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let failure = self.node.as_ref().and_then(Node::failure);
        failure.is_some_and(|it| matches!(*it, NodeFailure::Gone { .. }))
    }

    /// Starts the node again, with the same configuration. Its counters go on.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn restart(
        self,
        config: &NodeConfig,
        disk: Arc<dyn Disk>,
        logger: slog::Logger,
    ) -> Result<Self, ServerError> {
        let failure = self.node.as_ref().and_then(Node::failure);
        // It sees that they cannot be read, and goes on without.
        let kept = Kept {
            waits_for_tables: failure
                .is_some_and(|it| matches!(*it, NodeFailure::TablesDamaged { .. })),
            metrics: self.node.as_ref().map(Node::metrics),
        };
        self.stop();
        let begin = Instant::now();
        loop {
            match Self::start_with(config, Arc::clone(&disk), logger.clone(), kept.clone()) {
                Err(error) if error.may_pass() && begin.elapsed() < RESTART_TIMEOUT => {
                    std::thread::sleep(RESTART_PAUSE);
                }
                started => return started,
            }
        }
    }

    /// The reason for which the node has stopped by itself, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failure = self.node.as_ref().and_then(Node::failure);
        let failure = failure.map(|it| ErrorSentence(&*it).to_string());
        let is_running = self
            .transport
            .as_ref()
            .is_some_and(RunningTransport::is_running);
        failure.or_else(|| (!is_running).then(|| TransportError::Panicked.to_string()))
    }

    /// Checks whether the files of the node's certificate have changed, and uses the new ones from
    /// now on. Call it every few seconds.
    pub fn refresh_certificate(&self) {
        self.security.refresh();
    }

    /// Stops the node in good order: transfers leadership if this node has it, and makes everything
    /// durable.
    pub fn stop(mut self) {
        if let Some(monitor) = &self.monitor {
            monitor.note_stopping();
        }
        if let Some(node) = &self.node {
            node.hand_over();
            let until = Instant::now() + self.election_timeout;
            while node.leads() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if let Some(node) = self.node.take() {
            node.stop();
        }
        if let Some(transport) = self.transport.take() {
            // A node that has panicked is stopped already.
            drop(transport.stop());
        }
        self.monitor = None;
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

fn check_directory(
    config: &NodeConfig,
    disk: &dyn Disk,
    directory: &Path,
) -> Result<NodeIdentity, ServerError> {
    let found = NodeStore::check_identity(disk, directory, config.cluster, config.node)?;
    if found.workers != config.workers {
        return Err(ServerError::Differs {
            directory: directory.display().to_string(),
            key: "workers",
            found: found.workers.into(),
            configured: config.workers.into(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_restart_is_tried_again_while_the_disk_is_full() {
        let path = std::path::PathBuf::from("/node");
        let full = StoreError::DiskFull {
            path: path.clone(),
            source: Arc::new(Error::from(ErrorKind::StorageFull)),
        };
        assert!(ServerError::from(full).may_pass());
        let closed = StoreError::Closed { dir: path };
        assert!(!ServerError::from(closed).may_pass());
    }
}
