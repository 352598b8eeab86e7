//! Torn tails, damage, recycling, seals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use namiki_log::{GenerationEnd, GenerationInfo, Log, LogConfig, ReadError, Retain};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);

fn log_file(number: u64) -> PathBuf {
    PathBuf::from(format!("/db/wal/0000/000001-{number:08}.log"))
}

/// The event from which on a generation may be announced.
fn created(config: &LogConfig) -> usize {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let _log: Arc<Log<()>> = create(&disk, config.clone());
    sim.events()
}

/// Frames of `bytes` payload each, numbered from 0.
fn write(sim: &SimDisk, config: &LogConfig, frames: u64, bytes: usize) -> GenerationInfo {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    for n in 0..frames {
        let mut payload = vec![0xAB; bytes];
        payload[..8].copy_from_slice(&n.to_le_bytes());
        put(log.stream(W), n, &payload).unwrap();
        log.stream(W).flush().unwrap();
        sim.mark(n);
    }
    info(config)
}

fn damaged(sim: &SimDisk, info: &GenerationInfo) -> (PathBuf, u64) {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    match read(&disk, info, 0) {
        Err(ReadError::Damaged {
            file, offset_bytes, ..
        }) => (file, offset_bytes),
        other => panic!("no damage found: {other:?}"),
    }
}

#[test]
fn any_torn_tail_ends_the_stream_before_it() {
    let sim = SimDisk::new();
    // The last frame has five sectors.
    let info = write(&sim, &config(1), 4, 2100);
    let at = (0..=sim.events())
        .rev()
        .find(|&at| sim.pending_sectors(at) > 0)
        .unwrap();
    let sectors = sim.pending_sectors(at);
    assert_eq!(sectors, 5);
    let full = sim.crash_image(at, Loss::None);
    let none = sim.crash_image(at, Loss::All);
    let offset = 512 + 3 * 2560;
    let (mut whole, mut before) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    whole.copy_from_slice(&full.read(&log_file(1)).unwrap());
    before.copy_from_slice(&none.read(&log_file(1)).unwrap());
    for kept in 0..1u32 << sectors {
        let image = none.crash_image(0, Loss::None);
        for sector in (0..sectors).filter(|sector| kept & 1 << sector != 0) {
            let from = offset + sector * 512;
            let bytes = &whole[from..from + 512];
            image.damage(&log_file(1), from as u64, bytes).unwrap();
        }
        let disk: Arc<dyn Disk> = Arc::new(image);
        let (records, end) = read(&disk, &info, 0).unwrap();
        let all = kept + 1 == 1 << sectors;
        assert_eq!(records.len(), if all { 4 } else { 3 }, "sectors {kept:#b}");
        assert_eq!(end.torn, kept != 0 && !all, "sectors {kept:#b}");
    }
}

#[test]
fn damage_before_the_last_frame_names_file_and_byte() {
    let sim = SimDisk::new();
    // Two sectors a frame: 15 fit into the first log file.
    let info = write(&sim, &config(1), 40, 700);
    for frame in [0, 1, 14, 15, 38] {
        for byte in [0, 8, 60, 100, 795] {
            let image = sim.crash_image(sim.events(), Loss::None);
            let (number, offset) = (frame / 15 + 1, 512 + frame % 15 * 1024);
            let at = offset + byte;
            let path = log_file(number);
            image.flip(&path, at, 0xff).unwrap();
            assert_eq!(
                damaged(&image, &info),
                (path, offset),
                "frame {frame} byte {byte}"
            );
        }
    }
    // Damage in the last frame cannot be told from a torn tail.
    let image = sim.crash_image(sim.events(), Loss::None);
    image
        .flip(&log_file(3), 512 + 9 * 1024 + 100, 0xff)
        .unwrap();
    let disk: Arc<dyn Disk> = Arc::new(image.clone());
    assert_eq!(payloads(&disk, &info, 0).len(), 39);
    // Unless a seal says that the frame was hardened.
    let mut sealed = info;
    sealed.seal = Some(GenerationEnd {
        last_sequences: vec![40],
        last_lsn: Lsn(40),
        durable_epoch: Epoch(0),
        max_stamp: Stamp(39),
    });
    assert_eq!(damaged(&image, &sealed), (log_file(3), 512 + 9 * 1024));
}

#[test]
fn recycled_files_never_resurrect_old_frames() {
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(2).unwrap());
    // With these counts the stream ends at every position of a recycled log file.
    for frames in 60..95 {
        let sim = SimDisk::new();
        let info = write(&sim, &config, frames, 700);
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let all = payloads(&disk, &info, 0);
        let numbers: Vec<u64> = all
            .iter()
            .map(|payload| u64::from_le_bytes(payload[..8].try_into().unwrap()))
            .collect();
        let kept = numbers.len() as u64;
        // Two log files, and one that waits to be written again.
        assert!((16..=45).contains(&kept), "{kept} frames");
        assert_eq!(numbers, (frames - kept..frames).collect::<Vec<_>>());
        assert!(disk.list(Path::new("/db/wal/0000")).unwrap().len() <= 3);
    }
}

#[test]
fn no_crash_while_recycling_loses_a_retained_frame() {
    let sim = SimDisk::new();
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(2).unwrap());
    let info = write(&sim, &config, 64, 700);
    for at in created(&config)..=sim.events() {
        let acknowledged = sim.marks_before(at).len() as u64;
        let names = sim.pending_names(at);
        let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)]
            .into_iter()
            .chain((0..names).map(Loss::NamesAfter));
        for loss in losses {
            let disk: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
            let (records, _) = read(&disk, &info, 0)
                .unwrap_or_else(|error| panic!("event {at}, {loss:?}: {error}"));
            let last = records.last().map_or(0, |(stamp, ..)| stamp.0 + 1);
            assert!(
                last == acknowledged || last == acknowledged + 1,
                "event {at}, {loss:?}: {last} of {acknowledged}"
            );
        }
    }
}

#[test]
fn a_seal_cuts_off_later_frames_for_ever() {
    for placement in [config(1).placement, shared(256 << 10)] {
        let sim = SimDisk::new();
        let mut config = config(1);
        config.placement = placement;
        let mut info = write(&sim, &config, 40, 700);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        for kept in [0, 1, 15, 16, 39, 40] {
            info.seal = Some(GenerationEnd {
                last_sequences: vec![kept],
                last_lsn: Lsn(kept),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(40),
            });
            assert_eq!(payloads(&disk, &info, 0).len() as u64, kept);
        }
        // A later generation makes no difference.
        let mut next = config.clone();
        next.generation = Generation(2);
        let log: Arc<Log<()>> = create(&disk, next.clone());
        put(log.stream(W), 99, b"second").unwrap();
        log.close().unwrap();
        info.seal = Some(GenerationEnd {
            last_sequences: vec![39],
            last_lsn: Lsn(39),
            durable_epoch: Epoch(0),
            max_stamp: Stamp(40),
        });
        assert_eq!(payloads(&disk, &info, 0).len(), 39);
        let second = crate::common::info(&next);
        assert_eq!(payloads(&disk, &second, 0), [b"second"]);
    }
}

#[test]
fn all_generations_of_a_shared_device_are_read() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut infos = Vec::new();
    for generation in 1..=5 {
        let mut config = config(2);
        config.placement = shared(64 << 10);
        config.generation = Generation(generation);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        for n in 0..u64::from(generation) {
            put(log.stream(WorkerId(1)), n, &generation.to_le_bytes()).unwrap();
            log.flush_all().unwrap();
        }
        let mut info = info(&config);
        info.seal = Some(log.close().unwrap());
        infos.push(info);
    }
    for info in infos {
        let generation = info.generation.0;
        assert!(payloads(&disk, &info, 0).is_empty());
        let all = payloads(&disk, &info, 1);
        assert_eq!(
            all,
            vec![generation.to_le_bytes().to_vec(); generation as usize]
        );
    }
}

#[test]
fn a_crash_between_body_and_header_loses_only_the_unacknowledged() {
    let sim = SimDisk::new();
    let mut config = config(1);
    config.placement = shared(64 << 10);
    let info = write(&sim, &config, 6, 700);
    for at in created(&config)..=sim.events() {
        let acknowledged = sim.marks_before(at).len() as u64;
        for loss in (0..40).map(Loss::Seeded).chain([Loss::None, Loss::All]) {
            let image = sim.crash_image(at, loss);
            let disk: Arc<dyn Disk> = Arc::new(image);
            let found = payloads(&disk, &info, 0).len() as u64;
            assert!(
                found == acknowledged || found == acknowledged + 1,
                "event {at}, {loss:?}: {found} of {acknowledged}"
            );
            // The next generation begins on top of the crash's remains, and hides none of them.
            let mut next = config.clone();
            next.generation = Generation(2);
            let log: Arc<Log<()>> = create(&disk, next.clone());
            put(log.stream(W), 99, b"second").unwrap();
            log.close().unwrap();
            assert_eq!(payloads(&disk, &crate::common::info(&next), 0), [b"second"]);
            let mut sealed = info.clone();
            sealed.seal = Some(GenerationEnd {
                last_sequences: vec![found],
                last_lsn: Lsn(found),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(found),
            });
            assert_eq!(payloads(&disk, &sealed, 0).len() as u64, found);
        }
    }
}

#[test]
fn a_stream_that_was_never_used_is_empty() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    for placement in [config(1).placement, shared(64 << 10)] {
        let mut config = config(2);
        config.placement = placement;
        let _log: Arc<Log<()>> = create(&disk, config.clone());
        assert!(payloads(&disk, &info(&config), 1).is_empty());
    }
}

/// Every block size and both parities of head writes, so that each slot is the valid one in some
/// case.
#[test]
fn other_block_sizes_are_read_or_refused() {
    for (written, present) in [
        (512, 4096),
        (4096, 512),
        (512, 512),
        (4096, 4096),
        (128, 128),
        (128, 512),
        (64, 64),
        (64, 128),
        (64, 512),
        (512, 64),
    ] {
        for frames in 1..6 {
            for placement in [config(1).placement, shared(64 << 10)] {
                let sim = SimDisk::new();
                let disk = with_blocks(&sim, written);
                let mut config = config(2);
                config.placement = placement;
                let log: Arc<Log<()>> = create(&disk, config.clone());
                for n in 0..frames {
                    put(log.stream(WorkerId(1)), n, &[n as u8; 700]).unwrap();
                    log.stream(WorkerId(1)).flush().unwrap();
                }
                drop(log);

                let before = sim.events();
                let moved = with_blocks(&sim, present);
                let mut info = info(&config);
                let (records, end) = read(&moved, &info, 1).unwrap();
                assert_eq!((records.len() as u64, end.torn), (frames, false));
                namiki_log::harden_tail(&moved, &wal(), &info, WorkerId(1), &end).unwrap();
                assert!(sim.events() > before);
                // The read changed nothing.
                assert_eq!(read(&moved, &info, 1).unwrap(), (records.clone(), end));
                info.seal = Some(GenerationEnd {
                    last_sequences: vec![0, frames],
                    last_lsn: Lsn(frames),
                    durable_epoch: Epoch(0),
                    max_stamp: Stamp(frames),
                });
                assert_eq!(read(&moved, &info, 1).unwrap().0, records);

                let mut next = config.clone();
                next.generation = Generation(2);
                let log = Log::<()>::create(Arc::clone(&moved), &wal(), next.clone());
                let region = matches!(next.placement, namiki_log::Placement::Shared { .. });
                // A region's blocks have 128 bytes at least.
                let laid_out = written.max(128);
                if region && laid_out < present {
                    let error = log.unwrap_err().to_string();
                    assert!(
                        error.contains(&format!(
                            "/db/device was laid out in blocks of {laid_out} bytes"
                        )),
                        "{error}"
                    );
                    continue;
                }
                let log = log.unwrap();
                put(log.stream(WorkerId(1)), 9, b"second").unwrap();
                log.close().unwrap();
                assert_eq!(
                    payloads(&moved, &crate::common::info(&next), 1),
                    [b"second"]
                );
                assert_eq!(read(&moved, &info, 1).unwrap().0, records);
            }
        }
    }
}

#[test]
fn a_torn_head_leaves_the_other_slot() {
    for (written, present) in [(512, 4096), (4096, 512), (128, 512)] {
        for frames in 1..4u64 {
            let sim = SimDisk::new();
            let disk = with_blocks(&sim, written);
            let mut config = config(1);
            config.placement = shared(64 << 10);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            for n in 0..frames {
                put(log.stream(W), n, &[n as u8; 700]).unwrap();
                log.stream(W).flush().unwrap();
            }
            // The first head is the first write, into the second slot.
            let slot = (frames + 1) % 2 * written as u64;
            sim.damage(Path::new("/db/device"), slot + 50, &[0xFF; 9])
                .unwrap();
            let moved = with_blocks(&sim, present);
            assert_eq!(payloads(&moved, &info(&config), 0).len() as u64, frames - 1);
        }
    }
}

#[test]
fn frames_longer_than_the_read_window_are_read() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.buffer_bytes = 3 << 20;
    config.placement = namiki_log::Placement::Files {
        log_file_bytes: 8 << 20,
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let sizes = [10, 2_500_000, 700_000, 3_000_000, 1_200_000, 4_000];
    for (n, size) in sizes.into_iter().enumerate() {
        put(log.stream(W), n as u64, &vec![n as u8; size]).unwrap();
        log.stream(W).flush().unwrap();
    }
    let all = payloads(&disk, &info(&config), 0);
    let expected: Vec<_> = (0..).zip(sizes).map(|(n, size)| vec![n; size]).collect();
    assert!(all == expected);
}

#[test]
fn the_manifest_part_of_a_generation_survives_serialisation() {
    let mut info = info(&config(3));
    info.seal = Some(GenerationEnd {
        last_sequences: vec![1, 2, 3],
        last_lsn: Lsn(9),
        durable_epoch: Epoch(0),
        max_stamp: Stamp(8),
    });
    let text = serde_json::to_string(&info).unwrap();
    let back: GenerationInfo = serde_json::from_str(&text).unwrap();
    assert_eq!(back, info);
}
