//! The parts of a node, without threads: the simulator drives them, one call after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use bytes::Bytes;
use namiki_client::protocol::{Request, Role};
use namiki_platform::ErrorSentence;
use parking_lot::Mutex;

use super::{NodeOptions, OpenedNode};
use crate::clusters::Clusters;
use crate::entry::{PayloadName, PayloadRef};
use crate::events::{ApplierEvent, CopyEvent, Fetch, ImageEvent, RaftWrite};
use crate::failure::NodeFailure;
use crate::fault_injection::Fault;
use crate::flow_control::FlowControl;
use crate::groups::applier::Applier;
use crate::groups::idle_sessions::tick_sessions;
use crate::groups::log_writer::{PayloadWriter, RaftWriter};
use crate::groups::producer::Producer;
use crate::groups::worker::Worker;
use crate::hash_requests::HashRequests;
use crate::image::checkpointer::Checkpointer;
use crate::image::receiver::ImageReceiver;
use crate::image::sender;
use crate::image_message::{ImageContent, ImageMessage};
use crate::kept_log::{KeptEnd, KeptLog, LeaderState};
use crate::log_space::LogSpace;
use crate::mailbox::Mailbox;
use crate::membership::Membership;
use crate::metrics::{Count, Metrics};
use crate::network::{ClientName, ConnectionId, Inbox, Network, NodeId, PeerMessage};
use crate::node_reads::NodeReads;
use crate::office::Office;
use crate::pacing::Pacing;
use crate::payload_cache::PayloadCache;
use crate::raft::{
    FETCH_MAX, RAFT_BYTES_MAX, RAFT_MESSAGE_BYTES, RaftDriver, RaftEffect, RaftEvent, RaftOptions,
    RaftView, RestoredRaft, StartView,
};
use crate::refusal::Refusal;
use crate::scan_slots::ScanSlots;
use crate::session::SessionTable;
use crate::session_ages::SessionAges;
use crate::shared::{Shared, TruncationState};
use crate::storage::{ReadAhead, StoreError};
use crate::uncommitted_groups::TaskStore;

/// Largest number of requested payloads that wait to be read.
const FETCHES_MAX: usize = 64 * FETCH_MAX;
/// Time after which a node gives up a read that waits for a leader, or for entries.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Entries that a leader keeps for nodes that copy an image: they are in memory.
const KEPT_ENTRIES_MAX: u64 = 2_000_000;

/// Largest memory of messages about images that wait.
const COPIES_BYTES_MAX: usize = 16 << 20;

/// All parts of one node.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) raft: RaftDriver,
    pub(crate) workers: Vec<Worker>,
    pub(crate) applier: Applier,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) image_receiver: ImageReceiver,
    pub(crate) raft_writer: RaftWriter,
    pub(crate) payload_writers: Vec<PayloadWriter>,
}

impl Parts {
    /// `metrics`: those of an earlier start within the process, which go on.
    pub(crate) fn new(
        options: &NodeOptions,
        opened: OpenedNode,
        network: Arc<dyn Network>,
        metrics: Option<Arc<Metrics>>,
    ) -> Result<Self, NodeFailure> {
        let OpenedNode {
            store,
            recovered,
            replica,
            image,
            damage,
        } = opened;
        let store = Arc::new(store);
        let node = recovered.identity.node;
        let workers = usize::from(recovered.identity.workers);
        let restored = RestoredRaft {
            founders: recovered.founders,
            term: recovered.term,
            vote: recovered.vote,
            commit: recovered.commit,
            persisted: recovered.persisted,
            snapshot: recovered.snapshot.position,
            members: recovered.snapshot.members.clone(),
            entries: recovered.entries,
            missing: recovered.missing,
            tables_lost: recovered.tables_lost,
            is_loading: replica.began_with_tables(),
            backup: recovered.backup,
        };
        let clusters = match &image {
            Some(image) => image.head.clusters().clone(),
            None => Clusters::new(recovered.identity.cluster),
        };
        let (members, commands, mut sessions) = match image {
            Some(image) => (image.head.members, image.head.commands, image.sessions),
            None => {
                let at_snapshot = Membership::decode(&restored.members);
                let members = at_snapshot.unwrap_or_else(|| Membership::new(&restored.founders));
                (members, 0, SessionTable::default())
            }
        };
        if options.planted.has(Fault::SessionsNotCounted) {
            sessions.forget_counts();
        }
        let at = restored.snapshot;
        let has_forgotten =
            recovered.forgotten.is_some() && !options.planted.has(Fault::GoOnAfterDamage);
        // The first entry that reads can see.
        let reads_from = if recovered.tables_lost {
            u64::MAX
        } else if restored.snapshot.index == 0 {
            restored.commit
        } else {
            restored.snapshot.index
        };
        let shared = Arc::new(Shared {
            node,
            founders: restored.founders.clone(),
            backup: restored.backup,
            clusters,
            membership: Mutex::new(Arc::new(members.clone())),
            replica: Arc::new(replica),
            sessions: Mutex::new(sessions),
            session_ages: Mutex::new(SessionAges::new(options.tick())),
            session_idle_close: options.limits.session_idle_close,
            office: Mutex::new(Office::default()),
            task_stores: (0..workers).map(|_| TaskStore::default()).collect(),
            has_parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            cache: PayloadCache::new(options.cache_bytes),
            store: Arc::clone(&store),
            network,
            raft: Mailbox::default(),
            workers: (0..workers).map(|_| Mailbox::default()).collect(),
            applier: Mailbox::default(),
            raft_writer: Mailbox::default(),
            payload_writers: (0..workers).map(|_| Mailbox::default()).collect(),
            fetches: Mailbox::default(),
            images: Mailbox::default(),
            copies: Mailbox::default(),
            pinned_images: Mutex::default(),
            kept_log: Mutex::new(KeptLog::new(options.tick(), recovered.truncated)),
            tables_lost: recovered.tables_lost,
            truncated: AtomicU64::new(recovered.truncated),
            truncation: TruncationState::default(),
            flow_control: FlowControl::new(options.election_ticks()),
            scans: Mailbox::default(),
            scan_slots: ScanSlots::default(),
            node_reads: Mutex::new(NodeReads::new(
                wait_ticks(options),
                reads_from,
                restored.commit,
            )),
            view: Mutex::new(RaftView {
                role: Role::Follower,
                term: restored.term,
                leader: None,
                last: 0,
                persisted: 0,
                committed: 0,
                refused: 0,
                missing: restored.missing.len() as u64,
                matched: Vec::new(),
                start: StartView::default(),
            }),
            applied: AtomicU64::new(at.index),
            unwritten_bytes: AtomicU64::new(0),
            hashes: Pacing::default(),
            hash_requests: HashRequests::new(wait_ticks(options)),
            backups: Pacing::default(),
            commands_applied: AtomicU64::new(commands),
            metrics: metrics.unwrap_or_else(|| Arc::new(Metrics::new(workers))),
            planted: options.planted,
            logger: options.logger.clone(),
            failure: Mutex::new(None),
        });
        if let Some(damage) = &damage {
            slog::warn!(shared.logger, "the tables of the directory cannot be used: an image of another node is installed";
                "error" => %ErrorSentence(damage));
            shared.metrics.increment(Count::TablesLost);
        }
        for damage in &recovered.damage {
            slog::warn!(shared.logger, "the log is damaged: payloads that are lost are fetched from other nodes";
                "worker" => damage.worker, "frames" => damage.frames, "first" => %ErrorSentence(&*damage.first));
            (shared.metrics).add(Count::FramesDamaged, damage.frames);
        }
        if let Some(damage) = &recovered.raft_damage {
            slog::warn!(shared.logger, "stream 0 of the log is damaged, and ends there: the other nodes know what followed";
                "error" => %ErrorSentence(&**damage));
            shared.metrics.increment(Count::RaftLogDamaged);
        }
        if let Some(forgotten) = &recovered.forgotten {
            slog::warn!(shared.logger, "this node may have forgotten votes and acknowledgements: it neither votes nor acknowledges \
                before all other voters have answered, at this start and later ones; start those that are down"; "lost" => forgotten);
        }
        // What was damaged while the node did not run.
        (shared.metrics).add(Count::PayloadsDamaged, restored.missing.len() as u64);
        let raft_options = RaftOptions {
            asks_all: options.asks_all || has_forgotten,
            ..options.raft(node)
        };
        let raft = RaftDriver::new(&raft_options, restored, store)?;
        let worker = |number| Worker::new(number, Arc::clone(&shared), options.groups);
        let mut parts = Self {
            raft,
            workers: (0..workers as u16).map(worker).collect(),
            applier: Applier::new(Arc::clone(&shared), at, members),
            checkpointer: Checkpointer::new(
                Arc::clone(&shared),
                options.images,
                recovered.snapshot,
            ),
            image_receiver: ImageReceiver::new(Arc::clone(&shared)),
            raft_writer: RaftWriter::new(&shared),
            payload_writers: (0..workers as u16)
                .map(|number| PayloadWriter::new(&shared, number))
                .collect(),
            shared,
        };
        parts.run_raft([]);
        Ok(parts)
    }

    pub(crate) fn run_raft(&mut self, events: impl IntoIterator<Item = RaftEvent>) {
        run_raft(&self.shared, &mut self.raft, events);
    }
}

/// Passes events to Raft, and its effects to the other parts.
pub(crate) fn run_raft(
    shared: &Shared,
    raft: &mut RaftDriver,
    events: impl IntoIterator<Item = RaftEvent>,
) {
    let mut has_ticked = false;
    let events = events
        .into_iter()
        .inspect(|event| has_ticked |= matches!(event, RaftEvent::Tick));
    raft.handle(events);
    if has_ticked {
        tick_reads(shared);
        tick_hash_requests(shared);
        tick_flow_control(shared);
        tick_sessions(shared);
    }
    for effect in raft.take_effects() {
        match effect {
            RaftEffect::Send(to, message) => {
                if let PeerMessage::FetchPayloads { payloads } = &message {
                    (shared.metrics).add(Count::PayloadsFetched, payloads.len() as u64);
                }
                shared.network.send(to, message);
            }
            RaftEffect::AppendRaft { batch, records } => {
                shared.raft_writer.put(RaftWrite { batch, records });
            }
            RaftEffect::Committed(entries) => {
                (shared.applier).put(ApplierEvent::Committed(entries, Instant::now()));
            }
            RaftEffect::Elected { term } => {
                shared.metrics.increment(Count::ElectionsWon);
                shared.flow_control.begin_office();
                shared.applier.put(ApplierEvent::Elected(term));
            }
            RaftEffect::Deposed => shared.applier.put(ApplierEvent::Deposed),
            RaftEffect::ReadReady(id, index) => {
                shared.applier.put(ApplierEvent::ReadReady(id, index));
            }
            RaftEffect::View(view) => shared.show(view),
            RaftEffect::NeedsSnapshot(node) => {
                (shared.fetches).put_within((node, Fetch::Offer), 1, FETCHES_MAX);
            }
            RaftEffect::NewestMembers(members) => shared.network.set_members(&members),
            RaftEffect::Gone => shared.fail(NodeFailure::Gone { node: shared.node }),
            RaftEffect::Remembered => shared.images.put(ImageEvent::Remembered),
            RaftEffect::StartedWithout(nodes) => note_started_without(shared, &nodes),
            RaftEffect::WentBack {
                node,
                matched,
                last,
            } => {
                shared.metrics.increment(Count::NodesWentBack);
                slog::warn!(shared.logger, "node {} went back: it has acknowledged entries that its disk has no more; it gets them again. If \
                    its directory was not put back on purpose, check its disk", node; "acknowledged" => matched, "has" => last);
            }
            RaftEffect::OtherBackup(node) => shared.fail(NodeFailure::OtherBackup { node }),
            RaftEffect::LaterEntry { index, version } => {
                shared.fail(NodeFailure::LaterEntry { index, version });
            }
            RaftEffect::Contradicted {
                term,
                index,
                own_term,
                leader_term,
            } => shared.fail(NodeFailure::Contradicted {
                index,
                own_term,
                term,
                leader_term,
            }),
            RaftEffect::AskForImage(node, through) => {
                let applied = shared.applied();
                // Without tables, an image of the entry behind which the log begins helps, too.
                let above = applied.saturating_sub(u64::from(shared.tables_lost));
                let through = through.max(above + 1);
                let content = ImageContent::Ask { above, through };
                let message = ImageMessage { image: 0, content };
                shared.network.send(node, PeerMessage::Image(message));
            }
            RaftEffect::PayloadsLost { count } => shared.fail(NodeFailure::PayloadsLost { count }),
            RaftEffect::PayloadsRestored => shared.applier.put(ApplierEvent::PayloadsRestored),
            RaftEffect::Members(membership) => shared.set_membership(membership),
            RaftEffect::MembersDurable(members) => shared.answer_changes_made(&members),
            RaftEffect::MembersNotChanged(change, refusal) => {
                shared.answer_change_refused(&change, &refusal);
            }
        }
    }
}

fn note_started_without(shared: &Shared, nodes: &[NodeId]) {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    slog::warn!(
        shared.logger,
        "this node has started without the answer of node {}: if its directory was put back from a copy, what it lacks \
        may be lost; start the nodes that are down, and it asks them again",
        names.join(", ")
    );
}

/// Number of ticks that a read waits for.
fn wait_ticks(options: &NodeOptions) -> u64 {
    (READ_WAIT.as_nanos() / options.tick().as_nanos()) as u64
}

/// Time passes for the reads that this node answers in any role.
fn tick_reads(shared: &Shared) {
    let after = shared.node_reads.lock().tick(shared.applied());
    for (connection, refusal) in after.refusals {
        shared.refuse(connection, refusal);
    }
    if let Some(id) = after.confirm {
        shared.raft.put(RaftEvent::ReadIndex(id));
    }
    if after.is_ready {
        shared.applier.put(ApplierEvent::NodeReads);
    }
}

/// Time passes for the clients that wait for the hash at an entry.
fn tick_hash_requests(shared: &Shared) {
    for (connection, wanted) in shared.hash_requests.tick() {
        let applied = shared.applied();
        let refusal = Refusal::Behind {
            request: 0,
            applied,
            wanted,
        };
        shared.refuse(connection, refusal);
    }
}

/// Time has passed: a leader looks for room on the others, and they report theirs.
fn tick_flow_control(shared: &Shared) {
    let leader = shared.view.lock().leader;
    let own = shared.own_log_space();
    if leader != Some(shared.node) {
        shared.flow_control.tick();
        shared.kept_log.lock().clear();
        if let Some(leader) = leader {
            shared.network.send(leader, PeerMessage::LogSpace(own));
        }
        return;
    }
    tick_kept_log(shared, own);
    // An image is being written, or would make room.
    let may_stay = !shared.flow_control.is_full() && shared.truncation_helps();
    let members = shared.membership();
    let to = shared
        .flow_control
        .tick_leader((shared.node, own), &members, may_stay);
    if let Some(to) = to {
        slog::warn!(shared.logger, "this leader has no room for the log, and hands over to a node that has"; "node" => to.number());
        shared.raft.put(RaftEvent::HandOver(Some(to)));
    }
}

/// Time has passed for the nodes that copy an image of this leader.
fn tick_kept_log(shared: &Shared, own: LogSpace) {
    let mut kept_log = shared.kept_log.lock();
    let ended = {
        let view = shared.view.lock();
        let leader = LeaderState {
            matched: &view.matched,
            committed: view.committed,
            is_slowed: own.is_low,
            has_too_many_entries: view.last.saturating_sub(shared.truncated()) > KEPT_ENTRIES_MAX,
        };
        kept_log.tick(leader, |node| shared.flow_control.has_told(node))
    };
    for (node, end) in ended {
        match end {
            KeptEnd::Follows => {
                slog::info!(shared.logger, "a node has caught up after it copied an image: the log is not kept for it any more"; "node" => %node);
            }
            KeptEnd::TooManyEntries => {
                slog::warn!(shared.logger, "the log is not kept any more for a node that copies an image: {} entries have come since. It may \
                    have to copy another one. Lower the load until it follows", KEPT_ENTRIES_MAX; "node" => %node);
            }
            KeptEnd::Slowed => {
                slog::warn!(shared.logger, "the log is not kept any more for a node that copies an image: commands were slowed for it for a \
                    minute. It may have to copy another one. Raise log_bytes_max on every node and restart them one by one"; "node" => %node);
            }
        }
    }
}

/// Writes the queued records of stream 0.
pub(crate) fn run_raft_writer(
    shared: &Shared,
    writer: &mut RaftWriter,
    writes: impl IntoIterator<Item = RaftWrite>,
) {
    if let Err(failure) = writer.write(writes) {
        shared.fail(failure);
    }
}

/// Writes the queued payloads of a worker's stream.
pub(crate) fn run_payload_writer(
    shared: &Shared,
    writer: &mut PayloadWriter,
    payloads: impl IntoIterator<Item = (PayloadRef, Bytes)>,
) {
    if let Err(failure) = writer.write(payloads) {
        shared.fail(failure);
    }
}

/// Handles events until one fails, which stops the node.
fn handle_all<E>(
    shared: &Shared,
    events: impl IntoIterator<Item = E>,
    handle: impl FnMut(E) -> Result<(), NodeFailure>,
) {
    if let Err(failure) = events.into_iter().try_for_each(handle) {
        shared.fail(failure);
    }
}

/// Handles the queued events of the applier.
pub(crate) fn run_applier(
    shared: &Shared,
    applier: &mut Applier,
    events: impl IntoIterator<Item = ApplierEvent>,
) {
    handle_all(shared, events, |event| applier.handle(event));
}

/// Waits until the tables are in memory, and tells the applier. Raft votes and acknowledges before, and stale reads are answered.
pub(crate) fn run_loading(shared: &Shared) {
    let loaded = shared.replica.wait_until_loaded();
    shared.applier.put(ApplierEvent::TablesLoaded(loaded));
}

/// Handles the queued events of the checkpointer, views last: then it is known whether a node or a client waits for the image.
pub(crate) fn run_checkpointer(
    shared: &Shared,
    checkpointer: &mut Checkpointer,
    events: impl IntoIterator<Item = ImageEvent>,
) {
    let is_view = |event: &ImageEvent| matches!(event, ImageEvent::View(_));
    let (views, others): (Vec<_>, Vec<_>) = events.into_iter().partition(is_view);
    let events = others.into_iter().chain(views);
    handle_all(shared, events, |event| checkpointer.handle(event));
}

/// Handles the queued events of the receiver of images.
pub(crate) fn run_image_receiver(
    shared: &Shared,
    receiver: &mut ImageReceiver,
    events: impl IntoIterator<Item = CopyEvent>,
) {
    handle_all(shared, events, |event| receiver.handle(event));
}

/// Answers nodes that fetch payloads, from memory, else from the disk, and those that copy images.
pub(crate) fn run_fetches(shared: &Shared, fetches: impl IntoIterator<Item = (NodeId, Fetch)>) {
    let mut ahead = ReadAhead::default();
    for (from, fetch) in fetches {
        let payloads = match fetch {
            Fetch::Payloads(payloads) => payloads,
            Fetch::Offer => {
                sender::offer(shared, from);
                continue;
            }
            Fetch::Ask { above, through } => {
                sender::answer_ask(shared, from, above, through);
                continue;
            }
            Fetch::ImageFile {
                image,
                file,
                offset,
            } => {
                sender::send_parts(shared, from, image, file, offset);
                continue;
            }
        };
        for payload in payloads {
            let cached = shared.cache.get(&payload);
            let read = || read_for_peer(shared, &payload, &mut ahead);
            let bytes = cached.or_else(read).filter(|it| payload.matches(it));
            shared.metrics.increment(match bytes {
                Some(_) => Count::PayloadsServed,
                None => Count::PayloadsNotServed,
            });
            let message = PeerMessage::FetchedPayload { payload, bytes };
            shared.network.send(from, message);
        }
    }
}

/// Reads a payload that another node asks for. If it does not exist or cannot be read, a third node
/// may have it.
fn read_for_peer(shared: &Shared, payload: &PayloadRef, ahead: &mut ReadAhead) -> Option<Bytes> {
    match shared.store.read_payload_ahead(payload.name, ahead) {
        // What is read ahead would be kept alive by a slice of it in the lane's queue.
        Ok(bytes) => Some(Bytes::copy_from_slice(&bytes)),
        Err(StoreError::NoSuchPayload { .. } | StoreError::NotDurable { .. }) => None,
        Err(_) => {
            shared.metrics.increment(Count::PayloadsDamaged);
            None
        }
    }
}

/// The inbox for messages from the network.
pub(crate) struct NodeInbox {
    shared: Arc<Shared>,
    producer: Producer,
    /// With an injected fault: the last number of each worker.
    numbers: Mutex<Vec<u64>>,
}

impl NodeInbox {
    pub(crate) fn new(shared: &Arc<Shared>, options: &NodeOptions) -> Self {
        Self {
            shared: Arc::clone(shared),
            producer: Producer::new(Arc::clone(shared), options.limits),
            numbers: Mutex::new(vec![0; shared.workers.len()]),
        }
    }
}

impl NodeInbox {
    /// Whether a payload is taken: with an injected fault, those with numbers above the last one.
    fn is_new(&self, payload: PayloadRef) -> bool {
        if !self.shared.planted.has(Fault::DeduplicateByCounter) {
            return true;
        }
        let PayloadName { worker, number, .. } = payload.name;
        let last = &mut self.numbers.lock()[usize::from(worker)];
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }
}

impl Inbox for NodeInbox {
    fn receive(&self, from: NodeId, message: PeerMessage) {
        let shared = &self.shared;
        match message {
            PeerMessage::Raft(bytes) => {
                let weight = bytes.len() + RAFT_MESSAGE_BYTES;
                let message = RaftEvent::Message(from, bytes);
                // A message that finds no room is lost, as on a broken connection.
                shared.raft.put_within(message, weight, RAFT_BYTES_MAX);
            }
            PeerMessage::Start(bytes) => {
                let weight = bytes.len() + RAFT_MESSAGE_BYTES;
                let message = RaftEvent::Start(from, bytes);
                shared.raft.put_within(message, weight, RAFT_BYTES_MAX);
            }
            PeerMessage::LogSpace(space) => shared.flow_control.note(from, space),
            PeerMessage::FetchedPayload {
                payload,
                bytes: Some(bytes),
            } if self.is_new(payload) => shared.receive_payload(payload, bytes, true),
            PeerMessage::Payload { payload, bytes } if self.is_new(payload) => {
                shared.receive_payload(payload, bytes, false);
            }
            PeerMessage::FetchedPayload { .. } | PeerMessage::Payload { .. } => {}
            // No node asks for more at once.
            PeerMessage::FetchPayloads { payloads } if payloads.len() <= FETCH_MAX => {
                let weight = payloads.len() + 1;
                // The other node asks again for those without an answer.
                let fetch = Fetch::Payloads(payloads);
                (shared.fetches).put_within((from, fetch), weight, FETCHES_MAX);
            }
            PeerMessage::FetchPayloads { .. } => {}
            PeerMessage::Image(message) => match message.content {
                ImageContent::Fetch { file, offset } => {
                    let image = message.image;
                    let fetch = Fetch::ImageFile {
                        image,
                        file,
                        offset,
                    };
                    // It is asked for again.
                    (shared.fetches).put_within((from, fetch), FETCH_MAX, FETCHES_MAX);
                }
                ImageContent::Ask { above, through } => {
                    let fetch = Fetch::Ask { above, through };
                    (shared.fetches).put_within((from, fetch), FETCH_MAX, FETCHES_MAX);
                }
                _ => {
                    let weight = message.weight();
                    let event = CopyEvent::Message(from, message);
                    (shared.copies).put_within(event, weight, COPIES_BYTES_MAX);
                }
            },
        }
    }

    fn connected(&self, _: NodeId) {}

    fn disconnected(&self, node: NodeId) {
        self.shared.raft.put(RaftEvent::Unreachable(node));
    }

    fn gone(&self, according_to: NodeId) {
        let shared = &self.shared;
        slog::error!(
            shared.logger,
            "node {} says that this one is no member any more",
            according_to
        );
        shared.fail(NodeFailure::Gone { node: shared.node });
    }

    fn request(&self, from: ConnectionId, client: &ClientName, request: Request) {
        self.producer.take(from, client, request);
    }

    fn client_gone(&self, connection: ConnectionId) {
        self.shared.scan_slots.client_gone(connection);
        self.shared.hash_requests.forget(connection);
        self.producer.client_gone(connection);
    }
}
