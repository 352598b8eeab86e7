//! What may lie beyond the last frame of a stream: damage is told from what a crash leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::*;
use namiki_log::{GenerationInfo, Log, LogConfig, Placement, ReadError, Retain, StreamEnd};
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::disk::{Disk, FileKind, SyncedDisk};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Generation, WorkerId};

const LOG_FILE: u64 = 16 << 10;

fn log_file(number: u64) -> PathBuf {
    PathBuf::from(format!("/db/wal/0000/000001-{number:08}.log"))
}

/// Frames with payloads of these lengths, as a kill leaves them.
fn written(config: &LogConfig, sizes: impl IntoIterator<Item = usize>) -> (SimDisk, u64) {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let stream = log.stream(WorkerId(0));
    let mut frames = 0;
    for size in sizes {
        put(stream, frames, &vec![0xAB; size]).unwrap();
        stream.flush().unwrap();
        frames += 1;
    }
    (sim.crash_image(sim.events(), Loss::None), frames)
}

fn found(sim: &SimDisk, info: &GenerationInfo) -> Result<StreamEnd, ReadError> {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    read(&disk, info, 0).map(|(_, end)| end)
}

fn damage(sim: &SimDisk, info: &GenerationInfo) -> (PathBuf, u64, &'static str) {
    match found(sim, info) {
        Err(ReadError::Damaged {
            file,
            offset_bytes,
            what,
            ..
        }) => (file, offset_bytes, what),
        other => panic!("no damage found: {other:?}"),
    }
}

/// Puts other bytes in the place of a file.
fn put_file(sim: &SimDisk, path: &Path, bytes: &[u8]) {
    sim.replace(path, bytes).unwrap();
}

#[test]
fn garbage_over_the_last_file_is_damage() {
    let config = config(1);
    // Two sectors a frame: 15 in each of two log files, ten in the third.
    let (sim, _) = written(&config, [700; 40]);
    let info = info(&config);
    for (from, reported) in [(0, 0), (512, 512), (512 + 2048, 512 + 2048)] {
        let image = sim.crash_image(sim.events(), Loss::None);
        let garbage = vec![0x5A; (LOG_FILE - from) as usize];
        image.damage(&log_file(3), from, &garbage).unwrap();
        let (file, at, _) = damage(&image, &info);
        assert_eq!((file, at), (log_file(3), reported));
    }
}

#[test]
fn bytes_beyond_one_torn_frame_are_damage() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 8]);
    let info = info(&config);
    let end = 512 + 8 * 1024;
    // The longest frame has 4096 bytes; what is left of one may be anywhere in them.
    for (at, legal) in [(512, true), (3584, true), (4096, false), (6000, false)] {
        let image = sim.crash_image(sim.events(), Loss::None);
        image.damage(&log_file(1), end + at, &[1]).unwrap();
        if legal {
            assert!(found(&image, &info).unwrap().torn);
        } else {
            assert_eq!(damage(&image, &info).1, end);
        }
    }
    // The first sector says how long the frame is.
    sim.damage(&log_file(1), end - 1024 + 700, &[0; 100])
        .unwrap();
    assert_eq!(found(&sim, &info).unwrap().frames, 7);
    sim.damage(&log_file(1), end, &[1]).unwrap();
    assert_eq!(damage(&sim, &info).1, end - 1024);
}

#[test]
fn a_torn_frame_before_a_file_with_anything_is_damage() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 16]);
    let info = info(&config);
    // The last frame of the first log file, and the only one of the second.
    sim.damage(&log_file(1), 512 + 14 * 1024 + 700, &[0; 9])
        .unwrap();
    assert_eq!(damage(&sim, &info).1, 512 + 14 * 1024);
    for first_sector in [&[0x5A; 9][..], &[0; 512]] {
        sim.damage(&log_file(2), 512, first_sector).unwrap();
        assert_eq!(damage(&sim, &info).1, 512 + 14 * 1024);
    }
}

#[test]
fn a_torn_frame_that_had_room_before_is_damage() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 16]);
    // The last seven frames of the first log file, and the first half of the only one of the second.
    sim.damage(&log_file(1), 512 + 8 * 1024, &[0; 7 * 1024])
        .unwrap();
    sim.damage(&log_file(2), 512, &[0; 512]).unwrap();
    let (file, at, _) = damage(&sim, &info(&config));
    assert_eq!((file, at), (log_file(2), 512));
}

/// The header says of a log file that is written again that it was not created zeroed.
#[test]
fn old_bytes_may_lie_in_a_file_that_was_not_zeroed() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 8]);
    let mut block = sim.read(&log_file(1)).unwrap()[..64].to_vec();
    assert_eq!(block[58..60], [1, 0]);
    block[58] = 0;
    let crc = crc32c::crc32c(&block[12..64]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    sim.damage(&log_file(1), 0, &block).unwrap();
    assert_eq!(found(&sim, &info(&config)).unwrap().frames, 8);
    sim.damage(&log_file(1), 512 + 8 * 1024, &[0x5A; 5000])
        .unwrap();
    let end = found(&sim, &info(&config)).unwrap();
    assert_eq!((end.frames, end.torn), (8, true));
}

/// Old bytes lie in it: only a later frame tells what is damaged from what is torn.
#[test]
fn a_later_frame_in_a_recycled_file_is_damage() {
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(2).unwrap());
    // 15 in each of five log files, and five in the sixth.
    let (sim, frames) = written(&config, [700; 80]);
    let info = info(&config);
    let flags = sim.read(&log_file(6)).unwrap()[58..60].to_vec();
    assert_eq!(flags, [0; 2], "it was recycled");
    assert_eq!(found(&sim, &info).unwrap().last_sequence, frames);
    for (frame, legal) in [(0, false), (1, false), (3, false), (4, true)] {
        let image = sim.crash_image(sim.events(), Loss::None);
        let at = 512 + frame * 1024;
        image.damage(&log_file(6), at + 700, &[0; 9]).unwrap();
        if legal {
            assert_eq!(found(&image, &info).unwrap().last_sequence, frames - 1);
        } else {
            let (file, reported, _) = damage(&image, &info);
            assert_eq!((file, reported), (log_file(6), at));
        }
    }
}

#[test]
fn swapped_files_are_damage() {
    let config = config(1);
    for (a, b) in [(1, 2), (2, 3), (1, 3)] {
        let (sim, _) = written(&config, [700; 40]);
        let (first, second) = (
            sim.read(&log_file(a)).unwrap(),
            sim.read(&log_file(b)).unwrap(),
        );
        put_file(&sim, &log_file(a), &second);
        put_file(&sim, &log_file(b), &first);
        let (file, at, what) = damage(&sim, &info(&config));
        assert_eq!((file, at), (log_file(a), 0));
        assert!(what.contains("swapped"), "{what}");
    }
}

#[test]
fn a_file_shorter_than_it_was_made_is_damage() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 40]);
    let bytes = sim.read(&log_file(3)).unwrap();
    for kept in [0, 100, 512, 512 + 1024, 12 << 10, LOG_FILE as usize - 1] {
        put_file(&sim, &log_file(3), &bytes[..kept]);
        let (file, at, _) = damage(&sim, &info(&config));
        assert_eq!((file, at), (log_file(3), kept as u64));
    }
}

#[test]
fn only_the_last_file_may_be_without_its_header() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 40]);
    let info = info(&config);
    let whole = sim.read(&log_file(3)).unwrap();
    // Made, and nothing more: a crash came before its header.
    put_file(&sim, &log_file(3), &vec![0; LOG_FILE as usize]);
    assert_eq!(found(&sim, &info).unwrap().frames, 30);
    // Frames are written only behind a header.
    let mut headless = whole;
    headless[..512].fill(0);
    put_file(&sim, &log_file(3), &headless);
    assert_eq!(damage(&sim, &info).1, 0);
    put_file(&sim, &log_file(3), &vec![0; LOG_FILE as usize]);
    put_file(&sim, &log_file(4), &vec![0; LOG_FILE as usize]);
    assert_eq!(damage(&sim, &info).0, log_file(3));
}

#[test]
fn a_longer_file_may_have_only_zeros_behind() {
    let config = config(1);
    let (sim, _) = written(&config, [700; 40]);
    let info = info(&config);
    let mut bytes = sim.read(&log_file(3)).unwrap();
    bytes.resize(3 * LOG_FILE as usize, 0);
    put_file(&sim, &log_file(3), &bytes);
    assert_eq!(found(&sim, &info).unwrap().frames, 40);
    sim.damage(&log_file(3), 2 * LOG_FILE + 7, &[1]).unwrap();
    assert_eq!(damage(&sim, &info).1, 2 * LOG_FILE + 7);
}

/// Holes of terabytes, in a log file and behind one: read through, they would take hours.
#[test]
fn holes_in_and_behind_a_file_are_not_read() {
    for is_behind in [true, false] {
        read_over_holes(is_behind);
    }
}

fn read_over_holes(is_behind: bool) {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let mut config = config(1);
    config.placement = Placement::Files {
        log_file_bytes: LOG_FILE,
    };
    let wal = dir.path().join("wal");
    let log = Log::<()>::create(Arc::clone(&disk), &wal, config.clone()).unwrap();
    put(log.stream(WorkerId(0)), 1, b"p").unwrap();
    log.stream(WorkerId(0)).flush().unwrap();
    drop(log);
    let path = wal.join("0000/000001-00000001.log");
    let mut head = std::fs::read(&path).unwrap()[..64].to_vec();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    // Not every file system has files of this length.
    let grown = [50, 43]
        .into_iter()
        .find(|bits| file.set_len(1 << bits).is_ok());
    let log_file_bytes = 1_u64 << grown.unwrap();
    if !is_behind {
        head[40..48].copy_from_slice(&log_file_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&head[12..]);
        head[8..12].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&head, 0).unwrap();
        config.placement = Placement::Files { log_file_bytes };
    }
    let announced = info(&config);
    let (looked, of) = (Arc::clone(&disk), wal.clone());
    // Generation 1 is still to come: what is there would have to be a frame.
    let told = within_reason("looking for frames in holes", move || {
        namiki_log::check_all_announced(&*looked, &of, IDENTITY, &[], Generation(1))
    });
    assert!(
        matches!(told, Err(ReadError::NotInManifest { .. })),
        "{told:?}"
    );
    let path = wal.join("0000/000002-00000001.log");
    let file = std::fs::File::create(path).unwrap();
    file.set_len(log_file_bytes).unwrap();
    let (looked, of, known) = (Arc::clone(&disk), wal.clone(), announced.clone());
    within_reason("looking for frames in holes", move || {
        namiki_log::check_all_announced(&*looked, &of, IDENTITY, &[known], Generation(2))
    })
    .unwrap();
    let info = announced;
    let frames = within_reason("reading holes", move || {
        let mut reader =
            namiki_log::StreamReader::open(disk, &wal, IDENTITY, &info, WorkerId(0)).unwrap();
        while reader.next_frame().unwrap().is_some() {}
        reader.end().frames
    });
    assert_eq!(frames, 1);
}

/// Log files are no shorter than a header, unless a manifest says so.
#[test]
fn a_file_shorter_than_a_sector_is_damage() {
    let mut config = config(1);
    let (sim, _) = written(&config, [700]);
    config.placement = namiki_log::Placement::Files {
        log_file_bytes: 100,
    };
    put_file(&sim, &log_file(1), &[0; 100]);
    let (file, at, what) = damage(&sim, &info(&config));
    assert_eq!((file, at), (log_file(1), 0));
    assert!(what.contains("the header of the file is damaged"), "{what}");
}

fn recycling() -> LogConfig {
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(2).unwrap());
    config
}

/// The numbers of the log files that are there.
fn numbers(sim: &SimDisk) -> Vec<u64> {
    let there = |number: &u64| sim.read(&log_file(*number)).is_ok();
    (1..100).filter(there).collect()
}

/// Where a rename is lost, the first has the header of the last, and none of its frames.
#[test]
fn a_last_file_moved_over_the_first_is_damage() {
    let (sim, _) = written(&recycling(), [700; 70]);
    let info = info(&recycling());
    let numbers = numbers(&sim);
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    let whole = found(&sim, &info).unwrap();
    let moved = sim.read(&log_file(last)).unwrap();
    put_file(&sim, &log_file(first), &moved);
    sim.remove(&log_file(last)).unwrap();
    assert_eq!(damage(&sim, &info).0, log_file(first), "{whole:?}");
    // Without frames it is what a crash leaves.
    sim.damage(&log_file(first), 512, &vec![0; LOG_FILE as usize - 512])
        .unwrap();
    assert!(found(&sim, &info).unwrap().frames > 0);
}

#[test]
fn damage_in_recycled_files_is_found() {
    let (sim, frames) = written(&recycling(), [700; 70]);
    let info = info(&recycling());
    let numbers = numbers(&sim);
    assert!(numbers[0] > 1, "nothing was recycled");
    let whole = found(&sim, &info).unwrap();
    assert_eq!(whole.last_sequence, frames);
    for (at, &number) in numbers.iter().enumerate() {
        let of_last = frames % 15;
        let count = if at + 1 == numbers.len() { of_last } else { 15 };
        for frame in 0..count {
            let image = sim.crash_image(sim.events(), Loss::None);
            let offset = 512 + frame * 1024;
            image
                .damage(&log_file(number), offset + 700, &[1; 9])
                .unwrap();
            if (at + 1, frame + 1) == (numbers.len(), of_last) {
                // As a crash leaves it.
                assert_eq!(found(&image, &info).unwrap().frames + 1, whole.frames);
            } else {
                assert_eq!(
                    damage(&image, &info).0,
                    log_file(number),
                    "{number} {frame}"
                );
            }
        }
        let image = sim.crash_image(sim.events(), Loss::None);
        image.damage(&log_file(number), 0, &[0; 512]).unwrap();
        assert_eq!(damage(&image, &info).0, log_file(number));
    }
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_is_no_directory_in_a_streams_place_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let wal = dir.path().join("wal");
    std::fs::create_dir(&wal).unwrap();
    let stream = wal.join("0000");
    let info = info(&config(1));
    let open = || {
        let open =
            namiki_log::StreamReader::open(Arc::clone(&disk), &wal, IDENTITY, &info, WorkerId(0));
        let announced = namiki_log::check_all_announced(&*disk, &wal, IDENTITY, &[], Generation(1));
        [open.map(drop), announced]
    };
    let cases: [(&dyn Fn(), FileKind); 3] = [
        (&|| std::fs::write(&stream, "x").unwrap(), FileKind::Regular),
        (&|| fifo(&stream), FileKind::Fifo),
        (
            &|| std::os::unix::fs::symlink("nowhere", &stream).unwrap(),
            FileKind::DanglingLink,
        ),
    ];
    for (put, expected) in cases {
        put();
        for told in open() {
            match told {
                Err(ReadError::NotADirectory { path, kind }) => {
                    assert_eq!((path, kind), (stream.clone(), expected));
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
        std::fs::remove_file(&stream).unwrap();
    }
}

/// A head from before the last two frames: their own heads are gone.
#[test]
fn a_region_with_an_old_head_is_damage() {
    let mut config = config(1);
    config.placement = shared(64 << 10);
    let device = Path::new("/db/device");
    let (sim, _) = written(&config, [700; 3]);
    let old = sim.read(device).unwrap()[..1024].to_vec();
    let info = info(&config);
    for (frames, legal) in [(4, true), (5, false), (6, false)] {
        let (sim, _) = written(&config, vec![700; frames]);
        sim.damage(device, 0, &old).unwrap();
        if legal {
            assert_eq!(found(&sim, &info).unwrap().frames, 3);
        } else {
            assert_eq!(damage(&sim, &info).1, 1024 + 3 * 1024);
        }
    }
}

/// Garbage, truncation, swaps and headers, anywhere: everything is there, or it is an error. What one
/// torn frame can explain is excepted.
#[test]
fn no_damage_loses_more_than_the_last_frame() {
    for seed in 0..4000 {
        let mut random = Random::seeded(seed);
        let recycles = random.chance(0.2);
        let (config, count) = if recycles {
            (recycling(), 60 + random.below(30))
        } else {
            (config(1), 1 + random.below(30))
        };
        let sizes: Vec<_> = (0..count)
            .map(|_| 8 + random.below(2000) as usize)
            .collect();
        let (sim, frames) = written(&config, sizes);
        let info = info(&config);
        let whole = found(&sim, &info).unwrap();
        assert_eq!(whole.last_sequence, frames);
        assert_eq!(whole.frames < frames, recycles, "seed {seed}");
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let files = disk.list(Path::new("/db/wal/0000")).unwrap();
        let at = |random: &mut Random| random.below(files.len() as u64) as usize;
        let kind = random.below(4);
        let mut target = at(&mut random);
        if recycles && kind == 0 {
            // To the end of the last log file it may be what is old there: only a later frame tells.
            target %= files.len() - 1;
        }
        let target = files[target].path.clone();
        let mut bytes = sim.read(&target).unwrap();
        match kind {
            0 => {
                let from = random.below(LOG_FILE) as usize;
                let len = 1 + random.below(LOG_FILE - from as u64) as usize;
                // Never a zero: zeros are what was never written.
                bytes[from..from + len].fill_with(|| 1 + random.below(255) as u8);
                put_file(&sim, &target, &bytes);
            }
            1 => put_file(&sim, &target, &bytes[..random.below(LOG_FILE) as usize]),
            2 => {
                let other = files[at(&mut random)].path.clone();
                let others = sim.read(&other).unwrap();
                put_file(&sim, &other, &bytes);
                put_file(&sim, &target, &others);
            }
            _ => {
                bytes[..64].fill_with(|| random.below(256) as u8);
                put_file(&sim, &target, &bytes);
            }
        }
        if let Ok(end) = found(&sim, &info) {
            assert!(
                end.last_sequence + 1 >= frames && end.frames + 1 >= whole.frames,
                "seed {seed}: {end:?} of {whole:?}"
            );
        }
    }
}
