//! Damage to stream 0: it ends there, and the manifest knows that the node may have forgotten promises.

use std::path::{Path, PathBuf};

use namiki_cluster::EntryBody;
use namiki_cluster::storage::{NodeStore, RaftRecord, Recovered, StoreError};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::seeded_random::Random;

use crate::common::*;
use crate::model::Found;

/// Entries of each life of the node.
const ENTRIES: u64 = 60;

/// Writes groups from this index on, each in a frame of its own, with the vote of a term before the first.
fn write(store: &NodeStore, from: u64, term: u64) {
    store
        .append_raft(&[RaftRecord::Vote { term, vote: 2 }])
        .unwrap();
    store.flush_raft().unwrap();
    for index in from..from + ENTRIES {
        let payload = payload(term, (index % 2) as u16, index);
        append_payload(store, &payload).unwrap();
        store.flush_payloads(payload.name.worker).unwrap();
        append(store, &[group(index, term, payload)]);
        store.flush_raft().unwrap();
    }
    store
        .append_raft(&[RaftRecord::Persisted {
            index: from + ENTRIES - 1,
        }])
        .unwrap();
    store.flush_raft().unwrap();
}

/// A node that has lived twice: entries through 60 of term 1, and through 120 of term 2.
fn two_lives(closes: bool) -> SimDisk {
    two_lives_of(&[1, 2, 3], closes)
}

fn two_lives_of(founders: &[u64], closes: bool) -> SimDisk {
    let sim = SimDisk::new();
    create_of(&sim, founders);
    let (store, _) = open(&sim);
    write(&store, 1, 1);
    if closes {
        store.close().unwrap();
    }
    drop(store);
    let (store, _) = open(&sim);
    write(&store, ENTRIES + 1, 2);
    if closes {
        store.close().unwrap();
    }
    drop(store);
    sim
}

/// The file with the record of an entry, and its offset there.
fn record_of(sim: &SimDisk, index: u64, term: u64) -> (PathBuf, u64) {
    let record = [&[6][..], &index.to_le_bytes(), &term.to_le_bytes()].concat();
    let mut found = log_files(sim, 0).into_iter().filter_map(|path| {
        let bytes = sim.read(&path).unwrap();
        let at = bytes.windows(record.len()).position(|it| it == record)?;
        Some((path, at as u64))
    });
    found.next().unwrap()
}

fn damage_entry(sim: &SimDisk, index: u64, term: u64) -> PathBuf {
    let (path, at) = record_of(sim, index, term);
    sim.flip(&path, at + 3, 0xee).unwrap();
    path
}

fn check_payloads(store: &NodeStore, recovered: &Recovered) {
    for entry in &recovered.entries {
        if let EntryBody::Group(payload) = &entry.body {
            let read = store.read_payload(payload.name).unwrap();
            assert_eq!(read, bytes_of(payload.name));
        }
    }
}

#[test]
fn stream_0_ends_before_damage_and_payloads_stay() {
    for closes in [false, true] {
        for (damaged, term) in [(31, 1), (91, 2)] {
            let sim = two_lives(closes);
            let path = damage_entry(&sim, damaged, term);
            for is_first in [true, false, false] {
                let (store, recovered) = open(&sim);
                assert_eq!(recovered.entries.len() as u64, damaged - 1);
                assert_eq!((recovered.term, recovered.vote), (term, 2));
                assert_eq!(recovered.missing, []);
                assert_eq!(recovered.raft_damage.is_some(), is_first);
                let forgotten = recovered.forgotten.as_deref().unwrap();
                assert!(forgotten.contains(&path.display().to_string()));
                assert!(forgotten.contains(&format!("entry {}:", damaged - 1)));
                check_payloads(&store, &recovered);
                let later = payload(2, 0, 110).name;
                assert_eq!(store.read_payload(later).unwrap(), bytes_of(later));
                store.close().unwrap();
            }
            // The log goes on behind the cut.
            let (store, _) = open(&sim);
            append(&store, &[empty(damaged, 7), empty(damaged + 1, 7)]);
            store.flush_raft().unwrap();
            store.note_remembered().unwrap();
            store.note_remembered().unwrap();
            drop(store);
            let (store, recovered) = open(&sim);
            assert_eq!(recovered.entries.len() as u64, damaged + 1);
            assert_eq!(
                (recovered.forgotten.as_ref(), recovered.missing.len()),
                (None, 0)
            );
            check_payloads(&store, &recovered);
        }
    }
}

/// The base record of the oldest segment is lost, and with it everything: term and members are those of the image.
#[test]
fn without_its_beginning_the_log_is_the_image_alone() {
    let (sim, store) = new_node();
    write(&store, 1, 1);
    truncate(&sim, &store, (50, 1));
    truncate(&sim, &store, (55, 1));
    write(&store, ENTRIES + 1, 2);
    store.close().unwrap();
    drop(store);
    let path = log_files(&sim, 0).remove(0);
    let bytes = sim.read(&path).unwrap();
    let frame = bytes.windows(4).position(|it| it == b"NLF1").unwrap() as u64;
    sim.flip(&path, frame + 60, 0xee).unwrap();
    for _ in 0..2 {
        let (_, recovered) = open(&sim);
        assert_eq!(recovered.snapshot, snapshot(55, 1));
        assert_eq!(recovered.entries, []);
        let Recovered {
            term,
            vote,
            commit,
            persisted,
            ..
        } = recovered;
        assert_eq!((term, vote, commit, persisted), (1, 0, 55, 55));
        assert!(recovered.forgotten.is_some());
    }
    let (store, _) = open(&sim);
    let vote = RaftRecord::Vote { term: 3, vote: 1 };
    store
        .append_raft(&[vote, RaftRecord::Entry(empty(56, 3))])
        .unwrap();
    store.flush_raft().unwrap();
    truncate(&sim, &store, (56, 3));
    drop(store);
    let (_, recovered) = open(&sim);
    assert_eq!((recovered.snapshot.position.index, recovered.term), (56, 3));
}

#[test]
fn a_lost_file_ends_it_and_no_lost_header() {
    let sim = two_lives(true);
    let all = open(&sim.crash_image(sim.events(), Loss::None)).1;
    let files = log_files(&sim, 0);
    assert!(files.len() > 4);
    for (number, path) in files.iter().enumerate() {
        let headless = sim.crash_image(sim.events(), Loss::None);
        for at in [1, 9, 50] {
            headless.flip(path, at, 0xee).unwrap();
        }
        let (_, recovered) = open(&headless);
        assert_eq!(Found::from(&recovered), Found::from(&all), "{number}");
        assert_eq!(recovered.forgotten, None);

        let without = sim.crash_image(sim.events(), Loss::None);
        without.remove(path).unwrap();
        let mut before = None;
        for _ in 0..2 {
            let (_, recovered) = open(&without);
            let entries = &recovered.entries;
            assert!(entries.len() < all.entries.len(), "{number}");
            assert_eq!(entries[..], all.entries[..entries.len()]);
            assert!(recovered.forgotten.is_some());
            let before = before.get_or_insert(entries.len());
            assert_eq!(*before, entries.len());
        }
        assert_eq!(before > Some(0), number > 0);
    }
}

/// Whatever is changed in the files of stream 0: what is found is a beginning of what was there, and if it is not all, the node
/// knows it, at the next start, too.
#[test]
fn any_damage_leaves_a_beginning_and_a_note() {
    let mut random = Random::stream(38, 0);
    let mut shorter = 0;
    for seed in 0..150 {
        let sim = two_lives(seed % 2 == 0);
        let all = open(&sim.crash_image(sim.events(), Loss::None)).1;
        let files = log_files(&sim, 0);
        for _ in 0..1 + random.index(3) {
            let path = &files[random.index(files.len())];
            let length = sim.read(path).unwrap().len() as u64;
            let bytes = random.index(700);
            let noise: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
            sim.damage(path, random.below(length - 700), &noise)
                .unwrap();
        }
        let mut before = None;
        for _ in 0..2 {
            let (store, recovered) = open(&sim);
            let entries = &recovered.entries;
            assert_eq!(entries[..], all.entries[..entries.len()], "{seed}");
            // The last frame has only a persisted index, and may look torn.
            let is_shorter = entries.len() < all.entries.len();
            assert!(recovered.forgotten.is_some() || !is_shorter, "{seed}");
            check_payloads(&store, &recovered);
            shorter += u32::from(is_shorter);
            let found = Found::from(&recovered);
            assert_eq!(*before.get_or_insert(found.clone()), found, "{seed}");
        }
    }
    assert!(shorter > 100, "{shorter}");
}

/// A crash anywhere in the opening that finds the damage, and the next opening: the same log, and the note.
#[test]
fn a_crash_between_the_note_and_the_cut_loses_neither() {
    // Damage in a frame of stream 0; the same without the record of the image's entry; a torn payload behind damaged ones.
    for kind in 0..3 {
        let (sim, store) = new_node();
        write(&store, 1, 1);
        let unrecorded = payload(1, 0, 500);
        append(&store, &[group(ENTRIES + 1, 1, unrecorded)]);
        store.flush_raft().unwrap();
        drop(store);
        if kind < 2 {
            damage_entry(&sim, 31, 1);
        } else {
            damage_payload(&sim, 20);
        }
        if kind == 1 {
            write_image(&sim, &snapshot(40, 1));
        }
        let sim = sim.crash_image(sim.events(), Loss::None);
        let before = sim.events();
        let (store, recovered) = open(&sim);
        let found = Found::from(&recovered);
        assert_eq!(found.entries.len(), [30, 0, ENTRIES as usize][kind]);
        assert!(recovered.forgotten.is_some());
        drop(store);
        for at in before..=sim.events() {
            for loss in [Loss::All, Loss::None, Loss::Seeded(at as u64)] {
                let image = sim.crash_image(at, loss);
                for _ in 0..2 {
                    let (_, recovered) = open(&image);
                    assert_eq!(Found::from(&recovered), found, "{kind}: {at} {loss:?}");
                    assert!(recovered.forgotten.is_some(), "{kind}: {at} {loss:?}");
                }
            }
        }
    }
}

/// Damages a payload of the first term.
fn damage_payload(sim: &SimDisk, number: u64) {
    let name = payload(1, (number % 2) as u16, number).name;
    let bytes = bytes_of(name);
    let files = log_files(sim, 1 + name.worker);
    let find = |path: &Path| {
        let file = sim.read(path).unwrap();
        file.windows(bytes.len()).position(|it| it == bytes)
    };
    let found = files.iter().find_map(|path| Some((path, find(path)?)));
    let (path, at) = found.unwrap();
    sim.flip(path, at as u64, 0xee).unwrap();
}

#[test]
fn the_only_voter_refuses_to_forget_and_changes_nothing() {
    let sim = two_lives_of(&[2], true);
    let path = damage_entry(&sim, 31, 1);
    let manifest = || sim.read(&dir().join("NODE")).unwrap();
    let before = manifest();
    for _ in 0..2 {
        let error = try_open(&sim).unwrap_err();
        let StoreError::ForgottenAlone { last, source, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*last, 30);
        assert!(source.to_string().contains(&path.display().to_string()));
        assert!(error.to_string().contains("restore a backup"), "{error}");
        assert_eq!(manifest(), before);
    }
}
