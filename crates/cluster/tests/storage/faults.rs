//! Failures other than power failures: disk errors, full disks, and damage.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use namiki_cluster::storage::{NodeStore, RaftRecord, Recovered, StoreError, StoreOptions};
use namiki_cluster::{PayloadName, PayloadRef};
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

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

const PAYLOADS: u64 = 60;

/// Persisted entries with payloads of both workers, each in a frame of its own, in several log files. The last entry is not
/// recorded as persisted.
fn write_many(store: &NodeStore) -> Vec<PayloadRef> {
    let mut all = Vec::new();
    for number in 1..=PAYLOADS {
        let payload = payload(1, (number % 2) as u16, number);
        append_payload(store, &payload).unwrap();
        store.flush_payloads(payload.name.worker).unwrap();
        append(store, &[group(number, 1, payload)]);
        store.flush_raft().unwrap();
        all.push(payload);
    }
    let index = PAYLOADS - 1;
    store
        .append_raft(&[RaftRecord::Persisted { index }])
        .unwrap();
    store.flush_raft().unwrap();
    all
}

/// Whether a reopened node has all entries, perhaps without the last one, and each payload that is not missing, byte by byte.
fn check_all_but_missing(store: &NodeStore, recovered: &Recovered, all: &[PayloadRef]) {
    let entries = recovered.entries.len();
    assert!((all.len() - 1..=all.len()).contains(&entries));
    for payload in &all[..entries] {
        let read = store.read_payload(payload.name);
        if recovered.missing.contains(payload) {
            assert!(matches!(read, Err(StoreError::NoSuchPayload { .. })));
        } else {
            assert_eq!(read.unwrap(), bytes_of(payload.name));
        }
    }
}

#[test]
fn payloads_of_a_damaged_frame_are_missing_and_others_stay() {
    for seals in [false, true] {
        let (sim, store) = new_node();
        let all = write_many(&store);
        // Behind all others, without an entry.
        append_payload(&store, &payload(1, 0, PAYLOADS + 2)).unwrap();
        store.flush_payloads(0).unwrap();
        if seals {
            store.close().unwrap();
        }
        drop(store);
        assert!(log_files(&sim, 1).len() > 1);
        // Two in a row, one elsewhere, and the one that is not recorded as persisted.
        let lost = [all[9], all[11], all[29], all[59]];
        for payload in &lost {
            let stream = 1 + payload.name.worker;
            let files = log_files(&sim, stream);
            let (path, at) = (files.iter())
                .find_map(|path| Some((path, find_payload(&sim, path, payload)?)))
                .unwrap();
            sim.flip(path, at, 0xee).unwrap();
        }
        for _ in 0..2 {
            let (store, recovered) = open(&sim);
            assert_eq!(recovered.missing, lost[..3], "sealed: {seals}");
            // The last entry may be a torn one, too: it is cut off, and the others are asked by every start.
            assert!(recovered.forgotten.is_some());
            assert_eq!(recovered.entries.len(), all.len() - 1);
            let damaged = |worker| {
                let of_worker = recovered.damage.iter().filter(|it| it.worker == worker);
                of_worker.map(|it| it.frames).sum::<u64>()
            };
            assert_eq!((damaged(0), damaged(1)), (4, 0));
            check_all_but_missing(&store, &recovered, &all);
        }
        let (store, _) = open(&sim);
        for payload in &lost {
            append_payload(&store, payload).unwrap();
        }
        store.flush_payloads(0).unwrap();
        drop(store);
        let (store, recovered) = open(&sim);
        assert_eq!(recovered.missing, []);
        check_all_but_missing(&store, &recovered, &all);
    }
}

/// Where in a file a payload is, behind its name, if it is there.
fn find_payload(sim: &SimDisk, path: &Path, payload: &PayloadRef) -> Option<u64> {
    let file = sim.read(path).unwrap();
    let PayloadName { term, number, .. } = payload.name;
    let name = [term.to_le_bytes(), number.to_le_bytes()].concat();
    let bytes = [name, bytes_of(payload.name)].concat();
    let found = file.windows(bytes.len()).position(|it| it == bytes);
    found.map(|at| at as u64 + 16)
}

#[test]
fn a_log_file_without_its_header_has_its_payloads() {
    let (sim, store) = new_node();
    let all = write_many(&store);
    drop(store);
    for path in log_files(&sim, 1) {
        for at in [1, 9, 50] {
            sim.flip(&path, at, 0xee).unwrap();
        }
    }
    let (store, recovered) = open(&sim);
    assert_eq!(recovered.missing, []);
    assert_eq!(recovered.damage.len(), 1);
    assert_eq!(recovered.damage[0].frames, 0);
    check_all_but_missing(&store, &recovered, &all);
}

#[test]
fn payloads_of_a_lost_log_file_are_missing() {
    // The first, one in the middle, the last.
    for which in [0, 1, usize::MAX] {
        let (sim, store) = new_node();
        let all = write_many(&store);
        store.close().unwrap();
        drop(store);
        let files = log_files(&sim, 1);
        assert!(files.len() > 2);
        let lost = &files[which.min(files.len() - 1)];
        let has = |payload: &PayloadRef| {
            payload.name.worker == 0 && find_payload(&sim, lost, payload).is_some()
        };
        let lost_payloads: Vec<_> = all.iter().copied().filter(has).collect();
        assert!(!lost_payloads.is_empty());
        let (mut expected, last) = (lost_payloads.clone(), all.last());
        expected.retain(|payload| Some(payload) != last);
        sim.remove(lost).unwrap();
        let (store, recovered) = open(&sim);
        assert_eq!(recovered.missing, expected);
        assert_eq!(recovered.forgotten.is_some(), lost_payloads.last() == last);
        assert_eq!(recovered.damage[0].frames, lost_payloads.len() as u64);
        check_all_but_missing(&store, &recovered, &all);
    }
}

#[test]
fn a_stretch_that_the_device_cannot_read_is_absent() {
    let (sim, store) = new_node();
    let all = write_many(&store);
    store.close().unwrap();
    drop(store);
    let mut missing = 0;
    for number in 0..40 {
        let sim = sim.crash_image(sim.events(), Loss::None);
        sim.inject(Fault::once(Step::Read, number, ErrorKind::Other).and_ever_after());
        let opened = try_open(&sim);
        sim.heal();
        // A failed read of stream 0 is an error.
        let Ok((store, recovered)) = opened else {
            continue;
        };
        missing += recovered.missing.len();
        check_all_but_missing(&store, &recovered, &all);
    }
    assert!(missing > PAYLOADS as usize, "{missing}");
}

/// Whatever is changed in the files of payloads, the node opens with all its entries, and no payload is another.
#[test]
fn any_damage_to_payload_files_leaves_the_other_payloads() {
    let mut random = Random::stream(13, 1);
    let mut missing = 0;
    for seed in 0..150 {
        let (sim, store) = new_node();
        let all = write_many(&store);
        if random.chance(0.5) {
            store.close().unwrap();
        }
        drop(store);
        for _ in 0..1 + random.index(6) {
            let files = log_files(&sim, 1 + random.below(2) as u16);
            let path = &files[random.index(files.len())];
            let length = sim.read(path).unwrap().len() as u64;
            let bytes = random.index(700);
            let noise: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
            let at = random.below(length - 700);
            sim.damage(path, at, &noise).unwrap();
        }
        let (store, recovered) = open(&sim);
        // The last entry is not recorded as persisted: without its payload it may be cut off.
        let left = &all[..recovered.entries.len()];
        assert!(left.len() >= all.len() - 1, "{seed}");
        check_all_but_missing(&store, &recovered, left);
        missing += recovered.missing.len();
    }
    assert!(missing > 100, "{missing}");
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
