//! Replacements of members, in clusters of drivers without disks: everything is durable at once.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::Role;
use raft::eraftpb::{Message, MessageType};

use super::driver::{LAG_MAX, RaftDriver, RestoredRaft};
use super::entry_codec::to_raft;
use super::events_and_effects::{RaftEffect, RaftEvent, RaftView};
use super::members::ReplaceRefusal;
use super::message_codec::{Starts, encode};
use super::test_options::{ELECTION_TICKS, NoPayloads, options};
use crate::entry::EntryBody;
use crate::fault_injection::FaultInjection;
use crate::membership::{Member, Membership, MembershipChange};
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

fn driver(node: NodeId, voters: u64) -> RaftDriver {
    let options = options(node, FaultInjection::default());
    let restored = RestoredRaft {
        voters: (1..=voters).map(NodeId::first).collect(),
        ..RestoredRaft::default()
    };
    RaftDriver::new(&options, restored, Arc::new(NoPayloads)).unwrap()
}

/// Drivers with instant delivery of messages.
struct Cluster {
    drivers: BTreeMap<NodeId, RaftDriver>,
    /// Nodes that neither send nor receive.
    silent: BTreeSet<NodeId>,
    views: HashMap<NodeId, RaftView>,
    members: HashMap<NodeId, Arc<Membership>>,
    refusals: Vec<ReplaceRefusal>,
}

impl Cluster {
    fn new(nodes: u64) -> Self {
        let all = (1..=nodes).map(NodeId::first);
        let mut cluster = Self {
            drivers: all.map(|node| (node, driver(node, nodes))).collect(),
            silent: BTreeSet::new(),
            views: HashMap::new(),
            members: HashMap::new(),
            refusals: Vec::new(),
        };
        cluster.run();
        cluster
    }

    /// Runs until nothing is in flight.
    fn run(&mut self) {
        loop {
            let mut messages = VecDeque::new();
            for (node, driver) in &mut self.drivers {
                for effect in driver.take_effects() {
                    match effect {
                        RaftEffect::Send(to, PeerMessage::Raft(bytes)) => {
                            messages.push_back((to, RaftEvent::Message(*node, bytes)));
                        }
                        RaftEffect::Send(to, PeerMessage::Start(bytes)) => {
                            messages.push_back((to, RaftEvent::Start(*node, bytes)));
                        }
                        RaftEffect::AppendRaft { batch, .. } => {
                            messages.push_back((*node, RaftEvent::BatchDurable(batch)));
                        }
                        RaftEffect::View(view) => drop(self.views.insert(*node, view)),
                        RaftEffect::Members(members) => drop(self.members.insert(*node, members)),
                        RaftEffect::NotReplaced(_, refusal) => self.refusals.push(refusal),
                        _ => {}
                    }
                }
            }
            if messages.is_empty() {
                return;
            }
            for (to, event) in messages {
                let is_silent = |node: &NodeId| self.silent.contains(node);
                let is_lost = match &event {
                    RaftEvent::Message(from, _) | RaftEvent::Start(from, _) => {
                        is_silent(from) || is_silent(&to)
                    }
                    _ => false,
                };
                if let Some(driver) = self.drivers.get_mut(&to)
                    && !is_lost
                {
                    driver.handle([event]);
                }
            }
        }
    }

    fn tick(&mut self, ticks: usize) {
        for _ in 0..ticks {
            for driver in self.drivers.values_mut() {
                driver.handle([RaftEvent::Tick]);
            }
            self.run();
        }
    }

    fn leader(&mut self) -> NodeId {
        for _ in 0..50 {
            self.tick(ELECTION_TICKS);
            let heard = self
                .views
                .iter()
                .filter(|(it, _)| !self.silent.contains(it));
            let leader = heard.max_by_key(|(_, view)| (view.role == Role::TakingOffice, view.term));
            if let Some((leader, view)) = leader
                && view.role == Role::TakingOffice
            {
                return *leader;
            }
        }
        panic!("no leader: {:?}", self.views);
    }

    fn ask(&mut self, leader: NodeId, replacement: NodeId) {
        let driver = self.drivers.get_mut(&leader).unwrap();
        driver.handle([RaftEvent::Replace(replacement)]);
    }

    fn member(&self, seen_by: NodeId, number: u64) -> Member {
        self.members[&seen_by].of_number(number).unwrap()
    }
}

/// A node that does not lead.
fn follower(leader: NodeId, nodes: u64) -> NodeId {
    NodeId::first(leader.number() % nodes + 1)
}

fn next(node: NodeId) -> NodeId {
    NodeId::new(node.number(), node.incarnation() + 1)
}

#[test]
fn a_replacement_votes_when_it_has_caught_up() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let mut node = follower(leader, 3);
    // Repeatedly: each replaces the one before.
    for _ in 0..3 {
        cluster.drivers.remove(&node);
        node = next(node);
        cluster.ask(leader, node);
        cluster.run();
        let learner = Member { node, votes: false };
        assert_eq!(cluster.member(leader, node.number()), learner);
        // It does not run, so it is not promoted.
        cluster.tick(3);
        assert_eq!(cluster.member(leader, node.number()), learner);
        cluster.drivers.insert(node, driver(node, 3));
        cluster.tick(5);
        let voter = Member { node, votes: true };
        for seen_by in [leader, node] {
            assert_eq!(cluster.member(seen_by, node.number()), voter);
        }
        assert_eq!(cluster.views[&node].role, Role::Follower);
    }
    assert!(cluster.refusals.is_empty());
    // It is one of the two that a majority needs.
    let third = NodeId::first(6 - leader.number() - node.number());
    cluster.silent.insert(third);
    let body = EntryBody::Control(bytes::Bytes::new());
    let before = cluster.views[&leader].committed;
    (cluster.drivers.get_mut(&leader).unwrap()).handle([RaftEvent::Propose(body)]);
    cluster.run();
    assert_eq!(cluster.views[&leader].committed, before + 1);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let node = follower(leader, 3);
    let refused = |cluster: &mut Cluster, replacement| {
        cluster.ask(leader, replacement);
        cluster.run();
        cluster.refusals.pop().unwrap()
    };
    let number = 4;
    let unknown = refused(&mut cluster, NodeId::new(number, 2));
    assert_eq!(unknown, ReplaceRefusal::NoSuchNode { number });
    let number = leader.number();
    let leads = refused(&mut cluster, next(leader));
    assert_eq!(leads, ReplaceRefusal::Leads { number });
    let number = node.number();
    let skips = ReplaceRefusal::Incarnation {
        number,
        current: 1,
        asked: 3,
    };
    assert_eq!(refused(&mut cluster, NodeId::new(number, 3)), skips);
    // The third is down, too: without this one, only one of two would answer.
    let third = 6 - leader.number() - number;
    cluster.silent.insert(NodeId::first(third));
    cluster.tick(ELECTION_TICKS + 1);
    let too_few = ReplaceRefusal::TooFewRunning {
        number,
        running: 1,
        needed: 2,
    };
    assert_eq!(refused(&mut cluster, next(node)), too_few);
}

#[test]
fn one_change_is_under_way_at_a_time() {
    let mut cluster = Cluster::new(5);
    let leader = cluster.leader();
    let (one, other) = (follower(leader, 5), follower(follower(leader, 5), 5));
    cluster.ask(leader, next(one));
    // A repeated request waits with the first.
    cluster.ask(leader, next(one));
    cluster.ask(leader, next(other));
    cluster.run();
    assert_eq!(cluster.refusals, [ReplaceRefusal::Busy]);
    assert_eq!(cluster.member(leader, one.number()).node, next(one));
    cluster.ask(leader, next(other));
    cluster.ask(leader, next(one));
    cluster.run();
    assert_eq!(cluster.member(leader, other.number()).node, next(other));
    assert_eq!(cluster.members[&leader].voters().count(), 3);
}

/// With two voters left both are needed, including the one that would be lost: the entry could not
/// be committed without it.
#[test]
fn one_of_two_voters_is_not_replaced() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let lost = follower(leader, 3);
    cluster.silent.insert(lost);
    cluster.ask(leader, next(lost));
    cluster.run();
    assert_eq!(cluster.members[&leader].voters().count(), 2);
    let other = NodeId::first(6 - leader.number() - lost.number());
    cluster.ask(leader, next(other));
    cluster.run();
    let too_few = ReplaceRefusal::TooFewRunning {
        number: other.number(),
        running: 1,
        needed: 2,
    };
    assert_eq!(cluster.refusals, [too_few]);
    assert_eq!(cluster.member(leader, other.number()).node, other);
}

#[test]
fn a_node_that_replays_takes_no_leadership() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    for _ in 0..=LAG_MAX {
        let entry = EntryBody::Control(Bytes::from_static(b"an entry"));
        let driver = cluster.drivers.get_mut(&leader).unwrap();
        driver.handle([RaftEvent::Propose(entry)]);
    }
    cluster.run();
    let mut hand_over = |applied: u64| {
        for (node, driver) in &mut cluster.drivers {
            if *node != leader {
                driver.handle([RaftEvent::Applied(applied)]);
            }
        }
        let driver = cluster.drivers.get_mut(&leader).unwrap();
        driver.handle([RaftEvent::HandOver(None)]);
        cluster.run();
        // As long as raft-rs waits for the other one.
        cluster.tick(ELECTION_TICKS + 1);
        cluster.views[&leader].role
    };
    assert_eq!(hand_over(0), Role::TakingOffice);
    assert_eq!(hand_over(LAG_MAX + 2), Role::Follower);
}

#[test]
fn messages_of_a_superseded_node_are_dropped() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let lost = follower(leader, 3);
    cluster.silent.insert(lost);
    cluster.ask(leader, next(lost));
    cluster.run();
    // It returns, asks for votes in a later term, and is ignored.
    let term = cluster.views[&leader].term;
    cluster.tick(5 * ELECTION_TICKS);
    cluster.silent.clear();
    cluster.tick(5 * ELECTION_TICKS);
    assert_eq!(cluster.views[&leader].role, Role::TakingOffice);
    assert_eq!(cluster.views[&leader].term, term);
    assert!(cluster.views[&leader].refused > 0);
}

#[test]
fn a_leader_that_is_removed_leads_no_more() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let (lost, third) = (follower(leader, 3), follower(follower(leader, 3), 3));
    // Only the one that is to be replaced gets the entry, and it is elected.
    cluster.silent.insert(third);
    cluster.ask(leader, next(lost));
    let effects = cluster.drivers.get_mut(&leader).unwrap().take_effects();
    for effect in effects {
        let (node, event) = match effect {
            RaftEffect::Send(to, PeerMessage::Raft(bytes)) if to == lost => {
                (lost, RaftEvent::Message(leader, bytes))
            }
            RaftEffect::AppendRaft { batch, .. } => (leader, RaftEvent::BatchDurable(batch)),
            _ => continue,
        };
        cluster.drivers.get_mut(&node).unwrap().handle([event]);
    }
    cluster.silent = BTreeSet::from([leader]);
    cluster.tick(30 * ELECTION_TICKS);
    let view = &cluster.views[&lost];
    assert_ne!(view.role, Role::TakingOffice, "{view:?}");
    assert_eq!(cluster.member(lost, lost.number()).node, next(lost));
    cluster.silent.clear();
    let after = cluster.leader();
    assert_ne!(after, lost);
    assert_eq!(cluster.member(after, lost.number()).node, next(lost));
}

#[test]
fn a_change_is_recorded_with_its_commit_index() {
    let (leader, node) = (NodeId::first(1), NodeId::first(2));
    let replacement = NodeId::new(3, 2);
    let replace = MembershipChange::Replace {
        lost: NodeId::first(3),
        replacement,
    };
    let promote = MembershipChange::Promote { node: replacement };
    let bodies = [
        EntryBody::Empty,
        EntryBody::Membership(replace.encode()),
        EntryBody::Membership(promote.encode()),
    ];
    let mut append = Message::default();
    append.set_msg_type(MessageType::MsgAppend);
    (append.from, append.to, append.term) = (leader.to_raft(), node.to_raft(), 1);
    append.commit = 2;
    let entries = (1..).zip(&bodies).map(|(index, it)| to_raft(index, 1, it));
    append.entries = entries.collect::<Vec<_>>().into();
    let mut driver = driver(node, 3);
    driver.take_effects();
    let starts = Starts {
        of: u64::MAX,
        to: driver.inquiry.own_start(),
    };
    driver.handle([RaftEvent::Message(leader, encode(starts, &append))]);
    let effects = driver.take_effects();
    let records = effects.iter().find_map(|effect| match effect {
        RaftEffect::AppendRaft { records, .. } => Some(&records[..]),
        _ => None,
    });
    let Some([.., RaftRecord::Commit { index }, RaftRecord::Entry(last)]) = records else {
        panic!("{records:?}");
    };
    assert_eq!((*index, last.index), (2, 3));
    let is_durable = |effects: &[RaftEffect]| {
        let mut effects = effects.iter();
        effects.any(|it| matches!(it, RaftEffect::MembersDurable(_)))
    };
    assert!(!is_durable(&effects));
    // It is committed here, and recorded as persisted.
    driver.handle([RaftEvent::BatchDurable(1)]);
    assert!(!is_durable(&driver.take_effects()));
    driver.handle([RaftEvent::BatchDurable(2)]);
    assert!(is_durable(&driver.take_effects()));
}
