//! Regions of a shared device as rings: wrap-around, overwritten and protected frames, and reading.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::engine::{Engine, recovered, recycling};
use crate::common::*;
use namiki_log::{
    Entry, GenerationInfo, ImageEffect, Log, LogConfig, LogError, LogStart, Placement, ReadError,
    RecyclePoint, Retain, StreamStart,
};
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::disk::{Disk, DiskCall};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);
const DEVICE: &str = "/db/device";
const REGION: u64 = 32 << 10;
/// Behind the two slots, of a block of 512 bytes each.
const FIRST: u64 = 1024;
const RING: u64 = REGION - FIRST;

fn ring(streams: u16) -> LogConfig {
    recycling(&shared(REGION), streams, Generation(1))
}

fn at(stamp: u64) -> RecyclePoint {
    RecyclePoint {
        stamp: Stamp(stamp),
        below_lsn: None,
    }
}

/// One commit in a frame of its own, of this number of sectors.
fn write(log: &Log<()>, stamp: u64, sectors: usize) -> Result<(), LogError> {
    put(log.stream(W), stamp, &vec![stamp as u8; sectors * 512 - 96])?;
    log.stream(W).flush()
}

/// An image of everything through `stamp`.
fn checkpoint(log: &Log<()>, info: &mut GenerationInfo, stamp: u64) -> LogStart {
    let start = log.recyclable(at(stamp)).unwrap();
    info.begin_at(&start);
    log.recycle(&start, Generation(0), 0).unwrap();
    start
}

fn stamps(disk: &Arc<dyn Disk>, info: &GenerationInfo) -> Result<Vec<u64>, ReadError> {
    let (all, _) = read(disk, info, 0)?;
    for (stamp, _, payload) in &all {
        assert!(payload.iter().all(|byte| *byte == stamp.0 as u8));
    }
    Ok(all.iter().map(|(stamp, ..)| stamp.0).collect())
}

/// A log and its part of the manifest, over a simulated disk with such blocks.
fn begin(sim: &SimDisk, block: usize) -> (Arc<dyn Disk>, Arc<Log<()>>, GenerationInfo) {
    let disk = with_blocks(sim, block);
    let config = LogConfig {
        kept: Some(Vec::new()),
        ..ring(1)
    };
    let log = create(&disk, config.clone());
    let mut info = info(&config);
    info.begin_at(&log.beginning());
    (disk, log, info)
}

#[test]
fn every_lap_is_read_back_whatever_its_blocks() {
    for (written, present) in [
        (512, 512),
        (4096, 4096),
        (4096, 512),
        (512, 4096),
        (128, 128),
        (128, 512),
        (64, 64),
        (64, 128),
    ] {
        let sim = SimDisk::new();
        let (_, log, mut info) = begin(&sim, written);
        let disk = with_blocks(&sim, present);
        let mut random = Random::seeded(7);
        let mut first = 1;
        for stamp in 1..=400 {
            write(&log, stamp, 1 + random.index(7)).unwrap();
            let found = stamps(&disk, &info).unwrap();
            assert_eq!(found, (first..=stamp).collect::<Vec<_>>());
            if log.kept_bytes() > RING / 2 {
                let start = checkpoint(&log, &mut info, stamp - random.below(3));
                first = start.streams[0].sequence;
                assert_eq!(start.complete_from, Lsn(first));
                assert!(log.kept_bytes() < RING / 2, "{start:?}");
            }
        }
        assert!(info.starts[0].offset > 8 * RING, "{info:?}");
        let end = read(&disk, &info, 0).unwrap().1;
        let events = sim.events();
        namiki_log::harden_tail(&disk, &wal(), &info, W, &end).unwrap();
        assert!(sim.events() > events);
        assert_eq!(
            stamps(&disk, &info).unwrap(),
            (first..=400).collect::<Vec<_>>()
        );
        info.seal = Some(log.close().unwrap());
        assert_eq!(
            stamps(&disk, &info).unwrap(),
            (first..=400).collect::<Vec<_>>()
        );
    }
}

#[test]
fn nothing_is_overwritten_before_the_manifest_gives_it_up() {
    let sim = SimDisk::new();
    let (disk, log, mut info) = begin(&sim, 512);
    let mut last = 0;
    let full = loop {
        match write(&log, last + 1, 3) {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, LogError::RegionFull { .. }), "{full}");
    assert_eq!(last, RING / 1536);
    assert!(log.is_short_of_room());
    // Asking for the superfluous part removes nothing.
    let start = log.recyclable(at(last - 5)).unwrap();
    assert!(write(&log, last + 1, 3).is_err());
    assert_eq!(
        stamps(&disk, &info).unwrap(),
        (1..=last).collect::<Vec<_>>()
    );
    info.begin_at(&start);
    log.recycle(&start, Generation(0), 0).unwrap();
    assert!(!log.is_short_of_room());
    let more = start.streams[0].sequence - 1;
    for stamp in last + 1..=last + more {
        write(&log, stamp, 3).unwrap();
    }
    assert!(write(&log, last + more + 1, 3).is_err());
    let all: Vec<_> = (more + 1..=last + more).collect();
    assert_eq!(stamps(&disk, &info).unwrap(), all);
}

/// Stamps need not rise within a stream, and others may depend on LSNs above the horizon.
#[test]
fn a_later_stamp_and_the_horizon_keep_what_follows() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let log: Arc<Log<()>> = create(&disk, ring(2));
    for number in 1..=20 {
        write(&log, if number == 9 { 1000 } else { number }, 1).unwrap();
    }
    let first = |point| log.recyclable(point).unwrap().streams[0];
    let expected = |sequence| StreamStart {
        sequence,
        offset: FIRST + (sequence - 1) * 512,
        ..StreamStart::FIRST
    };
    assert_eq!(first(at(0)), expected(1));
    assert_eq!(first(at(7)), expected(8));
    assert_eq!(first(at(999)), expected(9));
    assert_eq!(first(at(1000)), expected(20));
    let below = |lsn| RecyclePoint {
        below_lsn: Some(Lsn(lsn)),
        ..at(1000)
    };
    assert_eq!(first(below(13)), expected(13));
    // LSN 21, not hardened.
    put(log.stream(WorkerId(1)), 21, b"late").unwrap();
    for stamp in 22..=40 {
        write(&log, stamp, 1).unwrap();
    }
    // LSN 21 is the other stream's, so frame 21 of this stream has LSN 22.
    assert_eq!(first(at(5000)), expected(21));
    log.flush_all().unwrap();
    assert_eq!(first(at(5000)), expected(39));
}

/// While the next frame is under way, only the last hardened one has the information about epochs.
#[test]
fn the_last_hardened_frame_is_not_recycled() {
    type Seen = Arc<Mutex<Option<Arc<Log<()>>>>>;
    let seen: Seen = Arc::default();
    let sequences = Arc::new(Mutex::new(Vec::new()));
    let (of_hook, found) = (Arc::clone(&seen), Arc::clone(&sequences));
    let sim = SimDisk::new();
    let hook = move |step| {
        // A frame, which is written without the stream's lock; not the head.
        if let DiskCall::Write { offset, .. } = step
            && offset >= FIRST
            && let Some(log) = &*of_hook.lock().unwrap()
        {
            let start = log.recyclable(at(1000)).unwrap();
            found.lock().unwrap().push(start.streams[0].sequence);
        }
        Ok(())
    };
    let disk = hooked(&sim, hook);
    let log: Arc<Log<()>> = create(&disk, ring(1));
    *seen.lock().unwrap() = Some(Arc::clone(&log));
    for stamp in 1..=8 {
        write(&log, stamp, 2).unwrap();
    }
    // While the n-th is written, the one before is the last that is hardened.
    assert_eq!(*sequences.lock().unwrap(), [1, 1, 2, 3, 4, 5, 6, 7]);
    *seen.lock().unwrap() = None;
}

/// A log in its second lap: frames of three sectors, of which the end of the ring cuts one in two.
/// Returns the first that is kept, and where it is.
fn in_second_lap(sim: &SimDisk) -> (Arc<dyn Disk>, GenerationInfo, StreamStart) {
    let (disk, log, mut info) = begin(sim, 512);
    for stamp in 1..=30 {
        if stamp == 20 {
            checkpoint(&log, &mut info, 15);
        }
        write(&log, stamp, 3).unwrap();
    }
    assert!(!RING.is_multiple_of(1536), "a frame is cut in two");
    let start = info.starts[0];
    assert_eq!(start.sequence, 16);
    (disk, info, start)
}

#[test]
fn a_lost_beginning_is_told_from_a_recycled_one() {
    let sim = SimDisk::new();
    let (_, info, start) = in_second_lap(&sim);
    for sealed in [false, true] {
        let mut info = info.clone();
        if sealed {
            let seal = namiki_log::GenerationEnd {
                last_sequences: vec![30],
                last_lsn: Lsn(30),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(30),
            };
            info.seal = Some(seal);
        }
        let told = |image: &SimDisk, info: &GenerationInfo| {
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            stamps(&disk, info).unwrap_err()
        };
        let image = sim.crash_image(sim.events(), Loss::All);
        image
            .flip(Path::new(DEVICE), start.offset + 99, 0xff)
            .unwrap();
        let error = told(&image, &info);
        let is_lost = |error: &ReadError| matches!(error, ReadError::BeginningLost { file, worker: W, sequence: 16 } if file == Path::new(DEVICE));
        assert!(is_lost(&error), "{error}");
        // Older manifests: one from before the checkpoint, and one that begins where a later lap
        // has written.
        let mut older = info.clone();
        older.starts[0] = StreamStart {
            sequence: 1,
            offset: FIRST,
            ..StreamStart::FIRST
        };
        let error = told(&sim, &older);
        assert!(
            matches!(error, ReadError::BeginningLost { sequence: 1, .. }),
            "{error}"
        );
        // After the end.
        older.starts[0] = StreamStart {
            sequence: 31,
            offset: FIRST + 30 * 1536 + 512,
            ..StreamStart::FIRST
        };
        let error = told(&sim, &older);
        assert!(matches!(error, ReadError::BeginningLost { .. }), "{error}");
        // At an offset that is no frame.
        older.starts[0] = StreamStart {
            offset: start.offset + 512,
            ..start
        };
        let error = told(&sim, &older);
        assert!(is_lost(&error), "{error}");
        // At another place than the head says, from the first frame on.
        older.starts[0] = StreamStart {
            sequence: 1,
            offset: start.offset,
            ..StreamStart::FIRST
        };
        let error = told(&sim, &older);
        assert!(
            error.to_string().contains("contradicts the manifest"),
            "{error}"
        );
    }
}

#[test]
fn damage_is_named_by_its_place_in_the_device() {
    let sim = SimDisk::new();
    let (_, info, start) = in_second_lap(&sim);
    let cut = RING / 1536;
    for number in start.sequence + 1..=30 {
        let offset = FIRST + (number - 1) * 1536;
        let place = if number - 1 < cut + 1 {
            offset
        } else {
            offset - RING
        };
        // The first byte of its records, and one of its last sector, which may be at the beginning
        // of the ring.
        let last = FIRST + (offset - FIRST + 1024) % RING;
        for at in [place + 99, last] {
            let image = sim.crash_image(sim.events(), Loss::All);
            image.flip(Path::new(DEVICE), at, 0xff).unwrap();
            let disk: Arc<dyn Disk> = Arc::new(image);
            match stamps(&disk, &info).unwrap_err() {
                ReadError::Damaged {
                    file,
                    offset_bytes,
                    missing: false,
                    ..
                } => {
                    assert_eq!(
                        (file, offset_bytes),
                        (PathBuf::from(DEVICE), place),
                        "{number}"
                    );
                }
                other => panic!("{number}: {other}"),
            }
        }
    }
}

/// A device that lost a write has a valid frame of the previous lap there. Even with the right
/// number, it is rejected.
#[test]
fn a_frame_of_an_earlier_lap_is_not_read() {
    let sim = SimDisk::new();
    let (disk, log, mut info) = begin(&sim, 512);
    // Frames of a sector each, 62 in a lap.
    let lap = RING / 512;
    for stamp in 1..=lap {
        write(&log, stamp, 1).unwrap();
    }
    let before = sim.events();
    checkpoint(&log, &mut info, lap);
    for stamp in lap + 1..=lap + 10 {
        write(&log, stamp, 1).unwrap();
    }
    let start = checkpoint(&log, &mut info, lap + 2).streams[0];
    assert_eq!(start.sequence, lap + 3);
    let place = start.offset - RING;
    let old = sim
        .crash_image(before, Loss::None)
        .read(Path::new(DEVICE))
        .unwrap();
    let old = &old[place as usize..][..512];
    sim.damage(Path::new(DEVICE), place, old).unwrap();
    for sequence in [start.sequence, 3] {
        info.starts[0].sequence = sequence;
        let error = stamps(&disk, &info).unwrap_err();
        assert!(
            matches!(error, ReadError::BeginningLost { .. }),
            "{sequence}: {error}"
        );
    }
}

#[test]
fn two_of_the_longest_frames_always_have_room() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let config = LogConfig {
        payload_bytes_max: Some(1 << 20),
        placement: shared(8 * REGION),
        ..ring(1)
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut info = info(&config);
    let stream = log.stream(W);
    let longest = stream.payload_bytes_max();
    assert!((longest as u64) > 8 * REGION * 9 / 20, "{longest}");
    let harden = |stamp: u64| -> Result<(), LogError> {
        let fill = |into: &mut [u8]| into.fill(stamp as u8);
        let oversize = stream.prepare_oversize(ImageEffect::Longer, longest, fill)?;
        let (entry, stamp) = (Entry::Commit, Stamp(stamp));
        let appended = stream.append_oversize(entry, stamp, Epoch(1), oversize, |()| {})?;
        stream.wait_hardened(appended.ticket)
    };
    for stamp in 1..=20 {
        harden(stamp).unwrap();
        if stamp % 2 == 0 {
            assert!(harden(99).is_err());
        }
        checkpoint(&log, &mut info, stamp);
        assert_eq!(stamps(&disk, &info).unwrap(), [stamp]);
    }
    let too_long = stream.prepare_oversize(ImageEffect::Longer, longest + 1, |_| {});
    assert!(matches!(too_long, Err(LogError::CommitTooLarge { .. })));
}

/// Without a start in the manifest, the whole region is kept.
#[test]
fn what_is_not_said_to_be_given_up_is_kept() {
    let sim = SimDisk::new();
    let (disk, log, mut first) = begin(&sim, 512);
    for stamp in 1..=9 {
        write(&log, stamp, 3).unwrap();
    }
    first.seal = Some(log.close().unwrap());
    for (kept, room) in [
        (Some(vec![first.clone()]), false),
        (None, false),
        (Some(Vec::new()), true),
    ] {
        let image = sim.crash_image(sim.events(), Loss::All);
        let disk: Arc<dyn Disk> = Arc::new(image);
        let config = LogConfig {
            kept,
            ..recycling(&shared(REGION), 1, Generation(2))
        };
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let mut second = info(&config);
        second.begin_at(&log.beginning());
        assert_eq!(second.starts[0].offset, FIRST + 9 * 1536);
        let mut written = 0;
        while written < 20 && write(&log, 10 + written, 3).is_ok() {
            written += 1;
            checkpoint(&log, &mut second, 10 + written);
        }
        assert_eq!(written == 20, room, "{written}");
        if !room {
            assert_eq!(written, RING / 1536 - 9);
            assert_eq!(stamps(&disk, &first).unwrap(), (1..=9).collect::<Vec<_>>());
        }
        assert_eq!(stamps(&disk, &second).unwrap().last(), Some(&(9 + written)));
    }
    assert_eq!(stamps(&disk, &first).unwrap(), (1..=9).collect::<Vec<_>>());
}

/// Every life wraps around the ring, and begins at the end of the previous one.
#[test]
fn each_life_goes_on_where_the_one_before_ended() {
    for block in [512, 4096] {
        let sim = SimDisk::new();
        let placement = shared(REGION);
        let mut random = Random::seeded(3);
        let mut before = 0;
        for life in 0..6 {
            let disk = with_blocks(&sim, block);
            let mut engine = Engine::open_on(disk, &placement, 2);
            let offset = engine.manifest.last().starts[0].offset;
            assert!(life == 0 || offset > before + RING, "{offset}, {before}");
            before = offset;
            for _ in 0..200 {
                engine.commit(&sim, &mut random);
            }
            let image = engine.manifest.image.0;
            let expected: Vec<_> = (image + 1..engine.next_stamp).collect();
            assert_eq!(recovered(&engine.disk, &engine.manifest).unwrap(), expected);
            if life % 2 == 0 {
                engine.manifest.last().seal = Some(engine.log.close().unwrap());
                engine.manifest.write(&*engine.disk);
            }
        }
    }
}

#[test]
fn the_fullest_region_tells_when_a_checkpoint_is_due() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let log: Arc<Log<()>> = create(&disk, ring(2));
    let mut kept = 0;
    for stamp in 1..=30 {
        write(&log, stamp, 1).unwrap();
        kept += 512;
        let fullest = log.fullest_region().unwrap();
        assert_eq!((fullest.kept_bytes, fullest.bytes), (kept, RING));
        assert_eq!(log.kept_bytes(), kept);
    }
    for placement in [config(1).placement, shared(REGION)] {
        let is_region = matches!(placement, Placement::Shared { .. });
        let retain = if is_region {
            Retain::All
        } else {
            Retain::UntilRecycled
        };
        let config = LogConfig {
            placement,
            retain,
            ..config(1)
        };
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let log: Arc<Log<()>> = create(&disk, config);
        assert_eq!(log.fullest_region(), None);
    }
}
