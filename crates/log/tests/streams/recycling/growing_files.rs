//! Log files that begin short and grow, and files that a caller ends early.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::manifest::Manifest;
use crate::common::*;
use namiki_log::{GenerationInfo, Log, LogConfig, LogStart, Placement, Retain, SequencerKind};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::{Generation, WorkerId};

const W: WorkerId = WorkerId(0);
const FIRST: u64 = 8 << 10;
const LONGEST: u64 = 64 << 10;

fn growing() -> LogConfig {
    LogConfig {
        placement: Placement::Files {
            log_file_bytes: LONGEST,
        },
        first_file_bytes: Some(FIRST),
        retain: Retain::UntilRecycled,
        sequencer: SequencerKind::None,
        ..config(1)
    }
}

/// Writes one commit with this stamp, in a frame of its own: a kibibyte.
fn write(log: &Log<()>, stamp: u64) {
    put(log.stream(W), stamp, &[7; 700]).unwrap();
    log.stream(W).flush().unwrap();
}

fn lengths(disk: &dyn Disk) -> Vec<u64> {
    let mut files = disk.list(&wal().join("0000")).unwrap();
    files.sort_by(|one, two| one.path.cmp(&two.path));
    files.iter().map(|file| file.len_bytes).collect()
}

fn stamps(disk: &Arc<dyn Disk>, info: &GenerationInfo) -> Vec<u64> {
    let (all, _) = read(disk, info, 0).unwrap();
    all.iter().map(|(stamp, ..)| stamp.0).collect()
}

#[test]
fn files_double_up_to_the_longest() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, growing());
    for stamp in 1..=200 {
        write(&log, stamp);
    }
    let kib: Vec<_> = lengths(&*disk).iter().map(|bytes| bytes >> 10).collect();
    assert_eq!(kib, [8, 16, 32, 64, 64, 64]);
    assert!(stamps(&disk, &info(&growing())).into_iter().eq(1..=200));
}

#[test]
fn files_that_end_early_do_not_grow() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, growing());
    for stamp in 1..=60 {
        write(&log, stamp);
    }
    assert_eq!(lengths(&*disk).last(), Some(&LONGEST));
    for stamp in 61..=70 {
        log.stream(W).begin_file().unwrap();
        write(&log, stamp);
    }
    assert_eq!(lengths(&*disk).last(), Some(&FIRST));
    assert!(stamps(&disk, &info(&growing())).into_iter().eq(1..=70));
}

/// The caller says which files it needs.
fn recycle(log: &Log<()>, disk: &dyn Disk, manifest: &mut Manifest, file: u64) -> LogStart {
    let start = log.recyclable_before(&[file]).unwrap();
    manifest.last().begin_at(&start);
    manifest.write(disk);
    assert!(
        log.recycle(&start, Generation(0), 0)
            .unwrap()
            .failed
            .is_empty()
    );
    start
}

#[test]
fn files_before_the_given_one_go_and_the_last_stays() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, growing());
    let mut manifest = Manifest::of(info(&growing()));
    assert_eq!(log.recyclable_before(&[9]).unwrap(), LogStart::default());
    for stamp in 1..=60 {
        write(&log, stamp);
    }
    let before = lengths(&*disk);
    assert_eq!(recycle(&log, &*disk, &mut manifest, 1), LogStart::default());
    recycle(&log, &*disk, &mut manifest, 3);
    assert_eq!(lengths(&*disk), before[2..]);
    let start = recycle(&log, &*disk, &mut manifest, u64::MAX);
    assert_eq!(lengths(&*disk), before[3..]);
    assert_eq!(start.streams[0].file_number, 4);
    let first = start.streams[0].sequence;
    write(&log, 61);
    assert!(stamps(&disk, manifest.last()).into_iter().eq(first..=61));
}

/// A file that ended early is followed by a torn frame: no damage.
#[test]
fn no_crash_loses_a_commit_of_files_that_end_early() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, growing());
    let mut manifest = Manifest::of(info(&growing()));
    manifest.write(&*disk);
    let from = sim.events();
    for stamp in 1..=40 {
        if stamp % 3 == 0 {
            log.stream(W).begin_file().unwrap();
        }
        write(&log, stamp);
        sim.mark(stamp);
        if stamp % 10 == 0 {
            recycle(&log, &*disk, &mut manifest, stamp / 4);
        }
    }
    for at in from..=sim.events() {
        let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
        let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
        for loss in losses.into_iter().chain(names) {
            let acknowledged = sim.marks_before(at).last().copied().unwrap_or(0);
            let disk: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
            let mut manifest = Manifest::read(&*disk);
            let found = stamps(&disk, manifest.last());
            let first = found.first().copied().unwrap_or(1);
            let last = found.last().copied().unwrap_or(0);
            assert!(found.into_iter().eq(first..=last), "{at} {loss:?}");
            assert!(last >= acknowledged, "{at} {loss:?}: {last}");
        }
    }
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let refused = |config: LogConfig| {
        disk.create_dir_all(&wal()).unwrap();
        assert!(Log::<()>::create(Arc::clone(&disk), &wal(), config).is_err());
    };
    for first in [0, 4096, FIRST + 1, 2 * LONGEST] {
        refused(LogConfig {
            first_file_bytes: Some(first),
            ..growing()
        });
    }
    refused(LogConfig {
        retain: Retain::Last(std::num::NonZeroU32::MIN),
        ..growing()
    });
    refused(LogConfig {
        payload_bytes_max: Some(10_000),
        ..growing()
    });
}
