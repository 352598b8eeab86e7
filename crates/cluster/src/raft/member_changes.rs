//! Changes of membership in the driver.
//!
//! A change takes effect when its entry is handed out as committed, before later entries are.
//! raft-rs accepts one at a time: the next is proposed when the one before is applied. So a node
//! that has a change in its log has learned, with it, that the one before is committed, and its
//! majorities overlap with those of every other node, if that knowledge survives a crash:
//!
//! # Invariants
//! - Z1. A change is never durable without the commit index that came with it. Otherwise a restarted node could ask for votes in the
//!   membership before the last one, and majorities of that need not overlap with those of the next.
//! - Z2. A client is told that a node is a member only when the leader would know it after a
//!   restart, too.
//! - Z3. A removed leader stops leading.
//!
//! Promotion has no state: the leader proposes it for a learner that has caught up, and so does the next leader.

use std::sync::Arc;

use raft::StateRole;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};

use super::driver::RaftDriver;
use super::entry_codec::encode_body;
use super::events_and_effects::RaftEffect;
use super::members::ReplaceRefusal;
use crate::entry::EntryBody;
use crate::fault_injection::Fault;
#[cfg(any(test, feature = "simulation"))]
use crate::membership::Membership;
use crate::membership::MembershipChange;
use crate::network::NodeId;
use crate::storage::RaftRecord;

/// A learner that lacks at most this number of entries is promoted: about the number in flight to a
/// follower under load.
const PROMOTION_DISTANCE: u64 = 256;

/// A change in raft-rs's form.
fn raft_changes(change: &MembershipChange) -> Vec<ConfChangeSingle> {
    let single = |kind, node: NodeId| {
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = node.to_raft();
        single
    };
    match change {
        MembershipChange::Replace { lost, replacement } => vec![
            single(ConfChangeType::RemoveNode, *lost),
            single(ConfChangeType::AddLearnerNode, *replacement),
        ],
        MembershipChange::Promote { node } => vec![single(ConfChangeType::AddNode, *node)],
    }
}

fn raft_change(changes: Vec<ConfChangeSingle>) -> ConfChangeV2 {
    let mut change = ConfChangeV2::default();
    change.set_changes(changes.into());
    change
}

impl RaftDriver {
    /// Handles the request to replace a node.
    pub(super) fn replace(&mut self, node: NodeId) {
        if self.raft.raft.state != StateRole::Leader {
            // Its clients are told when it is deposed.
            return;
        }
        if let Err(refusal) = self.try_replace(node) {
            self.effects.push(RaftEffect::NotReplaced(node, refusal));
        }
    }

    fn try_replace(&mut self, replacement: NodeId) -> Result<(), ReplaceRefusal> {
        let number = replacement.number();
        let member = self.members.current.of_number(number);
        let lost = member.ok_or(ReplaceRefusal::NoSuchNode { number })?.node;
        if lost == replacement {
            // It was done before.
            self.members.durable_after.get_or_insert(0);
            return Ok(());
        }
        let (current, asked) = (lost.incarnation(), replacement.incarnation());
        if asked != current + 1 {
            return Err(ReplaceRefusal::Incarnation {
                number,
                current,
                asked,
            });
        }
        if number == self.node.number() {
            return Err(ReplaceRefusal::Leads { number });
        }
        if self.raft.raft.has_pending_conf() {
            return match self.members.proposed {
                Some(proposed) if proposed == replacement => Ok(()),
                _ => Err(ReplaceRefusal::Busy),
            };
        }
        let voters = || self.members.current.voters();
        let is_running =
            |it: &NodeId| *it != lost && self.members.is_running(*it, self.election_ticks);
        // A majority of the voters before the change commits it, and the lost one does not
        // contribute.
        let (running, needed) = (
            voters().filter(is_running).count(),
            voters().count() / 2 + 1,
        );
        if running < needed {
            return Err(ReplaceRefusal::TooFewRunning {
                number,
                running,
                needed,
            });
        }
        let change = MembershipChange::Replace { lost, replacement };
        if !self.propose_change(&change) {
            return Err(ReplaceRefusal::Busy);
        }
        self.members.proposed = Some(replacement);
        Ok(())
    }

    /// Proposes that a learner votes, if one has caught up.
    pub(super) fn promote_learner(&mut self) {
        let raft = &self.raft.raft;
        if raft.state != StateRole::Leader || raft.has_pending_conf() {
            return;
        }
        let last = raft.raft_log.last_index();
        let has_caught_up = |node: NodeId| {
            let progress = raft.prs().get(node.to_raft());
            let matched = progress.map_or(0, |it| it.matched);
            matched + PROMOTION_DISTANCE >= last
                && self.members.is_running(node, self.election_ticks)
        };
        let mut members = self.members.current.members().iter();
        let learner = members.find(|it| !it.votes && has_caught_up(it.node));
        if let Some(node) = learner.map(|it| it.node) {
            // If it is refused, it is proposed again at the next tick.
            self.propose_change(&MembershipChange::Promote { node });
        }
    }

    /// Proposes a change that fits. Returns whether it was accepted.
    fn propose_change(&mut self, change: &MembershipChange) -> bool {
        // raft-rs turns a change into an empty entry while another one is pending; a committed
        // entry of this term proves leadership.
        let is_free = !self.raft.raft.has_pending_conf() && self.raft.raft.commit_to_current_term();
        let context = encode_body(&EntryBody::Membership(change.encode())).to_vec();
        is_free
            && self.members.current.allows(change)
            && (self.raft)
                .propose_conf_change(context, raft_change(raft_changes(change)))
                .is_ok()
    }

    /// Applies a committed change.
    pub(super) fn apply_change(&mut self, change: &MembershipChange) {
        if !self.members.current.allows(change) {
            return;
        }
        self.members.current.apply(change);
        let mut singles = raft_changes(change);
        if let MembershipChange::Replace { lost, replacement } = change {
            self.members.heard.remove(lost);
            if self.planted.has(Fault::ReplacementVotesAtOnce) {
                let node = *replacement;
                (self.members.current).apply(&MembershipChange::Promote { node });
                singles[1].set_change_type(ConfChangeType::AddNode);
            }
        }
        // One by one: together they would be a joint change of two entries for raft-rs.
        for single in singles {
            let applied = self.raft.apply_conf_change(&raft_change(vec![single]));
            applied.expect("raft-rs has the members that the driver has");
        }
        self.members.proposed = None;
        let raft = &mut self.raft.raft;
        let votes = self.members.current.voters().any(|it| it == self.node);
        if raft.state == StateRole::Leader && !votes {
            // raft-rs would continue, without counting itself.
            raft.become_follower(raft.term, 0);
        }
        let mut records = Vec::new();
        self.record_progress(&mut records);
        if !records.is_empty() {
            self.append(records);
        }
        self.members.durable_after = Some(self.last_batch);
        self.announce_members();
    }

    /// Announces the members.
    pub(super) fn announce_members(&mut self) {
        self.inquiry.set_members(&self.members.current);
        let members = Arc::new(self.members.current.clone());
        self.effects.push(RaftEffect::Members(members));
    }

    /// Records the commit index, through the entry before the change, together with the change
    /// (Z1).
    pub(super) fn record_commit_before(&mut self, change: u64, records: &mut Vec<RaftRecord>) {
        let index = self.raft.raft.raft_log.committed.min(change - 1);
        if index > self.recorded_commit {
            self.recorded_commit = index;
            records.push(RaftRecord::Commit { index });
        }
    }

    /// Reports that the members are durable, as soon as they are.
    pub(super) fn note_durable_members(&mut self) {
        if let Some(batch) = self.members.durable_after
            && self.persistence.is_durable(batch)
        {
            self.members.durable_after = None;
            #[cfg(any(test, feature = "simulation"))]
            self.members.durable.clone_from(&self.members.current);
            let nodes = self.members.current.nodes().collect();
            self.effects.push(RaftEffect::MembersDurable(nodes));
        }
    }

    /// The members according to the entries that were handed out.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn membership(&self) -> &Membership {
        &self.members.current
    }

    /// The members as a restart would find them.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn durable_membership(&self) -> &Membership {
        &self.members.durable
    }
}
