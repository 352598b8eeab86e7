//! The state machine around raft-rs: events in, effects out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::num::NonZeroU128;
use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::{NodeAddresses, Role};
use namiki_platform::seeded_random::Random;
use raft::eraftpb::{ConfState, HardState, Message, MessageType};
use raft::{Config, Progress, RawNode, StateRole};
use slog::{Discard, Logger, o};

use super::entry_codec::{encode_body, from_raft};
use super::entry_log::EntryLog;
use super::events_and_effects::{RaftEffect, RaftEvent, RaftView};
use super::held_appends::HeldAppends;
use super::lost_data::{FETCH_TICKS, LostData};
use super::members::Members;
use super::message_codec::{MessageError, decode};
use super::payloads_here::{DurablePayloads, Here};
use super::persistence::Persistence;
use super::start_inquiry::{InquiryOptions, StartInquiry};
use super::start_messages::AtStart;
use crate::entry::{EntryBody, LogEntry, PayloadName, PayloadRef};
use crate::fault_injection::{Fault, FaultInjection};
use crate::membership::{Member, Membership, MembershipChange};
use crate::network::NodeId;
use crate::storage::{LogPosition, RaftRecord};

/// Lag of committed entries to apply at which a node avoids leadership.
pub(crate) const LAG_MAX: u64 = 1000;
/// Election timeouts without a leader after which a node stands for election although its tables
/// lag, or are not in memory; up to one more, at random.
pub(crate) const TIMEOUTS_BEHIND: usize = 4;

/// Options of a node's Raft.
#[derive(Clone, Debug)]
pub(crate) struct RaftOptions {
    /// This node.
    pub(crate) node: NodeId,
    /// Least number of ticks without a leader after which a node asks for votes; the largest is
    /// twice as many.
    pub(crate) election_ticks: usize,
    /// Ticks between two heartbeats.
    pub(crate) heartbeat_ticks: usize,
    /// Largest number of appends in flight to a follower.
    pub(crate) inflight_max: usize,
    /// Bytes of entries (without payloads) in one message.
    pub(crate) message_bytes: u64,
    /// Seed of the election timeouts.
    pub(crate) seed: u64,
    /// The number of this start: no other start of this node has it. Not 0.
    pub(crate) start: u64,
    /// Whether this start never goes on without the answer of a voter: its disk is known to have
    /// lost something. [`RaftEffect::Remembered`] says when later starts may.
    pub(crate) asks_all: bool,
    /// The addresses of nodes in the configuration, by number: for members without any in the log.
    pub(crate) addresses: BTreeMap<u64, NodeAddresses>,
    /// A fault, in simulations.
    pub(crate) planted: FaultInjection,
}

/// The recovered state of the log when a node starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredRaft {
    /// The voters that the cluster began with; later changes are in the log.
    pub(crate) founders: Vec<NodeId>,
    /// Raft's term.
    pub(crate) term: u64,
    /// Its vote in that term; 0: none.
    pub(crate) vote: u64,
    /// The last entry known to be committed; the snapshot's or a later one.
    pub(crate) commit: u64,
    /// The persisted index that stream 0 records. The driver records that all entries are persisted, if it is lower.
    pub(crate) persisted: u64,
    /// The durable image that the tables start from; the log begins behind it.
    pub(crate) snapshot: LogPosition,
    /// The members at the snapshot, as [`Membership::encode`] has them. Empty: the voters that the
    /// cluster began with.
    pub(crate) members: Bytes,
    /// The entries behind the snapshot.
    pub(crate) entries: Vec<LogEntry>,
    /// Payloads that were persisted and are damaged or gone: until they are restored, the node does
    /// not participate.
    pub(crate) missing: Vec<PayloadRef>,
    /// The tables are lost: until another node's image is installed, nothing is handed out, and the
    /// node votes and acknowledges, but does not lead.
    pub(crate) tables_lost: bool,
    /// The tables are not in memory yet: nothing is applied before [`RaftEvent::TablesLoaded`].
    pub(crate) is_loading: bool,
    /// The backup that the node's cluster began with.
    pub(crate) backup: Option<NonZeroU128>,
}

/// Raft refuses to start.
#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    /// Raft does not accept the recovered log.
    #[error("Raft cannot start from the contents of the directory; replace the node")]
    Start(#[source] raft::Error),
    /// The snapshot's members are not valid.
    #[error("the members in the directory's last image are not valid: replace the node")]
    Members,
}

/// Raft of one node.
pub(crate) struct RaftDriver {
    pub(super) raft: RawNode<EntryLog>,
    pub(super) node: NodeId,
    pub(super) members: Members,
    pub(super) here: Here,
    pub(super) held: HeldAppends,
    pub(super) persistence: Persistence,
    pub(super) inquiry: StartInquiry,
    pub(super) lost: LostData,
    /// Committed entries that are withheld while payloads are missing.
    withheld: Vec<LogEntry>,
    pub(super) last_batch: u64,
    /// The term and the vote in the records of stream 0.
    pub(super) recorded_vote: (u64, u64),
    /// The batch with that record.
    pub(super) vote_batch: u64,
    pub(super) recorded_commit: u64,
    pub(super) recorded_persisted: u64,
    /// Ticks since records were appended.
    pub(super) unrecorded_ticks: usize,
    /// The term in which it leads, according to its effects.
    pub(super) leads: Option<u64>,
    pub(super) election_ticks: usize,
    drawn_for: (u64, StateRole),
    timeout_ticks: usize,
    /// The last applied entry; `None` if unknown.
    applied: Option<u64>,
    /// The commit index at the start of the node.
    restored_commit: u64,
    pub(super) is_loading: bool,
    random: Random,
    pub(super) ticks_since_fetch: u32,
    /// Ticks for which the disk has made nothing durable that Raft waits for.
    stalled_ticks: usize,
    /// The node that was last asked to take over leadership.
    handed_to: Option<u64>,
    pub(super) fetches: usize,
    /// Payloads that were requested and have not arrived.
    pub(super) fetching: HashSet<PayloadName>,
    /// Proposals that Raft rejected although this node leads: retried at each tick.
    postponed: Vec<EntryBody>,
    view: Option<RaftView>,
    pub(super) effects: Vec<RaftEffect>,
    pub(super) refused: u64,
    pub(super) planted: FaultInjection,
    /// With an injected fault: the last entry that was handed out.
    given_out: u64,
    ticks: u64,
    /// Differs between the starts of the node.
    pub(super) start: u64,
    /// Nodes that need truncated entries, as long as this one leads.
    pub(super) told_behind: HashMap<NodeId, Behind>,
    /// It may have forgotten promises before this start.
    pub(super) has_forgotten: bool,
    /// The leader's log contradicts a committed entry of this one: the node does nothing more.
    pub(super) is_contradicted: bool,
}

/// A node that needs truncated entries.
#[derive(Default)]
pub(super) struct Behind {
    /// Tick at which that was reported last.
    tick: Option<u64>,
    /// The entry behind the one from which on it was sent entries last; 0: none.
    sent_from: u64,
}

impl fmt::Debug for RaftDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftDriver")
            .field("node", &self.node)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl RaftDriver {
    /// Starts from the recovered state.
    ///
    /// # Errors
    /// [`RaftError`].
    pub(crate) fn new(
        options: &RaftOptions,
        restored: RestoredRaft,
        durable: Arc<dyn DurablePayloads>,
    ) -> Result<Self, RaftError> {
        let mut hard_state = HardState::default();
        (hard_state.term, hard_state.vote) = (restored.term, restored.vote);
        hard_state.commit = restored.commit;
        let at_snapshot = if restored.members.is_empty() {
            Membership::new(&restored.founders)
        } else {
            Membership::decode(&restored.members).ok_or(RaftError::Members)?
        };
        let (voters, learners): (Vec<_>, Vec<_>) =
            (at_snapshot.members().iter()).partition(|member| member.votes);
        let raft_ids = |members: Vec<&Member>| members.iter().map(|it| it.node.to_raft()).collect();
        let membership = ConfState {
            voters: raft_ids(voters),
            learners: raft_ids(learners),
            ..ConfState::default()
        };
        let snapshot = restored.snapshot;
        let planted = options.planted;
        let log = EntryLog::new(snapshot, restored.entries, hard_state, membership, planted);
        let last = log.last();
        let config = Config {
            id: options.node.to_raft(),
            applied: snapshot.index,
            election_tick: options.election_ticks,
            // The driver sets every timeout.
            max_election_tick: usize::MAX,
            heartbeat_tick: options.heartbeat_ticks,
            max_size_per_msg: options.message_bytes,
            max_inflight_msgs: options.inflight_max,
            check_quorum: true,
            pre_vote: true,
            batch_append: true,
            max_committed_size_per_ready: 1 << 20,
            ..Config::default()
        };
        let logger = Logger::root(Discard, o!());
        let raft = RawNode::new(&config, log, &logger).map_err(RaftError::Start)?;
        let had = AtStart {
            term: restored.term,
            last,
        };
        let inquiry = InquiryOptions {
            backup: restored.backup,
            node: options.node,
            start: options.start,
            had,
            election_ticks: options.election_ticks,
            asks_all: options.asks_all,
            configured: options.addresses.keys().copied().collect(),
            planted: options.planted,
        };
        let inquiry = StartInquiry::new(inquiry, &at_snapshot);
        let members = Members::new(
            options.node,
            (at_snapshot, snapshot.index),
            options.addresses.clone(),
        );
        let mut driver = Self {
            drawn_for: (raft.raft.term, raft.raft.state),
            raft,
            node: options.node,
            members,
            here: Here {
                durable,
                in_flight: HashMap::new(),
            },
            held: HeldAppends::default(),
            persistence: Persistence::default(),
            inquiry,
            lost: LostData::new(restored.missing, restored.tables_lost),
            withheld: Vec::new(),
            last_batch: 0,
            recorded_vote: (restored.term, restored.vote),
            vote_batch: 0,
            recorded_commit: restored.commit,
            recorded_persisted: restored.persisted,
            unrecorded_ticks: 0,
            leads: None,
            election_ticks: options.election_ticks,
            timeout_ticks: options.election_ticks,
            applied: None,
            restored_commit: restored.commit,
            is_loading: restored.is_loading,
            random: Random::stream(options.seed, options.node.to_raft()),
            ticks_since_fetch: FETCH_TICKS,
            stalled_ticks: 0,
            handed_to: None,
            fetches: 0,
            fetching: HashSet::new(),
            postponed: Vec::new(),
            view: None,
            effects: Vec::new(),
            refused: 0,
            planted: options.planted,
            given_out: snapshot.index,
            told_behind: HashMap::new(),
            has_forgotten: options.asks_all,
            is_contradicted: false,
            ticks: 0,
            start: options.start,
        };
        driver.draw_timeout();
        driver.append_progress();
        driver.announce_members();
        driver.run_ready();
        // Not before the changes of the members in its own log are handed out.
        driver.inquiry.begin();
        driver.run_ready();
        Ok(driver)
    }

    /// Handles events. [`RaftDriver::take_effects`] then returns the effects.
    pub(crate) fn handle(&mut self, events: impl IntoIterator<Item = RaftEvent>) {
        for event in events {
            if !self.is_contradicted {
                self.handle_one(event);
            }
        }
        self.run_ready();
    }

    fn handle_one(&mut self, event: RaftEvent) {
        match event {
            RaftEvent::Tick => self.tick(),
            RaftEvent::Applied(index) => self.applied = Some(index),
            RaftEvent::TablesLoaded => self.is_loading = false,
            RaftEvent::Message(from, bytes) => self.take_message(from, &bytes),
            RaftEvent::Start(from, bytes) => self.take_start_message(from, &bytes),
            RaftEvent::PayloadReceived(payload) => self.payload_received(payload),
            RaftEvent::PayloadsDurable(payloads) => {
                for payload in payloads {
                    if self.here.in_flight.get(&payload.name) == Some(&payload) {
                        self.here.in_flight.remove(&payload.name);
                    }
                    self.persistence.payload_is_durable(&payload);
                }
                self.forget_restored();
                self.give_out();
            }
            RaftEvent::PayloadDamaged(payload) => self.payload_damaged(payload),
            RaftEvent::BatchDurable(batch) => self.persistence.batch_is_durable(batch),
            RaftEvent::Propose(body) => self.propose(body),
            RaftEvent::ReadIndex(id) => self.read_index(id),
            RaftEvent::Unreachable(node) => self.raft.report_unreachable(node.to_raft()),
            RaftEvent::HandOver(None) => self.hand_over(),
            RaftEvent::HandOver(Some(node)) => self.hand_over_to(node.to_raft()),
            RaftEvent::Truncated(index) => self.truncate(index),
            RaftEvent::ChangeMembers(wanted) => self.change_members(wanted),
        }
    }

    fn take_message(&mut self, from: NodeId, bytes: &[u8]) {
        match decode(from, self.node, bytes) {
            Ok((starts, mut message)) => {
                if self.planted.has(Fault::IncarnationsMixed)
                    && let Some(member) = self.members.current.of_number(from.number())
                {
                    message.from = member.node.to_raft();
                } else if !self.members.admits(from) {
                    // Messages of a node that is not a member are ignored.
                    self.refused += 1;
                    return;
                }
                if !self.inquiry.admits(from, starts) {
                    return;
                }
                self.members.heard(NodeId::from_raft(message.from));
                self.receive(message);
            }
            Err(MessageError::LaterEntry { index, version }) if self.members.admits(from) => {
                self.effects.push(RaftEffect::LaterEntry { index, version });
            }
            // Another node's mistake, or worse: it is kept from raft-rs.
            Err(_) => self.refused += 1,
        }
    }

    /// Hands held appends to Raft that need not wait any more.
    fn release_held(&mut self) {
        let committed = self.raft.raft.raft_log.committed;
        for append in self.held.release(committed, &self.here) {
            self.step(append);
        }
    }

    fn payload_received(&mut self, payload: PayloadRef) {
        self.here.in_flight.insert(payload.name, payload);
        if self.held.awaits(payload.name) {
            self.release_held();
        }
        if self.fetching.remove(&payload.name) && self.fetching.is_empty() {
            // Fetches the next ones, without waiting for a tick.
            self.fetch_missing();
        }
    }

    /// Takes the effects, to be executed in this order.
    pub(crate) fn take_effects(&mut self) -> Vec<RaftEffect> {
        std::mem::take(&mut self.effects)
    }

    /// The entry of this index.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn entry(&self, index: u64) -> Option<LogEntry> {
        self.raft.store().get(index)
    }

    /// The present term.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn term(&self) -> u64 {
        self.raft.raft.term
    }

    /// All entries.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        let log = self.raft.store();
        (log.first()..=log.last())
            .filter_map(|index| log.get(index))
            .collect()
    }

    /// Truncates the log in memory, through an entry that a durable image has.
    fn truncate(&mut self, index: u64) {
        // raft-rs reads those that it has not handed out.
        let index = index.min(self.raft.raft.raft_log.applied);
        self.raft.mut_store().truncate_through(index);
    }

    /// Reports the nodes that need entries which are truncated. raft-rs asks at every answer of such
    /// a node, which is too often for a report.
    ///
    /// A node that has got an image says so by its commit index, in its answers to heartbeats. It is
    /// sent what follows, once: a node that has lost that again needs an image nevertheless.
    fn report_behind(&mut self) {
        let first = self.raft.store().first();
        for id in self.raft.store().take_behind() {
            let node = NodeId::from_raft(id);
            let told = self.told_behind.entry(node).or_default();
            if let Some(progress) = self.raft.raft.mut_prs().get_mut(id)
                && progress.committed_index + 1 >= first.max(told.sent_from)
            {
                told.sent_from = progress.committed_index + 2;
                progress.next_idx = progress.committed_index + 1;
                continue;
            }
            let is_due = |at| self.ticks - at >= self.election_ticks as u64;
            if told.tick.is_none_or(is_due) {
                told.tick = Some(self.ticks);
                self.effects.push(RaftEffect::NeedsSnapshot(node));
            }
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        for body in std::mem::take(&mut self.postponed) {
            self.propose(body);
        }
        self.held.tick();
        self.release_held();
        self.members.tick();
        self.inquiry.tick(self.is_leaderless());
        if self.is_whole() && !self.inquiry.is_silent() {
            self.draw_timeout();
            if self.lost.tables_lost {
                // It does not stand for election.
                let elapsed = &mut self.raft.raft.election_elapsed;
                *elapsed = (*elapsed).min(TIMEOUTS_BEHIND * self.election_ticks - 2);
            }
            self.raft.tick();
        }
        self.ask_for_image();
        self.stalled_ticks += 1;
        if self.persistence.take_progress() {
            self.stalled_ticks = 0;
        } else if self.stalled_ticks > self.election_ticks {
            // Raft hands out entries only when they are persisted here, so a slow disk would stall
            // every answer.
            self.stalled_ticks = 0;
            self.hand_over();
        }
        self.record_progress_when_idle();
        self.promote_learner();
        self.propose_addresses();
        self.settle_members();
        self.ticks_since_fetch += 1;
        if self.ticks_since_fetch >= FETCH_TICKS {
            self.fetch_missing();
        }
    }

    fn receive(&mut self, mut message: Message) {
        if !self.is_whole() || !self.may_take(&message) {
            return;
        }
        match message.get_msg_type() {
            MessageType::MsgAppend => {
                if message.term >= self.raft.raft.term {
                    self.held.forget_before(message.term);
                }
                if self.planted.has(Fault::EntryBeforePayload) {
                    return self.step(message);
                }
                let committed = self.raft.raft.raft_log.committed;
                if let Some(ready) = self.held.take(message, committed, &self.here) {
                    self.step(ready);
                }
            }
            MessageType::MsgHeartbeat => {
                // Held entries do not count; raft-rs panics if it is told of a commit beyond its
                // log.
                message.commit = message.commit.min(self.raft.store().last());
                self.step(message);
            }
            // If it were elected during its replay, all clients would wait. The leader continues if
            // no new one appears.
            MessageType::MsgTimeoutNow if self.is_behind() || self.inquiry.floor().is_some() => {}
            // raft-rs would forward it in the other node's name. That one asks again.
            MessageType::MsgReadIndex if self.raft.raft.state != StateRole::Leader => {}
            _ => self.step(message),
        }
    }

    fn step(&mut self, message: Message) {
        if self.note_contradiction(&message) {
            return;
        }
        // An error means that the message has no effect: its node is not a member, or a proposal
        // has no leader.
        let _ = self.raft.step(message);
    }

    /// Proposes the body, if this node leads in the term in which it was made. Otherwise the body
    /// is dropped: everything in flight has ended with its term. If Raft refuses because leadership
    /// is being transferred, the body must not be lost: its commands would be executed a second
    /// time while others of their group are still in flight.
    fn propose(&mut self, body: EntryBody) {
        let is_of_term = match &body {
            EntryBody::Group(payload) => payload.name.term == self.raft.raft.term,
            _ => true,
        };
        let is_of_term = is_of_term || self.planted.has(Fault::NameByLocalNumber);
        if self.raft.raft.state != StateRole::Leader || !is_of_term {
            return;
        }
        // Behind those that are postponed: a worker's payloads are proposed in their order, so a
        // truncation knows those without an entry.
        let data = encode_body(&body).to_vec();
        if !self.postponed.is_empty() || self.raft.propose(Vec::new(), data).is_err() {
            self.postponed.push(body);
        }
    }

    pub(super) fn hand_over(&mut self) {
        if self.raft.raft.state != StateRole::Leader {
            return;
        }
        let (own, tracker) = (self.node.to_raft(), self.raft.raft.prs());
        let others = tracker.iter().filter(|(id, it)| {
            **id != own && it.recent_active && tracker.conf().voters().contains(**id)
        });
        // The node that was asked last may refuse.
        let preferred = |(id, it): &(&u64, &Progress)| (Some(**id) != self.handed_to, it.matched);
        if let Some((id, _)) = others.max_by_key(preferred) {
            self.hand_over_to(*id);
        }
    }

    fn hand_over_to(&mut self, id: u64) {
        if self.raft.raft.state == StateRole::Leader {
            self.handed_to = Some(id);
            self.raft.transfer_leader(id);
        }
    }

    /// Whether the tables lag far behind the log, or are not in memory. If such a node were elected,
    /// all clients would wait.
    fn is_behind(&self) -> bool {
        if self.lost.tables_lost || self.is_loading {
            return true;
        }
        let committed = self.raft.raft.raft_log.committed;
        self.applied
            .is_some_and(|applied| applied < self.restored_commit || committed > applied + LAG_MAX)
    }

    /// Draws election timeouts from the driver's seed. raft-rs draws its own at every change; this
    /// one is set before time passes. A node with lagging tables waits for [`TIMEOUTS_BEHIND`], so
    /// that it leads only if no other node can.
    fn draw_timeout(&mut self) {
        let now = (self.raft.raft.term, self.raft.raft.state);
        if now != self.drawn_for || self.timeout_ticks == 0 {
            self.drawn_for = now;
            let extra = self.random.below(self.election_ticks as u64) as usize;
            self.timeout_ticks = self.election_ticks + extra;
        }
        let more = (TIMEOUTS_BEHIND - 1) * self.election_ticks;
        let wait = more * usize::from(self.is_behind());
        // Below the floor, it never asks for votes.
        let timeout = match self.inquiry.floor() {
            Some(_) => usize::MAX - 1,
            None => self.timeout_ticks + wait,
        };
        self.raft.raft.set_randomized_election_timeout(timeout);
    }

    fn run_ready(&mut self) {
        if self.is_contradicted {
            return;
        }
        self.run_inquiry();
        self.draw_timeout();
        loop {
            while self.raft.has_ready() {
                self.take_ready();
            }
            let Some((ready, messages)) = self.persistence.take_persisted() else {
                break;
            };
            self.raft.on_persist_ready(ready);
            self.send(messages);
        }
        self.speak_when_durable();
        self.note_remembered();
        self.draw_timeout();
        self.report_behind();
        self.note_durable_members();
        self.show();
    }

    fn take_ready(&mut self) {
        let mut ready = self.raft.ready();
        // A silent node sends nothing, now or later.
        let messages = ready.take_messages();
        if !self.inquiry.is_silent() {
            self.send(messages);
        }
        self.note_leadership();
        self.note_confirmed_reads(ready.take_read_states());

        let mut records = Vec::new();
        let mut payloads = HashSet::new();
        for entry in ready.take_entries() {
            let entry = from_raft(&entry).expect("entries are decoded before raft-rs gets them");
            if let EntryBody::Group(payload) = &entry.body
                && !self.here.is_durable(payload)
                && !self.planted.has(Fault::PersistedWithoutPayload)
            {
                payloads.insert(*payload);
            }
            self.raft.mut_store().put(&entry);
            if matches!(entry.body, EntryBody::Membership(_)) {
                self.record_commit_before(entry.index, &mut records);
            }
            records.push(RaftRecord::Entry(entry));
        }
        if let Some(state) = ready.hs() {
            let vote = (state.term, state.vote);
            if vote != self.recorded_vote {
                self.recorded_vote = vote;
                let (term, vote) = vote;
                records.insert(0, RaftRecord::Vote { term, vote });
                self.vote_batch = self.last_batch + 1;
            }
        }
        if !records.is_empty() {
            self.record_progress(&mut records);
            self.append(records);
        }
        let mut waiting = ready.take_persisted_messages();
        if self.inquiry.is_silent() {
            waiting.clear();
        }
        if self.planted.has(Fault::PromiseBeforeDurable) {
            self.send(std::mem::take(&mut waiting));
        }
        // The answer to a heartbeat promises the term, not the log, and a read promises nothing:
        // neither waits for entries.
        if self.persistence.is_durable(self.vote_batch) {
            let is_early = |it: &Message| {
                let kind = it.get_msg_type();
                kind == MessageType::MsgHeartbeatResponse || kind == MessageType::MsgReadIndex
            };
            let (now, later) = waiting.into_iter().partition(is_early);
            self.send(now);
            waiting = later;
        }
        self.persistence
            .push(ready.number(), self.last_batch, payloads, waiting);

        let committed = ready.take_committed_entries();
        let mut committed: Vec<_> = committed.iter().filter_map(from_raft).collect();
        let changes = committed.iter();
        let changes: Vec<_> = changes
            .filter_map(|entry| Some((entry.index, MembershipChange::of(entry)?)))
            .collect();
        if self.planted.has(Fault::ApplyUncommitted) {
            committed = (self.given_out + 1..=self.raft.store().last())
                .filter_map(|index| self.raft.store().get(index))
                .collect();
            self.given_out = self.raft.store().last().max(self.given_out);
        }
        self.raft.advance_append_async(ready);
        for (index, change) in changes {
            self.apply_change(index, &change);
        }
        if let Some(last) = committed.last() {
            // For raft-rs, handed out means applied: a campaign scans all entries that are not
            // applied.
            self.raft.advance_apply_to(last.index);
        }
        self.withheld.append(&mut committed);
        self.give_out();
    }

    /// Appends these to stream 0.
    pub(super) fn append(&mut self, records: Vec<RaftRecord>) {
        self.last_batch += 1;
        self.effects.push(RaftEffect::AppendRaft {
            batch: self.last_batch,
            records,
        });
    }

    /// Hands out committed entries. A node that lacks payloads cannot apply entries before the
    /// payloads are restored, and one without tables none.
    fn give_out(&mut self) {
        if self.is_whole() && !self.lost.tables_lost && !self.withheld.is_empty() {
            let committed = std::mem::take(&mut self.withheld);
            self.effects.push(RaftEffect::Committed(committed));
        }
    }

    fn note_leadership(&mut self) {
        let raft = &self.raft.raft;
        let leads = (raft.state == StateRole::Leader).then_some(raft.term);
        if leads == self.leads {
            return;
        }
        self.told_behind.clear();
        if self.leads.is_some() {
            self.effects.push(RaftEffect::Deposed);
        }
        self.members.proposed = None;
        self.leads = leads;
        if let Some(term) = leads {
            self.effects.push(RaftEffect::Elected { term });
        }
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        let leader = self.raft.raft.leader_id;
        (leader != 0).then_some(NodeId::from_raft(leader))
    }

    fn show(&mut self) {
        let raft = &self.raft.raft;
        let role = match raft.state {
            StateRole::Leader => Role::TakingOffice,
            StateRole::Follower if raft.promotable() => Role::Follower,
            StateRole::Follower => Role::Learner,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        let mut matched = Vec::new();
        if raft.state == StateRole::Leader {
            let all = raft.prs().iter();
            matched.extend(all.map(|(id, it)| (NodeId::from_raft(*id), it.matched)));
            matched.sort_unstable();
        }
        let view = RaftView {
            role,
            term: raft.term,
            leader: self.leader(),
            last: raft.raft_log.last_index(),
            persisted: raft.raft_log.persisted,
            committed: raft.raft_log.committed,
            refused: self.refused,
            missing: self.lost.missing.len() as u64,
            matched,
            start: self.start_view(),
        };
        if self.view.as_ref() != Some(&view) {
            self.view = Some(view.clone());
            self.effects.push(RaftEffect::View(view));
        }
    }
}
