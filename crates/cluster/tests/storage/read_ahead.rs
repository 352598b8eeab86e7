//! Sequential reads of payloads, with readahead.

use std::io::ErrorKind;
use std::sync::Arc;

use namiki_cluster::storage::{NodeStore, ReadAhead, StoreOptions};
use namiki_cluster::{PayloadName, PayloadRef};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Step};

use crate::common::*;

fn write(store: &NodeStore, payloads: &[PayloadRef]) {
    for payload in payloads {
        append_payload(store, payload).unwrap();
    }
    store.flush_payloads(0).unwrap();
    store.flush_payloads(1).unwrap();
}

fn read(store: &NodeStore, name: PayloadName, ahead: &mut ReadAhead) {
    let bytes = store.read_payload_ahead(name, ahead).unwrap();
    assert_eq!(bytes, bytes_of(name), "{name:?}");
}

#[test]
fn payloads_in_their_order_are_read_together() {
    let sim = SimDisk::new();
    create(&sim);
    // Each worker's fit into one buffer, and so into one file.
    let options = StoreOptions {
        log_file_bytes: 64 << 10,
        buffer_bytes: 16 << 10,
        ..options()
    };
    let (store, _) = NodeStore::open(Arc::new(sim.clone()), dir(), options).unwrap();
    let payloads: Vec<_> = (1..=8)
        .flat_map(|number| [payload(1, 0, number), payload(1, 1, number)])
        .collect();
    write(&store, &payloads);
    let mut ahead = ReadAhead::default();
    for payload in &payloads[..4] {
        read(&store, payload.name, &mut ahead);
    }
    // Two of each worker were read, the second with all that follow.
    sim.inject(Fault::once(Step::Read, 0, ErrorKind::Other).and_ever_after());
    for payload in &payloads[4..] {
        read(&store, payload.name, &mut ahead);
    }
    let by_itself = store.read_payload(payloads[5].name);
    assert!(by_itself.is_err(), "the disk reads nothing more");
}

#[test]
fn what_was_written_after_reading_ahead_is_found() {
    let (_, store) = new_node();
    let mut ahead = ReadAhead::default();
    for number in 1..=60 {
        let payload = payload(1, 0, number);
        write(&store, &[payload]);
        read(&store, payload.name, &mut ahead);
    }
    for number in (1..=60).rev().chain(1..=60) {
        read(&store, payload(1, 0, number).name, &mut ahead);
    }
}

#[test]
fn what_cannot_be_read_ahead_does_not_matter() {
    let (sim, store) = new_node();
    let payloads: Vec<_> = (1..=3).map(|number| payload(1, 0, number)).collect();
    write(&store, &payloads);
    let mut ahead = ReadAhead::default();
    read(&store, payloads[0].name, &mut ahead);
    sim.inject(Fault::once(Step::Read, 0, ErrorKind::Other));
    read(&store, payloads[1].name, &mut ahead);
    read(&store, payloads[2].name, &mut ahead);
}
