//! A truncated log under Raft: where a driver starts, what leaves memory, and nodes that are too far
//! behind.

use std::collections::VecDeque;
use std::sync::Arc;

use super::driver::{RaftDriver, RestoredRaft};
use super::events_and_effects::{RaftEffect, RaftEvent};
use super::test_options::{ELECTION_TICKS, NoPayloads, options};
use crate::entry::{EntryBody, LogEntry};
use crate::fault_injection::{Fault, FaultInjection};
use crate::membership::{Membership, MembershipChange};
use crate::network::{NodeId, PeerMessage};
use crate::storage::LogPosition;

/// The log through entry `last`, behind a snapshot.
fn restored(snapshot: u64, last: u64) -> RestoredRaft {
    RestoredRaft {
        founders: (1..=3).map(NodeId::first).collect(),
        term: 1,
        commit: snapshot,
        snapshot: LogPosition {
            index: snapshot,
            term: u64::from(snapshot > 0),
        },
        entries: (snapshot + 1..=last).map(|index| entry(index, 1)).collect(),
        ..RestoredRaft::default()
    }
}

/// An entry with a body of its own.
fn entry(index: u64, term: u64) -> LogEntry {
    LogEntry {
        index,
        term,
        body: EntryBody::Control(index.to_le_bytes().to_vec().into()),
    }
}

fn driver(node: u64, restored: RestoredRaft) -> RaftDriver {
    let options = options(NodeId::first(node), FaultInjection::default());
    RaftDriver::new(&options, restored, Arc::new(NoPayloads)).unwrap()
}

/// Three drivers with instant delivery, and what they have handed out.
struct Cluster {
    drivers: Vec<RaftDriver>,
    committed: Vec<Vec<LogEntry>>,
    needs: Vec<NodeId>,
    messages: usize,
}

impl Cluster {
    fn new(drivers: Vec<RaftDriver>) -> Self {
        let mut it = Self {
            committed: vec![Vec::new(); drivers.len()],
            drivers,
            needs: Vec::new(),
            messages: 0,
        };
        it.run();
        it
    }

    fn run(&mut self) {
        loop {
            let mut events = VecDeque::new();
            for (at, driver) in self.drivers.iter_mut().enumerate() {
                for effect in driver.take_effects() {
                    match effect {
                        RaftEffect::Send(to, PeerMessage::Raft(bytes)) => {
                            self.messages += 1;
                            let from = NodeId::first(at as u64 + 1);
                            let event = RaftEvent::Message(from, bytes);
                            events.push_back((to.number() as usize - 1, event));
                        }
                        RaftEffect::Send(to, PeerMessage::Start(bytes)) => {
                            let event = RaftEvent::Start(NodeId::first(at as u64 + 1), bytes);
                            events.push_back((to.number() as usize - 1, event));
                        }
                        RaftEffect::AppendRaft { batch, .. } => {
                            events.push_back((at, RaftEvent::BatchDurable(batch)));
                        }
                        RaftEffect::Committed(entries) => self.committed[at].extend(entries),
                        RaftEffect::NeedsSnapshot(node) => self.needs.push(node),
                        _ => {}
                    }
                }
            }
            if events.is_empty() {
                return;
            }
            for (to, event) in events {
                self.drivers[to].handle([event]);
            }
        }
    }

    fn tick(&mut self, node: usize, ticks: usize) {
        for _ in 0..ticks {
            self.drivers[node - 1].handle([RaftEvent::Tick]);
            self.run();
        }
    }

    fn propose(&mut self, node: usize, count: u8) {
        for number in 0..count {
            let body = EntryBody::Control(vec![number; 3].into());
            self.drivers[node - 1].handle([RaftEvent::Propose(body)]);
            self.run();
        }
    }
}

/// The nodes have snapshots at different entries, and one has none.
#[test]
fn nodes_with_different_snapshots_agree_above_them() {
    let mut it = Cluster::new(vec![
        driver(1, restored(20, 30)),
        driver(2, restored(25, 30)),
        driver(3, restored(0, 25)),
    ]);
    it.tick(1, 3 * ELECTION_TICKS);
    it.propose(1, 5);
    let of = |node: usize, index: u64| it.drivers[node - 1].entry(index);
    assert_eq!(of(1, 20), None);
    assert_eq!(of(1, 30), Some(entry(30, 1)));
    for index in 31..=36 {
        assert!(of(1, index).is_some(), "{index}");
        assert_eq!(of(1, index), of(2, index));
        assert_eq!(of(1, index), of(3, index));
    }
    // Everything above the own snapshot is handed out, once, and nothing else.
    it.tick(1, 3);
    for (at, first) in [21, 26, 1].into_iter().enumerate() {
        let indexes = it.committed[at].iter().map(|entry| entry.index);
        assert!(indexes.eq(first..=36), "node {}", at + 1);
    }
    assert_eq!(it.needs, []);
}

#[test]
fn truncated_entries_leave_memory_and_later_ones_stay() {
    let mut it = Cluster::new((1..=3).map(|node| driver(node, restored(0, 30))).collect());
    it.tick(1, 3 * ELECTION_TICKS);
    it.propose(1, 5);
    let last = it.drivers[0].entries();
    assert_eq!(last.len(), 36);
    it.drivers[0].handle([RaftEvent::Truncated(33)]);
    assert_eq!(it.drivers[0].entries(), last[33..]);
    // It never goes further than what was handed out, and never back.
    it.drivers[0].handle([RaftEvent::Truncated(99)]);
    assert_eq!(it.drivers[0].entries(), []);
    it.drivers[0].handle([RaftEvent::Truncated(7)]);
    it.propose(1, 5);
    it.tick(1, 3);
    assert_eq!(it.drivers[0].entries().len(), 5);
    assert!(it.committed[1].iter().map(|entry| entry.index).eq(1..=41));
    // The followers lead with it, too.
    it.tick(2, 5 * ELECTION_TICKS);
    it.propose(2, 1);
    it.tick(2, 3);
    assert_eq!(
        it.drivers[0].entries().last(),
        it.drivers[2].entries().last()
    );
}

/// It is reported now and then, and causes neither a panic nor a storm of messages.
#[test]
fn a_node_behind_the_truncated_log_is_reported() {
    let mut it = Cluster::new(vec![
        driver(1, restored(20, 30)),
        driver(2, restored(25, 30)),
        driver(3, restored(0, 5)),
    ]);
    it.tick(1, 3 * ELECTION_TICKS);
    it.propose(1, 5);
    assert!(it.needs.iter().all(|node| *node == NodeId::first(3)));
    assert!(!it.needs.is_empty());
    let (needs, messages) = (it.needs.len(), it.messages);
    it.tick(1, 10 * ELECTION_TICKS);
    let reports = it.needs.len() - needs;
    assert!((5..=11).contains(&reports), "{reports}");
    assert!(it.messages - messages < 1000, "{}", it.messages - messages);
    // The others go on meanwhile.
    assert_eq!(it.committed[1].last().map(|entry| entry.index), Some(36));
    assert!(it.drivers[2].entries().len() <= 5);
    // With an image at entry 35, it takes part.
    it.drivers[2] = driver(
        3,
        RestoredRaft {
            term: 2,
            snapshot: LogPosition { index: 35, term: 2 },
            ..restored(35, 35)
        },
    );
    it.committed[2].clear();
    it.needs.clear();
    it.tick(1, 3 * ELECTION_TICKS);
    assert_eq!(it.needs, []);
    it.propose(1, 1);
    it.tick(1, 3);
    assert!(it.committed[2].iter().map(|entry| entry.index).eq(36..=37));
}

#[test]
fn the_members_of_a_snapshot_are_those_of_the_driver() {
    let mut members = Membership::new(&[1, 2, 3].map(NodeId::first));
    members.apply(&MembershipChange::Replace {
        lost: NodeId::first(3),
        replacement: NodeId::new(3, 2),
    });
    let with = |bytes| RestoredRaft {
        members: bytes,
        ..restored(20, 22)
    };
    let it = driver(1, with(members.encode()));
    assert_eq!(it.membership(), &members);
    let options = options(NodeId::first(1), FaultInjection::default());
    let spoiled = with(b"nonsense"[..].into());
    assert!(RaftDriver::new(&options, spoiled, Arc::new(NoPayloads)).is_err());
}

/// The fault that the one offset type prevents: entries are off by one.
#[test]
#[should_panic(expected = "error when getting the last term")]
fn an_offset_from_the_snapshot_is_noticed() {
    let planted = FaultInjection::of(Some(Fault::OffsetFromSnapshot));
    let options = options(NodeId::first(1), planted);
    let faulty = RaftDriver::new(&options, restored(20, 30), Arc::new(NoPayloads));
    assert_ne!(faulty.unwrap().entry(25), Some(entry(25, 1)));
}
