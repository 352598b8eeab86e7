//! Shared helpers of these tests.

use std::path::Path;
use std::sync::Arc;

use namiki_cluster::storage::{
    NodeIdentity, NodeStore, RaftRecord, Recovered, StoreError, StoreOptions,
};
use namiki_cluster::{EntryBody, LogEntry, NodeId, PayloadName, PayloadRef};
use namiki_log::Prepare;
use namiki_platform::disk::{Disk, SimDisk};

pub(crate) const WORKERS: u16 = 2;

pub(crate) const IDENTITY: NodeIdentity = NodeIdentity {
    cluster: 0x1234_5678,
    node: NodeId::first(2),
    workers: WORKERS,
};

pub(crate) fn dir() -> &'static Path {
    Path::new("/node")
}

/// Small files and buffers, no threads.
pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        log_file_bytes: 16 << 10,
        buffer_bytes: 4096,
        prepare: Prepare::Inline,
        max_log_bytes: None,
        ..StoreOptions::default()
    }
}

pub(crate) fn create(sim: &SimDisk) {
    let voters = [NodeId::first(1), NodeId::first(2), NodeId::first(3)];
    NodeStore::create(Arc::new(sim.clone()), dir(), &IDENTITY, &voters).unwrap();
}

pub(crate) fn try_open(sim: &SimDisk) -> Result<(NodeStore, Recovered), StoreError> {
    NodeStore::open(Arc::new(sim.clone()) as Arc<dyn Disk>, dir(), options())
}

pub(crate) fn open(sim: &SimDisk) -> (NodeStore, Recovered) {
    try_open(sim).unwrap()
}

/// A new node, open.
pub(crate) fn new_node() -> (SimDisk, NodeStore) {
    let sim = SimDisk::new();
    create(&sim);
    let (store, _) = open(&sim);
    (sim, store)
}

/// The bytes of a payload, which its name determines; from nothing to a few sectors of them.
pub(crate) fn bytes_of(name: PayloadName) -> Vec<u8> {
    let seed = name.term * 1_000_003 + u64::from(name.worker) * 10_007 + name.number;
    let length = seed * 37 % 1500;
    (0..length).map(|at| (seed * 31 + at * 7) as u8).collect()
}

/// The payload of that name.
pub(crate) fn payload(term: u64, worker: u16, number: u64) -> PayloadRef {
    let name = PayloadName {
        term,
        worker,
        number,
    };
    PayloadRef::of(name, &bytes_of(name))
}

pub(crate) fn group(index: u64, term: u64, payload: PayloadRef) -> LogEntry {
    LogEntry {
        index,
        term,
        body: EntryBody::Group(payload),
    }
}

pub(crate) fn empty(index: u64, term: u64) -> LogEntry {
    LogEntry {
        index,
        term,
        body: EntryBody::Empty,
    }
}

pub(crate) fn append_payload(store: &NodeStore, payload: &PayloadRef) -> Result<(), StoreError> {
    store.append_payload(payload, &bytes_of(payload.name))
}

pub(crate) fn append(store: &NodeStore, entries: &[LogEntry]) {
    let records: Vec<_> = entries.iter().cloned().map(RaftRecord::Entry).collect();
    store.append_raft(&records).unwrap();
}
