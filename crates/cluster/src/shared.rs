//! Shared state of a node's parts: tables, queues between them, and the published status.

use std::num::NonZeroU128;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use namiki::replica::Replica;
use namiki_client::protocol::{MemberChange, Response, Role, SessionId};
use parking_lot::Mutex;

use crate::clusters::Clusters;
use crate::entry::{EntryBody, PayloadRef};
use crate::events::{ApplierEvent, CopyEvent, Fetch, ImageEvent, RaftWrite, Scan, WorkerEvent};
use crate::failure::NodeFailure;
use crate::fault_injection::{Fault, FaultInjection};
use crate::flow_control::{FlowControl, Gate};
use crate::group_in_flight::Answer;
use crate::hash_requests::HashRequests;
use crate::kept_log::KeptLog;
use crate::log_space::LogSpace;
use crate::mailbox::Mailbox;
use crate::membership::Membership;
use crate::metrics::{Count, Metrics};
use crate::network::{ConnectionId, Network, NodeId, PeerMessage};
use crate::node_reads::NodeReads;
use crate::office::Office;
use crate::pacing::Pacing;
use crate::payload_cache::PayloadCache;
use crate::pinned_images::PinnedImages;
use crate::raft::{ChangeRefusal, RaftEvent, RaftView};
use crate::refusal::Refusal;
use crate::scan_slots::ScanSlots;
use crate::session::{Resumed, SessionTable};
use crate::session_ages::SessionAges;
use crate::storage::NodeStore;
use crate::uncommitted_groups::{Members, TaskStore};

/// Limit on the memory of payloads of other nodes that wait to be written.
const UNWRITTEN_BYTES_MAX: u64 = 256 << 20;

/// The space of a log is low when less than this part of its limit is left, without what is in reserve. An image for lack of space is
/// due when half of it is used.
const LOW_PART: u64 = 8;

/// Memory of a payload that waits to be written: with its place in a queue that grows by doubling.
pub(crate) fn unwritten_memory(payload: &Bytes) -> u64 {
    (payload.len() + 2 * size_of::<(PayloadRef, Bytes)>()) as u64
}

/// Whether the next image of the tables makes space in the log.
pub(crate) struct TruncationState {
    /// The last one did, or is the first.
    makes_space: AtomicBool,
    /// The checkpointer has been told that there is none.
    is_asked: AtomicBool,
}

impl Default for TruncationState {
    fn default() -> Self {
        Self {
            makes_space: AtomicBool::new(true),
            is_asked: AtomicBool::new(false),
        }
    }
}

impl TruncationState {
    /// An image has been written, or not.
    pub(crate) fn note(&self, makes_space: bool) {
        self.makes_space.store(makes_space, Ordering::Relaxed);
    }

    /// The checkpointer looks now.
    pub(crate) fn looked(&self) {
        self.is_asked.store(false, Ordering::Relaxed);
    }
}

/// One for each node of this process.
pub(crate) struct Shared {
    pub(crate) node: NodeId,
    /// The members with which the cluster began.
    pub(crate) founders: Vec<NodeId>,
    /// The backup that the cluster began with.
    pub(crate) backup: Option<NonZeroU128>,
    /// The clusters that the node's state was in.
    pub(crate) clusters: Clusters,
    /// The members according to the applied log.
    pub(crate) membership: Mutex<Arc<Membership>>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) sessions: Mutex<SessionTable>,
    pub(crate) session_ages: Mutex<SessionAges>,
    /// A leader closes sessions that were not used for this time; `None`: it closes none.
    pub(crate) session_idle_close: Option<Duration>,
    pub(crate) office: Mutex<Office>,
    /// One for each worker.
    pub(crate) task_stores: Vec<TaskStore>,
    /// For each worker, whether it waits for locks.
    pub(crate) has_parked: Vec<AtomicBool>,
    pub(crate) cache: PayloadCache,
    pub(crate) store: Arc<NodeStore>,
    pub(crate) network: Arc<dyn Network>,

    pub(crate) raft: Mailbox<RaftEvent>,
    pub(crate) workers: Vec<Mailbox<WorkerEvent>>,
    pub(crate) applier: Mailbox<ApplierEvent>,
    pub(crate) raft_writer: Mailbox<RaftWrite>,
    /// One for each worker's stream.
    pub(crate) payload_writers: Vec<Mailbox<(PayloadRef, Bytes)>>,
    /// What other nodes ask for.
    pub(crate) fetches: Mailbox<(NodeId, Fetch)>,
    /// For the checkpointer.
    pub(crate) images: Mailbox<ImageEvent>,
    /// For the receiver of images.
    pub(crate) copies: Mailbox<CopyEvent>,
    /// Images that are being copied.
    pub(crate) pinned_images: Mutex<PinnedImages>,
    /// The log for the nodes that copy them.
    pub(crate) kept_log: Mutex<KeptLog>,
    /// The tables of the directory cannot be used, and those here are empty: nothing is applied.
    pub(crate) tables_lost: bool,
    /// The entry through which the log is truncated.
    pub(crate) truncated: AtomicU64,
    /// For a log without space.
    pub(crate) truncation: TruncationState,
    /// Whether commands are accepted, by the space of all voters.
    pub(crate) flow_control: FlowControl,
    pub(crate) scans: Mailbox<Scan>,
    pub(crate) scan_slots: ScanSlots,
    /// Reads that this node answers in any role.
    pub(crate) node_reads: Mutex<NodeReads>,

    pub(crate) view: Mutex<RaftView>,
    pub(crate) applied: AtomicU64,
    /// Memory of payloads that wait to be written.
    pub(crate) unwritten_bytes: AtomicU64,
    pub(crate) commands_applied: AtomicU64,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) hashes: Pacing,
    pub(crate) hash_requests: HashRequests,
    /// Images for clients.
    pub(crate) backups: Pacing,
    pub(crate) planted: FaultInjection,
    pub(crate) logger: slog::Logger,
    pub(crate) failure: Mutex<Option<Arc<NodeFailure>>>,
}

impl Shared {
    /// Replicates a group that was sealed here: to the own disk and to the followers at the same
    /// time.
    pub(crate) fn replicate(&self, payload: PayloadRef, bytes: Bytes) {
        self.take_payload(payload, bytes.clone());
        self.raft.put(RaftEvent::Propose(EntryBody::Group(payload)));
        let membership = self.membership();
        for peer in membership.nodes().filter(|it| *it != self.node) {
            let bytes = bytes.clone();
            let message = PeerMessage::Payload { payload, bytes };
            self.network.send(peer, message);
        }
    }

    pub(crate) fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.membership.lock())
    }

    /// Publishes the changed members.
    pub(crate) fn set_membership(&self, membership: Arc<Membership>) {
        *self.membership.lock() = membership;
    }

    /// Answers the clients that asked for changes which are made.
    pub(crate) fn answer_changes_made(&self, members: &Membership) {
        let mut office = self.office.lock();
        let asked = &mut office.member_changes;
        let made = asked.extract_if(.., |change, _| members.fulfils(change));
        let made: Vec<_> = made.collect();
        drop(office);
        for (change, waiting) in made {
            for connection in waiting {
                let answer = Response::MembersChanged(change.clone());
                self.network.reply(connection, answer);
            }
        }
    }

    /// Answers the clients that have asked for a change that is not made.
    pub(crate) fn answer_change_refused(&self, change: &MemberChange, refusal: &ChangeRefusal) {
        let answer = match refusal {
            ChangeRefusal::Busy => Response::Busy { request: 0 },
            refusal => Response::Refused {
                request: 0,
                reason: refusal.to_string(),
            },
        };
        let waiting = self.office.lock().member_changes.remove(change);
        for connection in waiting.into_iter().flatten() {
            self.network.reply(connection, answer.clone());
        }
    }

    /// Accepts a received payload. It is dropped if it does not match its reference, or is longer
    /// than any sealed one. If the disk does not keep up it is dropped, too, and fetched when its
    /// entry comes.
    ///
    /// With little space, only those are accepted that were asked for: for the next entries. Others come ahead of their entries. If
    /// they filled the log, the next entry could not be applied, and no image would make space.
    pub(crate) fn receive_payload(&self, payload: PayloadRef, bytes: Bytes, was_asked_for: bool) {
        let is_valid = bytes.len() <= self.store.payload_bytes_max() && payload.matches(&bytes);
        let keeps_up = self.unwritten_bytes.load(Ordering::Relaxed) <= UNWRITTEN_BYTES_MAX;
        let may_come_ahead =
            || !self.own_log_space().is_low || self.planted.has(Fault::PayloadsAheadFillLog);
        let has_room = keeps_up && (was_asked_for || may_come_ahead());
        if !is_valid {
            self.metrics.increment(Count::PayloadsRefused);
        } else if has_room {
            self.take_payload(payload, bytes);
        } else {
            self.metrics.increment(Count::PayloadsDropped);
        }
    }

    /// Takes a payload and queues it for its stream.
    fn take_payload(&self, payload: PayloadRef, bytes: Bytes) {
        let Some(writer) = self.payload_writers.get(usize::from(payload.name.worker)) else {
            return;
        };
        self.unwritten_bytes
            .fetch_add(unwritten_memory(&bytes), Ordering::Relaxed);
        self.cache.insert(payload, bytes.clone());
        // First, so that the writer's event about it comes later.
        self.raft.put(RaftEvent::PayloadReceived(payload));
        writer.put((payload, bytes));
    }

    /// Completes commands that are committed and applied by entry `lsn`: answers the clients if these
    /// were the last ones of a group.
    pub(crate) fn complete(&self, members: &Members, lsn: u64) {
        let group = &members.group;
        let Some(answer) = group.complete(&members.outcomes, lsn) else {
            return;
        };
        let Answer {
            connections,
            outcomes,
            lsn,
        } = answer;
        let resumed = self.office.lock().finish(group);
        self.metrics.note_outcomes(outcomes.iter().copied());
        let answer = Response::Results {
            session: group.session,
            group: group.group,
            outcomes,
            lsn,
        };
        if let Some((last, others)) = connections.split_last() {
            for connection in others {
                self.network.reply(*connection, answer.clone());
            }
            self.network.reply(*last, answer);
        }
        for (connection, resumed) in resumed {
            self.answer_resumed(connection, group.session, resumed, lsn);
        }
    }

    /// Answers a client that has resumed a session, when all groups of earlier holders are in the
    /// log: by entry `lsn`.
    pub(crate) fn answer_resumed(
        &self,
        connection: ConnectionId,
        session: SessionId,
        resumed: Resumed,
        lsn: u64,
    ) {
        let kept = self.sessions.lock().kept(session);
        let answer = match kept {
            None => Response::NoSuchSession { session },
            Some((acknowledged_through, groups)) => Response::SessionResumed {
                session,
                fence: resumed.fence,
                first_group: resumed.first_group,
                acknowledged_through,
                groups,
                lsn,
            },
        };
        self.network.reply(connection, answer);
    }

    /// Tells a client that its request is not executed, and counts it.
    pub(crate) fn refuse(&self, connection: ConnectionId, refusal: Refusal) {
        self.metrics.note_refusal(refusal.reason());
        self.network.reply(connection, refusal.into());
    }

    /// Publishes Raft's changed state, and logs and counts changes of the role.
    pub(crate) fn show(&self, view: RaftView) {
        let before = std::mem::replace(&mut *self.view.lock(), view.clone());
        let of = |view: &RaftView| (view.role, view.term, view.leader);
        if view.role == Role::Candidate && before.role != Role::Candidate {
            self.metrics.increment(Count::Campaigns);
        }
        if view.leader.is_some() && (before.leader, before.term) != (view.leader, view.term) {
            self.metrics.increment(Count::LeaderChanges);
        }
        if of(&before) != of(&view) {
            let leader = view.leader.map_or(0, NodeId::number);
            slog::info!(self.logger, "{}", role_text(view.role); "term" => view.term, "leader" => leader,
                "last" => view.last, "committed" => view.committed);
        }
    }

    /// Records a fatal failure; the first one counts. The node stops participating.
    pub(crate) fn fail(&self, failure: NodeFailure) {
        let mut first = self.failure.lock();
        if first.is_none() {
            *first = Some(Arc::new(failure));
        }
        drop(first);
        self.close();
    }

    /// Closes all queues, which ends the threads.
    pub(crate) fn close(&self) {
        self.raft.close();
        self.applier.close();
        self.raft_writer.close();
        self.fetches.close();
        self.images.close();
        self.copies.close();
        self.scans.close();
        self.workers.iter().for_each(Mailbox::close);
        self.payload_writers.iter().for_each(Mailbox::close);
    }

    /// Whether a leader accepts commands of this size now, by the space of all voters and of its own log. Without space in its
    /// own, the checkpointer is told.
    pub(crate) fn commands_gate(&self, bytes: usize) -> Gate {
        let own = if self.store.has_room() {
            Gate::Open
        } else {
            self.ask_for_truncation();
            if self.truncation_helps() {
                Gate::Busy
            } else {
                Gate::Full
            }
        };
        if self.planted.has(Fault::AcceptWithoutRoom) {
            return own;
        }
        self.flow_control.gate(own, bytes)
    }

    /// Tells the checkpointer that the log has no space.
    pub(crate) fn ask_for_truncation(&self) {
        if !self.truncation.is_asked.swap(true, Ordering::Relaxed) {
            self.images.put(ImageEvent::NoRoom);
        }
    }

    /// Whether the next image makes space, as the last one did.
    pub(crate) fn truncation_helps(&self) -> bool {
        self.truncation.makes_space.load(Ordering::Relaxed)
    }

    /// The space of this node's log.
    pub(crate) fn own_log_space(&self) -> LogSpace {
        let store = &self.store;
        let unwritten = self.unwritten_bytes.load(Ordering::Relaxed);
        let usable_bytes = store.usable_bytes().saturating_sub(unwritten);
        if usable_bytes == 0 || self.flow_control.is_full() {
            return LogSpace::NONE;
        }
        let is_low = usable_bytes < store.log_bytes_max() / LOW_PART;
        LogSpace {
            usable_bytes,
            is_low,
        }
    }

    /// The entry through which the log is truncated.
    pub(crate) fn truncated(&self) -> u64 {
        self.truncated.load(Ordering::Acquire)
    }

    /// Whether this node lacks nothing that it knows to be committed under a leader.
    pub(crate) fn has_everything(&self) -> bool {
        let view = self.view.lock();
        let is_whole = view.missing == 0 && !self.tables_lost;
        is_whole && view.leader.is_some() && self.applied() == view.committed
    }

    /// Whether this node is in office.
    pub(crate) fn leads(&self) -> bool {
        self.office.lock().term.is_some()
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Follower => "follows",
        Role::Candidate => "asks for votes",
        Role::TakingOffice => "was elected",
        Role::Leader => "leads",
        Role::Learner => "learns",
    }
}
