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
//! Promotion has no state: the leader proposes it for a learner that has caught up, and so does the next leader. So it is with
//! addresses of the configuration, and with settling a removal.

use std::sync::Arc;

use namiki_client::protocol::MemberChange;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};
use raft::{Progress, StateRole};

use super::driver::RaftDriver;
use super::entry_codec::encode_body;
use super::events_and_effects::RaftEffect;
use super::members::{ChangeRefusal, change_for};
use crate::entry::EntryBody;
use crate::fault_injection::Fault;
#[cfg(any(test, feature = "simulation"))]
use crate::membership::Membership;
use crate::membership::MembershipChange;
use crate::network::NodeId;

/// A learner that lacks at most this number of entries is promoted: about the number in flight to a
/// follower under load.
const PROMOTION_DISTANCE: u64 = 256;

fn raft_change(changes: Vec<ConfChangeSingle>) -> ConfChangeV2 {
    let mut change = ConfChangeV2::default();
    change.set_changes(changes.into());
    change
}

impl RaftDriver {
    /// A change in raft-rs's form. One that leaves all roles confirms one of them.
    fn raft_changes(&self, change: &MembershipChange) -> Vec<ConfChangeSingle> {
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
            MembershipChange::Add { node, .. } => {
                vec![single(ConfChangeType::AddLearnerNode, *node)]
            }
            MembershipChange::Remove { node } => vec![single(ConfChangeType::RemoveNode, *node)],
            MembershipChange::Move { .. } | MembershipChange::Settle => {
                let voter = self.members.current.voters().next();
                let confirmed = voter.map(|node| single(ConfChangeType::AddNode, node));
                confirmed.into_iter().collect()
            }
        }
    }

    /// Handles a request to change the members.
    pub(super) fn change_members(&mut self, wanted: MemberChange) {
        if self.raft.raft.state != StateRole::Leader {
            // Its clients are told when it is deposed.
            return;
        }
        if let Err(refusal) = self.try_change(&wanted) {
            self.effects
                .push(RaftEffect::MembersNotChanged(wanted, refusal));
        }
    }

    fn try_change(&mut self, wanted: &MemberChange) -> Result<(), ChangeRefusal> {
        if self.members.current.fulfils(wanted) {
            // It was made before.
            self.members.durable_after.get_or_insert(0);
            return Ok(());
        }
        let change = change_for(wanted, &self.members.current)?;
        if self.raft.raft.has_pending_conf() {
            return match &self.members.proposed {
                Some(proposed) if *proposed == change => Ok(()),
                _ => Err(ChangeRefusal::Busy),
            };
        }
        self.check_running(&change)?;
        self.check_leader_stays(&change)?;
        if !self.propose_change(&change) {
            return Err(ChangeRefusal::Busy);
        }
        self.members.proposed = Some(change);
        Ok(())
    }

    /// A leader is removed once another one leads.
    fn check_leader_stays(&mut self, change: &MembershipChange) -> Result<(), ChangeRefusal> {
        let number = self.node.number();
        match change {
            MembershipChange::Replace { lost, .. } if *lost == self.node => {
                Err(ChangeRefusal::Leads { number })
            }
            MembershipChange::Remove { node } if *node == self.node => {
                self.hand_over();
                Err(ChangeRefusal::Busy)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the change can be committed, and that the members after it can commit more.
    fn check_running(&self, change: &MembershipChange) -> Result<(), ChangeRefusal> {
        // A replaced node is lost, and contributes to neither.
        let (leaves, is_lost) = match change {
            MembershipChange::Replace { lost, .. } => (*lost, true),
            MembershipChange::Remove { node } => (*node, false),
            _ => return Ok(()),
        };
        let voters: Vec<NodeId> = self.members.current.voters().collect();
        let is_running = |it: &&NodeId| self.members.is_running(**it, self.election_ticks);
        let running = voters.iter().filter(is_running);
        let staying = running.clone().filter(|it| **it != leaves).count();
        let running = if is_lost { staying } else { running.count() };
        let after = voters.iter().filter(|it| **it != leaves).count();
        let number = leaves.number();
        let needs = [(running, voters.len() / 2 + 1), (staying, after / 2 + 1)];
        match needs.into_iter().find(|(running, needed)| running < needed) {
            Some((running, needed)) => Err(ChangeRefusal::TooFewRunning {
                number,
                running,
                needed,
            }),
            None => Ok(()),
        }
    }

    /// Proposes to settle the last change, if all voters know that it is committed. What they have sent before to a voter that it removed
    /// was of this leader's term at most: a later one would have deposed it.
    pub(super) fn settle_members(&mut self) {
        let (raft, members) = (&self.raft.raft, &self.members);
        let is_known = |node: NodeId| {
            let progress = raft.prs().get(node.to_raft());
            let knows = |it: &Progress| it.committed_index >= members.changed_at;
            node == self.node || progress.is_some_and(knows)
        };
        if raft.state == StateRole::Leader
            && !raft.has_pending_conf()
            && !members.current.is_settled()
            && members.current.voters().all(is_known)
        {
            // If it is refused, it is proposed again at the next tick.
            self.propose_change(&MembershipChange::Settle);
        }
    }

    /// Proposes the addresses of this node's configuration for members without any in the log.
    pub(super) fn propose_addresses(&mut self) {
        let raft = &self.raft.raft;
        if raft.state != StateRole::Leader || raft.has_pending_conf() {
            return;
        }
        let members = self.members.current.members().iter();
        let unknown = members.filter(|it| it.addresses.is_none());
        let moved = unknown.filter_map(|it| {
            let addresses = self.members.configured.get(&it.node.number())?;
            Some((it.node, addresses.clone()))
        });
        let moved: Vec<_> = moved.collect();
        if !moved.is_empty() {
            // If it is refused, it is proposed again at the next tick.
            self.propose_change(&MembershipChange::Move { moved });
        }
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
                .propose_conf_change(context, raft_change(self.raft_changes(change)))
                .is_ok()
    }

    /// Applies a committed change.
    pub(super) fn apply_change(&mut self, index: u64, change: &MembershipChange) {
        if !self.members.current.allows(change) {
            return;
        }
        let mut singles = self.raft_changes(change);
        self.members.current.apply(change);
        self.members.changed_at = index;
        let members = &self.members.current;
        self.members.heard.retain(|node, _| members.has(*node));
        if let MembershipChange::Replace { replacement, .. } = change
            && self.planted.has(Fault::ReplacementVotesAtOnce)
        {
            let node = *replacement;
            (self.members.current).apply(&MembershipChange::Promote { node });
            singles[1].set_change_type(ConfChangeType::AddNode);
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
        self.append_progress();
        self.members.durable_after = Some(self.last_batch);
        self.announce_members();
    }

    /// Announces the members.
    pub(super) fn announce_members(&mut self) {
        self.inquiry.set_members(&self.members.current);
        let members = Arc::new(self.members.current.clone());
        self.effects.push(RaftEffect::Members(members));
    }

    /// Other nodes know newer members. If this node is none of them, it is not needed any more: it stops. One that knows so by its own
    /// log alone goes on to vote and to acknowledge, until another one tells it: that one may need it to learn of the change.
    pub(super) fn hear_of_members(&mut self) {
        if self.inquiry.members().has_gone(self.node) {
            self.effects.push(RaftEffect::Gone);
        }
        self.announce_newest_members();
    }

    /// Announces the newest members that are known. A node that was removed is told by its network, and stops: so this waits until this
    /// node would know it after a restart, too.
    fn announce_newest_members(&mut self) {
        let newest = self.inquiry.members();
        self.effects
            .push(RaftEffect::NewestMembers(Arc::new(newest.clone())));
    }

    /// Reports that the members are durable, as soon as they are.
    pub(super) fn note_durable_members(&mut self) {
        if let Some(batch) = self.members.durable_after
            && self.persistence.is_durable(batch)
        {
            self.members.durable_after = None;
            #[cfg(any(test, feature = "simulation"))]
            self.members.durable.clone_from(&self.members.current);
            let members = Arc::new(self.members.current.clone());
            self.effects.push(RaftEffect::MembersDurable(members));
            self.announce_newest_members();
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
