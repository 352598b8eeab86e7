//! Lost data under Raft (decision 0084): payloads that are missing or become damaged, and nodes without tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::Role;
use parking_lot::Mutex;
use raft::eraftpb::{Entry, Message, MessageType};

use super::driver::{RaftDriver, RestoredRaft, TIMEOUTS_BEHIND};
use super::entry_codec::to_raft;
use super::events_and_effects::{RaftEffect, RaftEvent};
use super::lost_data::HELD_TIMEOUTS;
use super::message_codec::{Starts, encode};
use super::payloads_here::DurablePayloads;
use super::test_options::{ELECTION_TICKS, options};
use crate::entry::{ENTRY_VERSION, EntryBody, LogEntry, PayloadName, PayloadRef};
use crate::fault_injection::FaultInjection;
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

/// The durable payloads.
#[derive(Default)]
struct Disk(Mutex<BTreeSet<PayloadName>>);

impl DurablePayloads for Disk {
    fn durable(&self, name: PayloadName) -> Option<PayloadRef> {
        self.0.lock().contains(&name).then(|| payload(name.number))
    }
}

fn payload(number: u64) -> PayloadRef {
    let name = PayloadName {
        term: 1,
        worker: 0,
        number,
    };
    PayloadRef::of(name, &number.to_le_bytes())
}

/// A driver with a log of ten groups, and its disk, which has their payloads but for these.
fn driver(node: u64, lost: &[u64], tables_lost: bool) -> (RaftDriver, Arc<Disk>) {
    driver_of(3, node, lost, tables_lost)
}

/// The same, in a cluster that begins with this number of nodes.
fn driver_of(founders: u64, node: u64, lost: &[u64], tables_lost: bool) -> (RaftDriver, Arc<Disk>) {
    let disk = Arc::new(Disk::default());
    let entries = (1..=10).map(|index| LogEntry {
        index,
        term: 1,
        body: EntryBody::Group(payload(index)),
    });
    let here = (1..=10).filter(|number| !lost.contains(number));
    disk.0
        .lock()
        .extend(here.map(|number| payload(number).name));
    let restored = RestoredRaft {
        founders: (1..=founders).map(NodeId::first).collect(),
        term: 1,
        commit: 10,
        persisted: 10,
        entries: entries.collect(),
        missing: lost.iter().map(|number| payload(*number)).collect(),
        tables_lost,
        ..RestoredRaft::default()
    };
    let options = options(NodeId::first(node), FaultInjection::default());
    let durable = Arc::clone(&disk) as Arc<dyn DurablePayloads>;
    let driver = RaftDriver::new(&options, restored, durable).unwrap();
    (driver, disk)
}

/// Lets nodes 1 and up answer each other's starts, and nothing else.
fn answer_starts(drivers: &mut [RaftDriver]) {
    for _ in 0..10 {
        for at in 0..drivers.len() {
            for effect in drivers[at].take_effects() {
                match effect {
                    RaftEffect::Send(to, PeerMessage::Start(bytes)) => {
                        let from = NodeId::first(at as u64 + 1);
                        drivers[to.number() as usize - 1].handle([RaftEvent::Start(from, bytes)]);
                    }
                    RaftEffect::AppendRaft { batch, .. } => {
                        drivers[at].handle([RaftEvent::BatchDurable(batch)]);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A payload that is damaged while nothing happens must count as one that was persisted.
#[test]
fn an_idle_node_records_once_what_is_persisted() {
    let (mut driver, _) = driver_of(1, 1, &[], false);
    let mut recorded = Vec::new();
    for _ in 0..10 * ELECTION_TICKS {
        driver.handle([RaftEvent::Tick]);
        for effect in driver.take_effects() {
            if let RaftEffect::AppendRaft { batch, records } = effect {
                driver.handle([RaftEvent::BatchDurable(batch)]);
                recorded.extend(records);
            }
        }
    }
    let [.., RaftRecord::Entry(entry), commit, persisted] = &recorded[..] else {
        panic!("{recorded:?}");
    };
    assert_eq!((entry.index, &entry.body), (11, &EntryBody::Empty));
    assert_eq!(commit, &RaftRecord::Commit { index: 11 });
    assert_eq!(persisted, &RaftRecord::Persisted { index: 11 });
}

/// It acknowledges them, and later damage to their payloads must count as damage.
#[test]
fn a_start_records_that_what_it_finds_is_persisted() {
    let entry = |index| LogEntry {
        index,
        term: 1,
        body: EntryBody::Empty,
    };
    let restored = RestoredRaft {
        founders: (1..=3).map(NodeId::first).collect(),
        term: 1,
        commit: 5,
        persisted: 7,
        entries: (1..=10).map(entry).collect(),
        ..RestoredRaft::default()
    };
    let options = options(NodeId::first(1), FaultInjection::default());
    let mut driver = RaftDriver::new(&options, restored, Arc::new(Disk::default())).unwrap();
    let recorded: Vec<_> = (driver.take_effects().into_iter())
        .filter_map(|effect| match effect {
            RaftEffect::AppendRaft { records, .. } => Some(records),
            _ => None,
        })
        .collect();
    assert_eq!(recorded, [[RaftRecord::Persisted { index: 10 }]]);
}

/// The requests for images in some ticks, with the tick of each.
fn asks(driver: &mut RaftDriver, ticks: usize) -> Vec<(usize, NodeId, u64)> {
    let mut asked = Vec::new();
    for tick in 1..=ticks {
        driver.handle([RaftEvent::Tick]);
        for effect in driver.take_effects() {
            if let RaftEffect::AskForImage(node, through) = effect {
                asked.push((tick, node, through));
            }
        }
    }
    asked
}

fn restore(driver: &mut RaftDriver, disk: &Disk, number: u64) -> Vec<RaftEffect> {
    driver.handle([RaftEvent::PayloadReceived(payload(number))]);
    disk.0.lock().insert(payload(number).name);
    driver.handle([RaftEvent::PayloadsDurable(vec![payload(number)])]);
    driver.take_effects()
}

fn committed(effects: &[RaftEffect]) -> Vec<u64> {
    let committed = effects.iter().filter_map(|effect| match effect {
        RaftEffect::Committed(entries) => Some(entries.iter().map(|entry| entry.index)),
        _ => None,
    });
    committed.flatten().collect()
}

#[test]
fn an_image_is_asked_for_when_no_node_sends_payloads() {
    let (mut driver, disk) = driver(1, &[3, 7], false);
    let asked = asks(&mut driver, 4 * ELECTION_TICKS);
    let times: Vec<usize> = asked.iter().map(|(tick, ..)| *tick).collect();
    // The first tick notices what is missing.
    let expected: Vec<usize> = (2..=4).map(|it| it * ELECTION_TICKS).collect();
    assert_eq!(times, expected);
    let nodes: BTreeSet<NodeId> = asked.iter().map(|(_, node, _)| *node).collect();
    assert_eq!(nodes, [2, 3].map(NodeId::first).into());
    assert!(asked.iter().all(|(.., through)| *through == 7), "{asked:?}");
    // A payload that comes shows that the others still come, too.
    assert!(committed(&restore(&mut driver, &disk, 7)).is_empty());
    let asked = asks(&mut driver, 2 * ELECTION_TICKS);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].2, 3);
    let effects = restore(&mut driver, &disk, 3);
    assert_eq!(committed(&effects), (1..=10).collect::<Vec<_>>());
    assert_eq!(asks(&mut driver, 4 * ELECTION_TICKS), []);
}

/// Has a node receive an append of one entry behind its own.
fn append(driver: &mut RaftDriver, leader: NodeId, node: NodeId, entry: Entry) {
    let mut append = Message::default();
    append.set_msg_type(MessageType::MsgAppend);
    (append.from, append.to, append.term) = (leader.to_raft(), node.to_raft(), 1);
    (append.index, append.log_term) = (10, 1);
    append.entries = vec![entry].into();
    let starts = Starts {
        of: u64::MAX,
        to: driver.inquiry.own_start(),
    };
    driver.handle([RaftEvent::Message(leader, encode(starts, &append))]);
}

/// It neither takes nor acknowledges it.
#[test]
fn a_node_stops_at_an_entry_of_a_later_version() {
    let (leader, node) = (NodeId::first(1), NodeId::first(2));
    let control = EntryBody::Control(Bytes::from_static(b"of a later version"));
    for (version, stops) in [(ENTRY_VERSION, false), (ENTRY_VERSION + 1, true)] {
        let (mut driver, _) = driver(2, &[], false);
        let mut entry = to_raft(11, 1, &control);
        entry.data = [&[version], &entry.data[1..]].concat().into();
        driver.take_effects();
        append(&mut driver, leader, node, entry);
        let effects = driver.take_effects();
        let is_stop = |effect: &RaftEffect| matches!(effect, RaftEffect::LaterEntry { index: 11, version: it } if *it == version);
        let takes = |effect: &RaftEffect| matches!(effect, RaftEffect::AppendRaft { .. });
        assert_eq!(effects.iter().any(is_stop), stops);
        assert_eq!(effects.iter().any(takes), !stops);
    }
}

/// Two nodes may have lost a payload that the third had not got yet, and have it in their images.
#[test]
fn an_entry_without_its_payload_asks_for_an_image() {
    let (leader, node) = (NodeId::first(1), NodeId::first(2));
    let (mut driver, disk) = driver(2, &[], false);
    let entry = to_raft(11, 1, &EntryBody::Group(payload(11)));
    append(&mut driver, leader, node, entry);
    driver.take_effects();
    let asked = asks(&mut driver, (HELD_TIMEOUTS + 2) * ELECTION_TICKS);
    let expected = (HELD_TIMEOUTS * ELECTION_TICKS, leader, 11);
    assert_eq!((asked.len(), asked[0]), (3, expected), "{asked:?}");
    // The payload comes after all.
    restore(&mut driver, &disk, 11);
    assert_eq!(asks(&mut driver, 2 * HELD_TIMEOUTS * ELECTION_TICKS), []);
}

#[test]
fn a_damaged_payload_silences_the_node_until_it_is_back() {
    let (first, disk) = driver(1, &[], false);
    let mut drivers = [first, driver(2, &[], false).0, driver(3, &[], false).0];
    answer_starts(&mut drivers);
    let [mut driver, ..] = drivers;
    disk.0.lock().remove(&payload(4).name);
    driver.handle([RaftEvent::PayloadDamaged(payload(4))]);
    let wanted = vec![payload(4)];
    let is_request = |effect: &RaftEffect| matches!(effect, RaftEffect::Send(_, PeerMessage::FetchPayloads { payloads }) if *payloads == wanted);
    assert!(driver.take_effects().iter().any(is_request));
    for _ in 0..10 * ELECTION_TICKS {
        driver.handle([RaftEvent::Tick]);
    }
    let speaks = |effect: &RaftEffect| matches!(effect, RaftEffect::Send(_, PeerMessage::Raft(_)));
    assert!(!driver.take_effects().iter().any(speaks));
    let effects = restore(&mut driver, &disk, 4);
    let is_restored = |effect: &RaftEffect| matches!(effect, RaftEffect::PayloadsRestored);
    assert!(effects.iter().any(is_restored));
    for _ in 0..4 * ELECTION_TICKS {
        driver.handle([RaftEvent::Tick]);
    }
    assert!(driver.take_effects().iter().any(speaks));
}

/// No other node has the payload: it would be fetched for ever.
#[test]
fn the_only_node_stops_at_a_damaged_payload() {
    let is_lost = |effect: &RaftEffect| matches!(effect, RaftEffect::PayloadsLost { count: 1 });
    for founders in [1, 2] {
        let (mut driver, disk) = driver_of(founders, 1, &[], false);
        driver.handle([RaftEvent::PayloadDamaged(payload(4))]);
        assert!(!driver.take_effects().iter().any(is_lost), "it is there");
        disk.0.lock().remove(&payload(4).name);
        driver.handle([RaftEvent::PayloadDamaged(payload(4))]);
        let effects = driver.take_effects();
        assert_eq!(effects.iter().any(is_lost), founders == 1, "{founders}");
    }
}

#[test]
fn a_node_without_tables_votes_and_does_not_lead() {
    let (mut lost, _) = driver(1, &[], true);
    let (other, _) = driver(2, &[], false);
    let asked = asks(&mut lost, 30 * ELECTION_TICKS);
    // At once, and as long as it lasts.
    assert_eq!(asked[0], (ELECTION_TICKS, NodeId::first(2), 0));
    assert_eq!(asked.len(), 30);
    let mut nodes = [lost, other];
    let mut leads = false;
    let mut handed_out = [Vec::new(), Vec::new()];
    // The third node does not answer, so both wait for it when they start.
    for step in 0..200 * ELECTION_TICKS {
        if step.is_multiple_of(6) {
            nodes[0].handle([RaftEvent::Tick]);
            nodes[1].handle([RaftEvent::Tick]);
        }
        for at in [0, 1] {
            let effects = nodes[at].take_effects();
            handed_out[at].extend(committed(&effects));
            for effect in effects {
                match effect {
                    RaftEffect::Send(to, PeerMessage::Raft(bytes)) if to.number() < 3 => {
                        let message = RaftEvent::Message(NodeId::first(at as u64 + 1), bytes);
                        nodes[1 - at].handle([message]);
                    }
                    RaftEffect::Send(to, PeerMessage::Start(bytes)) if to.number() < 3 => {
                        let message = RaftEvent::Start(NodeId::first(at as u64 + 1), bytes);
                        nodes[1 - at].handle([message]);
                    }
                    RaftEffect::AppendRaft { batch, .. } => {
                        nodes[at].handle([RaftEvent::BatchDurable(batch)]);
                    }
                    RaftEffect::Elected { .. } => leads |= at == 1,
                    _ => {}
                }
            }
        }
    }
    assert!(leads);
    // The entry that the first node has acknowledged is committed.
    assert_eq!(handed_out[1].last(), Some(&11));
    assert!(handed_out[0].is_empty());
}

/// The others wait for one timeout, and up to one more.
#[test]
fn a_node_that_loads_its_tables_waits_for_four_timeouts() {
    for is_loading in [true, false] {
        let mut drivers = [1, 2, 3].map(|node| driver(node, &[], false).0);
        answer_starts(&mut drivers);
        let [mut driver, ..] = drivers;
        driver.is_loading = is_loading;
        driver.take_effects();
        let asks = |effect: &RaftEffect| matches!(effect, RaftEffect::View(view) if view.role == Role::Candidate);
        let ticks = (1..=10 * ELECTION_TICKS).find(|_| {
            driver.handle([RaftEvent::Tick]);
            driver.take_effects().iter().any(asks)
        });
        let timeouts = ticks.unwrap() / ELECTION_TICKS;
        assert_eq!(timeouts, if is_loading { TIMEOUTS_BEHIND } else { 1 });
    }
}

#[test]
fn a_node_leads_once_its_tables_are_loaded() {
    let mut drivers = [1, 2, 3].map(|node| driver(node, &[], false).0);
    answer_starts(&mut drivers);
    let [mut driver, ..] = drivers;
    driver.is_loading = true;
    for _ in 0..2 * ELECTION_TICKS {
        driver.handle([RaftEvent::Tick]);
    }
    driver.handle([RaftEvent::TablesLoaded, RaftEvent::Tick]);
    let asks = |effect: &RaftEffect| matches!(effect, RaftEffect::View(view) if view.role == Role::Candidate);
    assert!(driver.take_effects().iter().any(asks));
}
