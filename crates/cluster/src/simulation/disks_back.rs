//! Disks that go back to an earlier state, at most a minority at a time.
//!
//! A node with such a disk does not go on without the answers of all voters, until it has caught
//! up: it cannot know, and the simulation does. Until then no disk is lost. Some are steered, so that the node
//! loses what only few others have:
//!
//! ```text
//! entries: copy X ── the others behind ── commit on L and X ── X back, asks ── X with those behind, without L
//! vote:    copy all ── L alone, behind ── X elected, back before its first entry arrives ── X with L
//! ack:     copy X ── L's disk stuck, entry on X alone, X back, asks those behind ── entry there, committed ── L crashes
//! damage:  the others behind ── commit on L and X ── X damaged (`raft_damage.rs`) ── for a while X with those behind, without L
//! ```

use super::back_plan::{Going, Step, Way};
use super::event::Event;
use super::node::SimNode;
use super::world::{MS, World};
use crate::raft::RaftView;

impl World {
    /// Whether a disk went back, and its node has not caught up.
    pub(super) fn is_one_back(&self) -> bool {
        self.nodes.iter().any(SimNode::has_lost_promises)
    }

    fn members(&self) -> &[SimNode] {
        &self.nodes[..self.options.nodes]
    }

    /// Whether a disk may go back: all nodes run and vote, a minority goes back, and no payload was damaged since that only this disk may
    /// have whole.
    fn can_go_back(&self, node: usize) -> bool {
        let lost = |it: &&SimNode| it.has_lost_promises();
        let others = self.members().iter().filter(lost).count();
        let damaged = self.damage.frames.len();
        let copy = self.nodes[node].copy.as_ref();
        let has_copy = copy.is_some_and(|copy| copy.damaged == damaged)
            && !self.nodes[node].has_lost_promises();
        self.has_faults && has_copy && others < self.options.nodes / 2 && self.all_vote()
    }

    /// Whether other faults would disturb the disk that goes back.
    pub(super) fn is_steered(&self) -> bool {
        (self.going.as_ref()).is_some_and(|going| matches!(going.way, Way::Ack | Way::Damage))
    }

    /// Keeps a copy of a disk, which is put back later.
    pub(super) fn begin_to_go_back(&mut self, node: usize, leader: Option<usize>) {
        if self.going.is_some() || !self.all_vote() {
            return;
        }
        let nodes = self.options.nodes;
        let Some(leader) = leader else {
            return;
        };
        let way = match self.random.below(5) {
            _ if self.damages_raft_log() && self.damage.random.chance(0.5) => Way::Damage,
            0 => Way::Entries,
            1 => Way::Vote,
            2 | 3 if nodes == 3 => Way::Ack,
            _ => Way::Plain,
        };
        let node = if node == leader && way != Way::Plain {
            (leader + 1) % nodes
        } else {
            node
        };
        let mut behind: Vec<usize> = (0..nodes).filter(|it| *it != node).collect();
        behind.sort_by_key(|it| (*it == leader) != (way == Way::Vote));
        behind.truncate(nodes / 2);
        for it in 0..nodes {
            let is_kept = it == node || way == Way::Vote && !behind.contains(&it);
            if is_kept && !self.nodes[it].has_lost_promises() {
                self.nodes[it].keep_copy(self.damage.frames.len());
            }
        }
        if way != Way::Plain {
            self.links.cut.clear();
            self.cut_between(&behind, |it| !behind.contains(&it));
        }
        let pause = match way {
            Way::Plain => 100 + self.random.below(3_000),
            Way::Entries | Way::Damage => 100 + self.random.below(500),
            // If no other node is elected until then, nothing goes back.
            Way::Vote => 3_000,
            Way::Ack => {
                (self.links.loss, self.links.doubling) = (0.0, 0.0);
                self.links.delay_ns_max = MS;
                self.nodes.iter_mut().for_each(|it| it.is_slow = false);
                self.nodes[leader].is_stuck = true;
                30 + self.random.below(50)
            }
        };
        self.going = Some(Going {
            way,
            node,
            leader,
            behind,
            is_back: false,
        });
        self.after(pause * MS, Event::Back(Step::Back));
    }

    /// Cuts the links between these nodes and others, in both directions.
    fn cut_between(&mut self, nodes: &[usize], others: impl Fn(usize) -> bool) {
        for other in (0..self.options.nodes).filter(|it| others(*it)) {
            for node in nodes {
                let (one, two) = (self.nodes[*node].id, self.nodes[other].id);
                self.links.cut.insert((one, two));
                self.links.cut.insert((two, one));
            }
        }
    }

    /// The next step.
    pub(super) fn go_on_back(&mut self, step: Step) {
        let Some(going) = self.going.take() else {
            return;
        };
        match step {
            Step::Back if going.is_back => self.going = Some(going),
            Step::Back if going.way == Way::Damage => self.forget(going),
            Step::Back if going.way == Way::Vote || !self.can_go_back(going.node) => {
                self.links.cut.clear();
                self.nodes[going.leader].is_stuck = false;
            }
            Step::Back => self.put_back(going),
            Step::Spread => {
                self.links.cut.clear();
                self.cut_between(&[going.node], |it| it == going.leader);
                // A heartbeat, a rejection, a payload that is fetched.
                let pause = 200 + self.random.below(100);
                self.after(pause * MS, Event::Back(Step::Crash));
                self.going = Some(going);
            }
            Step::Crash => {
                self.links.cut.clear();
                self.cut_between(&going.behind, |it| !going.behind.contains(&it));
                if self.nodes[going.leader].running.is_some() {
                    self.crash(going.leader);
                    self.after(10 * MS, Event::Restart(going.leader));
                }
                self.after(4_500 * MS, Event::Back(Step::Heal));
                self.going = Some(going);
            }
            Step::Heal => self.links.cut.clear(),
        }
    }

    /// The disk loses recent records of stream 0, which the leader has, and is not reached.
    fn forget(&mut self, mut going: Going) {
        let node = going.node;
        self.links.cut.clear();
        if !self.can_forget(node) {
            return;
        }
        self.crash(node);
        if !self.damage_raft_log(node, true) {
            return;
        }
        let majority: Vec<usize> = [&[node], &going.behind[..]].concat();
        self.cut_between(&majority, |it| !majority.contains(&it));
        // Longer than a node waits that is not damaged, and an election.
        self.after(6_000 * MS, Event::Back(Step::Heal));
        going.is_back = true;
        self.going = Some(going);
    }

    fn put_back(&mut self, mut going: Going) {
        self.report.went_back += 1;
        self.report.crashes += 1;
        self.crash_in_write.remove(&going.node);
        self.nodes[going.node].go_back();
        self.after(5 * MS, Event::Restart(going.node));
        going.is_back = true;
        self.links.cut.clear();
        let behind = going.behind.clone();
        match going.way {
            Way::Plain | Way::Damage => return,
            Way::Entries | Way::Vote => {
                self.cut_between(&behind, |it| it != going.node && !behind.contains(&it));
                self.after(2_000 * MS, Event::Back(Step::Heal));
            }
            Way::Ack => {
                self.cut_between(&[going.leader], |_| true);
                let pause = 20 + self.random.below(30);
                self.after(pause * MS, Event::Back(Step::Spread));
            }
        }
        self.going = Some(going);
    }

    /// A node's state has changed.
    pub(super) fn note_back(&mut self, node: usize, view: &RaftView) {
        let start = view.start;
        if self.nodes[node].has_lost_promises()
            && !start.is_silent
            && !start.is_below_floor
            && view.persisted == view.last
        {
            (self.nodes[node].went_back, self.nodes[node].has_forgotten) = (false, false);
        }
        let Some(going) = &self.going else {
            return;
        };
        let is_elected = view.role == namiki_client::protocol::Role::TakingOffice;
        let is_vote = going.way == Way::Vote && !going.is_back && !going.behind.contains(&node);
        if is_vote && is_elected && self.can_go_back(node) {
            // What it has just sent is lost.
            if let Some(mut going) = self.going.take() {
                going.node = node;
                self.outbox.lock().clear();
                self.put_back(going);
            }
            return;
        }
        let has_asked = going.is_back && going.node == node && !start.is_silent;
        if has_asked && matches!(going.way, Way::Entries | Way::Vote) {
            let majority: Vec<usize> = [&[node], &going.behind[..]].concat();
            self.cut_between(&majority, |it| !majority.contains(&it));
        }
    }
}
