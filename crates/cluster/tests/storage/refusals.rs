//! Refused calls, with their errors.

use std::path::Path;
use std::sync::Arc;

use namiki_cluster::NodeId;
use namiki_cluster::storage::{NodeIdentity, NodeStore, StoreError, StoreOptions};
use namiki_platform::disk::{Disk, SimDisk, SyncedDisk};

use crate::common::*;

#[test]
fn an_empty_or_missing_directory_is_not_opened() {
    let sim = SimDisk::new();
    assert!(matches!(try_open(&sim), Err(StoreError::Empty { .. })));
    sim.create_dir_all(dir()).unwrap();
    let error = try_open(&sim).unwrap_err();
    assert!(matches!(error, StoreError::Empty { .. }));
    assert!(error.to_string().contains("never starts as a voter"));
}

#[test]
fn a_directory_that_holds_something_is_not_created() {
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let home = tempfile::tempdir().unwrap();
    let new = |name: &str| {
        let dir = home.path().join(name);
        NodeStore::create(Arc::clone(&disk), &dir, &IDENTITY, &[])
    };
    new("node").unwrap();
    assert!(matches!(new("node"), Err(StoreError::NotEmpty { .. })));
    std::fs::create_dir_all(home.path().join("other/log")).unwrap();
    assert!(matches!(new("other"), Err(StoreError::NotEmpty { .. })));
    // Nothing was left in it.
    assert!(!home.path().join("other/LOCK").exists());
    std::fs::create_dir_all(home.path().join("root/lost+found")).unwrap();
    new("root").unwrap();
    let options = || StoreOptions {
        log_file_bytes: 64 << 10,
        buffer_bytes: 4096,
        ..StoreOptions::default()
    };
    let open = || NodeStore::open(Arc::clone(&disk), &home.path().join("node"), options());
    let (store, _) = open().unwrap();
    assert!(matches!(open(), Err(StoreError::InUse { .. })));
    append_payload(&store, &payload(1, 1, 1)).unwrap();
    store.close().unwrap();
    let (store, _) = open().unwrap();
    let read = store.read_payload(payload(1, 1, 1).name).unwrap();
    assert_eq!(read, bytes_of(payload(1, 1, 1).name));
}

#[test]
fn a_directory_of_another_node_is_recognised() {
    let (sim, store) = new_node();
    drop(store);
    let check =
        |cluster, node| NodeStore::check_identity(&sim, dir(), cluster, NodeId::first(node));
    assert_eq!(check(IDENTITY.cluster, 2).unwrap(), IDENTITY);
    for (cluster, node) in [(IDENTITY.cluster, 3), (1, 2)] {
        let wrong = check(cluster, node);
        assert!(matches!(wrong, Err(StoreError::WrongNode { .. })));
    }
    let nowhere = NodeStore::check_identity(&sim, Path::new("/elsewhere"), 1, NodeId::first(1));
    assert!(matches!(nowhere, Err(StoreError::Empty { .. })));
}

#[test]
fn a_log_without_its_manifest_is_damage() {
    let (sim, store) = new_node();
    append(&store, &[empty(1, 1)]);
    store.flush_raft().unwrap();
    drop(store);
    sim.remove(&dir().join("NODE")).unwrap();
    let damaged = |error| matches!(error, StoreError::DamagedManifest { .. });
    assert!(damaged(try_open(&sim).unwrap_err()));
    let again = NodeStore::create(Arc::new(sim), dir(), &IDENTITY, &[]);
    assert!(matches!(again, Err(StoreError::NotEmpty { .. })));
}

#[test]
fn a_log_of_an_earlier_incarnation_is_refused() {
    let (sim, store) = new_node();
    append(&store, &[empty(1, 1)]);
    store.flush_raft().unwrap();
    drop(store);
    let other = SimDisk::new();
    let next = NodeIdentity {
        node: NodeId::new(2, 2),
        ..IDENTITY
    };
    NodeStore::create(Arc::new(other.clone()), dir(), &next, &[]).unwrap();
    let (store, _) = open(&other);
    append(&store, &[empty(1, 1)]);
    store.flush_raft().unwrap();
    drop(store);
    let path = dir().join("log/0000/000001-00000001.log");
    let bytes = sim.read(&path).unwrap();
    other.damage(&path, 0, &bytes).unwrap();
    let error = try_open(&other).unwrap_err();
    assert!(matches!(error, StoreError::UnreadableLog { .. }), "{error}");
}

#[test]
fn senseless_options_are_named() {
    let sim = SimDisk::new();
    create(&sim);
    let spoiled: [fn(&mut StoreOptions); 3] = [
        |it| it.log_file_bytes = 4 << 30,
        |it| it.log_file_bytes = 5000,
        |it| it.buffer_bytes = 16 << 10,
    ];
    for spoil in spoiled {
        let mut options = options();
        spoil(&mut options);
        let refused = NodeStore::open(Arc::new(sim.clone()), dir(), options);
        assert!(matches!(refused, Err(StoreError::InvalidOptions { .. })));
    }
    let none = NodeIdentity {
        workers: 0,
        ..IDENTITY
    };
    let refused = NodeStore::create(Arc::new(sim), Path::new("/n"), &none, &[]);
    assert!(matches!(refused, Err(StoreError::InvalidOptions { .. })));
}

#[test]
fn workers_and_payloads_that_never_were_are_named() {
    let (_, store) = new_node();
    let none = append_payload(&store, &payload(1, WORKERS, 1));
    assert!(matches!(
        none,
        Err(StoreError::NoSuchWorker {
            worker: 2,
            workers: 2
        })
    ));
    let none = store.flush_payloads(WORKERS);
    assert!(matches!(none, Err(StoreError::NoSuchWorker { .. })));
    let name = payload(1, 0, 1).name;
    assert_eq!(store.payload(name), None);
    let none = store.read_payload(name);
    assert!(matches!(none, Err(StoreError::NoSuchPayload { .. })));
    store.close().unwrap();
    store.close().unwrap();
    let closed = append_payload(&store, &payload(1, 0, 1));
    assert!(matches!(closed, Err(StoreError::Closed { .. })));
}
