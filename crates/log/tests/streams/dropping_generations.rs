//! Generations that end, and go as a whole when an image has all that they held; and a manifest that is older than that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::common::manifest::Manifest;
use crate::common::*;
use namiki_log::{
    GenerationEnd, GenerationInfo, Log, LogConfig, ReadError, RecyclePoint, Retain,
    check_all_announced, harden_tail, remove_generations, remove_superfluous, split_superfluous,
};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

fn recycling(streams: u16, generation: Generation) -> LogConfig {
    LogConfig {
        retain: Retain::UntilRecycled,
        generation,
        ..config(streams)
    }
}

/// What a generation holds beyond the image, by its stamps.
fn stamps_of(
    disk: &Arc<dyn Disk>,
    info: &GenerationInfo,
    image: Stamp,
) -> Result<Vec<u64>, ReadError> {
    let mut found = Vec::new();
    for worker in 0..info.streams {
        let (all, _) = read(disk, info, worker)?;
        found.extend(
            all.iter()
                .map(|(stamp, ..)| stamp.0)
                .filter(|it| *it > image.0),
        );
    }
    found.sort_unstable();
    Ok(found)
}

/// What all generations hold beyond the image.
fn recovered(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Vec<u64>, ReadError> {
    check_all_announced(
        &**disk,
        &wal(),
        IDENTITY,
        &manifest.generations,
        manifest.next,
    )?;
    let mut found = Vec::new();
    for info in &manifest.generations {
        found.extend(stamps_of(disk, info, manifest.image)?);
    }
    Ok(found)
}

/// The generations of the files that are there.
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

/// Drops what the image of everything through `stamp` makes superfluous.
fn drop_generations(manifest: &mut Manifest, stamp: Stamp) {
    manifest.image = stamp;
    let (dropped, kept) = split_superfluous(&manifest.generations, stamp);
    if !dropped.is_empty() {
        let first = kept.first().map(|info| info.generation);
        manifest.oldest = first.unwrap_or(manifest.next);
        manifest.generations = kept.to_vec();
    }
}

/// An engine without tables, opened over what is on the disk.
struct Engine {
    disk: Arc<dyn Disk>,
    log: Arc<Log<()>>,
    manifest: Manifest,
    next_stamp: u64,
}

impl Engine {
    /// Recovers, removes what is superfluous, seals, and begins the next generation.
    fn open(sim: &SimDisk, streams: u16) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut manifest = match disk.read(Path::new("/db/manifest")) {
            Ok(_) => Manifest::read(&*disk),
            Err(_) => Manifest {
                generations: Vec::new(),
                next: Generation(1),
                oldest: Generation(0),
                image: Stamp(0),
            },
        };
        let found = recovered(&disk, &manifest).unwrap();
        let last = found.last().copied().unwrap_or(0).max(manifest.image.0);
        for info in &mut manifest.generations {
            if info.seal.is_some() {
                continue;
            }
            let ends: Vec<_> = (0..info.streams)
                .map(|worker| read(&disk, info, worker).unwrap().1)
                .collect();
            for (worker, end) in (0..).map(WorkerId).zip(&ends) {
                harden_tail(&disk, &wal(), info, worker, end).unwrap();
            }
            info.seal = Some(GenerationEnd {
                last_sequences: ends.iter().map(|end| end.last_sequence).collect(),
                last_lsn: ends.iter().map(|end| end.last_lsn).max().unwrap(),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(last),
            });
        }
        manifest.generations.retain(|info| {
            let seal = info.seal.as_ref().unwrap();
            seal.last_sequences.iter().any(|last| *last > 0)
        });
        let (generations, oldest) = (&manifest.generations, manifest.oldest);
        let removed = remove_superfluous(&*disk, &wal(), generations, oldest);
        assert!(removed.failed.is_empty());
        let config = recycling(streams, manifest.next);
        let log = create(&disk, config.clone());
        manifest.next = manifest.next.next();
        manifest.generations.push(info(&config));
        manifest.write(&*disk);
        Self {
            disk,
            log,
            manifest,
            next_stamp: last + 1,
        }
    }

    fn commit(&mut self, sim: &SimDisk, random: &mut Random) {
        let worker = WorkerId(random.below(self.log.streams() as u64) as u16);
        let payload = vec![7; random.below(1500) as usize];
        put(self.log.stream(worker), self.next_stamp, &payload).unwrap();
        self.log.stream(worker).flush().unwrap();
        sim.mark(self.next_stamp);
        self.next_stamp += 1;
    }

    fn checkpoint(&mut self, stamp: Stamp) {
        let point = RecyclePoint {
            stamp,
            below_lsn: None,
        };
        let start = self.log.recyclable(point).unwrap();
        self.manifest.last().begin_at(&start);
        drop_generations(&mut self.manifest, stamp);
        self.manifest.write(&*self.disk);
        let removed = remove_generations(&*self.disk, &wal(), self.manifest.oldest);
        assert!(removed.failed.is_empty());
        let oldest = self.manifest.oldest;
        self.log.recycle(&start, oldest, 1 << 20).unwrap();
    }
}

/// Several lives of a log with checkpoints in each; some end in order and some do not.
fn several_lives(sim: &SimDisk, seed: u64) -> usize {
    let mut random = Random::seeded(seed);
    let mut from = 0;
    for life in 0..4 {
        let mut engine = Engine::open(sim, 1 + (random.below(3) as u16));
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
                // As a database does that is closed in order.
                drop_generations(&mut engine.manifest, Stamp(engine.next_stamp - 1));
            }
            engine.manifest.write(&*engine.disk);
            remove_generations(&*engine.disk, &wal(), engine.manifest.oldest);
        }
    }
    from
}

#[test]
fn no_crash_in_several_lives_loses_a_commit() {
    let mut dropped = 0;
    for seed in 0..12 {
        let sim = SimDisk::new();
        let from = several_lives(&sim, seed);
        for at in from..=sim.events() {
            let acknowledged = sim.marks_before(at).last().copied().unwrap_or(0);
            let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
            let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
            for loss in losses.into_iter().chain(names) {
                let what = format!("seed {seed}, event {at}, {loss:?}");
                let image = sim.crash_image(at, loss);
                let disk: Arc<dyn Disk> = Arc::new(image.clone());
                let manifest = Manifest::read(&*disk);
                dropped += u32::from(manifest.oldest > Generation(0));
                let found =
                    recovered(&disk, &manifest).unwrap_or_else(|error| panic!("{what}: {error}"));
                let first = manifest.image.0 + 1;
                let last = found.last().map_or(manifest.image.0, |last| *last);
                assert_eq!(found, (first..=last).collect::<Vec<_>>(), "{what}");
                assert!(last >= acknowledged, "{what}: {last} of {acknowledged}");

                // And opened, with all of it, and nothing that no manifest names any more.
                let engine = Engine::open(&image, 2);
                assert_eq!(engine.next_stamp, last + 1, "{what}");
                assert_eq!(recovered(&disk, &engine.manifest).unwrap(), found, "{what}");
                let oldest = engine.manifest.oldest.0;
                let there = generations_on(&*disk, 1);
                assert!(there.iter().all(|it| *it >= oldest), "{what}: {there:?}");
            }
        }
    }
    assert!(dropped > 0);
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
        ..info(&recycling(1, Generation(generation)))
    };
    let open = info(&recycling(1, Generation(9)));
    // The third has frames without commits.
    let all = [sealed(1, 10), sealed(2, 20), sealed(3, 0), open];
    for (stamp, dropped) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 3), (1000, 3)] {
        let (first, kept) = split_superfluous(&all, Stamp(stamp));
        assert_eq!((first.len(), kept.len()), (dropped, 4 - dropped), "{stamp}");
    }
}

/// Whatever was dropped since, what the older manifest names is missing, or what it does not know is there.
#[test]
fn an_older_manifest_is_refused_after_generations_were_dropped() {
    let sim = SimDisk::new();
    let mut random = Random::seeded(3);
    let mut manifests = Vec::new();
    for _ in 0..4 {
        let mut engine = Engine::open(&sim, 2);
        manifests.push(engine.manifest.clone());
        for _ in 0..50 {
            engine.commit(&sim, &mut random);
        }
        engine.checkpoint(Stamp(engine.next_stamp - 1));
        engine.commit(&sim, &mut random);
        manifests.push(engine.manifest.clone());
    }
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let latest = manifests.pop().unwrap();
    assert_eq!(recovered(&disk, &latest).unwrap().len(), 1);
    assert_eq!(latest.oldest, Generation(4));
    for older in manifests {
        let told = recovered(&disk, &older).unwrap_err();
        let is_lost = match &told {
            ReadError::Damaged { missing, .. } => *missing,
            ReadError::BeginningLost { .. } => true,
            ReadError::NotInManifest { generation, .. } => *generation >= older.next,
            _ => false,
        };
        assert!(is_lost, "{told}");
    }
}

#[test]
fn the_next_opening_removes_what_could_not_be() {
    let sim = SimDisk::new();
    let mut random = Random::seeded(3);
    let mut engine = Engine::open(&sim, 1);
    for _ in 0..50 {
        engine.commit(&sim, &mut random);
    }
    drop(engine);
    let mut engine = Engine::open(&sim, 1);
    engine.commit(&sim, &mut random);
    drop_generations(&mut engine.manifest, Stamp(engine.next_stamp - 2));
    engine.manifest.write(&sim);
    let files = sim.list(&wal().join("0000")).unwrap().len() as u64;
    sim.inject(Fault::once(Step::Remove, 1, ErrorKind::PermissionDenied));
    let removed = remove_generations(&sim, &wal(), engine.manifest.oldest);
    assert_eq!((removed.files, removed.failed.len()), (files - 2, 1));
    assert_eq!(generations_on(&sim, 1), [1, 2]);
    drop(engine);
    let engine = Engine::open(&sim, 1);
    assert_eq!(generations_on(&sim, 1), [2]);
    assert_eq!(recovered(&engine.disk, &engine.manifest).unwrap().len(), 1);
}
