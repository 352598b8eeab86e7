//! The state of a node at one time, as an operator sees it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namiki_client::protocol::Role;
use namiki_platform::ErrorSentence;
use namiki_platform::disk::DiskSpace;
use namiki_platform::machine::resident_bytes;

use crate::flow_control::Pace;
use crate::log_space::LogSpace;
use crate::network::NodeId;
use crate::raft::StartView;
use crate::shared::Shared;
use crate::status::role_of;
use crate::transport::{Connections, PeerConnections};

/// A node and its machine, to be observed.
pub(crate) struct Observer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Connections,
    pub(crate) directory: PathBuf,
    pub(crate) election_timeout: Duration,
    /// Set when the node begins to stop.
    pub(crate) is_stopping: AtomicBool,
}

/// The state of a node.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "some fields are only shown by /metrics")
)]
pub(crate) struct Observation {
    pub(crate) node: NodeId,
    pub(crate) role: Role,
    pub(crate) term: u64,
    pub(crate) leader: Option<NodeId>,
    pub(crate) last: u64,
    pub(crate) persisted: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    /// Messages of other nodes that Raft refused.
    pub(crate) refused_messages: u64,
    /// Payloads that this node once had on its disk and lacks.
    pub(crate) missing_payloads: u64,
    /// The tables of the directory could not be used, and an image of another node is not installed yet.
    pub(crate) tables_lost: bool,
    /// The state of its start.
    pub(crate) start: StartView,
    /// Whether this node votes.
    pub(crate) votes: bool,
    pub(crate) peers: Vec<ObservedPeer>,
    pub(crate) clients: u64,
    pub(crate) sessions: u64,
    /// Results of commands that are kept for clients which have not acknowledged them.
    pub(crate) results_kept: u64,
    /// Sealed groups that are not applied yet, by worker.
    pub(crate) groups_in_flight: Vec<u64>,
    pub(crate) commands_applied: u64,
    /// Commands of clients that are not answered yet.
    pub(crate) commands_in_flight: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) unwritten_bytes: u64,
    pub(crate) log_bytes: u64,
    /// `None`: no limit.
    pub(crate) log_bytes_max: Option<u64>,
    /// Whether a leader with this log accepts commands.
    pub(crate) log_has_room: bool,
    /// Nodes that copy an image, for which the log above it is kept.
    pub(crate) keeps_log_for: Vec<u64>,
    /// Writes to the log wait until it, or the disk, has room.
    pub(crate) waits_for_room: bool,
    /// For a leader: how it accepts commands, by the space of all voters.
    pub(crate) pace: Pace,
    /// An image of the tables is being written.
    pub(crate) writes_image: bool,
    /// `None` if the system does not say.
    pub(crate) disk: Option<DiskSpace>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) is_secured: bool,
    /// When the certificate expires, in seconds of the Unix time.
    pub(crate) certificate_expires_s: Option<u64>,
    pub(crate) is_stopping: bool,
    /// Why the node has stopped by itself.
    pub(crate) failure: Option<String>,
}

/// Another member.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPeer {
    pub(crate) node: NodeId,
    pub(crate) votes: bool,
    pub(crate) connections: PeerConnections,
    /// Its last entry that matches the log of this node, if this node leads.
    pub(crate) matched: Option<u64>,
    /// The space of its log, if this node leads and was told.
    pub(crate) log_space: Option<LogSpace>,
}

impl Observer {
    /// Observes the node.
    pub(crate) fn observe(&self) -> Observation {
        let shared = &self.shared;
        // Read before the committed index, so that it is never larger.
        let applied = shared.applied();
        let (in_office, commands_in_flight) = {
            let office = shared.office.lock();
            (office.term, office.commands_in_flight() as u64)
        };
        let view = shared.view.lock().clone();
        let membership = shared.membership();
        let (pace, spaces) = shared.flow_control.show();
        let others = membership.members().iter();
        let others = others.filter(|it| it.node.number() != shared.node.number());
        let peers = others.map(|member| ObservedPeer {
            node: member.node,
            votes: member.votes,
            connections: self.connections.of(member.node),
            matched: (view.matched.iter())
                .find(|(node, _)| *node == member.node)
                .map(|(_, matched)| *matched),
            log_space: spaces
                .get(&member.node)
                .copied()
                .filter(|_| in_office.is_some()),
        });
        let (sessions, results_kept) = {
            let sessions = shared.sessions.lock();
            (sessions.len() as u64, sessions.outcomes() as u64)
        };
        let failure = shared.failure.lock().clone();
        let failure = failure.map(|it| ErrorSentence(&*it).to_string());
        let panicked = "the network thread has panicked";
        let failure = failure.or_else(|| {
            (self.connections.have_failed() && !self.is_stopping()).then(|| panicked.to_owned())
        });
        Observation {
            node: shared.node,
            role: role_of(&view, in_office),
            term: view.term,
            leader: view.leader,
            last: view.last,
            persisted: view.persisted,
            committed: view.committed,
            applied,
            refused_messages: view.refused,
            missing_payloads: view.missing,
            tables_lost: shared.tables_lost,
            start: view.start,
            votes: membership.voters().any(|it| it == shared.node),
            peers: peers.collect(),
            clients: self.connections.clients(),
            sessions,
            results_kept,
            groups_in_flight: (shared.task_stores.iter())
                .map(|it| it.len() as u64)
                .collect(),
            commands_applied: shared.commands_applied.load(Ordering::Relaxed),
            commands_in_flight,
            cache_bytes: shared.cache.bytes(),
            unwritten_bytes: shared.unwritten_bytes.load(Ordering::Relaxed),
            log_bytes: shared.store.log_bytes(),
            log_bytes_max: Some(shared.store.log_bytes_max()).filter(|it| *it != u64::MAX),
            log_has_room: shared.store.has_room(),
            keeps_log_for: (shared.kept_log.lock().nodes())
                .map(NodeId::number)
                .collect(),
            waits_for_room: shared.flow_control.is_full(),
            pace,
            writes_image: shared.metrics.is_image_in_progress(),
            disk: disk_space(&self.directory),
            resident_bytes: resident_bytes().ok(),
            is_secured: self.connections.are_secured(),
            certificate_expires_s: self.connections.certificate_expires_s(),
            is_stopping: self.is_stopping(),
            failure,
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

impl Observation {
    /// Number of voters that this node reaches, itself included, and of all.
    pub(crate) fn voters(&self) -> (usize, usize) {
        let others = || self.peers.iter().filter(|it| it.votes);
        let reached = others().filter(|it| it.connections.is_reached).count();
        let own = usize::from(self.votes);
        (reached + own, others().count() + own)
    }

    /// Committed entries that are not applied yet.
    pub(crate) fn unapplied(&self) -> u64 {
        self.committed.saturating_sub(self.applied)
    }
}

/// The file system of a directory; `None` if it does not say.
fn disk_space(directory: &std::path::Path) -> Option<DiskSpace> {
    let facts = rustix::fs::statvfs(directory).ok()?;
    (facts.f_blocks > 0).then(|| DiskSpace {
        free_bytes: facts.f_bavail.saturating_mul(facts.f_frsize),
        total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The leader of three nodes, all of which run.
    pub(crate) fn healthy() -> Observation {
        let peer = |number| ObservedPeer {
            node: NodeId::first(number),
            votes: true,
            connections: PeerConnections {
                address: format!("10.0.0.{number}:7400"),
                is_reached: true,
                lanes_up: 4,
                lanes: 4,
                dropped: 0,
            },
            matched: Some(10),
            log_space: None,
        };
        Observation {
            node: NodeId::first(1),
            role: Role::Leader,
            term: 3,
            leader: Some(NodeId::first(1)),
            last: 10,
            persisted: 10,
            committed: 10,
            applied: 10,
            refused_messages: 0,
            missing_payloads: 0,
            tables_lost: false,
            start: StartView::default(),
            votes: true,
            peers: vec![peer(2), peer(3)],
            clients: 2,
            sessions: 1,
            results_kept: 9,
            groups_in_flight: vec![0, 1],
            commands_applied: 100,
            commands_in_flight: 5,
            cache_bytes: 1 << 20,
            unwritten_bytes: 0,
            log_bytes: 1 << 30,
            log_bytes_max: Some(64 << 30),
            log_has_room: true,
            keeps_log_for: Vec::new(),
            waits_for_room: false,
            pace: Pace::Open,
            writes_image: false,
            disk: Some(DiskSpace {
                free_bytes: 100 << 30,
                total_bytes: 200 << 30,
            }),
            resident_bytes: Some(50 << 20),
            is_secured: true,
            certificate_expires_s: Some(40 * 86_400),
            is_stopping: false,
            failure: None,
        }
    }

    #[test]
    fn a_majority_counts_voters_alone() {
        let mut node = healthy();
        assert_eq!(node.voters(), (3, 3));
        node.peers[0].connections.is_reached = false;
        node.peers[1].votes = false;
        assert_eq!(node.voters(), (1, 2));
        node.votes = false;
        assert_eq!(node.voters(), (0, 1));
    }
}
