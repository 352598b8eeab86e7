//! Starts in the driver: what the inquiry finds is adopted, and what contradicts it is noticed.
//!
//! `start_inquiry/mod.rs` has the rules. raft-rs needs more. It drops a rejection below
//! `matched` as stale, and it sends a commit index of min(`matched`, committed) with heartbeats. So
//! a leader forgets `matched` when a node starts. It would panic at a conflict with a committed entry: the driver looks first.

use raft::eraftpb::{Message, MessageType};
use raft::{RawNode, StateRole};

use super::driver::RaftDriver;
use super::entry_log::EntryLog;
use super::events_and_effects::{RaftEffect, StartView};
use super::start_inquiry::{Findings, Present};
use super::start_messages::{AtStart, LogEnd, StartMessage};
use crate::fault_injection::Fault;
use crate::membership::{Membership, MembershipChange};
use crate::network::{NodeId, PeerMessage};

/// The voters once all changes in the log are committed.
fn next_voters(raft: &RawNode<EntryLog>, current: &Membership) -> Vec<NodeId> {
    let (log, raft_log) = (raft.store(), &raft.raft.raft_log);
    let later = (raft_log.applied + 1..=log.last()).filter_map(|index| log.get(index));
    let mut members = current.clone();
    for change in later.filter_map(|entry| MembershipChange::of(&entry)) {
        if members.allows(&change) {
            members.apply(&change);
        }
    }
    members.voters().collect()
}

impl RaftDriver {
    /// Handles a message of a start inquiry.
    pub(super) fn take_start_message(&mut self, from: NodeId, bytes: &[u8]) {
        let is_admitted = self.members.admits(from) || self.planted.has(Fault::IncarnationsMixed);
        let message = StartMessage::decode(bytes).filter(|_| is_admitted);
        let Some(message) = message else {
            self.refused += 1;
            return;
        };
        let next_voters = || next_voters(&self.raft, &self.members.current);
        let now = Present {
            term: self.raft.raft.term,
            last: self.log_end(),
            committed: self.committed_end(),
            members: &self.members.current,
            next_voters: &next_voters,
        };
        self.inquiry.receive(from, message, &now);
        if let Some(node) = self.inquiry.take_other_backup() {
            self.effects.push(RaftEffect::OtherBackup(node));
        }
        if let Some(LogEnd { term, index }) = self.inquiry.take_committed() {
            // The entry of this index and term is the same one in all logs, and so are those before it.
            self.raft.raft.raft_log.maybe_commit(index, term);
        }
        // A leader forgets `matched` before it handles anything more.
        for (node, had) in self.inquiry.take_noted() {
            self.note_start(node, had);
        }
    }

    /// The end of the log, durable or not.
    fn log_end(&self) -> LogEnd {
        let log = &self.raft.raft.raft_log;
        LogEnd {
            term: log.last_term(),
            index: log.last_index(),
        }
    }

    /// The last entry that is known to be committed.
    fn committed_end(&self) -> LogEnd {
        let log = &self.raft.raft.raft_log;
        let index = log.committed;
        let term = log.term(index).unwrap_or(0);
        LogEnd { term, index }
    }

    /// Sends the messages of the inquiry, and adopts its result.
    pub(super) fn run_inquiry(&mut self) {
        if self.inquiry.take_newer_members() {
            self.hear_of_members();
        }
        if let Some(findings) = self.inquiry.take_findings() {
            self.adopt(findings);
        }
        self.inquiry.log_reaches(self.log_end());
        for (to, message) in self.inquiry.take_messages() {
            let message = PeerMessage::Start(message.encode());
            self.effects.push(RaftEffect::Send(to, message));
        }
    }

    /// Adopts the highest term of the answers, with the vote in it spent: this node may have given
    /// it, and those that counted it have that term.
    fn adopt(&mut self, findings: Findings) {
        let Findings { term, without } = findings;
        let votes = self.members.current.voters().any(|it| it == self.node);
        if votes && !without.is_empty() {
            self.effects.push(RaftEffect::StartedWithout(without));
        }
        if self.planted.has(Fault::VoteNotSpent) {
            return;
        }
        let raft = &mut self.raft.raft;
        if term > raft.term {
            raft.become_follower(term, 0);
        }
        if term > 0 && term == raft.term && raft.vote == 0 {
            raft.vote = raft.id;
        }
    }

    /// Reports once that nothing is forgotten any more.
    pub(super) fn note_remembered(&mut self) {
        if self.has_forgotten && !self.may_have_forgotten() {
            self.has_forgotten = false;
            self.effects.push(RaftEffect::Remembered);
        }
    }

    fn may_have_forgotten(&self) -> bool {
        let log = &self.raft.raft.raft_log;
        let index = log.persisted;
        let term = log.term(index).unwrap_or(0);
        self.inquiry.may_have_forgotten(LogEnd { term, index })
    }

    /// Ends the silence when the adopted term and vote are durable.
    pub(super) fn speak_when_durable(&mut self) {
        let vote = (self.raft.raft.term, self.raft.raft.vote);
        if self.inquiry.is_adopting()
            && self.recorded_vote == vote
            && self.persistence.is_durable(self.vote_batch)
        {
            self.inquiry.speak();
        }
    }

    /// A node has started. A leader forgets what it has counted of it, and probes where its log ends.
    fn note_start(&mut self, node: NodeId, had: AtStart) {
        let raft = &mut self.raft.raft;
        if raft.state != StateRole::Leader {
            return;
        }
        let (term, last) = (raft.term, raft.raft_log.last_index());
        let Some(progress) = raft.mut_prs().get_mut(node.to_raft()) else {
            return;
        };
        let matched = progress.matched;
        progress.become_probe();
        (progress.matched, progress.committed_index) = (0, 0);
        progress.next_idx = had.last.min(last) + 1;
        self.told_behind.remove(&node);
        // It has acknowledged this in the leader's term, and a later leader may void it.
        if had.term < term && matched > 0 || had.term == term && had.last < matched {
            let last = had.last;
            self.effects.push(RaftEffect::WentBack {
                node,
                matched,
                last,
            });
        }
    }

    /// Whether a message is handled: a silent node takes the log alone, and later one below the
    /// floor gives no vote for a log below it.
    pub(super) fn may_take(&self, message: &Message) -> bool {
        match message.get_msg_type() {
            MessageType::MsgAppend | MessageType::MsgHeartbeat => true,
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                self.inquiry.may_vote_for(LogEnd {
                    term: message.log_term,
                    index: message.index,
                })
            }
            _ => !self.inquiry.is_silent(),
        }
    }

    /// Whether no leader has been heard from for a while.
    pub(super) fn is_leaderless(&self) -> bool {
        let raft = &self.raft.raft;
        raft.state != StateRole::Leader && raft.election_elapsed >= 2 * self.election_ticks
    }

    /// Reports an append that contradicts committed entries. Leaders of earlier terms may have
    /// others there; a leader of this term or a later one has them all.
    pub(super) fn note_contradiction(&mut self, append: &Message) -> bool {
        let raft = &self.raft.raft;
        if append.get_msg_type() != MessageType::MsgAppend || append.term < raft.term {
            return false;
        }
        let before = (append.index, append.log_term);
        let entries = append.entries.iter().map(|it| (it.index, it.term));
        let first = self.raft.store().first();
        let committed = [before].into_iter().chain(entries);
        let mut committed = committed
            .take_while(|(index, _)| *index <= raft.raft_log.committed)
            .filter(|(index, _)| index + 1 >= first);
        let differs = committed.find_map(|(index, leader_term)| {
            let own_term = raft.raft_log.term(index).ok()?;
            (own_term != leader_term).then_some((index, own_term, leader_term))
        });
        let Some((index, own_term, leader_term)) = differs else {
            return false;
        };
        self.is_contradicted = true;
        self.effects.push(RaftEffect::Contradicted {
            term: append.term,
            index,
            own_term,
            leader_term,
        });
        true
    }

    pub(super) fn start_view(&self) -> StartView {
        StartView {
            is_silent: self.inquiry.is_silent(),
            without: self.inquiry.without().len() as u64,
            is_below_floor: self.inquiry.floor().is_some(),
            may_have_forgotten: self.has_forgotten,
            awaited: self.inquiry.awaited() as u64,
        }
    }
}
