//! What the network thread and all other threads of a node share: the queues of the lanes, and of the clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namiki_client::protocol::Response;
use tokio::sync::Notify;

use crate::network::{ConnectionId, Inbox, Network, NodeId, PeerMessage};
use crate::transport::clients::ClientRegistry;
use crate::transport::frame::OutgoingFrame;
use crate::transport::hello::Identity;
use crate::transport::lane::Lane;
use crate::transport::lane_queue::LaneQueue;
use crate::transport::log_limiter::LogLimiter;
use crate::transport::security::NodeSecurity;
use crate::transport::settings::{PeerSettings, TransportSettings};
use crate::transport::wakeups::Wakeups;

/// The transport, as all threads see it.
pub(super) struct Shared {
    pub(super) identity: Identity,
    pub(super) settings: TransportSettings,
    pub(super) security: NodeSecurity,
    pub(super) peers: Vec<Arc<Peer>>,
    pub(super) clients: ClientRegistry,
    pub(super) wakeups: Wakeups,
    pub(super) logger: slog::Logger,
    pub(super) refusals_logged: LogLimiter,
    pub(super) stop: Stop,
    /// Messages that no lane exists for.
    pub(super) misdirected: AtomicU64,
}

/// Another node.
pub(super) struct Peer {
    pub(super) settings: PeerSettings,
    /// Nothing is sent to it, and what comes from it is dropped.
    cut: AtomicBool,
    control: Arc<LaneQueue>,
    catch_up: Arc<LaneQueue>,
    /// From worker 0.
    payloads: Box<[Arc<LaneQueue>]>,
}

/// Ends the network thread.
#[derive(Default)]
pub(super) struct Stop {
    pub(super) asked: Notify,
    /// A task has panicked.
    pub(super) failed: AtomicBool,
}

/// What a task of the network thread knows.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Arc<dyn Inbox>,
}

impl Context {
    /// Starts a task. If it panics, the whole transport stops: a node without one of its lanes would only seem to be alive.
    pub(super) fn spawn<F>(&self, task: F) -> tokio::task::AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let guard = StopOnPanic(Arc::clone(&self.shared));
        let spawned = tokio::spawn(async move {
            let _guard = guard;
            task.await;
        });
        spawned.abort_handle()
    }
}

struct StopOnPanic(Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.failed.store(true, Ordering::Relaxed);
            self.0.stop.asked.notify_one();
        }
    }
}

impl Peer {
    pub(super) fn new(settings: PeerSettings, workers: u16, lane_bytes_max: usize) -> Self {
        let queue = || Arc::new(LaneQueue::new(lane_bytes_max, settings.delay));
        Self {
            cut: AtomicBool::new(false),
            control: queue(),
            catch_up: queue(),
            payloads: (0..workers).map(|_| queue()).collect(),
            settings,
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    pub(super) fn lane(&self, lane: Lane) -> Option<&Arc<LaneQueue>> {
        match lane {
            Lane::Control => Some(&self.control),
            Lane::CatchUp => Some(&self.catch_up),
            Lane::Payloads(worker) => self.payloads.get(usize::from(worker)),
        }
    }
}

impl Shared {
    pub(super) fn peer(&self, node: NodeId) -> Option<&Arc<Peer>> {
        self.peers.iter().find(|peer| peer.settings.node == node)
    }

    /// Cuts the links to these nodes, and heals all others.
    pub(super) fn cut(&self, nodes: &[u64]) {
        for peer in &self.peers {
            let node = peer.settings.node.0;
            let cut = nodes.contains(&node);
            if peer.cut.swap(cut, Ordering::Relaxed) != cut {
                let what = if cut { "cut" } else { "healed" };
                slog::warn!(self.logger, "a link is {} on request", what; "node" => node);
            }
        }
    }

    /// How many lanes to a node are up.
    pub(super) fn lanes_up(&self, node: NodeId) -> usize {
        let Some(peer) = self.peer(node) else {
            return 0;
        };
        let lanes = Lane::all(self.identity.workers);
        let queues = lanes.filter_map(|lane| peer.lane(lane));
        queues.filter(|queue| queue.is_open()).count()
    }

    /// Frames to a node that were dropped, for want of room or of a connection.
    pub(super) fn dropped(&self, node: NodeId) -> u64 {
        let Some(peer) = self.peer(node) else {
            return 0;
        };
        let lanes = Lane::all(self.identity.workers);
        let queues = lanes.filter_map(|lane| peer.lane(lane));
        queues.map(|queue| queue.dropped()).sum()
    }
}

impl Network for Shared {
    fn send(&self, to: NodeId, message: PeerMessage) {
        let lane = match &message {
            PeerMessage::Raft(_) => Lane::Control,
            PeerMessage::Payload { payload, .. } => Lane::Payloads(payload.name.worker),
            PeerMessage::FetchPayloads { .. } | PeerMessage::FetchedPayload { .. } => Lane::CatchUp,
        };
        let Some(peer) = self.peer(to) else {
            self.misdirected.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if peer.is_cut() {
            return;
        }
        let Some(queue) = peer.lane(lane) else {
            self.misdirected.fetch_add(1, Ordering::Relaxed);
            return;
        };
        queue.push(OutgoingFrame::of(message), &self.wakeups);
    }

    fn reply(&self, to: ConnectionId, mut response: Response) {
        // The node knows numbers; addresses are known here.
        if let Response::NotLeader {
            leader: Some((node, address)),
            ..
        } = &mut response
            && address.is_empty()
            && let Some(peer) = self.peer(NodeId(*node))
        {
            address.clone_from(&peer.settings.client_address);
        }
        if let Some(client) = self.clients.find(to) {
            client.push(response, &self.wakeups);
        }
    }
}
