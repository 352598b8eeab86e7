//! Starts and disks that go back, in clusters of drivers, with disks and links moved by hand.
//!
//! Each test of a rule has its counter-example: the same steps under the fault that leaves the rule
//! out. They are those of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use namiki_client::protocol::Role;

use super::driver::{RaftDriver, RestoredRaft};
use super::events_and_effects::{RaftEffect, RaftEvent, RaftView};
use super::test_options::{ELECTION_TICKS, NoPayloads, options};
use crate::entry::{EntryBody, LogEntry};
use crate::fault_injection::{Fault, FaultInjection};
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

/// A disk: the records that are durable.
#[derive(Clone, Default)]
struct Disk(Vec<RaftRecord>);

impl Disk {
    fn restored(&self, nodes: u64) -> RestoredRaft {
        let mut restored = RestoredRaft {
            founders: (1..=nodes).map(NodeId::first).collect(),
            ..RestoredRaft::default()
        };
        for record in &self.0 {
            match record {
                RaftRecord::Vote { term, vote } => (restored.term, restored.vote) = (*term, *vote),
                RaftRecord::Commit { index } => restored.commit = *index,
                RaftRecord::Entry(entry) => {
                    restored.entries.truncate(entry.index as usize - 1);
                    restored.entries.push(entry.clone());
                }
                _ => {}
            }
        }
        restored.commit = restored.commit.min(restored.entries.len() as u64);
        restored
    }
}

struct Cluster {
    nodes: u64,
    planted: FaultInjection,
    drivers: BTreeMap<u64, RaftDriver>,
    disks: BTreeMap<u64, Disk>,
    /// Nodes with disks that do not answer, and the batches that wait.
    stuck: BTreeSet<u64>,
    waiting: Vec<(u64, u64, Vec<RaftRecord>)>,
    /// Cut links.
    cut: BTreeSet<(u64, u64)>,
    views: BTreeMap<u64, RaftView>,
    committed: BTreeMap<u64, Vec<LogEntry>>,
    went_back: Vec<(NodeId, u64, u64)>,
    without: Vec<(u64, Vec<NodeId>)>,
    contradicted: Vec<u64>,
    remembered: Vec<u64>,
}

impl Cluster {
    fn new(nodes: u64, fault: Option<Fault>) -> Self {
        let mut cluster = Self {
            nodes,
            planted: FaultInjection::of(fault),
            drivers: BTreeMap::new(),
            disks: (1..=nodes).map(|node| (node, Disk::default())).collect(),
            stuck: BTreeSet::new(),
            waiting: Vec::new(),
            cut: BTreeSet::new(),
            views: BTreeMap::new(),
            committed: BTreeMap::new(),
            went_back: Vec::new(),
            without: Vec::new(),
            contradicted: Vec::new(),
            remembered: Vec::new(),
        };
        for node in 1..=nodes {
            cluster.start(node, false);
        }
        cluster.run();
        cluster
    }

    /// Starts a node from its disk. `asks_all`: it went back.
    fn start(&mut self, node: u64, asks_all: bool) {
        let mut options = options(NodeId::first(node), self.planted);
        options.asks_all = asks_all;
        let restored = self.disks[&node].restored(self.nodes);
        let driver = RaftDriver::new(&options, restored, Arc::new(NoPayloads)).unwrap();
        self.waiting.retain(|(it, ..)| *it != node);
        self.committed.remove(&node);
        self.drivers.insert(node, driver);
    }

    fn run(&mut self) {
        loop {
            let mut events = Vec::new();
            let nodes: Vec<u64> = self.drivers.keys().copied().collect();
            for node in nodes {
                let effects = self.drivers.get_mut(&node).unwrap().take_effects();
                for effect in effects {
                    self.take_effect(node, effect, &mut events);
                }
            }
            let (now, later) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(|(node, ..)| !self.stuck.contains(node));
            self.waiting = later;
            let now: Vec<(u64, u64, Vec<RaftRecord>)> = now;
            for (node, batch, records) in now {
                self.disks.get_mut(&node).unwrap().0.extend(records);
                events.push((node, RaftEvent::BatchDurable(batch)));
            }
            if events.is_empty() {
                return;
            }
            for (to, event) in events {
                if let Some(driver) = self.drivers.get_mut(&to) {
                    driver.handle([event]);
                }
            }
        }
    }

    fn take_effect(&mut self, node: u64, effect: RaftEffect, events: &mut Vec<(u64, RaftEvent)>) {
        let from = NodeId::first(node);
        match effect {
            RaftEffect::Send(to, message) => {
                let event = match message {
                    PeerMessage::Raft(bytes) => RaftEvent::Message(from, bytes),
                    PeerMessage::Start(bytes) => RaftEvent::Start(from, bytes),
                    _ => return,
                };
                if !self.cut.contains(&(node, to.number())) {
                    events.push((to.number(), event));
                }
            }
            RaftEffect::AppendRaft { batch, records } => self.waiting.push((node, batch, records)),
            RaftEffect::Committed(entries) => {
                self.committed.entry(node).or_default().extend(entries);
            }
            RaftEffect::View(view) => drop(self.views.insert(node, view)),
            RaftEffect::WentBack {
                node,
                matched,
                last,
            } => self.went_back.push((node, matched, last)),
            RaftEffect::StartedWithout(nodes) => self.without.push((node, nodes)),
            RaftEffect::Remembered => self.remembered.push(node),
            RaftEffect::Contradicted { .. } => self.contradicted.push(node),
            _ => {}
        }
    }

    fn tick(&mut self, nodes: &[u64], ticks: usize) {
        for _ in 0..ticks {
            for node in nodes {
                if let Some(driver) = self.drivers.get_mut(node) {
                    driver.handle([RaftEvent::Tick]);
                }
            }
            self.run();
        }
    }

    fn tick_all(&mut self, ticks: usize) {
        let all: Vec<u64> = self.drivers.keys().copied().collect();
        self.tick(&all, ticks);
    }

    /// Only this node's time passes, until it leads.
    fn elect(&mut self, node: u64) -> u64 {
        for _ in 0..10 * ELECTION_TICKS {
            self.tick(&[node], 1);
            if self.leads(node) {
                return self.views[&node].term;
            }
        }
        panic!("{:?}", self.views);
    }

    fn leads(&self, node: u64) -> bool {
        self.views[&node].role == Role::TakingOffice
    }

    fn propose(&mut self, node: u64, text: &'static [u8]) {
        let body = EntryBody::Control(text.into());
        (self.drivers.get_mut(&node).unwrap()).handle([RaftEvent::Propose(body)]);
        self.run();
    }

    fn cut(&mut self, node: u64, others: &[u64]) {
        for other in others {
            self.cut.insert((node, *other));
            self.cut.insert((*other, node));
        }
    }

    fn has(&self, node: u64, text: &'static [u8]) -> bool {
        let entries = self.drivers[&node].entries();
        let body = EntryBody::Control(text.into());
        entries.iter().any(|entry| entry.body == body)
    }

    fn is_silent(&self, node: u64) -> bool {
        self.views[&node].start.is_silent
    }
}

#[test]
fn a_single_voter_does_not_wait() {
    let mut it = Cluster::new(1, None);
    it.elect(1);
    it.propose(1, b"entry");
    it.start(1, true);
    it.run();
    assert!(!it.is_silent(1));
    it.elect(1);
    assert!(it.has(1, b"entry"));
}

#[test]
fn a_new_cluster_begins_with_all_or_after_a_while() {
    let mut it = Cluster::new(3, None);
    // All speak before any time has passed.
    assert!((1..=3).all(|node| !it.is_silent(node)));
    let mut it = Cluster {
        drivers: BTreeMap::new(),
        views: BTreeMap::new(),
        ..{
            it.cut.clear();
            it
        }
    };
    it.start(1, false);
    it.tick_all(100 * ELECTION_TICKS);
    assert!(it.is_silent(1), "alone, it has no majority");
    // The third may know that one of them has voted, and that its disk went back.
    it.start(2, false);
    it.tick_all(2 * ELECTION_TICKS);
    assert!(it.is_silent(1) && it.is_silent(2));
    it.tick_all(20 * ELECTION_TICKS);
    assert!(!it.is_silent(1) && !it.is_silent(2));
    let leads = |view: &RaftView| view.role == Role::TakingOffice;
    assert!(it.views.values().any(leads), "{:?}", it.views);
}

/// A copy from before the first start looks like a new node, and so does a node that has never run.
#[test]
fn a_blank_disk_is_not_new_beside_used_ones() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    it.propose(1, b"entry");
    for node in [1, 2] {
        it.disks.insert(node, Disk::default());
        it.start(node, false);
    }
    it.cut.extend([(1, 3), (3, 1), (2, 3), (3, 2)]);
    it.tick_all(2 * ELECTION_TICKS);
    assert!(it.is_silent(1) && it.is_silent(2));
}

#[test]
fn a_restart_is_answered_at_once() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    it.propose(1, b"entry");
    for node in [2, 3, 1] {
        it.start(node, false);
        it.run();
        assert!(!it.is_silent(node), "no time has passed");
    }
    assert_eq!((&it.went_back[..], &it.without[..]), (&[][..], &[][..]));
    // All at once.
    for node in 1..=3 {
        it.start(node, false);
    }
    it.run();
    it.tick_all(2);
    assert!((1..=3).all(|node| !it.is_silent(node)));
    it.elect(2);
    assert!(it.has(3, b"entry"));
    it.tick(&[2], 5);
    it.propose(2, b"more");
    assert!((1..=3).all(|node| it.has(node, b"more")));
}

#[test]
fn a_node_that_went_back_is_reported_and_filled_again() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    let copy = it.disks[&2].clone();
    for text in [&b"one"[..], b"two", b"three"] {
        it.propose(1, text);
    }
    it.disks.insert(2, copy);
    it.start(2, true);
    it.run();
    assert_eq!(it.went_back, [(NodeId::first(2), 4, 1)]);
    it.tick(&[1], 6);
    assert!(it.has(2, b"three"));
    assert_eq!(it.views[&2].start, Default::default());
    it.propose(1, b"four");
    it.tick(&[1], 3);
    assert_eq!(it.committed[&2].len(), 5);
}

#[test]
fn after_a_timeout_it_goes_on_and_asks_later() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    it.drivers.remove(&3);
    it.start(2, false);
    it.tick(&[2], ELECTION_TICKS);
    assert!(it.is_silent(2));
    it.tick(&[2], 30 * ELECTION_TICKS);
    assert!(!it.is_silent(2));
    assert_eq!(it.without, [(2, vec![NodeId::first(3)])]);
    assert_eq!(it.views[&2].start.without, 1);
    it.start(3, false);
    it.tick_all(6 * ELECTION_TICKS);
    assert_eq!(it.views[&2].start.without, 0);
    // A disk that is known to have gone back never goes on.
    it.drivers.remove(&3);
    it.start(2, true);
    it.tick(&[2], 100 * ELECTION_TICKS);
    assert!(it.is_silent(2));
    it.start(3, false);
    it.tick_all(2 * ELECTION_TICKS);
    assert!(!it.is_silent(2));
}

/// A leader that goes back before its election, and another candidate for its term.
fn vote_twice(fault: Option<Fault>) -> Vec<u64> {
    let mut it = Cluster::new(3, fault);
    let term = it.elect(3);
    it.propose(3, b"entry");
    it.cut(3, &[1, 2]);
    let copy = it.disks[&1].clone();
    it.tick(&[3], 3 * ELECTION_TICKS);
    it.tick(&[2], 2 * ELECTION_TICKS);
    // Its first entry stays with it.
    while !it.leads(1) {
        let driver = it.drivers.get_mut(&1).unwrap();
        driver.handle([RaftEvent::Tick]);
        let before = it.cut.clone();
        it.run_until_elected(1);
        it.cut = before;
    }
    assert_eq!(it.views[&1].term, term + 1);
    it.disks.insert(1, copy);
    it.cut.clear();
    it.cut(2, &[3]);
    it.start(1, true);
    it.run();
    assert!(!it.is_silent(1));
    it.cut(1, &[2]);
    let mut leaders = vec![1];
    for _ in 0..6 * ELECTION_TICKS {
        it.tick(&[3, 1], 1);
        if it.views[&3].term == term + 1 && it.leads(3) {
            leaders.push(3);
            break;
        }
    }
    leaders
}

impl Cluster {
    /// Runs, and cuts the node's links as soon as it is elected.
    fn run_until_elected(&mut self, node: u64) {
        loop {
            let mut events = Vec::new();
            let nodes: Vec<u64> = self.drivers.keys().copied().collect();
            for it in nodes {
                let effects = self.drivers.get_mut(&it).unwrap().take_effects();
                let is_elected = effects
                    .iter()
                    .any(|effect| matches!(effect, RaftEffect::Elected { .. }));
                if it == node && is_elected {
                    self.cut(node, &[1, 2, 3]);
                }
                for effect in effects {
                    self.take_effect(it, effect, &mut events);
                }
            }
            for (it, batch, records) in std::mem::take(&mut self.waiting) {
                self.disks.get_mut(&it).unwrap().0.extend(records);
                events.push((it, RaftEvent::BatchDurable(batch)));
            }
            if events.is_empty() {
                return;
            }
            for (to, event) in events {
                self.drivers.get_mut(&to).unwrap().handle([event]);
            }
        }
    }
}

#[test]
fn votes_of_earlier_starts_are_spent() {
    assert_eq!(vote_twice(None), [1]);
    let leaders = vote_twice(Some(Fault::VoteNotSpent));
    assert_eq!(leaders, [1, 3], "two leaders of one term");
}

/// An entry is committed by the leader and a node that goes back. Returns whether a later leader
/// lacks it.
fn lose_an_entry(fault: Option<Fault>) -> bool {
    let mut it = Cluster::new(3, fault);
    it.elect(1);
    it.cut(3, &[1, 2]);
    let copy = it.disks[&2].clone();
    it.propose(1, b"entry");
    it.tick(&[1], 2);
    assert!(it.committed[&1].len() == 2);
    it.disks.insert(2, copy);
    it.cut.clear();
    it.cut(3, &[1]);
    it.start(2, true);
    it.run();
    assert!(!it.is_silent(2));
    // Without the leader, which has it alone.
    it.cut(1, &[2]);
    for _ in 0..12 * ELECTION_TICKS {
        it.tick(&[2, 3], 1);
        if it.leads(2) || it.leads(3) {
            return true;
        }
    }
    // With it, the cluster goes on.
    it.cut.clear();
    it.tick_all(6 * ELECTION_TICKS);
    assert!((1..=3).all(|node| it.has(node, b"entry")));
    false
}

#[test]
fn below_the_floor_a_node_has_no_say() {
    assert!(!lose_an_entry(None));
    assert!(lose_an_entry(Some(Fault::NoFloorAfterStart)));
}

/// The acknowledgement of a node that went back counts, since the leader has not noted its start;
/// the other voter was asked before it got the entry.
fn count_an_old_acknowledgement(fault: Option<Fault>) -> bool {
    let mut it = Cluster::new(3, fault);
    it.elect(1);
    it.stuck.insert(1);
    it.cut(3, &[1]);
    let copy = it.disks[&2].clone();
    it.propose(1, b"entry");
    it.disks.insert(2, copy);
    it.cut.clear();
    it.cut(2, &[1]);
    it.start(2, true);
    it.run();
    // The third node gets the entry, and learns that it is committed.
    it.tick(&[1], 6);
    assert!(it.has(3, b"entry"));
    let is_committed = it.views[&3].committed == 2;
    // The leader's disk has never got it.
    it.stuck.clear();
    it.start(1, false);
    it.cut.clear();
    it.cut(3, &[1, 2]);
    it.tick(&[1, 2], 40 * ELECTION_TICKS);
    let is_lost = it.leads(1) || it.leads(2);
    it.cut.clear();
    it.tick_all(20 * ELECTION_TICKS);
    // The node that finds it stops.
    assert_eq!(it.contradicted.contains(&3), is_lost && is_committed);
    is_lost && is_committed
}

#[test]
fn every_voter_notes_a_start_before_the_first_is_asked() {
    assert!(!count_an_old_acknowledgement(None));
    assert!(count_an_old_acknowledgement(Some(Fault::AskInOneRound)));
}

/// The answers are in memory alone: until the log has what they tell of, a later start needs them, too.
#[test]
fn what_was_forgotten_is_remembered_when_the_log_has_it() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    let copy = it.disks[&2].clone();
    it.propose(1, b"entry");
    it.drivers.remove(&3);
    it.disks.insert(2, copy);
    it.start(2, true);
    it.tick(&[2], 100 * ELECTION_TICKS);
    let start = it.views[&2].start;
    assert_eq!((start.is_silent, start.awaited), (true, 1));
    it.start(3, false);
    it.tick(&[2], 4);
    let start = it.views[&2].start;
    assert_eq!((start.is_silent, start.awaited), (false, 0));
    assert!(start.is_below_floor && start.may_have_forgotten);
    // In memory is not on the disk.
    it.stuck.insert(2);
    it.tick(&[1], 6);
    assert!(it.has(2, b"entry"));
    let start = it.views[&2].start;
    assert!(!start.is_below_floor && start.may_have_forgotten);
    assert!(it.remembered.is_empty());
    it.stuck.clear();
    it.run();
    it.tick(&[2], 3);
    assert!(!it.views[&2].start.may_have_forgotten);
    assert_eq!(it.remembered, [2], "once");
}

/// It does not count as new for others, although it has nothing.
#[test]
fn a_node_that_has_forgotten_everything_is_not_new() {
    let mut it = Cluster::new(3, None);
    it.elect(1);
    it.propose(1, b"entry");
    it.drivers.clear();
    it.cut(1, &[2, 3]);
    for node in [2, 3] {
        it.disks.insert(node, Disk::default());
    }
    it.start(2, true);
    it.start(3, false);
    it.tick_all(ELECTION_TICKS);
    assert!(it.is_silent(2) && it.is_silent(3));
}
