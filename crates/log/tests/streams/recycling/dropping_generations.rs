//! Ended generations, which are dropped as a whole when an image has all their contents, and a
//! manifest older than the drop.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::sync::Arc;

use crate::common::engine::{Engine, drop_generations, placements, recovered, recycling};
use crate::common::manifest::Manifest;
use crate::common::*;
use namiki_log::{
    GenerationEnd, GenerationInfo, ImageEffect, Log, LogConfig, Placement, ReadError,
    check_all_announced, remove_generations, remove_unannounced, remove_unnumbered,
    split_superfluous,
};
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::disk::{Disk, SyncedDisk};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

/// The generations of the existing files.
fn generations_on(disk: &dyn Disk, streams: u16) -> Vec<u32> {
    let mut found = Vec::new();
    for worker in 0..streams {
        for entry in disk.list(&wal().join(format!("{worker:04}"))).unwrap() {
            let name = entry.path.file_name().unwrap().to_str().unwrap();
            found.push(name[..6].parse().unwrap());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Several lives of a log with checkpoints in each; some are closed cleanly, others not.
fn several_lives(sim: &SimDisk, placement: &Placement, seed: u64) -> usize {
    let mut random = Random::seeded(seed);
    let mut from = 0;
    for life in 0..4 {
        let mut engine = Engine::open(sim, placement, 1 + (random.below(3) as u16));
        if life == 0 {
            from = sim.events();
        }
        for _ in 0..random.below(60) {
            engine.commit(sim, &mut random);
            if random.chance(0.05) {
                let image = engine.manifest.image.0;
                let behind = random.below(20);
                let stamp = (engine.next_stamp - 1).saturating_sub(behind).max(image);
                engine.checkpoint(Stamp(stamp));
            }
        }
        if random.chance(0.5) {
            let seal = engine.log.close().unwrap();
            engine.manifest.last().seal = Some(seal);
            if random.chance(0.5) {
                // As a cleanly closed database does.
                drop_generations(&mut engine.manifest, Stamp(engine.next_stamp - 1));
            }
            engine.manifest.write(&*engine.disk);
            remove_generations(&*engine.disk, &wal(), engine.manifest.oldest);
        }
    }
    from
}

/// Regions are rings that wrap around several times in these lives.
#[test]
fn no_crash_in_several_lives_loses_a_commit() {
    for placement in placements() {
        let mut dropped = 0;
        for seed in 0..12 {
            let sim = SimDisk::new();
            let from = several_lives(&sim, &placement, seed);
            for at in from..=sim.events() {
                let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
                let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
                for loss in losses.into_iter().chain(names) {
                    let what = format!("{placement:?}, seed {seed}, event {at}, {loss:?}");
                    dropped += crashed(&sim, &placement, (at, loss), &what);
                }
            }
        }
        assert!(dropped > 0);
    }
}

/// Opens the image of a crash after `at` events. Returns 1 if some generation had been dropped.
fn crashed(sim: &SimDisk, placement: &Placement, (at, loss): (usize, Loss), what: &str) -> u32 {
    let acknowledged = sim.marks_before(at).last().copied().unwrap_or(0);
    let image = sim.crash_image(at, loss);
    let disk: Arc<dyn Disk> = Arc::new(image.clone());
    let manifest = Manifest::read(&*disk);
    let found = recovered(&disk, &manifest).unwrap_or_else(|error| panic!("{what}: {error}"));
    let first = manifest.image.0 + 1;
    let last = found.last().map_or(manifest.image.0, |last| *last);
    assert_eq!(found, (first..=last).collect::<Vec<_>>(), "{what}");
    assert!(last >= acknowledged, "{what}: {last} of {acknowledged}");

    // Then opens it: everything is there, and no file remains that no manifest names.
    let engine = Engine::open(&image, placement, 2);
    assert_eq!(engine.next_stamp, last + 1, "{what}");
    assert_eq!(recovered(&disk, &engine.manifest).unwrap(), found, "{what}");
    let oldest = engine.manifest.oldest.0;
    if matches!(placement, Placement::Files { .. }) {
        let there = generations_on(&*disk, 1);
        assert!(there.iter().all(|it| *it >= oldest), "{what}: {there:?}");
    }
    u32::from(manifest.oldest > Generation(0))
}

#[test]
fn generations_are_dropped_from_the_oldest_on() {
    let sealed = |generation, max_stamp| GenerationInfo {
        seal: Some(GenerationEnd {
            last_sequences: vec![1],
            last_lsn: Lsn(1),
            durable_epoch: Epoch(0),
            max_stamp: Stamp(max_stamp),
        }),
        ..info(&recycling(&placements()[0], 1, Generation(generation)))
    };
    let open = info(&recycling(&placements()[0], 1, Generation(9)));
    // The third has frames without commits.
    let all = [sealed(1, 10), sealed(2, 20), sealed(3, 0), open];
    for (stamp, dropped) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 3), (1000, 3)] {
        let (first, kept) = split_superfluous(&all, Stamp(stamp));
        assert_eq!((first.len(), kept.len()), (dropped, 4 - dropped), "{stamp}");
    }
}

/// After later drops, files that the older manifest names are missing, or files that it does not
/// know exist. In a ring the old contents may not be overwritten yet.
#[test]
fn an_older_manifest_is_refused_after_generations_were_dropped() {
    for placement in placements() {
        let sim = SimDisk::new();
        let mut random = Random::seeded(3);
        let mut manifests = Vec::new();
        for _ in 0..4 {
            let mut engine = Engine::open(&sim, &placement, 2);
            manifests.push(engine.manifest.clone());
            for _ in 0..80 {
                engine.commit(&sim, &mut random);
            }
            engine.checkpoint(Stamp(engine.next_stamp - 1));
            engine.commit(&sim, &mut random);
            manifests.push(engine.manifest.clone());
        }
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let latest = manifests.pop().unwrap();
        let last = recovered(&disk, &latest).unwrap();
        assert_eq!(last, [latest.image.0 + 1]);
        assert_eq!(latest.oldest, Generation(4));
        for older in manifests {
            let told = match recovered(&disk, &older) {
                Err(told) => told,
                Ok(found) => {
                    assert!(matches!(placement, Placement::Shared { .. }));
                    assert_eq!(found, (older.image.0 + 1..=last[0]).collect::<Vec<_>>());
                    continue;
                }
            };
            let is_lost = match &told {
                ReadError::Damaged { missing, .. } => *missing,
                ReadError::BeginningLost { .. } => true,
                ReadError::NotInManifest { generation, .. } => *generation >= older.next,
                _ => false,
            };
            assert!(is_lost, "{told}");
        }
    }
}

#[test]
fn the_next_opening_removes_what_could_not_be() {
    let sim = SimDisk::new();
    let files = &placements()[0];
    let mut random = Random::seeded(3);
    let mut engine = Engine::open(&sim, files, 1);
    for _ in 0..50 {
        engine.commit(&sim, &mut random);
    }
    drop(engine);
    let mut engine = Engine::open(&sim, files, 1);
    engine.commit(&sim, &mut random);
    drop_generations(&mut engine.manifest, Stamp(engine.next_stamp - 2));
    engine.manifest.write(&sim);
    let count = sim.list(&wal().join("0000")).unwrap().len() as u64;
    sim.inject(Fault::once(Step::Remove, 1, ErrorKind::PermissionDenied));
    let removed = remove_generations(&sim, &wal(), engine.manifest.oldest);
    assert_eq!((removed.files, removed.failed.len()), (count - 2, 1));
    assert_eq!(generations_on(&sim, 1), [1, 2]);
    drop(engine);
    let engine = Engine::open(&sim, files, 1);
    assert_eq!(generations_on(&sim, 1), [2]);
    assert_eq!(recovered(&engine.disk, &engine.manifest).unwrap().len(), 1);
}

/// As after a loss of stream directories, or a copy without them.
#[test]
fn files_behind_a_missing_directory_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (db, wal) = (dir.path(), dir.path().join("wal"));
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let large = LogConfig {
        payload_bytes_max: Some(100_000),
        ..config(3)
    };
    let log: Arc<Log<()>> = Log::create(Arc::clone(&disk), &wal, large).unwrap();
    for worker in 0..3 {
        let stream = log.stream(WorkerId(worker));
        put(stream, 1, b"something").unwrap();
        stream.flush().unwrap();
    }
    // As after a kill.
    std::mem::forget(
        log.stream(WorkerId(2))
            .prepare_oversize(ImageEffect::Longer, 50_000, |_| {}),
    );
    log.close().unwrap();
    for lost in ["0000", "0001"] {
        std::fs::remove_dir_all(wal.join(lost)).unwrap();
    }
    let left = || disk.list(&wal.join("0002")).unwrap().len();
    assert_eq!(left(), 2, "{}", db.display());
    remove_unnumbered(&*disk, &wal, 1);
    assert_eq!(left(), 1);
    let unknown = check_all_announced(&*disk, &wal, IDENTITY, &[], Generation(1));
    assert!(
        matches!(unknown, Err(ReadError::NotInManifest { worker, .. }) if worker == WorkerId(2)),
        "{unknown:?}"
    );
    assert_eq!(remove_generations(&*disk, &wal, Generation(1)).files, 0);
    remove_unannounced(&*disk, &wal, Generation(2)).unwrap();
    assert_eq!(left(), 1);
    remove_unannounced(&*disk, &wal, Generation(1)).unwrap();
    assert_eq!(left(), 0);
}
