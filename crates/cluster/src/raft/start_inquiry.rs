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
//!                           <────────────────────   Noted (members)
//!                 (when every other voter has noted it)
//! 2  Ask (round)            ────────────────────>
//!                           <────────────────────   Answer (term, last entry, members)
//!                 (when every other voter has answered)
//!    adopts the highest term, its vote in it spent; durable; speaks
//!    until its log reaches the highest last entry: no vote for a log below it, no campaign
//! ```
//! In one round, what an earlier start has sent could still count after the first answer.
//!
//! The numbers have no order. A ticket proves that a start is newer than the noted one: it is
//! handed out by the noting process, changes with each noted start, and is lost with the process.
//!
//! # Invariants
//! - Q1. A message between two nodes counts only if it names the receiver's present start and the
//!   sender's noted one. So nothing that an earlier start has sent counts once a later one is noted, and
//!   nothing that was sent to an earlier start counts at all.
//! - Q2. Round 2 begins when every voter has noted the start.
//! - Q3. A silent node takes appends and heartbeats, and sends nothing of Raft.
//! - Q4. The floor is the highest last entry of a whole set of answers; a newer whole set replaces it.
//! - Q5. Without an answer the node goes on after a timeout, if a majority has answered, and reports
//!   so; with `asks_all` never. It repeats the inquiry when the missing voters have noted it. The same holds for a repeated
//!   one: after the timeout, a part of the answers replaces the floor. (If it never did, a cluster would stop for ever that
//!   loses the one voter with entries which it has not sent to any other.)
//!
//! Nodes keep nothing of this on their disks. Model: `docs/decisions/0082`.

use std::collections::BTreeMap;
use std::num::NonZeroU128;

use namiki_platform::seeded_random::Random;

use super::message_codec::Starts;
use super::start_messages::{AtStart, LogEnd, StartBody, StartMessage};
use crate::fault_injection::{Fault, FaultInjection};
use crate::membership::Membership;
use crate::network::NodeId;

/// Election timeouts for which a node waits for a voter to note it, and then for its answer.
const PATIENCE_TIMEOUTS: usize = 8;
/// Ticks between two attempts.
const RETRY_TICKS: usize = 2;

/// Options of an inquiry.
#[derive(Clone, Copy, Debug)]
pub(super) struct InquiryOptions {
    /// This node.
    pub(super) node: NodeId,
    /// The number of this start, which no other start of the node has; not 0.
    pub(super) start: u64,
    /// The contents of its disk.
    pub(super) had: AtStart,
    /// The backup that it began with.
    pub(super) backup: Option<NonZeroU128>,
    /// Ticks of an election timeout.
    pub(super) election_ticks: usize,
    /// It never goes on without an answer: its disk is known to have lost something.
    pub(super) asks_all: bool,
    pub(super) planted: FaultInjection,
}

/// The present state of this node, for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'a> {
    pub(super) term: u64,
    pub(super) last: LogEnd,
    pub(super) members: &'a Membership,
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
}

/// The progress of the inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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
    /// Voters without an answer.
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
    /// Ticks in this stage since a majority responds.
    waited: usize,
    ticks_since_sent: usize,
    floor: Option<LogEnd>,
    /// Voters that have not answered the last inquiry.
    without: Vec<NodeId>,
    /// Messages to be sent.
    messages: Vec<(NodeId, StartMessage)>,
    /// Starts that were noted, and what they had.
    noted: Vec<(NodeId, AtStart)>,
    findings: Option<Findings>,
    has_newer_members: bool,
    /// A node that began with another backup than this one.
    other_backup: Option<NodeId>,
}

impl StartInquiry {
    /// Begins the inquiry of a start.
    pub(super) fn new(options: InquiryOptions, members: &Membership) -> Self {
        let mut inquiry = Self {
            random: Random::stream(options.start, options.node.to_raft()),
            options,
            peers: BTreeMap::new(),
            members: members.clone(),
            stage: Stage::Noting,
            voice: Voice::Silent,
            round: 0,
            waited: 0,
            ticks_since_sent: 0,
            floor: None,
            without: Vec::new(),
            messages: Vec::new(),
            noted: Vec::new(),
            findings: None,
            has_newer_members: false,
            other_backup: None,
        };
        let is_new = options.planted.has(Fault::WipedNodeReturns) && options.had.is_blank();
        if is_new {
            inquiry.finish();
        } else {
            inquiry.send_due();
            inquiry.advance();
        }
        inquiry
    }

    /// Takes the members of the own log.
    pub(super) fn set_members(&mut self, members: &Membership) {
        if members.changes() >= self.members.changes() {
            self.members.clone_from(members);
        }
        let admitted = &self.members;
        self.peers.retain(|node, _| admitted.admits(*node));
        self.advance();
    }

    /// Time has passed. `is_leaderless`: no leader has been heard from for a while.
    pub(super) fn tick(&mut self, is_leaderless: bool) {
        let responding = match self.stage {
            Stage::Noting => self.count(|peer| peer.has_noted.is_some()),
            Stage::Asking | Stage::Rest => self.count(|peer| peer.answer.is_some()),
        };
        if self.is_majority(responding) {
            self.waited += 1;
        }
        if self.stage == Stage::Rest {
            let is_due = self.waited >= 2 * self.options.election_ticks;
            let is_late = !self.without.is_empty() && self.all(|peer| peer.has_noted.is_some());
            if is_due && (is_late || self.floor.is_some() && is_leaderless) {
                self.begin_round();
            }
        }
        self.ticks_since_sent += 1;
        if self.ticks_since_sent >= RETRY_TICKS {
            self.send_due();
        }
        self.advance();
    }

    /// Handles an admitted message.
    pub(super) fn receive(&mut self, from: NodeId, message: StartMessage, now: &Present<'_>) {
        let StartMessage {
            start,
            to,
            backup,
            body,
        } = message;
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
        let is_blank = now.term == 0 && now.last == LogEnd::default();
        // A request to be noted has to have the ticket.
        if is_mine && !matches!(body, StartBody::Note { .. }) {
            self.learn(from, start);
        }
        let noted = StartBody::Noted {
            is_blank,
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
            StartBody::Noted { is_blank, members } if is_mine => {
                self.hear_of(members);
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
            } if is_mine && round == self.round => {
                self.hear_of(members);
                self.peer(from).answer = Some((term, last));
            }
            StartBody::Ticket(_) | StartBody::Noted { .. } | StartBody::Answer { .. } => {}
        }
        self.advance();
    }

    /// Whether another node began with another backup. Nodes that are added later begin without one.
    fn is_other_backup(&self, other: Option<NonZeroU128>) -> bool {
        other.is_some() && self.options.backup.is_some() && other != self.options.backup
    }

    /// Another node has these members.
    fn hear_of(&mut self, members: Membership) {
        if members.succeeds(&self.members) {
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
            let is_member = |it: NodeId| members.nodes().any(|member| member == it);
            (self.peers).retain(|it, _| it.number() != node.number() || is_member(*it));
        }
        self.peers.entry(node).or_insert_with(|| Peer {
            ticket: random.next_u64(),
            ..Peer::default()
        })
    }

    /// Whether a message of Raft counts (Q1).
    pub(super) fn admits(&mut self, from: NodeId, starts: Starts) -> bool {
        if starts.to != self.options.start {
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

    /// Members except this node: an older directory of the same number does not exist any more.
    fn others(&self) -> impl Iterator<Item = NodeId> {
        let own = self.options.node.number();
        self.members.nodes().filter(move |it| it.number() != own)
    }

    /// The voters that have to answer.
    fn voters(&self) -> impl Iterator<Item = NodeId> {
        let own = self.options.node.number();
        self.members.voters().filter(move |it| it.number() != own)
    }

    fn count(&self, is: impl Fn(&Peer) -> bool) -> usize {
        let peers = self.voters().filter_map(|node| self.peers.get(&node));
        peers.filter(|peer| is(peer)).count()
    }

    fn all(&self, are: impl Fn(&Peer) -> bool) -> bool {
        self.count(are) == self.voters().count()
    }

    /// Whether this number of other voters is a majority, together with this node.
    fn is_majority(&self, others: usize) -> bool {
        let (all, all_others) = (self.members.voters().count(), self.voters().count());
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
        let others: Vec<NodeId> = self.others().collect();
        for node in others {
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
        is_round && self.voters().any(|it| it == node)
    }

    fn begin_round(&mut self) {
        self.stage = Stage::Asking;
        self.round += 1;
        self.waited = 0;
        for peer in self.peers.values_mut() {
            peer.answer = None;
        }
        self.send_due();
    }

    /// Goes on to the next stage if everything for it is there.
    fn advance(&mut self) {
        let patience = PATIENCE_TIMEOUTS * self.options.election_ticks;
        let is_patient = self.options.asks_all || self.waited < patience;
        if self.stage == Stage::Noting {
            let noted = self.count(|peer| peer.has_noted.is_some());
            let blank = self.count(|peer| peer.has_noted == Some(true));
            let is_new = self.options.had.is_blank() && blank == noted && self.is_majority(blank);
            if is_new && !self.options.asks_all {
                // No majority has voted for anyone or acknowledged anything: a new cluster.
                return self.finish();
            }
            let in_one_round = self.options.planted.has(Fault::AskInOneRound);
            if in_one_round && self.all(|peer| peer.answer.is_some()) {
                return self.finish();
            }
            if self.all(|peer| peer.has_noted.is_some()) && !in_one_round || !is_patient {
                self.begin_round();
            }
        }
        if self.stage == Stage::Asking {
            let answered = self.count(|peer| peer.answer.is_some());
            // The others have not noted it, so they do not answer.
            let are_all_asked = answered == self.count(|peer| peer.has_noted.is_some());
            let is_part = are_all_asked && !self.options.asks_all || !is_patient;
            if self.all(|peer| peer.answer.is_some()) || is_part && self.is_majority(answered) {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let is_repeated = self.voice != Voice::Silent;
        let without: Vec<NodeId> = {
            let lacks = |node: &NodeId| self.peers.get(node).is_none_or(|it| it.answer.is_none());
            let is_new = self.stage == Stage::Noting;
            self.voters().filter(|it| !is_new && lacks(it)).collect()
        };
        self.stage = Stage::Rest;
        self.waited = 0;
        if is_repeated && !without.is_empty() && self.floor.is_none() {
            // Nothing has been learned.
            return;
        }
        let answers: Vec<_> = (self.voters())
            .filter_map(|node| self.peers.get(&node)?.answer)
            .collect();
        self.floor = answers.iter().map(|(_, last)| *last).max();
        if self.options.planted.has(Fault::NoFloorAfterStart) {
            self.floor = None;
        }
        if !is_repeated {
            self.voice = Voice::Adopting;
        }
        self.without.clone_from(&without);
        self.findings = Some(Findings {
            term: answers.iter().map(|(term, _)| *term).max().unwrap_or(0),
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

    /// Takes members that are newer than those of the own log.
    pub(super) fn take_newer_members(&mut self) -> Option<Membership> {
        std::mem::take(&mut self.has_newer_members).then(|| self.members.clone())
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
        self.floor.take_if(|floor| last >= *floor);
    }

    /// The last entry that the own log has to reach.
    pub(super) fn floor(&self) -> Option<LogEnd> {
        self.floor
    }

    /// Whether it may vote for a node with a log that ends there.
    pub(super) fn may_vote_for(&self, last: LogEnd) -> bool {
        !self.is_silent() && self.floor.is_none_or(|floor| last >= floor)
    }

    /// Voters that had not answered when the node went on.
    pub(super) fn without(&self) -> &[NodeId] {
        &self.without
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS: usize = 10;

    fn members() -> Membership {
        Membership::new(&[1, 2, 3].map(NodeId::first))
    }

    fn inquiry(node: u64, start: u64) -> StartInquiry {
        let options = InquiryOptions {
            node: NodeId::first(node),
            start,
            had: AtStart { term: 3, last: 7 },
            backup: None,
            election_ticks: TICKS,
            asks_all: false,
            planted: FaultInjection::default(),
        };
        StartInquiry::new(options, &members())
    }

    /// One that began with this backup.
    fn with_backup(node: u64, backup: Option<u128>) -> StartInquiry {
        let mut inquiry = inquiry(node, 10 * node);
        inquiry.options.backup = backup.and_then(NonZeroU128::new);
        drop(inquiry.take_messages());
        inquiry.send_due();
        inquiry
    }

    /// Passes messages from one to another, and returns those that it answers.
    fn pass(from: u64, messages: &[StartMessage], to: &mut StartInquiry) -> Vec<StartMessage> {
        pass_with_end(9, from, messages, to)
    }

    /// The same for a receiver whose log ends with this entry.
    fn pass_with_end(
        end: u64,
        from: u64,
        messages: &[StartMessage],
        to: &mut StartInquiry,
    ) -> Vec<StartMessage> {
        let members = members();
        let now = Present {
            term: 4,
            last: LogEnd {
                term: 4,
                index: end,
            },
            members: &members,
        };
        for message in messages {
            to.receive(NodeId::first(from), message.clone(), &now);
        }
        to_node(from, to)
    }

    fn to_node(node: u64, from: &mut StartInquiry) -> Vec<StartMessage> {
        let messages = from.take_messages().into_iter();
        let messages = messages.filter(|(to, _)| *to == NodeId::first(node));
        messages.map(|(_, message)| message).collect()
    }

    /// Two nodes exchange messages until there are none.
    fn exchange(one: (u64, &mut StartInquiry), other: (u64, &mut StartInquiry)) {
        let mut messages = to_node(other.0, one.1);
        while !messages.is_empty() {
            let answers = pass(one.0, &messages, other.1);
            messages = pass(other.0, &answers, one.1);
        }
    }

    #[test]
    fn nodes_of_different_backups_do_not_start_together() {
        let third = NodeId::first(3);
        for (one, two, fits) in [
            (Some(7), Some(7), true),
            (Some(7), None, true),
            (None, Some(7), true),
            (Some(7), Some(8), false),
        ] {
            let (mut one, mut two) = (with_backup(1, one), with_backup(2, two));
            drop(two.take_messages());
            exchange((1, &mut one), (2, &mut two));
            assert_eq!(two.take_other_backup().is_none(), fits);
            assert_eq!(two.take_noted().is_empty(), !fits);
        }
        // One that speaks goes on, and tells the one that starts.
        let (mut old, mut new) = (with_backup(2, Some(7)), with_backup(3, Some(8)));
        old.voice = Voice::Speaks;
        drop(old.take_messages());
        exchange((3, &mut new), (2, &mut old));
        assert_eq!(old.take_other_backup(), None);
        assert!(old.starts_to(third).is_none());
        assert_eq!(new.take_other_backup(), Some(NodeId::first(2)));
    }

    #[test]
    fn two_nodes_note_each_other() {
        let (mut one, mut two) = (inquiry(1, 11), inquiry(2, 22));
        drop(two.take_messages());
        exchange((1, &mut one), (2, &mut two));
        assert_eq!(
            two.take_noted(),
            [(NodeId::first(1), AtStart { term: 3, last: 7 })]
        );
        let starts = Starts { of: 11, to: 22 };
        assert_eq!(one.starts_to(NodeId::first(2)), Some(starts));
        assert!(two.admits(NodeId::first(1), starts));
        assert!(!two.admits(NodeId::first(1), Starts { of: 10, to: 22 }));
        assert!(!two.admits(NodeId::first(1), Starts { of: 11, to: 0 }));
    }

    /// Whatever an earlier start has sent, it does not replace a later one.
    #[test]
    fn late_messages_of_an_earlier_start_change_nothing() {
        let mut peer = inquiry(2, 22);
        drop(peer.take_messages());
        let mut old = inquiry(1, 10);
        let hello = to_node(2, &mut old);
        let tickets = pass(1, &hello, &mut peer);
        // It asks to be noted, and that is late.
        let late = pass(2, &tickets, &mut old);
        assert!(matches!(
            late[..],
            [StartMessage {
                body: StartBody::Note { .. },
                ..
            }]
        ));
        let mut new = inquiry(1, 11);
        exchange((1, &mut new), (2, &mut peer));
        pass(1, &hello, &mut peer);
        pass(1, &late, &mut peer);
        assert!(peer.admits(NodeId::first(1), Starts { of: 11, to: 22 }));
        assert!(!peer.admits(NodeId::first(1), Starts { of: 10, to: 22 }));
    }

    #[test]
    fn a_start_waits_for_all_and_then_for_a_majority() {
        let (mut one, mut two) = (inquiry(1, 11), inquiry(2, 22));
        exchange((1, &mut one), (2, &mut two));
        assert!(one.take_findings().is_none());
        for _ in 0..PATIENCE_TIMEOUTS * TICKS + RETRY_TICKS {
            one.tick(true);
            exchange((1, &mut one), (2, &mut two));
        }
        let third = NodeId::first(3);
        let findings = Findings {
            term: 4,
            without: vec![third],
        };
        assert_eq!(one.take_findings(), Some(findings));
        assert_eq!(one.floor(), Some(LogEnd { term: 4, index: 9 }));
        one.speak();
        let end = |index| LogEnd { term: 4, index };
        assert!(!one.may_vote_for(end(8)) && one.may_vote_for(end(9)));
        one.log_reaches(end(9));
        assert!(one.may_vote_for(end(8)));
        // The third comes up.
        let mut three = inquiry(3, 33);
        for _ in 0..4 * TICKS {
            one.tick(false);
            let to_two = one.take_messages();
            let (to_two, to_three): (Vec<_>, Vec<_>) = to_two
                .into_iter()
                .partition(|(to, _)| *to == NodeId::first(2));
            for (number, messages, peer) in [(2, to_two, &mut two), (3, to_three, &mut three)] {
                let mut messages: Vec<_> = messages.into_iter().map(|(_, it)| it).collect();
                while !messages.is_empty() {
                    let answers = pass(1, &messages, peer);
                    messages = pass(number, &answers, &mut one);
                }
            }
        }
        assert_eq!(one.without(), []);
    }

    /// The voter with the last entry may be about to answer, and it may be gone for good.
    #[test]
    fn a_part_of_the_answers_lowers_a_floor_late() {
        let mut one = inquiry(1, 11);
        let mut peers = BTreeMap::from([(2, inquiry(2, 22)), (3, inquiry(3, 33))]);
        // Each of these answers with this end of its log, for some ticks without a leader.
        let mut ask = |one: &mut StartInquiry, ticks: usize, ends: &[(u64, u64)]| {
            for _ in 0..ticks {
                one.tick(true);
                let mut sent = one.take_messages();
                while !sent.is_empty() {
                    for (to, message) in std::mem::take(&mut sent) {
                        let end = ends.iter().find(|(node, _)| *node == to.number());
                        let Some((node, end)) = end else { continue };
                        let peer = peers.get_mut(node).expect("it is one of the others");
                        let answers = pass_with_end(*end, 1, &[message], peer);
                        let more = pass(*node, &answers, one);
                        sent.extend(more.into_iter().map(|message| (to, message)));
                        sent.extend(one.take_messages());
                    }
                }
                one.take_findings();
                one.speak();
            }
            one.floor().map(|floor| floor.index)
        };
        assert_eq!(ask(&mut one, TICKS, &[(2, 7), (3, 9)]), Some(9));
        let patience = PATIENCE_TIMEOUTS * TICKS;
        assert_eq!(ask(&mut one, patience, &[(2, 7)]), Some(9));
        assert_eq!(ask(&mut one, patience, &[(2, 7)]), Some(7));
        assert_eq!(one.without(), [NodeId::first(3)]);
    }
}
