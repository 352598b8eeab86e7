//! Crashes at every event of runs with many threads, and the expected state after each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::*;
use namiki_log::{
    GenerationEnd, Group, Layout, Log, LogConfig, Merge, Placement, ReadError, SequencerKind,
};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SECTOR_BYTES, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

/// Threads that commit at random places; each commit is marked once it is covered. Returns the
/// event from which on the generation may be announced.
fn run(sim: &SimDisk, config: &LogConfig, threads: u64, commits: u64, seed: u64) -> usize {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let created = sim.events();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let log = &log;
            scope.spawn(move || {
                let mut random = Random::seeded(seed * 1000 + thread);
                for n in 0..commits {
                    let number = thread * commits + n;
                    let worker = WorkerId(random.below(16) as u16);
                    let mut payload = number.to_le_bytes().to_vec();
                    payload.resize(8 + random.below(900) as usize, number as u8);
                    let (ticket, full) = put(log.stream(worker), number, &payload).unwrap();
                    if full {
                        log.stream(worker).flush().unwrap();
                    }
                    if random.chance(0.7) {
                        log.stream(worker).wait_hardened(ticket).unwrap();
                        if config.sequencer != SequencerKind::None {
                            log.wait_covered(ticket.lsn).unwrap();
                        }
                        sim.mark(number);
                    }
                }
            });
        }
    });
    created
}

/// The commits that recovery keeps: number and LSN.
fn recover(disk: &Arc<dyn Disk>, config: &LogConfig) -> BTreeMap<u64, Lsn> {
    let info = info(config);
    let mut kept = BTreeMap::new();
    let mut keep = |lsn, payload: &[u8]| {
        let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
        assert!(payload[8..].iter().all(|byte| *byte == number as u8));
        assert!(kept.insert(number, lsn).is_none(), "{number} twice");
    };
    if config.sequencer == SequencerKind::None {
        for stream in 0..info.streams {
            for (_, lsn, payload) in read(disk, &info, stream).unwrap().0 {
                keep(lsn, &payload);
            }
        }
    } else {
        let readers = (0..info.streams).map(|stream| reader(disk, &info, stream).unwrap());
        let mut merge = Merge::by_lsn(readers.collect(), Lsn(1), None);
        while let Some(record) = merge.next_record().unwrap() {
            keep(record.lsn, record.payload);
        }
        merge.finish().unwrap();
    }
    kept
}

fn enumerate(config: &LogConfig, block_bytes: usize, seed: u64) {
    let sim = SimDisk::new().with_blocks(block_bytes).with_yields(seed);
    let created = run(&sim, config, 3, 10, seed);
    for at in created..=sim.events() {
        let acknowledged = sim.marks_before(at);
        let sectors = sim.pending_sectors(at);
        let losses = [Loss::None, Loss::All]
            .into_iter()
            .chain((0..sectors).map(Loss::Only))
            .chain((0..sectors).map(Loss::OnlyKept))
            .chain((0..sim.pending_names(at)).map(Loss::NamesAfter))
            .chain((0..4).map(|n| Loss::Seeded(seed * 100 + n)));
        for loss in losses {
            let image = sim.crash_image(at, loss);
            let disk: Arc<dyn Disk> = Arc::new(image);
            let kept = recover(&disk, config);
            for number in &acknowledged {
                assert!(
                    kept.contains_key(number),
                    "seed {seed}, event {at} ({}), {loss:?}: lost {number}",
                    sim.describe(at.saturating_sub(1))
                );
            }
            if config.sequencer != SequencerKind::None {
                // No kept commit may depend on one that is lost.
                let mut lsns: Vec<_> = kept.values().map(|lsn| lsn.0).collect();
                lsns.sort_unstable();
                assert_eq!(lsns, (1..=kept.len() as u64).collect::<Vec<_>>());
            }
        }
    }
}

fn every_policy(layout: Layout, placement: Placement, first_seed: u64) {
    let mut seed = first_seed;
    for sequencer in [SequencerKind::FetchAdd, SequencerKind::None] {
        for group in [count(1), count(3), Group::Auto] {
            let mut config = config(3);
            config.layout = layout;
            config.placement = placement.clone();
            config.sequencer = sequencer;
            config.group = group;
            enumerate(&config, SECTOR_BYTES, seed);
            seed += 1;
        }
    }
}

#[test]
fn parallel_streams_crash_without_losing_acknowledged_commits() {
    every_policy(Layout::PerWorker, config(1).placement, 1);
}

#[test]
fn a_single_stream_crashes_without_losing_acknowledged_commits() {
    every_policy(Layout::Single, config(1).placement, 11);
}

#[test]
fn a_shared_device_crashes_without_losing_acknowledged_commits() {
    every_policy(Layout::PerWorker, shared(64 << 10), 21);
}

/// Memory loses single blocks of 64 bytes, and a frame's header lies in two of them.
#[test]
fn blocks_of_64_bytes_crash_without_losing_acknowledged_commits() {
    let layouts = [
        (Layout::PerWorker, config(1).placement),
        (Layout::Single, config(1).placement),
        (Layout::PerWorker, shared(64 << 10)),
    ];
    for (seed, (layout, placement)) in (31..).zip(layouts) {
        let mut config = config(3);
        config.layout = layout;
        config.placement = placement;
        config.group = count(3);
        enumerate(&config, 64, seed);
    }
}

/// The header of the frame that a crash tears lies in two blocks: each of them may be lost, or both.
#[test]
fn a_header_in_two_blocks_may_be_torn_between_them() {
    let sim = SimDisk::new().with_blocks(64);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = config(1);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    put(log.stream(WorkerId(0)), 1, &[7; 100]).unwrap();
    log.stream(WorkerId(0)).flush().unwrap();
    let first = sim.events();
    put(log.stream(WorkerId(0)), 2, &[8; 200]).unwrap();
    log.stream(WorkerId(0)).flush().unwrap();
    let begun = (first..sim.events()).find(|at| sim.pending_sectors(*at) > 0);
    let begun = begun.unwrap();
    // 96 bytes of headers, and the payload.
    assert_eq!(sim.pending_sectors(begun), 5);
    for (loss, frames, torn) in [
        (Loss::None, 2, false),
        (Loss::All, 1, false),
        (Loss::Only(0), 1, true),
        (Loss::Only(1), 1, true),
        (Loss::OnlyKept(0), 1, true),
        (Loss::OnlyKept(1), 1, true),
        (Loss::OnlyKept(4), 1, true),
    ] {
        let image: Arc<dyn Disk> = Arc::new(sim.crash_image(begun, loss));
        let (_, end) = read(&image, &info(&config), 0).unwrap();
        assert_eq!((end.frames, end.torn), (frames, torn), "{loss:?}");
    }
    // Garbage in the place of the header's second part is damage and no torn write.
    let image = sim.crash_image(begun, Loss::OnlyKept(0));
    let path = PathBuf::from("/db/wal/0000/000001-00000001.log");
    let second = 64 + 256;
    image.damage(&path, second + 64, &[9; 8]).unwrap();
    let image: Arc<dyn Disk> = Arc::new(image);
    let found = read(&image, &info(&config), 0).map(|_| ());
    assert!(matches!(found, Err(ReadError::Damaged { .. })), "{found:?}");
}

#[test]
fn appends_of_many_threads_are_all_read_back() {
    let mut config = config(2);
    config.group = count(16);
    config.buffer_bytes = 8192;
    config.placement = Placement::Files {
        log_file_bytes: 64 << 10,
    };
    let sim = SimDisk::new().with_yields(3);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..500 {
                    let number = thread * 500 + n;
                    let stream = log.stream(WorkerId(thread as u16));
                    let (ticket, full) = put(stream, number, &number.to_le_bytes()).unwrap();
                    if full {
                        stream.flush().unwrap();
                        assert!(stream.is_hardened(ticket));
                    }
                }
            });
        }
    });
    let counters = {
        log.flush_all().unwrap();
        log.counters()
    };
    assert_eq!(counters.commits, 4000);
    let kept = recover(&disk, &config);
    assert_eq!(kept.len(), 4000);
    for stream in 0..2 {
        let (records, end) = read(&disk, &info(&config), stream).unwrap();
        assert_eq!((records.len(), end.records), (2000, 2000));
        assert!(records.is_sorted_by_key(|(_, lsn, _)| *lsn));
    }
}

#[test]
fn a_log_is_created_again_after_a_crash() {
    for placement in [config(1).placement, shared(64 << 10)] {
        for layout in [Layout::PerWorker, Layout::Single] {
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let mut config = config(3);
            config.placement = placement.clone();
            config.layout = layout;
            let _log: Arc<Log<()>> = create(&disk, config.clone());
            let created = sim.events();
            for at in 0..=created {
                let names = sim.pending_names(at);
                for loss in [Loss::None, Loss::All]
                    .into_iter()
                    .chain((0..names).map(Loss::NamesAfter))
                    .chain((0..8).map(Loss::Seeded))
                {
                    let image = sim.crash_image(at, loss);
                    let disk: Arc<dyn Disk> = Arc::new(image.clone());
                    let streams = config.stream_count() as u16;
                    if at == created {
                        for stream in 0..streams {
                            assert!(payloads(&disk, &info(&config), stream).is_empty());
                        }
                    }
                    let log: Arc<Log<()>> = create(&disk, config.clone());
                    // The files found may not have been durable before; now they are.
                    let again = image.crash_image(image.events(), Loss::All);
                    let again: Arc<dyn Disk> = Arc::new(again);
                    for stream in 0..streams {
                        assert!(payloads(&again, &info(&config), stream).is_empty());
                        put(log.stream(WorkerId(stream)), 1, b"p").unwrap();
                    }
                    log.close().unwrap();
                    for stream in 0..streams {
                        assert_eq!(payloads(&disk, &info(&config), stream), [b"p"]);
                    }
                }
            }
        }
    }
}

/// A process may die while the machine survives: the files that it left need not be durable.
#[test]
fn creating_again_hardens_a_failed_attempts_leftovers() {
    for placement in [config(1).placement, shared(64 << 10)] {
        let mut config = config(2);
        config.placement = placement;
        for failing in 0.. {
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            disk.create_dir_all(std::path::Path::new("/db")).unwrap();
            sim.inject(Fault::once(Step::SyncDir, failing, ErrorKind::Other));
            let first = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone());
            let failed = first.is_err();
            sim.heal();
            let _log: Arc<Log<()>> = create(&disk, config.clone());
            let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), Loss::All));
            for stream in 0..2 {
                assert!(payloads(&image, &info(&config), stream).is_empty());
            }
            if !failed {
                assert!(failing > 0);
                break;
            }
        }
    }
}

/// A failed write may surface at any later crash. Its generation is sealed by then, and the next
/// one writes over its place or elsewhere.
#[test]
fn a_failed_write_that_comes_to_light_later_changes_nothing() {
    for placement in [config(1).placement, shared(64 << 10)] {
        let mut surprises = 0;
        for failing in 0..40 {
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let mut config = config(1);
            config.placement = placement.clone();
            let stream = WorkerId(0);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            let mut acknowledged = 0;
            let fault = Fault::once(Step::Write, failing % 8, ErrorKind::Other);
            sim.inject(fault.torn(failing));
            for n in 0..8 {
                let Ok((ticket, _)) = put(log.stream(stream), n, &[n as u8; 700]) else {
                    break;
                };
                if log.stream(stream).wait_hardened(ticket).is_err() {
                    break;
                }
                acknowledged += 1;
            }
            // Without a first file nothing was written, so no outcome is unknown.
            assert!(log.poisoned().is_some() || acknowledged == 0);
            drop(log);

            // The next opening reads, seals, and continues; it is crashed at every event.
            let mut first = info(&config);
            let (records, end) = read(&disk, &first, 0).unwrap();
            let found = records.len();
            assert!(found == acknowledged || found == acknowledged + 1);
            surprises += found - acknowledged;
            namiki_log::harden_tail(&disk, &wal(), &first, stream, &end).unwrap();
            first.seal = Some(GenerationEnd {
                last_sequences: vec![found as u64],
                last_lsn: Lsn(found as u64),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(8),
            });
            let from = sim.events();
            config.generation = Generation(2);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            let created = sim.events();
            for n in 0..4 {
                let (ticket, _) = put(log.stream(stream), n, &[n as u8; 300]).unwrap();
                log.stream(stream).wait_hardened(ticket).unwrap();
                sim.mark(n);
            }
            drop(log);
            for at in from..=sim.events() {
                let hardened = sim.marks_before(at).len();
                for loss in (0..4).map(Loss::Seeded).chain([Loss::None, Loss::All]) {
                    let disk: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
                    let kept = payloads(&disk, &first, 0).len();
                    assert_eq!(kept, found, "event {at}, {loss:?}");
                    if at < created {
                        // The generation was not announced, so it is created again.
                        let log: Arc<Log<()>> = create(&disk, config.clone());
                        put(log.stream(stream), 9, b"second").unwrap();
                        log.close().unwrap();
                        assert_eq!(payloads(&disk, &info(&config), 0), [b"second"]);
                        assert_eq!(payloads(&disk, &first, 0).len(), found);
                        continue;
                    }
                    let second = info(&config);
                    let kept = payloads(&disk, &second, 0).len();
                    assert!(
                        kept == hardened || kept == hardened + 1,
                        "event {at}, {loss:?}"
                    );
                    // A third opening finds a place of its own.
                    let mut third = config.clone();
                    third.generation = Generation(3);
                    let log: Arc<Log<()>> = create(&disk, third.clone());
                    put(log.stream(stream), 9, b"third").unwrap();
                    log.close().unwrap();
                    assert_eq!(payloads(&disk, &info(&third), 0), [b"third"]);
                    let mut second = second;
                    second.seal = Some(GenerationEnd {
                        last_sequences: vec![kept as u64],
                        last_lsn: Lsn(kept as u64),
                        durable_epoch: Epoch(0),
                        max_stamp: Stamp(8),
                    });
                    assert_eq!(payloads(&disk, &second, 0).len(), kept);
                }
            }
        }
        // Some of the failed frames were readable as a whole.
        assert!(surprises > 0);
    }
}
