//! Changes of members, in clusters of drivers without disks: everything is durable at once.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::{MemberChange, NodeAddresses, Role};
use raft::eraftpb::{Message, MessageType};

use super::driver::{LAG_MAX, RaftDriver, RestoredRaft};
use super::entry_codec::to_raft;
use super::events_and_effects::{RaftEffect, RaftEvent, RaftView};
use super::members::ChangeRefusal;
use super::message_codec::{Starts, encode};
use super::test_options::{ELECTION_TICKS, NoPayloads, options};
use crate::entry::EntryBody;
use crate::fault_injection::FaultInjection;
use crate::membership::{Membership, MembershipChange};
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

fn driver(node: NodeId, voters: u64) -> RaftDriver {
    let options = options(node, FaultInjection::default());
    let restored = RestoredRaft {
        founders: (1..=voters).map(NodeId::first).collect(),
        ..RestoredRaft::default()
    };
    RaftDriver::new(&options, restored, Arc::new(NoPayloads)).unwrap()
}

/// Drivers with instant delivery of messages.
struct Cluster {
    drivers: BTreeMap<NodeId, RaftDriver>,
    /// Nodes that neither send nor receive.
    silent: BTreeSet<NodeId>,
    /// Nodes between which nothing is delivered.
    cut: BTreeSet<(NodeId, NodeId)>,
    views: HashMap<NodeId, RaftView>,
    members: HashMap<NodeId, Arc<Membership>>,
    /// The members that a node's network lets in.
    newest: HashMap<NodeId, Arc<Membership>>,
    refusals: Vec<ChangeRefusal>,
}

impl Cluster {
    fn new(nodes: u64) -> Self {
        let all = (1..=nodes).map(NodeId::first);
        let mut cluster = Self {
            drivers: all.map(|node| (node, driver(node, nodes))).collect(),
            silent: BTreeSet::new(),
            cut: BTreeSet::new(),
            views: HashMap::new(),
            members: HashMap::new(),
            newest: HashMap::new(),
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
                        RaftEffect::NewestMembers(members) => {
                            self.newest.insert(*node, members);
                        }
                        RaftEffect::MembersNotChanged(_, refusal) => self.refusals.push(refusal),
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
                        let is_cut =
                            self.cut.contains(&(*from, to)) || self.cut.contains(&(to, *from));
                        is_silent(from) || is_silent(&to) || is_cut
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
        let (node, incarnation) = (replacement.number(), replacement.incarnation());
        self.change(leader, MemberChange::Replace { node, incarnation });
    }

    fn change(&mut self, leader: NodeId, change: MemberChange) {
        let driver = self.drivers.get_mut(&leader).unwrap();
        driver.handle([RaftEvent::ChangeMembers(change)]);
    }

    fn member(&self, seen_by: NodeId, number: u64) -> (NodeId, bool) {
        let member = self.members[&seen_by].of_number(number).unwrap();
        (member.node, member.votes)
    }

    fn voters(&self, seen_by: NodeId) -> Vec<u64> {
        let voters = self.members[&seen_by].voters();
        voters.map(NodeId::number).collect()
    }

    /// Adds a node of a cluster that has begun with `founders` nodes, and waits until it votes.
    fn add(&mut self, number: u64, founders: u64) {
        let leader = self.leader();
        let incarnation = self.members[&leader].next_incarnation(number);
        let node = NodeId::new(number, incarnation);
        self.drivers.insert(node, driver(node, founders));
        self.change(leader, add(node));
        self.tick(6 * ELECTION_TICKS);
        assert!(self.refusals.is_empty(), "{:?}", self.refusals);
        assert_eq!(self.member(leader, number), (node, true));
    }

    /// Removes a node, again until the request is accepted.
    fn remove(&mut self, node: NodeId) {
        let (number, incarnation) = (node.number(), node.incarnation());
        for _ in 0..10 {
            let leader = self.leader();
            let change = MemberChange::Remove {
                node: number,
                incarnation,
            };
            self.change(leader, change);
            self.run();
            if self.refusals.pop().is_none() {
                self.tick(2);
                assert!(self.members[&leader].of_number(number).is_none());
                self.drivers.remove(&node);
                self.views.remove(&node);
                return;
            }
        }
        panic!("{node} stays a member");
    }
}

/// A node that does not lead.
fn follower(leader: NodeId, nodes: u64) -> NodeId {
    NodeId::first(leader.number() % nodes + 1)
}

fn add(node: NodeId) -> MemberChange {
    MemberChange::Add {
        node: node.number(),
        incarnation: node.incarnation(),
        addresses: addresses(node.number()),
    }
}

fn addresses(number: u64) -> NodeAddresses {
    NodeAddresses {
        peer: format!("10.0.0.{number}:7400"),
        client: format!("10.0.0.{number}:7500"),
    }
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
        assert_eq!(cluster.member(leader, node.number()), (node, false));
        // It does not run, so it is not promoted.
        cluster.tick(3);
        assert_eq!(cluster.member(leader, node.number()), (node, false));
        cluster.drivers.insert(node, driver(node, 3));
        cluster.tick(5);
        for seen_by in [leader, node] {
            assert_eq!(cluster.member(seen_by, node.number()), (node, true));
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
    assert_eq!(unknown, ChangeRefusal::NoSuchNode { number });
    let number = leader.number();
    let leads = refused(&mut cluster, next(leader));
    assert_eq!(leads, ChangeRefusal::Leads { number });
    let number = node.number();
    let skips = ChangeRefusal::Incarnation {
        number,
        next: 2,
        asked: 3,
        how: "replacement",
    };
    assert_eq!(refused(&mut cluster, NodeId::new(number, 3)), skips);
    // The third is down, too: without this one, only one of two would answer.
    let third = 6 - leader.number() - number;
    cluster.silent.insert(NodeId::first(third));
    cluster.tick(ELECTION_TICKS + 1);
    let too_few = ChangeRefusal::TooFewRunning {
        number,
        running: 1,
        needed: 2,
    };
    assert_eq!(refused(&mut cluster, next(node)), too_few);
}

#[test]
fn one_node_becomes_three_and_five_and_three_again() {
    let mut cluster = Cluster::new(1);
    for number in 2..=5 {
        cluster.add(number, 1);
    }
    let leader = cluster.leader();
    assert_eq!(cluster.voters(leader), [1, 2, 3, 4, 5]);
    for number in [1, 2] {
        cluster.remove(NodeId::first(number));
    }
    let leader = cluster.leader();
    assert_eq!(cluster.voters(leader), [3, 4, 5]);
    // Two of them are a majority, and one is not.
    let others: Vec<NodeId> = [3, 4, 5].map(NodeId::first).into();
    cluster
        .silent
        .insert(others[usize::from(others[0] == leader)]);
    cluster.leader();
    // A number returns as its next incarnation, although none of those that it began with is left.
    cluster.silent.clear();
    cluster.add(1, 1);
    let leader = cluster.leader();
    assert_eq!(cluster.member(leader, 1), (NodeId::new(1, 2), true));
}

#[test]
fn additions_and_removals_without_sense_are_refused() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let node = follower(leader, 3);
    let (number, third) = (
        node.number(),
        NodeId::first(6 - leader.number() - node.number()),
    );
    let refused = |cluster: &mut Cluster, change| {
        cluster.change(leader, change);
        cluster.run();
        cluster.refusals.pop().unwrap()
    };
    let is_member = refused(&mut cluster, add(node));
    assert_eq!(is_member, ChangeRefusal::IsMember { number });
    let skips = ChangeRefusal::Incarnation {
        number: 4,
        next: 1,
        asked: 2,
        how: "join",
    };
    assert_eq!(refused(&mut cluster, add(NodeId::new(4, 2))), skips);
    let nowhere = MemberChange::Move {
        node: number,
        addresses: NodeAddresses {
            peer: "here".to_owned(),
            ..addresses(number)
        },
    };
    let refusal = refused(&mut cluster, nowhere);
    assert_eq!(refusal, ChangeRefusal::Addresses { number });
    cluster.change(
        leader,
        MemberChange::Move {
            node: number,
            addresses: addresses(8),
        },
    );
    cluster.run();
    let mut taken = addresses(7);
    taken.client = addresses(8).peer;
    let taken = MemberChange::Add {
        node: 7,
        incarnation: 1,
        addresses: taken,
    };
    let refusal = ChangeRefusal::AddressTaken {
        address: addresses(8).peer,
        other: number,
    };
    assert_eq!(refused(&mut cluster, taken), refusal);
    let none = MemberChange::Add {
        node: 0,
        incarnation: 1,
        addresses: addresses(1),
    };
    assert_eq!(refused(&mut cluster, none), ChangeRefusal::NoNode);
    let remove = |node: u64, incarnation| MemberChange::Remove { node, incarnation };
    let number = 7;
    let unknown = refused(&mut cluster, remove(number, 1));
    assert_eq!(unknown, ChangeRefusal::NoSuchNode { number });
    let number = node.number();
    let other = ChangeRefusal::OtherIncarnation {
        number,
        current: 1,
        asked: 2,
    };
    assert_eq!(refused(&mut cluster, remove(number, 2)), other);
    // Without it, only one of two would answer.
    cluster.silent.insert(third);
    cluster.tick(ELECTION_TICKS + 1);
    let too_few = ChangeRefusal::TooFewRunning {
        number,
        running: 1,
        needed: 2,
    };
    assert_eq!(refused(&mut cluster, remove(number, 1)), too_few);
    // The one that is down can go.
    cluster.change(leader, remove(third.number(), 1));
    cluster.run();
    assert!(cluster.refusals.is_empty());
    assert_eq!(cluster.members[&leader].voters().count(), 2);
}

#[test]
fn a_removal_is_settled_when_all_voters_know_it() {
    let mut cluster = Cluster::new(5);
    let leader = cluster.leader();
    let node = follower(leader, 5);
    let behind = follower(node, 5);
    cluster.silent.insert(behind);
    let change = MemberChange::Remove {
        node: node.number(),
        incarnation: 1,
    };
    cluster.change(leader, change);
    cluster.tick(5 * ELECTION_TICKS);
    assert_eq!(cluster.members[&leader].voters().count(), 4);
    assert!(!cluster.members[&leader].is_settled());
    cluster.silent.clear();
    cluster.tick(5 * ELECTION_TICKS);
    assert!(cluster.members[&leader].is_settled());
    assert_eq!(cluster.members[&leader].voters().count(), 4);
}

#[test]
fn the_last_voter_stays() {
    let mut cluster = Cluster::new(1);
    let leader = cluster.leader();
    let change = MemberChange::Remove {
        node: 1,
        incarnation: 1,
    };
    cluster.change(leader, change);
    assert_eq!(cluster.refusals.len(), 0);
    cluster.run();
    assert_eq!(cluster.refusals, [ChangeRefusal::LastVoter { number: 1 }]);
}

#[test]
fn a_leader_that_is_to_go_hands_over_first() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let change = MemberChange::Remove {
        node: leader.number(),
        incarnation: 1,
    };
    cluster.change(leader, change);
    cluster.run();
    assert_eq!(cluster.refusals, [ChangeRefusal::Busy]);
    cluster.refusals.clear();
    let after = cluster.leader();
    assert_ne!(after, leader);
    cluster.remove(leader);
    assert_eq!(cluster.members[&after].voters().count(), 2);
}

#[test]
fn a_leader_logs_the_addresses_of_its_configuration() {
    let mut options = options(NodeId::first(1), FaultInjection::default());
    options.addresses = (1..=3).map(|it| (it, addresses(it))).collect();
    let restored = RestoredRaft {
        founders: vec![NodeId::first(1)],
        ..RestoredRaft::default()
    };
    let mut cluster = Cluster::new(1);
    let driver = RaftDriver::new(&options, restored, Arc::new(NoPayloads)).unwrap();
    cluster.drivers.insert(NodeId::first(1), driver);
    let leader = cluster.leader();
    cluster.tick(2);
    let known = |cluster: &Cluster| cluster.members[&leader].members()[0].addresses.clone();
    assert_eq!(known(&cluster), Some(addresses(1)));
    // One that was moved stays there.
    cluster.change(
        leader,
        MemberChange::Move {
            node: 1,
            addresses: addresses(9),
        },
    );
    cluster.tick(5);
    assert_eq!(known(&cluster), Some(addresses(9)));
    assert_eq!(cluster.voters(leader), [1]);
}

/// A follower that does not know the new leader takes its log: it learns from it that the leader is a member.
#[test]
fn a_follower_that_is_behind_follows_an_unknown_leader() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.leader();
    let behind = follower(leader, 3);
    cluster.silent.insert(behind);
    cluster.tick(ELECTION_TICKS);
    let new = NodeId::first(4);
    cluster.drivers.insert(new, driver(new, 3));
    cluster.change(leader, add(new));
    cluster.tick(20 * ELECTION_TICKS);
    assert_eq!(cluster.member(leader, 4), (new, true));
    // The new one is the only one of three that may lead: the third does not run for a while.
    let third = NodeId::first(6 - leader.number() - behind.number());
    cluster.tick(ELECTION_TICKS);
    let mut elected = cluster.leader();
    for _ in 0..20 {
        if elected == new {
            break;
        }
        let driver = cluster.drivers.get_mut(&elected).unwrap();
        driver.handle([RaftEvent::HandOver(None)]);
        cluster.tick(2 * ELECTION_TICKS);
        elected = cluster.leader();
    }
    assert_eq!(elected, new);
    cluster.silent = BTreeSet::from([leader]);
    cluster.tick(10 * ELECTION_TICKS);
    assert_eq!(cluster.member(behind, 4), (new, true), "third: {third}");
}

/// Its log has the founders alone, of which none is left. The only member of a number that it knows has noted an earlier start
/// of it, and is no leader.
#[test]
fn a_blank_node_without_a_known_member_hears_of_one() {
    let mut cluster = Cluster::new(1);
    let founder = cluster.leader();
    let new = |number| (NodeId::first(number), driver(NodeId::first(number), 1));
    for number in [2, 3] {
        cluster.drivers.extend([new(number)]);
        cluster.change(founder, add(NodeId::first(number)));
        cluster.tick(20 * ELECTION_TICKS);
        assert_eq!(
            cluster.member(founder, number),
            (NodeId::first(number), true)
        );
    }
    let (blank, driver_of_blank) = new(4);
    cluster.drivers.insert(blank, driver_of_blank);
    cluster.change(founder, add(blank));
    cluster.cut = (1..=3).map(|it| (NodeId::first(it), blank)).collect();
    cluster.tick(2 * ELECTION_TICKS);
    cluster.drivers.remove(&founder);
    cluster.silent.insert(founder);
    let leader = cluster.leader();
    let successor = next(founder);
    cluster.drivers.insert(successor, driver(successor, 1));
    cluster.ask(leader, successor);
    cluster.tick(30 * ELECTION_TICKS);
    assert_eq!(cluster.member(leader, 1), (successor, true));
    assert_ne!(cluster.leader(), successor);
    // It starts again.
    cluster.drivers.extend([new(4)]);
    cluster.newest.remove(&blank);
    cluster.tick(10 * ELECTION_TICKS);
    assert!(cluster.newest[&blank].has(leader));
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
    assert_eq!(cluster.refusals, [ChangeRefusal::Busy]);
    assert_eq!(cluster.member(leader, one.number()).0, next(one));
    cluster.ask(leader, next(other));
    cluster.ask(leader, next(one));
    cluster.run();
    assert_eq!(cluster.member(leader, other.number()).0, next(other));
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
    let too_few = ChangeRefusal::TooFewRunning {
        number: other.number(),
        running: 1,
        needed: 2,
    };
    assert_eq!(cluster.refusals, [too_few]);
    assert_eq!(cluster.member(leader, other.number()).0, other);
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
    assert_eq!(cluster.member(lost, lost.number()).0, next(lost));
    cluster.silent.clear();
    let after = cluster.leader();
    assert_ne!(after, lost);
    assert_eq!(cluster.member(after, lost.number()).0, next(lost));
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
