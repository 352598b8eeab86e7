//! Nodes that join and leave, in some of the runs: the cluster begins with a part of its places.
//!
//! The simulation's operator removes no node while a disk is lost or went back, and loses none while
//! it removes one: together they could take more than the cluster tolerates. A removed directory may
//! return: the others tell it.

use namiki_client::protocol::MemberChange;

use super::event::Event;
use super::node::addresses_of;
use super::replacements::ask;
use super::world::{MS, World};
use crate::network::NodeId;

impl World {
    /// The next decision of the operator.
    pub(super) fn change_members(&mut self) {
        if !self.has_faults {
            return;
        }
        let pause = 200 + self.member_changes.below(3_000);
        self.after(pause * MS, Event::ChangeMembers);
        let place = self.member_changes.index(self.options.nodes);
        let latest = self.checks.latest_members();
        let member = latest.of_number(place as u64 + 1).map(|it| it.node);
        match member {
            None => self.add_node(place),
            Some(node) if self.removing.is_none() && self.may_lose(place) => {
                self.removing = Some(node);
                self.after(0, Event::AskToRemove(node));
            }
            Some(_) => {}
        }
    }

    /// Makes a directory for a node that is to become a member.
    fn add_node(&mut self, place: usize) {
        let number = place as u64 + 1;
        let next = self.checks.latest_members().next_incarnation(number);
        let (id, old) = (NodeId::new(number, next), &self.nodes[place]);
        if old.id == id && !old.is_wiped {
            // It is on its way.
            return;
        }
        let Ok(new) = old.replacement(id, self.founders) else {
            return;
        };
        let is_lost_now = old.is_wiped || self.member_changes.chance(0.5);
        self.nodes[place].crash(&mut self.random);
        let old = self.put_directory(place, new);
        if !is_lost_now && old.id != id {
            let pause = 10 + self.member_changes.below(3_000);
            self.bring_back(old, pause);
        }
        let pause = 1 + self.member_changes.below(300);
        self.after(pause * MS, Event::Restart(place));
        let pause = 1 + self.member_changes.below(600);
        self.after(pause * MS, Event::AskToAdd(id));
    }

    /// The operator repeats the request until the node is a member.
    pub(super) fn ask_to_add(&mut self, id: NodeId) {
        let (number, latest) = (id.number(), self.checks.latest_members());
        let is_next = latest.next_incarnation(number) == id.incarnation();
        if latest.of_number(number).is_some() || !is_next {
            self.report.additions += usize::from(latest.has(id));
            return;
        }
        let change = MemberChange::Add {
            node: number,
            incarnation: id.incarnation(),
            addresses: addresses_of(number),
        };
        ask(self, change);
        let pause = 20 + self.member_changes.below(200);
        self.after(pause * MS, Event::AskToAdd(id));
    }

    /// The operator repeats the request until the node is no member.
    pub(super) fn ask_to_remove(&mut self, id: NodeId) {
        if !self.checks.latest_members().has(id) {
            self.removing = None;
            self.report.removals += 1;
            return;
        }
        ask(
            self,
            MemberChange::Remove {
                node: id.number(),
                incarnation: id.incarnation(),
            },
        );
        let pause = 20 + self.member_changes.below(200);
        self.after(pause * MS, Event::AskToRemove(id));
    }
}
