//! Flushed records and payloads are found again.

use bytes::Bytes;
use namiki_cluster::storage::{RaftRecord, StoreError};
use namiki_cluster::{EntryBody, LogEntry, NodeId};
use namiki_platform::disk::sim::Loss;

use crate::common::*;

#[test]
fn a_new_node_has_its_identity_and_nothing_else() {
    let (sim, store) = new_node();
    assert_eq!(store.identity(), IDENTITY);
    store.close().unwrap();
    let (_, found) = open(&sim);
    assert_eq!(found.identity, IDENTITY);
    assert_eq!(
        found.founders,
        [NodeId::first(1), NodeId::first(2), NodeId::first(3)]
    );
    assert_eq!((found.term, found.vote, found.commit), (0, 0, 0));
    assert!(found.entries.is_empty() && found.missing.is_empty());
}

#[test]
fn entries_of_all_kinds_and_payloads_are_found_again() {
    for closes in [true, false] {
        let (sim, store) = new_node();
        let payloads = [payload(1, 0, 1), payload(1, 1, 1), payload(1, 0, 2)];
        let entries = [
            empty(1, 1),
            group(2, 1, payloads[1]),
            group(3, 1, payloads[0]),
            LogEntry {
                index: 4,
                term: 1,
                body: EntryBody::Membership(Bytes::from_static(b"three")),
            },
            group(5, 1, payloads[2]),
            LogEntry {
                index: 6,
                term: 1,
                body: EntryBody::Control(Bytes::from_static(b"a table")),
            },
        ];
        store
            .append_raft(&[RaftRecord::Vote { term: 1, vote: 2 }])
            .unwrap();
        append(&store, &entries);
        store
            .append_raft(&[RaftRecord::Commit { index: 4 }])
            .unwrap();
        for payload in &payloads {
            append_payload(&store, payload).unwrap();
            assert_eq!(store.payload(payload.name), Some(*payload));
        }
        let unread = store.read_payload(payloads[0].name);
        assert!(matches!(unread, Err(StoreError::NotDurable { .. })));
        store.flush_raft().unwrap();
        for worker in 0..WORKERS {
            store.flush_payloads(worker).unwrap();
        }
        let check = |store: &namiki_cluster::storage::NodeStore| {
            for payload in &payloads {
                let read = store.read_payload(payload.name).unwrap();
                assert_eq!(read, bytes_of(payload.name));
            }
        };
        check(&store);
        if closes {
            store.close().unwrap();
            check(&store);
        }
        drop(store);
        let sim = sim.crash_image(sim.events(), Loss::All);
        for _ in 0..2 {
            let (store, found) = open(&sim);
            assert_eq!((found.term, found.vote, found.commit), (1, 2, 4));
            assert_eq!(found.entries, entries);
            assert!(found.missing.is_empty());
            check(&store);
        }
    }
}

#[test]
fn a_payload_appended_twice_is_written_once() {
    let (_, store) = new_node();
    let payload = payload(1, 0, 1);
    append_payload(&store, &payload).unwrap();
    append_payload(&store, &payload).unwrap();
    store.flush_payloads(0).unwrap();
    let first = store.read_payload(payload.name).unwrap();
    append_payload(&store, &payload).unwrap();
    store.flush_payloads(0).unwrap();
    assert_eq!(store.read_payload(payload.name).unwrap(), first);
    let (mut written, bytes) = (0, first.len());
    for _ in 0..1000 {
        append_payload(&store, &payload).unwrap();
        written += bytes;
    }
    assert!(written as u64 > 2 * store.log_bytes());
}

#[test]
fn an_entry_voids_those_above_it_and_a_truncation_does() {
    let (sim, store) = new_node();
    append(&store, &[1, 2, 3, 4, 5].map(|index| empty(index, 1)));
    store
        .append_raft(&[RaftRecord::Persisted { index: 5 }])
        .unwrap();
    append(&store, &[empty(3, 2)]);
    store.flush_raft().unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries, [empty(1, 1), empty(2, 1), empty(3, 2)]);
    assert_eq!(found.persisted, 2);
    store
        .append_raft(&[
            RaftRecord::Persisted { index: 3 },
            RaftRecord::Commit { index: 9 },
            RaftRecord::Truncate { from: 2 },
        ])
        .unwrap();
    append(&store, &[empty(2, 3)]);
    store.flush_raft().unwrap();
    drop(store);
    let (_, found) = open(&sim);
    assert_eq!(found.entries, [empty(1, 1), empty(2, 3)]);
    assert_eq!((found.persisted, found.commit), (1, 1));
}

#[test]
fn an_entry_without_its_payload_ends_the_log() {
    let (sim, store) = new_node();
    let payloads = [payload(1, 0, 1), payload(1, 1, 1)];
    append(
        &store,
        &[
            group(1, 1, payloads[0]),
            group(2, 1, payloads[1]),
            empty(3, 1),
        ],
    );
    store
        .append_raft(&[RaftRecord::Commit { index: 3 }])
        .unwrap();
    append_payload(&store, &payloads[0]).unwrap();
    store.flush_payloads(0).unwrap();
    store.flush_raft().unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries, [group(1, 1, payloads[0])]);
    assert_eq!(found.commit, 1);
    // A payload that arrives later does not restore entries that were cut off.
    append_payload(&store, &payloads[1]).unwrap();
    store.flush_payloads(1).unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries, [group(1, 1, payloads[0])]);
    assert_eq!(store.payload(payloads[1].name), Some(payloads[1]));
}

#[test]
fn a_payload_with_another_digest_counts_as_missing() {
    let (sim, store) = new_node();
    let wanted = payload(1, 0, 1);
    let other = namiki_cluster::PayloadRef::of(wanted.name, b"something else");
    append(&store, &[empty(1, 1), group(2, 1, wanted)]);
    store.append_payload(&other, b"something else").unwrap();
    store.flush_payloads(0).unwrap();
    store.flush_raft().unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries, [empty(1, 1)]);
    append(&store, &[group(2, 1, wanted)]);
    append_payload(&store, &wanted).unwrap();
    store.flush_payloads(0).unwrap();
    store.flush_raft().unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries.len(), 2);
    let read = store.read_payload(wanted.name).unwrap();
    assert_eq!(read, bytes_of(wanted.name));
}

#[test]
fn payloads_and_records_longer_than_a_buffer_are_refused() {
    let (sim, store) = new_node();
    let bytes = vec![7; store.payload_bytes_max() + 1];
    let name = payload(1, 0, 1).name;
    let too_long = store.append_payload(&namiki_cluster::PayloadRef::of(name, &bytes), &bytes);
    assert!(matches!(too_long, Err(StoreError::TooLong { .. })));
    let bytes = &bytes[1..];
    let longest = namiki_cluster::PayloadRef::of(name, bytes);
    store.append_payload(&longest, bytes).unwrap();
    store.flush_payloads(0).unwrap();
    let control = LogEntry {
        index: 1,
        term: 1,
        body: EntryBody::Control(vec![1; 5000].into()),
    };
    let refused = store.append_raft(&[RaftRecord::Entry(control)]);
    assert!(matches!(refused, Err(StoreError::TooLong { .. })));
    // Many short ones are accepted.
    let entries: Vec<_> = (1..=1000).map(|index| empty(index, 1)).collect();
    append(&store, &entries);
    store.flush_raft().unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries, entries);
    assert_eq!(store.read_payload(name).unwrap(), bytes);
}

#[test]
fn the_records_of_a_call_are_durable_together_or_not() {
    let (sim, store) = new_node();
    // The buffer becomes full again and again in the middle of a call.
    for call in 0..50 {
        let entries: Vec<_> = (1..=21).map(|nth| empty(call * 21 + nth, 1)).collect();
        append(&store, &entries);
    }
    drop(store);
    let found = open(&sim).1.entries.len();
    assert!(found > 200 && found < 1050, "{found}");
    assert_eq!(found % 21, 0);
}
