//! The bytes beyond the last frame of a stream: damage is distinguished from the state after a
//! crash.

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

/// Frames with payloads of these lengths, in the state after a kill.
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

/// Replaces the contents of a file.
fn put_file(sim: &SimDisk, path: &Path, bytes: &[u8]) {
    sim.replace(path, bytes).unwrap();
}

/// Holes of terabytes, in a log file and after one: reading through them would take hours.
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
    // Generation 1 does not exist yet: the contents would have to be a frame.
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

fn recycling() -> LogConfig {
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(2).unwrap());
    config
}

/// The numbers of the existing log files.
fn numbers(sim: &SimDisk) -> Vec<u64> {
    let there = |number: &u64| sim.read(&log_file(*number)).is_ok();
    (1..100).filter(there).collect()
}

/// If a rename is lost, the first file has the header of the last one, and none of its frames.
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
    // Without frames it is a legal state after a crash.
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
                // In the state after a crash.
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

/// A head older than the last two frames: their own heads are lost.
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

/// Garbage, truncation, swaps and headers, anywhere: either all frames are there, or the read
/// fails. The exception is damage that one torn frame explains.
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
            // Damage up to the end of the last log file may be old contents: only a later frame
            // tells.
            target %= files.len() - 1;
        }
        let target = files[target].path.clone();
        let mut bytes = sim.read(&target).unwrap();
        match kind {
            0 => {
                let from = random.below(LOG_FILE) as usize;
                let len = 1 + random.below(LOG_FILE - from as u64) as usize;
                // Never a zero: zeros are unwritten bytes.
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
