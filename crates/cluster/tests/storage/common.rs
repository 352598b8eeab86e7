//! Shared helpers of these tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use namiki_cluster::storage::{
    LogPosition, NodeIdentity, NodeStore, RaftRecord, Recovered, Snapshot, StoreError,
    StoreOptions, Truncated,
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
    create_of(sim, &[1, 2, 3]);
}

/// Creates the node of a cluster that begins with these.
pub(crate) fn create_of(sim: &SimDisk, founders: &[u64]) {
    let founders: Vec<NodeId> = founders.iter().copied().map(NodeId::first).collect();
    NodeStore::create(Arc::new(sim.clone()), dir(), &IDENTITY, &founders).unwrap();
}

/// Opens the node behind its image.
pub(crate) fn try_open(sim: &SimDisk) -> Result<(NodeStore, Recovered), StoreError> {
    try_open_with(sim, options())
}

/// The same, with these options.
pub(crate) fn try_open_with(
    sim: &SimDisk,
    options: StoreOptions,
) -> Result<(NodeStore, Recovered), StoreError> {
    let options = StoreOptions {
        snapshot: image(sim),
        ..options
    };
    NodeStore::open(Arc::new(sim.clone()) as Arc<dyn Disk>, dir(), options)
}

fn image_path() -> &'static Path {
    Path::new("/image")
}

/// What the durable image contains: a file beside the node's directory stands for it.
pub(crate) fn image(sim: &SimDisk) -> Snapshot {
    let Ok(bytes) = sim.read(image_path()) else {
        return Snapshot::default();
    };
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    snapshot(number(0), number(8))
}

/// Makes an image durable.
pub(crate) fn write_image(sim: &SimDisk, snapshot: &Snapshot) {
    let LogPosition { index, term } = snapshot.position;
    let bytes = [index.to_le_bytes(), term.to_le_bytes()].concat();
    sim.replace(image_path(), &bytes).unwrap();
}

pub(crate) fn snapshot(index: u64, term: u64) -> Snapshot {
    Snapshot {
        position: LogPosition { index, term },
        members: Bytes::from(format!("members at {index}")),
    }
}

/// Truncates the log behind a new image.
pub(crate) fn truncate(sim: &SimDisk, store: &NodeStore, (index, term): (u64, u64)) -> Truncated {
    write_image(sim, &snapshot(index, term));
    store.truncate_to(&snapshot(index, term)).unwrap()
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

/// The log files of a stream, in order.
pub(crate) fn log_files(sim: &SimDisk, stream: u16) -> Vec<PathBuf> {
    let files = sim.list(&dir().join(format!("log/{stream:04}"))).unwrap();
    files.into_iter().map(|file| file.path).collect()
}
