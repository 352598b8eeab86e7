//! Failures other than power failures: disk errors, full disks, and damage.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_cluster::storage::{NodeStore, RaftRecord, StoreError, StoreOptions};
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk};

use crate::common::*;
use crate::model::Found;

/// Appends and flushes in both orders, until the disk fails.
fn write_something(store: &NodeStore) -> Result<(), StoreError> {
    let payloads = [payload(1, 0, 1), payload(1, 1, 1), payload(1, 0, 2)];
    store.append_raft(&[RaftRecord::Vote { term: 1, vote: 1 }])?;
    store.flush_raft()?;
    append_payload(store, &payloads[0])?;
    store.flush_payloads(0)?;
    let entries = [empty(1, 1), group(2, 1, payloads[0])];
    store.append_raft(&entries.map(RaftRecord::Entry))?;
    store.flush_raft()?;
    append_payload(store, &payloads[1])?;
    append_payload(store, &payloads[2])?;
    let entries = [group(3, 1, payloads[1]), group(4, 1, payloads[2])];
    store.append_raft(&entries.map(RaftRecord::Entry))?;
    store.append_raft(&[RaftRecord::Commit { index: 4 }])?;
    store.flush_raft()?;
    store.flush_payloads(1)?;
    store.flush_payloads(0)?;
    store.append_raft(&[RaftRecord::Persisted { index: 4 }])?;
    store.append_raft(&[RaftRecord::Vote { term: 2, vote: 3 }])?;
    store.flush_raft()
}

/// A write that the disk reports as failed may be readable, and not durable. The process ends, and the next one shows
/// what it reads; then the power goes.
#[test]
fn what_a_restart_has_shown_survives_a_power_cut() {
    let (mut shown, mut failed) = (0, 0);
    for number in 0.. {
        let mut met = false;
        for seed in 0..12 {
            let (sim, store) = new_node();
            sim.inject(Fault::once(Step::Write, number, ErrorKind::Other).torn(seed));
            let written = write_something(&store);
            drop(store);
            sim.heal();
            let (store, recovered) = open(&sim);
            let found = Found::from(&recovered);
            drop(store);
            match written {
                Ok(()) => assert_eq!(found.entries.len(), 4),
                Err(_) => {
                    met = true;
                    failed += 1;
                    shown += u32::from(found.term == 2);
                }
            }
            for loss in [Loss::All, Loss::None, Loss::Seeded(seed)] {
                let image = sim.crash_image(sim.events(), loss);
                let (store, recovered) = open(&image);
                assert_eq!(Found::from(&recovered), found, "{number} {seed} {loss:?}");
                assert_eq!(recovered.missing, []);
                for entry in &recovered.entries {
                    if let namiki_cluster::EntryBody::Group(payload) = entry.body {
                        let read = store.read_payload(payload.name).unwrap();
                        assert_eq!(read, bytes_of(payload.name));
                    }
                }
            }
        }
        if !met {
            break;
        }
    }
    assert!(shown > 0 && failed > 50, "{shown} of {failed}");
}

#[test]
fn a_failed_opening_loses_nothing() {
    let (sim, store) = new_node();
    write_something(&store).unwrap();
    // The payload of 6 never comes, so the opening has to cut.
    let lost = payload(1, 1, 9);
    append(&store, &[empty(5, 2), group(6, 2, lost), empty(7, 2)]);
    store.flush_raft().unwrap();
    drop(store);
    let expected = Found::from(&open(&sim.crash_image(sim.events(), Loss::All)).1);
    assert_eq!(expected.entries.len(), 5);
    let steps = [
        Step::Write,
        Step::Create,
        Step::SyncDir,
        Step::Rename,
        Step::Read,
    ];
    let mut failures = 0;
    for step in steps {
        for number in 0..40 {
            let sim = sim.crash_image(sim.events(), Loss::All);
            sim.inject(Fault::once(step, number, ErrorKind::Other).torn(number));
            let opened = try_open(&sim);
            sim.heal();
            let Err(error) = opened else {
                // The failure did no harm, or did not occur.
                let found = Found::from(&opened.unwrap().1);
                assert_eq!(found, expected);
                continue;
            };
            failures += 1;
            let message = error.to_string();
            assert!(message.contains("/node"), "{message}");
            for loss in [Loss::All, Loss::None] {
                let image = sim.crash_image(sim.events(), loss);
                assert_eq!(Found::from(&open(&image).1), expected, "{step:?} {number}");
            }
            assert_eq!(Found::from(&open(&sim).1), expected, "{step:?} {number}");
        }
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn a_failed_write_ends_appends_and_not_reads() {
    let (sim, store) = new_node();
    write_something(&store).unwrap();
    sim.fail_after(0, ErrorKind::Other);
    append(&store, &[empty(5, 2)]);
    let failed = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::FailedLog { .. })));
    };
    failed(store.flush_raft());
    sim.heal();
    failed(store.flush_raft());
    failed(store.append_raft(&[RaftRecord::Commit { index: 5 }]));
    failed(append_payload(&store, &payload(2, 0, 1)));
    let read = store.read_payload(payload(1, 0, 1).name).unwrap();
    assert_eq!(read, bytes_of(payload(1, 0, 1).name));
    failed(store.close());
    assert_eq!(open(&sim).1.entries.len(), 4);
}

/// Appends payloads until one is refused.
fn fill(store: &NodeStore) -> (u64, StoreError) {
    for number in 1.. {
        if let Err(error) = append_payload(store, &payload(7, 0, number)) {
            assert_eq!(store.payload(payload(7, 0, number).name), None);
            return (number, error);
        }
        store.flush_payloads(0).unwrap();
    }
    unreachable!("a disk has no end")
}

#[test]
fn a_full_disk_refuses_appends_until_it_has_space() {
    let (sim, store) = new_node();
    write_something(&store).unwrap();
    sim.set_capacity(Some(store.log_bytes() + (40 << 10)));
    let (refused, error) = fill(&store);
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("/node/log/0001"), "{error}");
    // Existing data can be read, and data with a reserved place can be written.
    let read = store.read_payload(payload(7, 0, refused - 1).name).unwrap();
    assert_eq!(read, bytes_of(payload(7, 0, refused - 1).name));
    append(&store, &[empty(5, 2)]);
    store.flush_raft().unwrap();
    // Raft's records, too, are refused as a whole.
    let entries: Vec<_> = (6..100)
        .map(|index| RaftRecord::Entry(empty(index, 2)))
        .collect();
    let mut last = 5;
    while store.append_raft(&entries[..20]).is_ok() {
        store.flush_raft().unwrap();
        last = 25;
    }
    sim.set_capacity(None);
    append_payload(&store, &payload(7, 0, refused)).unwrap();
    store.flush_payloads(0).unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!(found.entries.len(), last);
    for number in 1..=refused {
        let name = payload(7, 0, number).name;
        assert_eq!(store.read_payload(name).unwrap(), bytes_of(name));
    }
}

#[test]
fn the_log_stays_within_its_limit() {
    let sim = SimDisk::new();
    create(&sim);
    let limit = 100 << 10;
    let options = StoreOptions {
        max_log_bytes: Some(limit),
        ..options()
    };
    let open = || NodeStore::open(Arc::new(sim.clone()), dir(), options.clone()).unwrap();
    let (store, _) = open();
    write_something(&store).unwrap();
    let (refused, error) = fill(&store);
    let StoreError::LogFull {
        bytes, bytes_max, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((bytes, bytes_max), (store.log_bytes(), limit));
    assert!(store.log_bytes() <= limit);
    let read = store.read_payload(payload(7, 0, refused - 1).name).unwrap();
    assert_eq!(read, bytes_of(payload(7, 0, refused - 1).name));
    store.close().unwrap();
    // Raft's own records have room.
    let (store, found) = open();
    assert_eq!(found.entries.len(), 4);
    assert_eq!(store.log_bytes(), bytes);
    append(&store, &[empty(5, 2)]);
    store.flush_raft().unwrap();
    let (refused_again, error) = fill(&store);
    assert_eq!(refused_again, refused);
    assert!(matches!(error, StoreError::LogFull { .. }));
}

/// The log files of a stream, in order.
fn log_files(sim: &SimDisk, stream: u16) -> Vec<PathBuf> {
    let files = sim.list(&dir().join(format!("log/{stream:04}"))).unwrap();
    files.into_iter().map(|file| file.path).collect()
}

/// Where in a file these bytes are.
fn find(sim: &SimDisk, path: &Path, bytes: &[u8]) -> u64 {
    let file = sim.read(path).unwrap();
    let found = file.windows(bytes.len()).position(|window| window == bytes);
    found.unwrap() as u64
}

#[test]
fn a_persisted_payload_that_is_lost_is_listed_as_missing() {
    let (sim, store) = new_node();
    write_something(&store).unwrap();
    let unpersisted = payload(2, 1, 1);
    append(&store, &[group(5, 2, unpersisted), empty(6, 2)]);
    store.flush_raft().unwrap();
    drop(store);
    // The last frame of worker 0 looks torn.
    let lost = payload(1, 0, 2);
    let path = log_files(&sim, 1).pop().unwrap();
    let at = find(&sim, &path, &bytes_of(lost.name));
    sim.flip(&path, at + 5, 0xee).unwrap();
    for _ in 0..3 {
        let (_, found) = open(&sim);
        assert_eq!(found.missing, [lost]);
        // All persisted data exists, and no incomplete data above it.
        assert_eq!((found.entries.len(), found.persisted), (4, 4));
        assert_eq!((found.term, found.vote, found.commit), (2, 3, 4));
    }
    let (store, _) = open(&sim);
    assert_eq!(store.payload(lost.name), None);
    append_payload(&store, &lost).unwrap();
    store.flush_payloads(0).unwrap();
    drop(store);
    let (store, found) = open(&sim);
    assert_eq!((found.missing.len(), found.entries.len()), (0, 4));
    assert_eq!(store.read_payload(lost.name).unwrap(), bytes_of(lost.name));
}

#[test]
fn damage_before_intact_frames_is_refused() {
    for stream in [0, 1] {
        let (sim, store) = new_node();
        write_something(&store).unwrap();
        drop(store);
        let path = log_files(&sim, stream).remove(0);
        // The first frame is behind the header's block.
        sim.flip(&path, 512 + 80, 0xee).unwrap();
        let error = try_open(&sim).unwrap_err();
        let StoreError::UnreadableLog { source, .. } = &error else {
            panic!("{error}");
        };
        let file = path.display().to_string();
        assert!(source.to_string().contains(&file), "{source}");
        assert!(error.to_string().contains("replace the node"), "{error}");
    }
}

#[test]
fn a_payload_damaged_on_the_disk_is_not_given_out() {
    let (sim, store) = new_node();
    write_something(&store).unwrap();
    let name = payload(1, 0, 1).name;
    let path = log_files(&sim, 1).remove(0);
    let at = find(&sim, &path, &bytes_of(name));
    sim.flip(&path, at, 0xff).unwrap();
    let damaged = store.read_payload(name);
    let Err(StoreError::DamagedPayload {
        path: named,
        offset_bytes,
        ..
    }) = damaged
    else {
        panic!("{damaged:?}");
    };
    assert_eq!((named, offset_bytes), (path, at));
    sim.inject(Fault::once(Step::Read, 0, ErrorKind::Other));
    let other = payload(1, 0, 2).name;
    let failed = store.read_payload(other);
    assert!(matches!(failed, Err(StoreError::Device { .. })));
    assert_eq!(store.read_payload(other).unwrap(), bytes_of(other));
}
