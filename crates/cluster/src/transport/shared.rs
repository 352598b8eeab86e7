//! State shared by the threads of the transport and all other threads of a node: the queues of the
//! lanes and of the clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use namiki_client::protocol::Response;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use crate::membership::Membership;
use crate::network::{ConnectionId, Inbox, Network, NodeId, PeerMessage};
use crate::transport::clients::ClientRegistry;
use crate::transport::connection_security::NodeSecurity;
use crate::transport::frame::OutgoingFrame;
use crate::transport::hello::{Identity, Standing};
use crate::transport::lane::Lane;
use crate::transport::lane_queue::LaneQueue;
use crate::transport::log_limiter::LogLimiter;
use crate::transport::settings::TransportSettings;
use crate::transport::site::Site;
use crate::transport::wakeups::Wakeups;

/// The transport, as all threads see it.
pub(super) struct Shared {
    pub(super) identity: Identity,
    pub(super) settings: TransportSettings,
    pub(super) security: NodeSecurity,
    peers: RwLock<Peers>,
    /// Notifies the network thread of peers without tasks.
    pub(super) peers_added: Notify,
    pub(super) clients: ClientRegistry,
    /// Of tasks of the network thread.
    pub(super) wakeups: Wakeups,
    /// Of tasks of the clients' thread.
    pub(super) client_wakeups: Wakeups,
    pub(super) logger: slog::Logger,
    pub(super) refusals_logged: LogLimiter,
    pub(super) stop: Stop,
    /// Number of messages for which no lane exists.
    pub(super) misdirected: AtomicU64,
}

/// The other nodes: the members, and for each number at most one later incarnation, which has
/// dialled.
#[derive(Default)]
struct Peers {
    /// The newest members that are known.
    membership: Membership,
    /// The nodes that are dialled.
    members: Vec<NodeId>,
    /// One for each number except the own one.
    sites: Vec<Arc<Site>>,
    all: Vec<Arc<Peer>>,
    /// The peers that have no tasks yet.
    added: Vec<Arc<Peer>>,
}

/// Another node.
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) site: Arc<Site>,
    /// Set when it is no longer a member.
    closed: watch::Sender<bool>,
    control: Arc<LaneQueue>,
    catch_up: Arc<LaneQueue>,
    /// One for each worker, from 0.
    payloads: Box<[Arc<LaneQueue>]>,
}

/// Ends the threads of the transport.
#[derive(Default)]
pub(super) struct Stop {
    /// Ends the network thread.
    pub(super) network: Notify,
    /// Ends the clients' thread.
    pub(super) clients: Notify,
    /// A task has panicked.
    pub(super) failed: AtomicBool,
}

impl Stop {
    /// Ends both threads.
    pub(super) fn ask(&self) {
        self.network.notify_one();
        self.clients.notify_one();
    }
}

/// The context of a task of one of the two threads.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Arc<dyn Inbox>,
}

impl Context {
    /// Starts a task. If it panics, the whole transport stops: a node without one of its lanes
    /// would only appear to be alive.
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
            self.0.stop.ask();
        }
    }
}

impl Peer {
    fn new(node: NodeId, site: &Arc<Site>, workers: u16, lane_bytes_max: usize) -> Self {
        let queue = || Arc::new(LaneQueue::new(lane_bytes_max, site.delay));
        Self {
            node,
            site: Arc::clone(site),
            closed: watch::Sender::new(false),
            control: queue(),
            catch_up: queue(),
            payloads: (0..workers).map(|_| queue()).collect(),
        }
    }

    /// Returns when its connections have to end for good.
    pub(super) async fn closed(&self) {
        // It fails only if the sender is dropped, which this struct owns.
        let _ = self.closed.subscribe().wait_for(|it| *it).await;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.site.is_cut()
    }

    pub(super) fn lane(&self, lane: Lane) -> Option<&Arc<LaneQueue>> {
        match lane {
            Lane::Control => Some(&self.control),
            Lane::CatchUp => Some(&self.catch_up),
            Lane::Payloads(worker) => self.payloads.get(usize::from(worker)),
        }
    }
}

impl Peers {
    /// Closes these.
    fn close(&mut self, is_closed: impl Fn(NodeId) -> bool) {
        let closed = |peer: &Arc<Peer>| {
            let closed = is_closed(peer.node);
            if closed {
                peer.closed.send_replace(true);
            }
            closed
        };
        self.all.retain(|peer| !closed(peer));
    }

    /// The nodes to be dialled: the members, and those of the configuration that may be members. This node may be behind, or new.
    fn expected(&self, own: NodeId) -> Vec<NodeId> {
        let members = &self.membership;
        let configured = self.sites.iter().filter(|it| it.is_configured());
        let first = configured.map(|site| NodeId::first(site.number));
        let unknown =
            first.filter(|it| members.of_number(it.number()).is_none() && !members.has_gone(*it));
        let all = members.nodes().chain(unknown);
        all.filter(|it| it.number() != own.number()).collect()
    }

    /// The site of a number.
    fn site(&mut self, number: u64) -> Arc<Site> {
        let known = self.sites.iter().find(|site| site.number == number);
        if let Some(site) = known {
            return Arc::clone(site);
        }
        let site = Arc::new(Site::unknown(number));
        self.sites.push(Arc::clone(&site));
        site
    }
}

impl Shared {
    /// The shared state of a new transport. The nodes of the configuration are dialled.
    pub(super) fn new(
        settings: TransportSettings,
        security: NodeSecurity,
        logger: slog::Logger,
    ) -> Self {
        let sites = settings
            .peers
            .iter()
            .map(|peer| Arc::new(Site::configured(peer)));
        let peers = Peers {
            sites: sites.collect(),
            ..Peers::default()
        };
        let shared = Self {
            identity: Identity {
                cluster: settings.cluster,
                node: settings.node,
                workers: settings.workers,
                founders: settings.founders,
            },
            security,
            peers: RwLock::new(peers),
            peers_added: Notify::new(),
            clients: ClientRegistry::new(settings.limits.client_responses_bytes_max),
            wakeups: Wakeups::default(),
            client_wakeups: Wakeups::default(),
            logger,
            refusals_logged: LogLimiter::new(Instant::now()),
            stop: Stop::default(),
            misdirected: 0.into(),
            settings,
        };
        shared.set_members(&Membership::default());
        shared
    }

    /// The addresses of the members for clients, as far as the log says.
    pub(super) fn client_addresses(&self) -> Vec<String> {
        let peers = self.peers.read();
        let members = peers.membership.members().iter();
        let addresses = members.filter_map(|it| Some(it.addresses.as_ref()?.client.clone()));
        addresses.collect()
    }

    pub(super) fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        let peers = self.peers.read();
        peers.all.iter().find(|peer| peer.node == node).cloned()
    }

    /// What is known of a node that dials.
    pub(super) fn standing(&self, node: NodeId) -> Standing {
        let peers = self.peers.read();
        let mut members = peers.members.iter();
        let member = members.find(|it| it.number() == node.number());
        match member {
            _ if peers.membership.has_gone(node) => Standing::Gone,
            Some(_) => Standing::Admitted,
            None => Standing::Unknown,
        }
    }

    /// Takes the peers that have no tasks yet.
    pub(super) fn take_added(&self) -> Vec<Arc<Peer>> {
        std::mem::take(&mut self.peers.write().added)
    }

    /// The peer that has dialled. It may be a later incarnation than the known one; only one of
    /// those is kept for each number.
    pub(super) fn peer_that_dialled(&self, node: NodeId) -> Option<Arc<Peer>> {
        let known = self.peer(node);
        if known.is_some() {
            return known;
        }
        let mut peers = self.peers.write();
        let mut members = peers.members.iter().copied();
        let member = members.find(|it| it.number() == node.number())?;
        if member.incarnation() > node.incarnation() {
            return None;
        }
        peers.close(|it| it.number() == node.number() && it != member);
        Some(self.add(&mut peers, node))
    }

    fn add(&self, peers: &mut Peers, node: NodeId) -> Arc<Peer> {
        let known = peers.all.iter().find(|peer| peer.node == node);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let site = peers.site(node.number());
        let bytes_max = self.settings.limits.lane_bytes_max;
        let peer = Arc::new(Peer::new(node, &site, self.settings.workers, bytes_max));
        peers.all.push(Arc::clone(&peer));
        peers.added.push(Arc::clone(&peer));
        self.peers_added.notify_one();
        peer
    }

    /// Cuts the links to these nodes, and heals all others.
    pub(super) fn cut(&self, nodes: &[u64]) {
        for site in &self.peers.read().sites {
            let cut = nodes.contains(&site.number);
            if site.set_cut(cut) {
                let what = if cut { "cut" } else { "healed" };
                slog::warn!(self.logger, "a link is {} on request", what; "node" => site.number);
            }
        }
    }

    /// Number of open lanes to a node.
    pub(super) fn lanes_up(&self, node: NodeId) -> usize {
        let Some(peer) = self.peer(node) else {
            return 0;
        };
        let lanes = Lane::all(self.identity.workers);
        let queues = lanes.filter_map(|lane| peer.lane(lane));
        queues.filter(|queue| queue.is_open()).count()
    }

    /// Number of frames to a node that were dropped for lack of room or of a connection.
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
            PeerMessage::Raft(_) | PeerMessage::Start(_) | PeerMessage::LogSpace(_) => {
                Lane::Control
            }
            PeerMessage::Payload { payload, .. } => Lane::Payloads(payload.name.worker),
            PeerMessage::FetchPayloads { .. }
            | PeerMessage::FetchedPayload { .. }
            | PeerMessage::Image(_) => Lane::CatchUp,
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

    fn set_members(&self, members: &Membership) {
        let before = self.client_addresses();
        let mut peers = self.peers.write();
        peers.membership = members.clone();
        let expected = peers.expected(self.identity.node);
        peers.close(|node| {
            let mut expected = expected.iter();
            let member = expected.find(|it| it.number() == node.number());
            member.is_none_or(|it| it.incarnation() > node.incarnation())
        });
        for node in &expected {
            let member = members.of_number(node.number());
            let addresses = member.and_then(|it| it.addresses.as_ref());
            if peers.site(node.number()).set_addresses_in_log(addresses) {
                let addresses = addresses.map_or("", |it| &it.peer);
                slog::warn!(self.logger, "the configuration has other addresses of node {} than the cluster, and the cluster's are dialled first: correct \
                    it, or tell the cluster by namiki cluster move {}", node.number(), node.number(); "in_cluster" => addresses);
            }
            self.add(&mut peers, *node);
        }
        peers.members = expected;
        drop(peers);
        let addresses = self.client_addresses();
        if addresses != before {
            let response = Response::Nodes { addresses };
            (self.clients).push_to_all(&response, &self.client_wakeups);
        }
    }

    fn reply(&self, to: ConnectionId, mut response: Response) {
        // The node knows only numbers; the transport knows the addresses.
        if let Response::NotLeader {
            leader: Some((node, address)),
            ..
        } = &mut response
            && address.is_empty()
            && let peers = self.peers.read()
            && let Some(site) = peers.sites.iter().find(|it| it.number == *node)
            && let Some(known) = site.client_address()
        {
            *address = known;
        }
        if let Some(client) = self.clients.find(to) {
            client.push(response, &self.client_wakeups);
        }
    }

    fn response_bytes_free(&self, to: ConnectionId) -> usize {
        self.clients.find(to).map_or(0, |it| it.bytes_free())
    }
}
