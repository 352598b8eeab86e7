//! Entries that exceed a buffer: frames of their own, and log files of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_log::{
    Entry, GenerationEnd, GenerationInfo, ImageEffect, Layout, Log, LogConfig, LogError, Placement,
    ReadError, Retain, Stream, Ticket, harden_tail,
};
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, DiskCall, SimDisk};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

use crate::common::*;

const W: WorkerId = WorkerId(0);
/// The bytes of a frame with one entry, without the payload.
const OVERHEAD: usize = 96;
const BLOCK: usize = 4096;

/// Buffers of 4 KiB, log files of 16, entries of up to 100,000 bytes.
fn large_config(streams: u16) -> LogConfig {
    LogConfig {
        payload_bytes_max: Some(100_000),
        ..config(streams)
    }
}

fn placements() -> [Placement; 2] {
    [config(1).placement, shared(512 << 10)]
}

/// Bytes that encode their position.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at / 7 + at / 512 * 3 + number * 31) as u8)
        .collect()
}

/// Appends a payload of any length.
fn put_any(stream: &Stream<()>, stamp: u64, payload: &[u8]) -> Result<Ticket, LogError> {
    if payload.len() <= stream.buffered_bytes_max() {
        return put(stream, stamp, payload).map(|(ticket, _)| ticket);
    }
    let oversize = stream.prepare_oversize(ImageEffect::Longer, payload.len(), |into| {
        into.copy_from_slice(payload);
    })?;
    let (stamp, epoch) = (Stamp(stamp), Epoch(1));
    let appended = stream.append_oversize(Entry::Commit, stamp, epoch, oversize, |()| {})?;
    if appended.group_is_full {
        stream.begin_flush(appended.ticket)?;
    }
    Ok(appended.ticket)
}

/// Appends a payload and waits until it is durable.
fn harden(stream: &Stream<()>, stamp: u64, payload: &[u8]) -> Result<(), LogError> {
    let ticket = put_any(stream, stamp, payload)?;
    stream.wait_hardened(ticket)
}

fn files(sim: &SimDisk) -> Vec<String> {
    let listed = sim.list(&wal().join("0000")).unwrap();
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    listed.into_iter().map(|entry| name(entry.path)).collect()
}

#[test]
fn payloads_at_every_limit_are_read_back() {
    for placement in placements() {
        for layout in [Layout::PerWorker, Layout::Single] {
            let in_log_file = (16 << 10) - BLOCK - OVERHEAD;
            let limits = [
                4096 - OVERHEAD,
                8192 - OVERHEAD,
                in_log_file,
                65_536 - OVERHEAD,
            ];
            let around = limits
                .into_iter()
                .flat_map(|limit| [limit - 1, limit, limit + 1]);
            let lengths: Vec<_> = around.chain([1, 99_999, 100_000, 2]).collect();
            let config = LogConfig {
                placement: placement.clone(),
                layout,
                ..large_config(1)
            };
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let log: Arc<Log<()>> = create(&disk, config.clone());
            let stream = log.stream(W);
            assert_eq!(stream.payload_bytes_max(), 100_000);
            assert_eq!(stream.buffered_bytes_max(), 4096 - OVERHEAD);
            let written: Vec<_> = (0..)
                .zip(&lengths)
                .map(|(n, len)| payload(n, *len))
                .collect();
            for (stamp, bytes) in (0..).zip(&written) {
                harden(stream, stamp, bytes).unwrap();
            }
            let too_long = payload(0, 100_001);
            assert!(matches!(
                put_any(stream, 99, &too_long),
                Err(LogError::CommitTooLarge {
                    bytes: 100_001,
                    bytes_max: 100_000
                })
            ));
            // A crash now reads the same as a close.
            let crashed: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), Loss::All));
            log.close().unwrap();
            for disk in [crashed, disk] {
                assert!(
                    payloads(&disk, &info(&config), 0) == written,
                    "{layout:?}, {placement:?}"
                );
            }
        }
    }
}

#[test]
fn no_entry_is_longer_than_a_region() {
    let config = LogConfig {
        placement: shared(32 << 10),
        ..large_config(1)
    };
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let stream = log.stream(W);
    let longest = (32 << 10) - 2 * BLOCK - OVERHEAD;
    assert_eq!(stream.payload_bytes_max(), longest);
    harden(stream, 1, &payload(1, longest)).unwrap();
    let next = put_any(stream, 2, &payload(2, 10_000));
    assert!(matches!(next, Err(LogError::RegionFull { .. })), "{next:?}");
    assert!(payloads(&disk, &info(&config), 0) == [payload(1, longest)]);
}

#[test]
fn files_that_are_recycled_take_no_longer_entries() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = LogConfig {
        retain: Retain::Last(NonZeroU32::MIN),
        ..large_config(1)
    };
    let created = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone());
    assert!(matches!(created, Err(LogError::InvalidConfig { .. })));
    let in_log_file = (16 << 10) - BLOCK - OVERHEAD;
    let config = LogConfig {
        payload_bytes_max: Some(in_log_file),
        ..config
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    for n in 0..6 {
        harden(log.stream(W), n, &payload(n as usize, in_log_file)).unwrap();
    }
    let kept = payloads(&disk, &info(&config), 0);
    assert!(kept.len() < 6 && kept.last() == Some(&payload(5, in_log_file)));
}

/// The spare that is ready is replaced, and those after it keep their numbers.
#[test]
fn an_oversize_file_takes_the_number_of_a_spare() {
    for spares in 0..4 {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let config = large_config(1);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let stream = log.stream(W);
        harden(stream, 0, b"before").unwrap();
        log.prepare_log_files(spares).unwrap();
        let before = files(&sim).len();
        let long = payload(1, 50_000);
        harden(stream, 1, &long).unwrap();
        assert_eq!(files(&sim).len(), before.max(2), "{spares}");
        harden(stream, 2, b"after").unwrap();
        let expected = [b"before".to_vec(), long, b"after".to_vec()];
        assert!(payloads(&disk, &info(&config), 0) == expected, "{spares}");
        assert!(files(&sim).iter().all(|name| name.ends_with(".log")));
    }
}

#[test]
fn an_entry_that_is_not_appended_leaves_no_file() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = large_config(1);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let stream = log.stream(W);
    harden(stream, 0, b"before").unwrap();
    let before = files(&sim);
    drop(
        stream
            .prepare_oversize(ImageEffect::Longer, 50_000, |_| {})
            .unwrap(),
    );
    assert_eq!(files(&sim), before);
    // The next opening removes the file of a killed process.
    std::mem::forget(
        stream
            .prepare_oversize(ImageEffect::Longer, 50_000, |_| {})
            .unwrap(),
    );
    assert_eq!(files(&sim).len(), before.len() + 1);
    assert_eq!(payloads(&disk, &info(&config), 0), [b"before"]);
    log.close().unwrap();
    let next = LogConfig {
        generation: Generation(2),
        ..config
    };
    let _log: Arc<Log<()>> = create(&disk, next);
    assert_eq!(files(&sim), before);
}

/// The state after a crash at any event: all acknowledged entries, and at most one more.
#[test]
fn no_crash_loses_or_tears_an_oversize_frame() {
    for placement in placements() {
        let config = LogConfig {
            placement: placement.clone(),
            ..large_config(1)
        };
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let log: Arc<Log<()>> = create(&disk, config.clone());
        // The second is too long for a log file, and shorter than the space that the first leaves
        // in one.
        let lengths = [
            10, 12_500, 6000, 10, 40_000, 20_000, 300, 5000, 11_000, 30_000,
        ];
        let written: Vec<_> = (0..).zip(lengths).map(|(n, len)| payload(n, len)).collect();
        let created = sim.events();
        for (number, bytes) in (0..).zip(&written) {
            harden(log.stream(W), number, bytes).unwrap();
            sim.mark(number);
        }
        let (mut torn, mut images) = (0, 0);
        for at in created..=sim.events() {
            let hardened = sim.marks_before(at).len();
            let (sectors, names) = (sim.pending_sectors(at), sim.pending_names(at));
            let losses = [Loss::None, Loss::All].into_iter();
            let losses = losses
                .chain((0..names).map(Loss::NamesAfter))
                .chain((0..sectors.min(20)).flat_map(|it| [Loss::Only(it), Loss::OnlyKept(it)]))
                .chain((0..6).map(Loss::Seeded));
            for loss in losses {
                let image = sim.crash_image(at, loss);
                let disk: Arc<dyn Disk> = Arc::new(image.clone());
                let (records, end) = read(&disk, &info(&config), 0)
                    .unwrap_or_else(|error| panic!("event {at}, {loss:?}: {error:?}"));
                let kept = records.len();
                assert!(
                    kept == hardened || kept == hardened + 1,
                    "event {at}, {loss:?}"
                );
                assert!(
                    records
                        .iter()
                        .zip(&written)
                        .all(|(read, bytes)| read.2 == *bytes)
                );
                torn += u32::from(end.torn);
                images += 1;
                if images % 7 != 0 {
                    continue;
                }
                // The next opening hardens the entry, seals the log, and continues to write.
                let mut first = info(&config);
                harden_tail(&disk, &wal(), &first, W, &end).unwrap();
                first.seal = Some(seal(kept as u64));
                let next = LogConfig {
                    generation: Generation(2),
                    ..config.clone()
                };
                let log: Arc<Log<()>> = create(&disk, next.clone());
                let long = payload(77, 25_000);
                harden(log.stream(W), 1, &long).unwrap();
                drop(log);
                let image = image.crash_image(image.events(), Loss::All);
                let disk: Arc<dyn Disk> = Arc::new(image);
                assert_eq!(payloads(&disk, &first, 0).len(), kept);
                assert!(payloads(&disk, &info(&next), 0) == [long]);
            }
        }
        let is_region = matches!(placement, Placement::Shared { .. });
        assert!(torn > 0 || is_region, "{torn} of {images}");
    }
}

fn seal(frames: u64) -> GenerationEnd {
    GenerationEnd {
        last_sequences: vec![frames],
        last_lsn: Lsn(frames),
        durable_epoch: Epoch(0),
        max_stamp: Stamp(frames),
    }
}

/// Whichever step fails, the commit has not happened, and the earlier ones are there.
#[test]
fn a_step_that_fails_refuses_the_entry_alone() {
    let steps = [
        Step::Create,
        Step::Append,
        Step::Sync,
        Step::Rename,
        Step::SyncDir,
        Step::Write,
    ];
    for placement in placements() {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            for step in steps {
                for nth in 0..4 {
                    let config = LogConfig {
                        placement: placement.clone(),
                        ..large_config(1)
                    };
                    let sim = SimDisk::new();
                    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
                    let log: Arc<Log<()>> = create(&disk, config.clone());
                    let stream = log.stream(W);
                    let mut expected = vec![payload(0, 300), payload(1, 40_000)];
                    for (stamp, bytes) in (0..).zip(&expected) {
                        harden(stream, stamp, bytes).unwrap();
                    }
                    let context = format!("{placement:?} {kind} {step:?} {nth}");
                    sim.inject(Fault::once(step, nth, kind));
                    let long = payload(2, 50_000);
                    let hardened = harden(stream, 2, &long);
                    sim.heal();
                    match hardened {
                        Ok(()) => expected.push(long),
                        Err(error) if error.is_poison() => {
                            assert!(log.poisoned().is_some(), "{context}: {error:?}");
                            let (records, _) = read(&disk, &info(&config), 0).unwrap();
                            let kept = records.len();
                            assert!(kept == 2 || kept == 3, "{context}: {kept}");
                            continue;
                        }
                        Err(LogError::DiskFull { .. }) => {
                            assert_eq!(kind, ErrorKind::StorageFull, "{context}");
                        }
                        Err(LogError::NotPrepared { .. }) => {
                            assert_eq!(kind, ErrorKind::Other, "{context}");
                        }
                        Err(other) => panic!("{context}: {other:?}"),
                    }
                    // The log continues, with small and with large entries.
                    for bytes in [payload(3, 10), payload(4, 30_000)] {
                        harden(stream, 3, &bytes).unwrap();
                        expected.push(bytes);
                    }
                    let image = sim.crash_image(sim.events(), Loss::All);
                    let disk: Arc<dyn Disk> = Arc::new(image);
                    assert!(payloads(&disk, &info(&config), 0) == expected, "{context}");
                }
            }
        }
    }
}

/// The log file may have taken the name of the spare for later frames. A rename that reports a
/// failure is a refusal only if it did not take place.
#[test]
fn a_numbering_in_doubt_loses_no_acknowledged_frame() {
    let kinds = [
        ErrorKind::Other,
        ErrorKind::StorageFull,
        ErrorKind::NotFound,
    ];
    let faults = kinds.into_iter().flat_map(|kind| {
        // The first gives the finished file its name without a number.
        let (name, number) = (
            Fault::once(Step::Rename, 0, kind),
            Fault::once(Step::Rename, 1, kind),
        );
        let sync = Fault::once(Step::SyncDir, 0, kind);
        [
            (name, false),
            (name.though_it_takes_place(), false),
            (number, false),
            (number.though_it_takes_place(), true),
            (sync, true),
            (sync.though_it_takes_place(), true),
        ]
    });
    for (fault, is_in_doubt) in faults {
        for spares in [1, 2, 0] {
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let config = large_config(1);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            let stream = log.stream(W);
            let mut acknowledged = vec![payload(0, 300)];
            harden(stream, 0, &acknowledged[0]).unwrap();
            log.prepare_log_files(spares).unwrap();
            let context = format!("{fault:?}, {spares}");
            sim.inject(fault);
            let error = harden(stream, 1, &payload(1, 50_000)).unwrap_err();
            sim.heal();
            // More than the free space of the first log file.
            for number in 2..12 {
                let bytes = payload(number, 3000);
                if harden(stream, number as u64, &bytes).is_ok() {
                    acknowledged.push(bytes);
                }
            }
            for loss in [Loss::None, Loss::All] {
                let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), loss));
                let found = payloads(&image, &info(&config), 0);
                assert!(found == acknowledged, "{context}, {loss:?}");
            }
            assert_eq!(error.is_poison(), is_in_doubt, "{context}: {error:?}");
            assert_eq!(acknowledged.len() == 1, is_in_doubt, "{context}");
        }
    }
}

#[test]
fn a_full_disk_refuses_an_oversize_entry_and_goes_on() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = large_config(1);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let stream = log.stream(W);
    harden(stream, 0, &payload(0, 100)).unwrap();
    sim.set_capacity(Some(60 << 10));
    for length in [50_000, 90_000] {
        let refused = put_any(stream, 1, &payload(1, length));
        assert!(
            matches!(refused, Err(LogError::DiskFull { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(files(&sim).len(), 1, "nothing is left of what was refused");
    harden(stream, 2, &payload(2, 30_000)).unwrap();
    sim.set_capacity(None);
    harden(stream, 4, &payload(4, 50_000)).unwrap();
    let expected = [payload(0, 100), payload(2, 30_000), payload(4, 50_000)];
    assert!(payloads(&disk, &info(&config), 0) == expected);
}

#[test]
fn threads_append_long_and_short_entries_to_one_stream() {
    for (placement, layout) in placements()
        .into_iter()
        .zip([Layout::PerWorker, Layout::Single])
    {
        let placement = match placement {
            Placement::Shared { .. } => shared(16 << 20),
            files => files,
        };
        let config = LogConfig {
            placement,
            layout,
            group: count(3),
            group_wait_max: std::time::Duration::from_millis(1),
            ..large_config(2)
        };
        let sim = SimDisk::new().with_yields(5);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let writer = Arc::clone(&log);
        within_reason("appends of both lengths", move || {
            std::thread::scope(|scope| {
                for thread in 0..6_u64 {
                    let log = &writer;
                    scope.spawn(move || {
                        for n in 0..40 {
                            let number = thread * 100 + n;
                            let length = match (thread % 2, n % 3) {
                                (0, 0) => 4500 + 37 * n as usize,
                                (0, 1) => 20_000 + 1111 * n as usize,
                                _ => 8 + n as usize,
                            };
                            let mut bytes = payload(number as usize, length);
                            bytes[..8].copy_from_slice(&number.to_le_bytes());
                            let stream = log.stream(WorkerId(thread as u16 % 4));
                            harden(stream, number, &bytes).unwrap();
                        }
                    });
                }
            });
        });
        let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), Loss::All));
        let mut numbers = Vec::new();
        for stream in 0..config.stream_count() as u16 {
            for bytes in payloads(&image, &info(&config), stream) {
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes[8..] == payload(number as usize, bytes.len())[8..]);
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        let expected = (0..6).flat_map(|thread| (0..40).map(move |n| thread * 100 + n));
        assert!(numbers.into_iter().eq(expected));
        log.close().unwrap();
    }
}

/// Three frames; the second or the last has a log file of its own.
fn written(last_is_long: bool) -> (SimDisk, GenerationInfo) {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = large_config(1);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    harden(log.stream(W), 0, &payload(0, 200)).unwrap();
    harden(log.stream(W), 1, &payload(1, 40_000)).unwrap();
    if !last_is_long {
        harden(log.stream(W), 2, &payload(2, 200)).unwrap();
    }
    drop(log);
    (sim.crash_image(sim.events(), Loss::All), info(&config))
}

#[test]
fn a_damaged_oversize_frame_in_the_middle_is_damage() {
    let path = wal().join("0000/000001-00000002.log");
    for offset in [0, 530, 700, 5000, 40_000] {
        let (sim, info) = written(false);
        sim.damage(&path, offset, &[0xa5; 40]).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let found = read(&disk, &info, 0).map(|_| ());
        assert!(
            matches!(&found, Err(ReadError::Damaged { file, .. }) if *file == path),
            "{offset}: {found:?}"
        );
    }
}

/// Like any last frame, it cannot be distinguished from a write that the crash interrupted.
#[test]
fn a_torn_oversize_frame_at_the_tail_ends_the_stream() {
    let path = wal().join("0000/000001-00000002.log");
    let torn = [
        (512, vec![0; 512]),
        (1024, vec![0; 512]),
        (5120, vec![0; 4096]),
        (700, b"?".to_vec()),
    ];
    for (offset, bytes) in torn {
        let (sim, info) = written(true);
        sim.damage(&path, offset, &bytes).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let (records, end) = read(&disk, &info, 0).unwrap();
        assert_eq!((records.len(), end.torn), (1, true), "{offset}");
    }
    // Nothing follows the frame.
    let (sim, info) = written(true);
    let bytes = sim.read(&path).unwrap().len() as u64;
    sim.damage(&path, 512, &[0; 512]).unwrap();
    sim.flip(&path, bytes - 512, 0xff).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    assert!(matches!(
        read(&disk, &info, 0),
        Err(ReadError::Damaged { .. })
    ));
}

#[test]
fn an_oversize_file_has_a_length_of_its_own() {
    let path = wal().join("0000/000001-00000002.log");
    // Shorter than its header says, and with a length that only a shorter file may have.
    let (sim, info) = written(true);
    for length in [16 << 10, 1 << 40] {
        let image = sim.crash_image(sim.events(), Loss::All);
        let mut block = image.read(&path).unwrap()[..64].to_vec();
        block[40..48].copy_from_slice(&u64::to_le_bytes(length));
        let crc = crc32c::crc32c(&block[12..64]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        image.damage(&path, 0, &block).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(image);
        let found = read(&disk, &info, 0).map(|_| ());
        assert!(
            matches!(found, Err(ReadError::Damaged { .. })),
            "{length}: {found:?}"
        );
    }
}

/// Also where the disk cannot append to a file: then the body overwrites zeros.
#[test]
fn oversize_frames_are_read_back_with_any_block_length() {
    for block_bytes in [64, 128, 512, 1024, 4096] {
        let sim = SimDisk::new();
        let disk = with_blocks(&sim, block_bytes);
        let config = large_config(1);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let lengths = [50_000, 10, 5000, 90_001, 13_000, 700];
        let written: Vec<_> = (0..).zip(lengths).map(|(n, len)| payload(n, len)).collect();
        for (stamp, bytes) in (0..).zip(&written) {
            harden(log.stream(W), stamp, bytes).unwrap();
        }
        let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), Loss::All));
        assert!(
            payloads(&image, &info(&config), 0) == written,
            "{block_bytes}"
        );
    }
}

/// Whichever write panics, the threads that wait for their turn return, and the log can be closed.
#[test]
fn a_panic_in_an_oversize_commit_leaves_no_waiter_behind() {
    for nth in 0..8 {
        let sim = SimDisk::new();
        let count = Arc::new(AtomicU64::new(u64::MAX));
        let counted = Arc::clone(&count);
        let hook = move |step| {
            if matches!(step, DiskCall::Write { .. }) && counted.fetch_sub(1, Ordering::SeqCst) == 0
            {
                panic!("as planned");
            }
            Ok(())
        };
        let disk = hooked(&sim, hook);
        let config = large_config(1);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        harden(log.stream(W), 0, b"before").unwrap();
        count.store(nth, Ordering::SeqCst);
        let all = Arc::clone(&log);
        within_reason("commits beside one that panics", move || {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (1..5)
                    .map(|number| {
                        let log = &all;
                        let bytes = payload(number, if number < 3 { 40_000 } else { 20 });
                        scope.spawn(move || drop(harden(log.stream(W), number as u64, &bytes)))
                    })
                    .collect();
                for thread in threads {
                    // One of them has panicked.
                    drop(thread.join());
                }
            });
            drop(all.close());
        });
        let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), Loss::All));
        let kept = payloads(&image, &info(&config), 0);
        assert_eq!(kept[0], b"before", "{nth}");
    }
}

/// The head has the length of the next frame, so that a later frame is found even if its head is
/// lost.
#[test]
fn an_old_head_before_an_oversize_frame_is_damage() {
    let device = Path::new("/db/device");
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = LogConfig {
        placement: shared(512 << 10),
        ..large_config(1)
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let stream = log.stream(W);
    harden(stream, 0, b"before").unwrap();
    let long = payload(1, 40_000);
    let oversize = stream
        .prepare_oversize(ImageEffect::Longer, 40_000, |into| {
            into.copy_from_slice(&long);
        })
        .unwrap();
    let (stamp, epoch) = (Stamp(1), Epoch(1));
    let appended = stream
        .append_oversize(Entry::Commit, stamp, epoch, oversize, |()| {})
        .unwrap();
    let heads = sim.read(device).unwrap()[..1024].to_vec();
    stream.wait_hardened(appended.ticket).unwrap();
    harden(stream, 2, b"after").unwrap();
    drop(log);
    assert_eq!(payloads(&disk, &info(&config), 0).len(), 3);
    sim.damage(device, 0, &heads).unwrap();
    let found = read(&disk, &info(&config), 0).map(|_| ());
    assert!(matches!(found, Err(ReadError::Damaged { .. })), "{found:?}");
}
