//! The start inquiry: a node that starts asks before it speaks.
//!
//! A disk can go back to an earlier state: a copy that is put back, a snapshot of a machine, a cache
//! that lied. The node cannot see it. Those that have counted its votes and acknowledgements know
//! more. So each start draws a number, and is silent until the other voters have answered:
//!
//! ```text
//!    the node that starts                           every other member
//! 1  Hello                  ────────────────────>
//!                           <────────────────────   Ticket
//!    Note (ticket, at start) ───────────────────>   notes the start; a leader lowers `matched`
//!                           <────────────────────   Noted (members, committed)
//!                 (when every asked node has noted it)
//! 2  Ask (round)            ────────────────────>
//!                           <────────────────────   Answer (term, last entry, members)
//!                 (when every asked node has answered)
//!    adopts the highest term, its vote in it spent; durable; speaks
//!    until its log reaches the highest last entry: no vote for a log below it, no campaign
//! ```
//! In one round, what an earlier start has sent could still count after the first answer.
//!
//! The numbers have no order. A ticket proves that a start is newer than the noted one: it is
//! handed out by the noting process, changes with each noted start, and is lost with the process.
//!
//! # Members
//! The node's log may be older than changes of the members, and so may be those of the others. A node asks, with the newest members
//! that are known by its own log or by answers:
//!
//! - all of them, learners too: one may vote by now;
//! - the voters before the last change: one that was removed, and has not heard so, may still count what this node has
//!   sent it, until the change is settled;
//! - the nodes of its configuration that are no members: in its log, they may not be members yet.
//!
//! Each of the three is needed, as the model shows (`docs/decisions/0086`).
//!
//! # Invariants
//! - Q1. A message between two nodes counts only if it names the receiver's present start and the
//!   sender's noted one. So nothing that an earlier start has sent counts once a later one is noted, and
//!   nothing that was sent to an earlier start counts at all.
//! - Q2. Round 2 begins when every asked node has noted the start. The inquiry ends at no time before the changes of the members in the
//!   node's own log are known.
//! - Q3. A silent node takes appends and heartbeats, and sends nothing of Raft.
//! - Q4. The floor is the highest last entry of a whole set of answers of voters, and of nodes that become voters by a change in the log of
//!   one that answers. A newer whole set replaces it, and a part of one raises it. After some rounds without a leader, a part of the
//!   voters replaces it, and this is reported as an answer that is missing: the voter with the last entries may be gone for good.
//! - Q5. Without an answer the node goes on after a timeout, if a majority of the voters has answered, and reports
//!   so; with `asks_all` never, except for nodes that were removed. It repeats the inquiry when the missing nodes have noted it.
//! - Q6. A node that may have forgotten promises remembers them when all have answered and its log durably reaches the
//!   highest last entry. Until then its later starts ask all, too.
//! - Q7. A node that has nothing goes on without asking if all others have nothing: a new cluster. A majority is not enough, since the
//!   node itself may have had something.
//!
//! Nodes keep nothing of this on their disks. Model: `docs/decisions/0082`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU128;

use namiki_platform::seeded_random::Random;

use super::message_codec::Starts;
use super::start_messages::{AtStart, LogEnd, StartBody, StartMessage};
use crate::fault_injection::{Fault, FaultInjection};
use crate::membership::Membership;
use crate::network::NodeId;

/// Election timeouts for which a node waits for a voter to note it, and then for its answer.
const ANSWER_TIMEOUTS: usize = 8;
/// Rounds below the floor after which only voters that answer count: a node with later entries may be gone for good, and one that only
/// may become a voter cannot be elected.
const FLOOR_ROUNDS: usize = 4;
/// Ticks between two attempts.
const RETRY_TICKS: usize = 2;
/// Election timeouts without a message after which a node is greeted.
const GREETING_TIMEOUTS: usize = 8;

/// Options of an inquiry.
#[derive(Clone, Debug)]
pub(super) struct InquiryOptions {
    /// This node.
    pub(super) node: NodeId,
    /// The number of this start, which no other start of the node has; not 0.
    pub(super) start: u64,
    /// The contents of its disk.
    pub(super) had: AtStart,
    /// The backup that its cluster began with.
    pub(super) backup: Option<NonZeroU128>,
    /// Ticks of an election timeout.
    pub(super) election_ticks: usize,
    /// It never goes on without an answer: its disk is known to have lost something.
    pub(super) asks_all: bool,
    /// The numbers of the nodes in its configuration.
    pub(super) configured: Vec<u64>,
    pub(super) planted: FaultInjection,
}

/// The present state of this node, for an answer.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    pub(super) term: u64,
    pub(super) last: LogEnd,
    /// The last entry that it knows to be committed.
    pub(super) committed: LogEnd,
    pub(super) members: &'a Membership,
    /// The voters once all changes in its log are committed.
    pub(super) next_voters: &'a dyn Fn() -> Vec<NodeId>,
}

/// Another node.
#[derive(Debug, Default)]
struct Peer {
    /// Its noted start.
    start: Option<u64>,
    /// What the start to be noted next must return.
    ticket: u64,
    /// Whether it has noted this start; then, whether it was blank.
    has_noted: Option<bool>,
    /// Its answer of the present round.
    answer: Option<(u64, LogEnd)>,
    /// Nodes that vote once the changes in its log are committed, as of that answer.
    next_voters: Vec<NodeId>,
    /// Ticks since a message of it came, or it was greeted.
    quiet_ticks: usize,
}

/// The progress of the inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The members in the node's own log are not known yet.
    Replaying,
    /// Round 1.
    Noting,
    /// Round 2.
    Asking,
    /// There is a result.
    Rest,
}

/// Whether the node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Silent,
    /// It adopts the first result, and waits for its disk.
    Adopting,
    Speaks,
}

/// The result of an inquiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    /// The highest term of the answers; 0: none.
    pub(super) term: u64,
    /// Nodes without an answer.
    pub(super) without: Vec<NodeId>,
}

/// The starts of other nodes, and the inquiry of this one.
pub(super) struct StartInquiry {
    options: InquiryOptions,
    random: Random,
    peers: BTreeMap<NodeId, Peer>,
    /// The newest members that are known, by the own log or by answers.
    members: Membership,
    stage: Stage,
    voice: Voice,
    round: u64,
    /// Ticks in this stage, since a majority responds if it waits for answers.
    waited: usize,
    ticks_since_sent: usize,
    ticks_leaderless: usize,
    floor: Option<LogEnd>,
    /// Nodes that had not noted this start when the present round began.
    given_up: BTreeSet<NodeId>,
    /// Rounds without a leader since this node is below the floor.
    rounds_below: usize,
    /// The highest last entry of the last whole set of answers.
    asked: Option<LogEnd>,
    /// Nodes that have not answered the last inquiry.
    without: Vec<NodeId>,
    /// Messages to be sent.
    messages: Vec<(NodeId, StartMessage)>,
    /// Starts that were noted, and what they had.
    noted: Vec<(NodeId, AtStart)>,
    findings: Option<Findings>,
    has_newer_members: bool,
    /// An entry that another node knows to be committed.
    committed: Option<LogEnd>,
    /// A node of a cluster that began with another backup than this one's.
    other_backup: Option<NodeId>,
}

impl StartInquiry {
    /// Begins the inquiry of a start.
    pub(super) fn new(options: InquiryOptions, members: &Membership) -> Self {
        Self {
            random: Random::stream(options.start, options.node.to_raft()),
            options,
            peers: BTreeMap::new(),
            members: members.clone(),
            stage: Stage::Replaying,
            voice: Voice::Silent,
            round: 0,
            waited: 0,
            ticks_since_sent: 0,
            ticks_leaderless: 0,
            floor: None,
            given_up: BTreeSet::new(),
            rounds_below: 0,
            asked: None,
            without: Vec::new(),
            messages: Vec::new(),
            noted: Vec::new(),
            findings: None,
            has_newer_members: false,
            committed: None,
            other_backup: None,
        }
    }

    /// The changes of the members in the own log, as far as they are known to be committed, are taken.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Noting;
        let options = &self.options;
        if options.planted.has(Fault::WipedNodeReturns) && options.had.is_blank() {
            return self.finish();
        }
        self.send_due();
        self.advance();
    }

    /// Takes the members of the own log.
    pub(super) fn set_members(&mut self, members: &Membership) {
        if members.changes() >= self.members.changes() {
            self.members.clone_from(members);
        }
        let members = &self.members;
        self.peers.retain(|node, _| !members.has_gone(*node));
        self.advance();
    }

    /// Time has passed. `is_leaderless`: no leader has been heard from for a while.
    pub(super) fn tick(&mut self, is_leaderless: bool) {
        let responds = |peer: &Peer| match self.stage {
            Stage::Replaying | Stage::Noting => peer.has_noted.is_some(),
            Stage::Asking | Stage::Rest => peer.answer.is_some(),
        };
        if self.stage == Stage::Rest || self.is_majority(responds) {
            self.waited += 1;
        }
        if self.stage == Stage::Rest {
            let is_due = self.waited >= 2 * self.options.election_ticks;
            let is_late = !self.without.is_empty() && self.all(|peer| peer.has_noted.is_some());
            let is_stuck = self.floor.is_some() && is_leaderless;
            if is_due && (is_late || is_stuck) {
                self.rounds_below += usize::from(is_stuck);
                self.begin_round();
            }
        }
        self.ticks_since_sent += 1;
        if self.ticks_since_sent >= RETRY_TICKS {
            self.send_due();
        }
        // A silent node has no leader.
        self.ticks_leaderless = if is_leaderless || self.voice == Voice::Silent {
            self.ticks_leaderless + 1
        } else {
            0
        };
        if self.ticks_leaderless >= self.options.election_ticks {
            // The leader may be a node that this one does not know, and so does not let in.
            self.ticks_leaderless = 0;
            self.ask_for_members();
        }
        self.greet();
        self.advance();
    }

    /// Sends a word to nodes that have not sent one for a while. A node that has started may know no other node that still exists,
    /// and let in only those of the numbers that it knows; the others do not know of its start, and would send it nothing.
    fn greet(&mut self) {
        if self.voice != Voice::Speaks {
            return;
        }
        let quiet_max = GREETING_TIMEOUTS * self.options.election_ticks;
        for node in self.others() {
            let peer = self.peer(node);
            peer.quiet_ticks += 1;
            if peer.quiet_ticks >= quiet_max {
                peer.quiet_ticks = 0;
                let start = peer.start.unwrap_or(0);
                self.send(node, start, StartBody::Hello);
            }
        }
    }

    /// Asks all others for the members that they know, and for what is committed: a node that does not know that it votes by now
    /// is no candidate, and the others may have to wait for it.
    fn ask_for_members(&mut self) {
        // The nodes that a silent one asks in any case tell the members, too.
        let asked = match self.voice {
            Voice::Silent => self.to_ask(),
            Voice::Adopting | Voice::Speaks => Vec::new(),
        };
        for node in self.others().into_iter().filter(|it| !asked.contains(it)) {
            let start = self.peer(node).start.unwrap_or(0);
            self.send(node, start, StartBody::Hello);
        }
    }

    /// Handles an admitted message.
    pub(super) fn receive(&mut self, from: NodeId, message: StartMessage, now: &Present<'_>) {
        let StartMessage {
            start,
            to,
            backup,
            body,
        } = message;
        self.peer(from).quiet_ticks = 0;
        if self.is_other_backup(backup) {
            match self.voice {
                // The other one stops when it hears of this one's.
                Voice::Speaks if body == StartBody::Hello => {
                    let ticket = self.peer(from).ticket;
                    self.send(from, start, StartBody::Ticket(ticket));
                }
                Voice::Speaks => {}
                Voice::Silent | Voice::Adopting => self.other_backup = Some(from),
            }
            return;
        }
        let is_mine = to == self.options.start;
        // One that has forgotten what it had is not new.
        let has_nothing = now.term == 0 && now.last == LogEnd::default();
        let is_blank = has_nothing && !self.options.asks_all;
        // A request to be noted has to have the ticket.
        if is_mine && !matches!(body, StartBody::Note { .. }) {
            self.learn(from, start);
        }
        let noted = StartBody::Noted {
            is_blank,
            committed: now.committed,
            members: now.members.clone(),
        };
        let peer = self.peer(from);
        let (next_ticket, is_noted) = (peer.ticket, peer.start == Some(start));
        match body {
            StartBody::Hello if is_noted => self.send(from, start, noted),
            StartBody::Hello => self.send(from, start, StartBody::Ticket(next_ticket)),
            StartBody::Ticket(ticket) if is_mine => {
                let had = self.options.had;
                self.send(from, start, StartBody::Note { ticket, had });
            }
            StartBody::Note { .. } if is_mine && is_noted => self.send(from, start, noted),
            StartBody::Note { ticket, had } if is_mine && ticket == next_ticket => {
                self.note(from, start);
                self.noted.push((from, had));
                self.send(from, start, noted);
            }
            StartBody::Noted {
                is_blank,
                committed,
                members,
            } if is_mine => {
                self.hear_of(members);
                self.committed = self.committed.max(Some(committed));
                self.peer(from).has_noted = Some(is_blank);
                if self.stage == Stage::Noting && self.options.planted.has(Fault::AskInOneRound) {
                    let round = self.round;
                    self.send(from, start, StartBody::Ask { round });
                }
            }
            StartBody::Ask { round } if is_mine && is_noted => {
                let answer = StartBody::Answer {
                    round,
                    term: now.term,
                    last: now.last,
                    members: now.members.clone(),
                    next_voters: (now.next_voters)(),
                };
                self.send(from, start, answer);
            }
            StartBody::Note { .. } | StartBody::Ask { .. } => {
                self.send(from, start, StartBody::Ticket(next_ticket));
            }
            StartBody::Answer {
                round,
                term,
                last,
                members,
                next_voters,
            } if is_mine && round == self.round => {
                self.hear_of(members);
                let peer = self.peer(from);
                (peer.answer, peer.next_voters) = (Some((term, last)), next_voters);
            }
            StartBody::Ticket(_) | StartBody::Noted { .. } | StartBody::Answer { .. } => {}
        }
        self.advance();
    }

    /// Whether another node is of a cluster that began with another backup, or one of both without. Nodes that are added later are
    /// created with the cluster's.
    fn is_other_backup(&self, other: Option<NonZeroU128>) -> bool {
        other != self.options.backup
    }

    /// Another node has these members.
    fn hear_of(&mut self, members: Membership) {
        if members.changes() > self.members.changes() {
            self.members = members;
            self.has_newer_members = true;
        }
    }

    /// Notes a start from a message to the present one, if none is noted. That start may be followed
    /// by another one, but this process has counted nothing of those before.
    fn learn(&mut self, from: NodeId, start: u64) {
        if self.peer(from).start.is_none() {
            self.note(from, start);
        }
    }

    /// Notes a start, and makes earlier tickets void.
    fn note(&mut self, from: NodeId, start: u64) {
        let ticket = self.random.next_u64();
        let peer = self.peer(from);
        (peer.start, peer.ticket) = (Some(start), ticket);
    }

    /// A node, new if it is unknown: of each number, at most one that is not a member is kept.
    fn peer(&mut self, node: NodeId) -> &mut Peer {
        let (random, members) = (&mut self.random, &self.members);
        if !self.peers.contains_key(&node) {
            (self.peers).retain(|it, _| it.number() != node.number() || members.has(*it));
        }
        self.peers.entry(node).or_insert_with(|| Peer {
            ticket: random.next_u64(),
            ..Peer::default()
        })
    }

    /// Whether a message of Raft counts (Q1).
    pub(super) fn admits(&mut self, from: NodeId, starts: Starts) -> bool {
        self.peer(from).quiet_ticks = 0;
        if starts.to != self.options.start {
            // It does not know of this start: it is told, even if it is not known as a member.
            return false;
        }
        self.learn(from, starts.of);
        self.peer(from).start == Some(starts.of)
    }

    /// The starts between which a message of Raft goes; `None`: the receiver's is not known, and it
    /// would drop the message.
    pub(super) fn starts_to(&self, to: NodeId) -> Option<Starts> {
        let of = self.options.start;
        let to = self.peers.get(&to)?.start?;
        Some(Starts { of, to })
    }

    /// The nodes that messages are sent to: those that are asked, and nodes that have sent something and may be members. This node may
    /// know only those with which the cluster began, and none of them may be left.
    fn others(&self) -> Vec<NodeId> {
        let mut others = self.to_ask();
        let unknown = self.peers.keys().copied();
        others.extend(unknown.filter(|it| !self.members.has(*it)));
        others.sort_unstable();
        others.dedup();
        others.retain(|it| !self.members.has_gone(*it));
        others
    }

    /// The nodes that have to answer. An older directory of this node's number does not exist any more.
    fn to_ask(&self) -> Vec<NodeId> {
        let (members, options) = (&self.members, &self.options);
        let mut asked: Vec<NodeId> = members.nodes().collect();
        asked.extend(members.voters_before());
        for number in &options.configured {
            let first = NodeId::first(*number);
            if members.of_number(*number).is_none() && !members.has_gone(first) {
                let known = self.peers.keys().filter(|it| it.number() == *number);
                asked.push(known.max().copied().unwrap_or(first));
            }
        }
        asked.retain(|it| it.number() != options.node.number());
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Voters except this node.
    fn voters(&self) -> impl Iterator<Item = NodeId> {
        let own = self.options.node.number();
        self.members.voters().filter(move |it| it.number() != own)
    }

    fn count(&self, nodes: impl IntoIterator<Item = NodeId>, is: impl Fn(&Peer) -> bool) -> usize {
        let peers = nodes.into_iter().filter_map(|node| self.peers.get(&node));
        peers.filter(|peer| is(peer)).count()
    }

    fn all(&self, are: impl Fn(&Peer) -> bool) -> bool {
        let asked = self.to_ask();
        let count = asked.len();
        self.count(asked, are) == count
    }

    /// Whether a majority of the voters, together with this one, are so.
    fn is_majority(&self, are: impl Fn(&Peer) -> bool) -> bool {
        let (all, all_others) = (self.members.voters().count(), self.voters().count());
        let others = self.count(self.voters(), are);
        others + (all - all_others) > all / 2
    }

    fn send(&mut self, to: NodeId, to_start: u64, body: StartBody) {
        let message = StartMessage {
            start: self.options.start,
            to: to_start,
            backup: self.options.backup,
            body,
        };
        self.messages.push((to, message));
    }

    /// Sends what has not been answered.
    fn send_due(&mut self) {
        self.ticks_since_sent = 0;
        for node in self.others() {
            let (round, is_asking) = (self.round, self.is_asking(node));
            let peer = self.peer(node);
            let start = peer.start.unwrap_or(0);
            if peer.has_noted.is_none() {
                self.send(node, start, StartBody::Hello);
            } else if is_asking && peer.answer.is_none() {
                self.send(node, start, StartBody::Ask { round });
            }
        }
    }

    fn is_asking(&self, node: NodeId) -> bool {
        let in_one_round = self.options.planted.has(Fault::AskInOneRound);
        let is_round = self.stage == Stage::Asking || self.stage == Stage::Noting && in_one_round;
        is_round && self.to_ask().contains(&node)
    }

    fn begin_round(&mut self) {
        self.stage = Stage::Asking;
        self.round += 1;
        self.waited = 0;
        let has_noted = |it: &NodeId| self.peers.get(it).is_some_and(|it| it.has_noted.is_some());
        self.given_up = (self.to_ask().into_iter())
            .filter(|it| !has_noted(it))
            .collect();
        for peer in self.peers.values_mut() {
            peer.answer = None;
        }
        self.send_due();
    }

    /// Goes on to the next stage if everything for it is there.
    fn advance(&mut self) {
        let answer_timeout = ANSWER_TIMEOUTS * self.options.election_ticks;
        let may_wait = self.options.asks_all || self.waited < answer_timeout;
        if self.stage == Stage::Noting {
            let has_nothing = self.options.had.is_blank() && !self.options.asks_all;
            if has_nothing && self.all(|peer| peer.has_noted == Some(true)) {
                // No node has voted for anyone or acknowledged anything: a new cluster.
                return self.finish();
            }
            let in_one_round = self.options.planted.has(Fault::AskInOneRound);
            if in_one_round && self.all(|peer| peer.answer.is_some()) {
                return self.finish();
            }
            if self.all(|peer| peer.has_noted.is_some()) && !in_one_round || !may_wait {
                self.begin_round();
            }
        }
        if self.stage == Stage::Asking && self.has_new_nodes() {
            // They have the time of the others.
            (self.stage, self.waited) = (Stage::Noting, 0);
            return;
        }
        if self.stage == Stage::Asking {
            let has_answered = |peer: &Peer| peer.answer.is_some();
            let answered = self.count(self.to_ask(), has_answered);
            // The others have not noted it, so they do not answer.
            let are_all_asked =
                answered == self.count(self.to_ask(), |peer| peer.has_noted.is_some());
            let is_part = are_all_asked && !self.options.asks_all || !may_wait;
            // A node that was removed stops: it is waited for only as long as by others.
            let has_waited = self.waited >= answer_timeout;
            let remaining = self.to_ask().into_iter();
            let mut remaining = remaining.filter(|it| !has_waited || !self.members.has_gone(*it));
            let answers = |it: NodeId| self.peers.get(&it).is_some_and(has_answered);
            if remaining.all(answers) || is_part && self.is_majority(has_answered) {
                self.finish();
            }
        }
    }

    /// Whether nodes are to be asked that were not known when the round began.
    fn has_new_nodes(&self) -> bool {
        let is_new = |it: &NodeId| {
            let has_noted = self.peers.get(it).is_some_and(|it| it.has_noted.is_some());
            !has_noted && !self.given_up.contains(it)
        };
        self.to_ask().iter().any(is_new)
    }

    fn finish(&mut self) {
        let is_repeated = self.voice != Voice::Silent;
        let mut without: Vec<NodeId> = {
            let lacks = |node: &NodeId| self.peers.get(node).is_none_or(|it| it.answer.is_none());
            let is_new = self.stage == Stage::Noting;
            (self.to_ask().into_iter())
                .filter(|it| !is_new && lacks(it))
                .collect()
        };
        self.stage = Stage::Rest;
        self.waited = 0;
        if is_repeated && !without.is_empty() && self.floor.is_none() {
            // Nothing has been learned.
            return;
        }
        let answers: Vec<(NodeId, (u64, LogEnd))> = (self.to_ask().into_iter())
            .filter_map(|node| Some((node, self.peers.get(&node)?.answer?)))
            .collect();
        let ends = |counts: &dyn Fn(NodeId) -> bool| {
            let counted = answers.iter().filter(|(node, _)| counts(*node));
            counted.map(|(_, (_, last))| *last).max()
        };
        let votes = |node: NodeId| self.voters().any(|it| it == node);
        let of_voters = ends(&votes);
        let next: BTreeSet<NodeId> = (answers.iter())
            .filter_map(|(node, _)| self.peers.get(node))
            .flat_map(|peer| peer.next_voters.iter().copied())
            .collect();
        let of_next_voters = ends(&|node| votes(node) || next.contains(&node));
        let counts_all = self.options.asks_all || self.rounds_below < FLOOR_ROUNDS;
        let highest = if counts_all {
            of_next_voters
        } else {
            without.extend((answers.iter()).filter_map(|(node, (_, last))| {
                (Some(*last) > of_voters && next.contains(node)).then_some(*node)
            }));
            of_voters
        };
        let is_part = is_repeated && !without.is_empty();
        let earlier = self.floor.filter(|_| is_part && counts_all);
        self.floor = highest.max(earlier);
        if self.options.planted.has(Fault::NoFloorAfterStart) {
            self.floor = None;
        }
        if !is_repeated {
            self.voice = Voice::Adopting;
        }
        if without.is_empty() {
            self.asked = Some(self.floor.unwrap_or_default());
        }
        self.without.clone_from(&without);
        self.findings = Some(Findings {
            term: answers
                .iter()
                .map(|(_, (term, _))| *term)
                .max()
                .unwrap_or(0),
            without,
        });
    }

    /// A node that began with another backup than this one, which has not spoken yet.
    pub(super) fn take_other_backup(&mut self) -> Option<NodeId> {
        self.other_backup.take()
    }

    /// Takes the messages to be sent.
    pub(super) fn take_messages(&mut self) -> Vec<(NodeId, StartMessage)> {
        std::mem::take(&mut self.messages)
    }

    /// Takes the starts that were noted, and the contents of their disks.
    pub(super) fn take_noted(&mut self) -> Vec<(NodeId, AtStart)> {
        std::mem::take(&mut self.noted)
    }

    /// Takes a result, to be adopted.
    pub(super) fn take_findings(&mut self) -> Option<Findings> {
        self.findings.take()
    }

    /// Whether another node has told newer members since the last call.
    pub(super) fn take_newer_members(&mut self) -> bool {
        std::mem::take(&mut self.has_newer_members)
    }

    /// Takes an entry that another node knows to be committed.
    pub(super) fn take_committed(&mut self) -> Option<LogEnd> {
        self.committed.take()
    }

    /// The newest members that are known, by the own log or by answers.
    pub(super) fn members(&self) -> &Membership {
        &self.members
    }

    /// The number of this start.
    #[cfg(test)]
    pub(super) fn own_start(&self) -> u64 {
        self.options.start
    }

    pub(super) fn is_silent(&self) -> bool {
        self.voice != Voice::Speaks
    }

    /// Whether the first result is adopted, and its durability is awaited.
    pub(super) fn is_adopting(&self) -> bool {
        self.voice == Voice::Adopting
    }

    /// What was adopted is durable.
    pub(super) fn speak(&mut self) {
        self.voice = Voice::Speaks;
    }

    /// The own log ends here now.
    pub(super) fn log_reaches(&mut self, last: LogEnd) {
        if self.floor.take_if(|floor| last >= *floor).is_some() {
            self.rounds_below = 0;
        }
    }

    /// The last entry that the own log has to reach.
    pub(super) fn floor(&self) -> Option<LogEnd> {
        self.floor
    }

    /// Whether it may vote for a node with a log that ends there.
    pub(super) fn may_vote_for(&self, last: LogEnd) -> bool {
        !self.is_silent() && self.floor.is_none_or(|floor| last >= floor)
    }

    /// Whether it may have forgotten promises, given the end of the log on its disk (Q6).
    pub(super) fn may_have_forgotten(&self, durable: LogEnd) -> bool {
        let is_back = self.asked.is_some_and(|asked| durable >= asked);
        self.options.asks_all && (self.is_silent() || !is_back)
    }

    /// Nodes that a silent node waits for.
    pub(super) fn awaited(&self) -> usize {
        let asked = self.to_ask();
        let count = asked.len();
        count
            - match self.stage {
                Stage::Replaying => 0,
                Stage::Noting => self.count(asked, |peer| peer.has_noted.is_some()),
                Stage::Asking => self.count(asked, |peer| peer.answer.is_some()),
                Stage::Rest => count,
            }
    }

    /// Nodes that had not answered when the node went on.
    pub(super) fn without(&self) -> &[NodeId] {
        &self.without
    }
}
