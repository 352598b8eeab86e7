//! Lost disks, and the simulation's operator, which replaces their nodes.
//!
//! Disks are lost only as long as the remaining nodes can continue and know the members: a cluster
//! that has lost a majority of its known voters is lost. The lost disk may return with its node:
//! the node is superseded then, or the cluster does not know of its replacement yet.

use std::sync::Arc;

use namiki_client::protocol::{MemberChange, Request};

use super::event::Event;
use super::network::OPERATOR;
use super::node::SimNode;
use super::session_users::client_name;
use super::world::{MS, World};
use crate::network::{Inbox as _, NodeId};
use crate::shared::Shared;

impl World {
    /// Loses a node's disk, and replaces it by a new one.
    pub(super) fn lose_disk(&mut self, place: usize) {
        if !self.has_faults || !self.may_lose(place) || self.removing.is_some() {
            return;
        }
        let member = self.checks.latest_members().of_number(place as u64 + 1);
        let Some(member) = member else {
            return;
        };
        let id = NodeId::new(member.node.number(), member.node.incarnation() + 1);
        self.nodes[place].crash(&mut self.random);
        self.report.crashes += 1;
        self.crash_in_write.remove(&place);
        let Ok(new) = self.nodes[place].replacement(id, self.founders) else {
            return;
        };
        let lost = self.put_directory(place, new);
        // The successor of a directory that was lost before it became a member has the same
        // incarnation: two of the same must not run.
        if lost.id != id && self.random.chance(0.5) {
            let pause = 10 + self.random.below(3_000);
            self.bring_back(lost, pause);
        }
        let pause = 1 + self.random.below(300);
        self.after(pause * MS, Event::Restart(place));
        let pause = 1 + self.random.below(600);
        self.after(pause * MS, Event::AskToReplace(id));
        if self.random.chance(0.3) {
            // Before it is a member, while it learns, or soon after.
            let pause = 100 + self.random.below(2_000);
            self.after(pause * MS, Event::LoseDisk(place));
        }
    }

    /// Puts a new directory in a place, which knows the present members. Returns the one that was there.
    pub(super) fn put_directory(&mut self, place: usize, mut new: SimNode) -> SimNode {
        self.configure(&mut new);
        self.crash_in_write.remove(&place);
        self.seen[place] = (0, 0);
        std::mem::replace(&mut self.nodes[place], new)
    }

    /// Starts the node of an old directory again, after some milliseconds.
    pub(super) fn bring_back(&mut self, old: SimNode, pause: u64) {
        self.nodes.push(old);
        self.seen.push((0, 0));
        self.after(pause * MS, Event::Restart(self.nodes.len() - 1));
    }

    /// The first node has applied a change of membership. Occasionally it is partitioned before it
    /// can tell the others. The newest incarnations stay on its side; the lost directories and up
    /// to half of the nodes are on the other.
    pub(super) fn split_at_change(&mut self, first: usize) {
        if !self.has_faults || !self.random.chance(0.3) {
            return;
        }
        let places = self.options.nodes;
        let mut side: Vec<bool> = (0..self.nodes.len()).map(|it| it < places).collect();
        let is_first_directory = |it: usize| self.nodes[it].id.incarnation() == 1 && it != first;
        let others: Vec<usize> = (0..places).filter(|it| is_first_directory(*it)).collect();
        for other in others.iter().take(places / 2) {
            side[*other] = false;
        }
        for one in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if side[one] != side[other] {
                    self.links
                        .cut
                        .insert((self.nodes[one].id, self.nodes[other].id));
                }
            }
        }
        for lost in places..self.nodes.len() {
            self.after(MS, Event::Restart(lost));
        }
    }

    /// Whether nothing is lost with a node, and the others can continue.
    pub(super) fn may_lose(&self, place: usize) -> bool {
        !self.damages() && self.can_lose(place) && !self.is_one_back()
    }

    /// Whether the others can continue.
    fn can_lose(&self, place: usize) -> bool {
        let latest = self.checks.latest_members();
        let number = place as u64 + 1;
        let voters: Vec<NodeId> = latest.voters().collect();
        let (nodes, _) = self.nodes.split_at(self.options.nodes);
        let left = nodes.iter().filter(|it| {
            let is_left = voters.contains(&it.id) && it.id.number() != number;
            let running = it.running.as_ref();
            is_left && running.is_some_and(|it| it.parts.raft.durable_membership() == latest)
        });
        // A learner may be about to vote.
        left.count() > latest.nodes().count() / 2
    }

    /// Puts the present members into the configuration of a new directory's node. Those of the others need not have it.
    fn configure(&self, node: &mut SimNode) {
        let members = self.checks.latest_members().nodes();
        members.for_each(|member| node.configure(member.number()));
    }

    /// The operator repeats the request until the node is a member.
    pub(super) fn ask_to_replace(&mut self, id: NodeId) {
        let Some(member) = self.checks.latest_members().of_number(id.number()) else {
            // The lost one was removed.
            return self.after(0, Event::AskToAdd(id));
        };
        if member.node.incarnation() >= id.incarnation() {
            return;
        }
        ask(
            self,
            MemberChange::Replace {
                node: id.number(),
                incarnation: id.incarnation(),
            },
        );
        let pause = 20 + self.random.below(200);
        self.after(pause * MS, Event::AskToReplace(id));
    }

    /// Removes lost disks again that have returned before their nodes were replaced: such a node may lead,
    /// and is not replaced as long as it does. And those of nodes that were removed, as far as they are not told.
    pub(super) fn retire(&mut self) {
        let latest = self.checks.latest_members();
        let places = self.options.nodes;
        for (place, node) in self.nodes.iter_mut().enumerate() {
            if latest.has_gone(node.id) || place >= places && latest.has(node.id) {
                node.crash(&mut self.random);
                node.is_wiped = true;
            }
        }
    }

    /// Whether every node votes, and knows that all do.
    pub(super) fn all_vote(&self) -> bool {
        self.checks.latest_members().voters().count() == self.options.nodes
            && self.removing.is_none()
            && self.all_members_vote()
    }

    /// Whether every member runs and votes, and knows that all do, and no other node is to become one.
    pub(super) fn all_members_vote(&self) -> bool {
        let latest = self.checks.latest_members();
        let (places, _) = self.nodes.split_at(self.options.nodes);
        let knows = |it: &Arc<Shared>| *it.membership() == *latest;
        let is_told = |it: &SimNode| it.shared().is_some_and(knows);
        let voters: Vec<NodeId> = latest.voters().collect();
        let mut members = latest.nodes();
        members.all(|node| {
            let place = places.iter().find(|it| it.id == node);
            voters.contains(&node) && place.is_some_and(is_told)
        }) && places.iter().all(|it| it.is_wiped || latest.has(it.id))
    }
}

/// Asks some node for a change of the members.
pub(super) fn ask(world: &mut World, change: MemberChange) {
    let node = world.random.index(world.options.nodes);
    if let Some(running) = &world.nodes[node].running {
        let request = Request::ChangeMembers(change);
        running.inbox.request(OPERATOR, &client_name(0), request);
    }
}
