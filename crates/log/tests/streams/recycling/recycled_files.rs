//! Recycling: the removed files, the kept files, and the state after every crash.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::manifest::Manifest;
use crate::common::*;
use namiki_log::{
    CutRule, EpochSource, GenerationInfo, ImageEffect, Log, LogConfig, LogStart, Merge, Prepare,
    ReadError, RecyclePoint, Retain, SequencerKind, StreamStart, durable_epoch, remove_superfluous,
};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, Loss, SimDisk, Step};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);
/// Frames of [`write`] in a log file.
const FRAMES: u64 = 15;
const LOG_FILE: u64 = 16 << 10;

fn recycling(streams: u16) -> LogConfig {
    LogConfig {
        retain: Retain::UntilRecycled,
        ..config(streams)
    }
}

/// Writes one commit with this stamp, in a frame of its own.
fn write(log: &Log<()>, stamp: u64) {
    put(log.stream(W), stamp, &[7; 700]).unwrap();
    log.stream(W).flush().unwrap();
}

fn at(stamp: u64) -> RecyclePoint {
    RecyclePoint {
        stamp: Stamp(stamp),
        below_lsn: None,
    }
}

/// Takes an image of everything through `stamp`: records it in the manifest, and recycles.
fn checkpoint(log: &Log<()>, disk: &dyn Disk, manifest: &mut Manifest, stamp: u64) -> LogStart {
    let start = log.recyclable(at(stamp)).unwrap();
    manifest.last().begin_at(&start);
    manifest.image = Stamp(stamp);
    manifest.write(disk);
    let files = log.recycle(&start, Generation(0), LOG_FILE).unwrap();
    assert!(files.failed.is_empty(), "{files:?}");
    start
}

fn stamps(disk: &Arc<dyn Disk>, info: &GenerationInfo) -> Vec<u64> {
    let (all, _) = read(disk, info, 0).unwrap();
    all.iter().map(|(stamp, ..)| stamp.0).collect()
}

fn files(disk: &dyn Disk, worker: u16) -> Vec<PathBuf> {
    let dir = wal().join(format!("{worker:04}"));
    let listed = disk.list(&dir).unwrap();
    listed.into_iter().map(|entry| entry.path).collect()
}

fn log_file(number: u64) -> PathBuf {
    wal().join(format!("0000/000001-{number:08}.log"))
}

#[test]
fn whole_files_below_the_image_go_and_no_others() {
    for image in 0..62 {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let config = recycling(1);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        for stamp in 1..=60 {
            write(&log, stamp);
        }
        let kept_bytes = log.kept_bytes();
        assert_eq!(kept_bytes, 4 * LOG_FILE);
        let start = log.recyclable(at(image)).unwrap();
        // The fourth log file is the current one.
        let gone = (image / FRAMES).min(3);
        if gone == 0 {
            assert_eq!(start, LogStart::default(), "{image}");
        } else {
            let expected = StreamStart {
                file_number: gone + 1,
                sequence: gone * FRAMES + 1,
                offset: 0,
            };
            assert_eq!(start.streams, [expected], "{image}");
            assert_eq!(start.complete_from, Lsn(gone * FRAMES + 1));
        }
        // Until it is recycled, everything is there.
        assert_eq!(log.recyclable(at(image)).unwrap(), start);
        assert_eq!(stamps(&disk, &info(&config)).len(), 60);
        assert_eq!(log.kept_bytes(), kept_bytes);

        let removed = log.recycle(&start, Generation(0), LOG_FILE).unwrap();
        // One file is kept for reuse.
        assert_eq!(removed.files, gone.saturating_sub(1), "{image}");
        assert_eq!(removed.bytes, removed.files * LOG_FILE);
        assert_eq!(log.kept_bytes(), kept_bytes - gone * LOG_FILE);
        let mut info = info(&config);
        info.begin_at(&start);
        let first = gone * FRAMES + 1;
        assert_eq!(stamps(&disk, &info), (first..=60).collect::<Vec<_>>());
        // A second call returns the same and removes nothing.
        assert_eq!(log.recyclable(at(image)).unwrap(), start);
        assert_eq!(
            log.recycle(&start, Generation(0), LOG_FILE).unwrap().files,
            0
        );
        for stamp in 61..=100 {
            write(&log, stamp);
        }
        assert_eq!(stamps(&disk, &info), (first..=100).collect::<Vec<_>>());
    }
}

#[test]
fn a_log_under_checkpoints_stays_bounded() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, recycling(1));
    let mut manifest = Manifest::of(info(&recycling(1)));
    for stamp in 1..=100 * FRAMES {
        write(&log, stamp);
        if stamp % 40 == 0 {
            checkpoint(&log, &*disk, &mut manifest, stamp - 5);
        }
        // Three log files between checkpoints, the current one, the next one, and one for reuse.
        assert!(files(&*disk, 0).len() <= 6, "{stamp}");
        assert!(log.kept_bytes() <= 5 * LOG_FILE, "{stamp}");
    }
}

/// The same amount is written between any two checkpoints, into existing files.
#[test]
fn files_that_are_kept_for_reuse_need_no_zeros() {
    for reuse in [0, 1, 3, 100] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let config = recycling(2);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let mut manifest = Manifest::of(info(&config));
        let mut most = 0;
        for round in 0..20 {
            if round == 5 {
                most = log.counters().zero_bytes;
            }
            for stamp in round * 80 + 1..=round * 80 + 80 {
                let worker = WorkerId((stamp % 2) as u16);
                put(log.stream(worker), stamp, &[7; 700]).unwrap();
                log.stream(worker).flush().unwrap();
            }
            let start = log.recyclable(at(round * 80 + 80)).unwrap();
            manifest.last().begin_at(&start);
            manifest.write(&*disk);
            let removed = log
                .recycle(&start, Generation(0), reuse * LOG_FILE)
                .unwrap();
            assert!(removed.failed.is_empty(), "{removed:?}");
            let spare = (files(&*disk, 0).len() + files(&*disk, 1).len()) as u64;
            let kept = log.kept_bytes() / LOG_FILE;
            // The kept files, the files for reuse, and one ready file for each stream.
            assert!(spare <= kept + reuse + 2, "{spare} {kept} {reuse}");
        }
        let zeros = log.counters().zero_bytes - most;
        assert_eq!(zeros == 0, reuse == 100, "{reuse}: {zeros}");
        let read: Vec<_> = stamps(&disk, &manifest.generations[0]);
        assert_eq!(read.last(), Some(&1600));
    }
}

#[test]
fn only_what_may_be_recycled_is() {
    for retain in [Retain::All, Retain::Last(NonZeroU32::new(9).unwrap())] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let config = LogConfig {
            retain,
            ..config(1)
        };
        let log: Arc<Log<()>> = create(&disk, config.clone());
        for stamp in 1..=60 {
            write(&log, stamp);
        }
        assert_eq!(log.recyclable(at(60)).unwrap(), LogStart::default());
        let forced = LogStart {
            streams: vec![StreamStart {
                file_number: 3,
                sequence: 31,
                offset: 0,
            }],
            complete_from: Lsn(31),
        };
        assert_eq!(
            log.recycle(&forced, Generation(0), LOG_FILE).unwrap().files,
            0
        );
        assert_eq!(stamps(&disk, &info(&config)).len(), 60);
    }
}

/// Stamps need not rise within a stream.
#[test]
fn one_later_stamp_keeps_its_file_and_those_behind() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, recycling(1));
    for number in 1..=75 {
        write(&log, if number == 20 { 1000 } else { number });
    }
    assert_eq!(log.recyclable(at(999)).unwrap().streams[0].file_number, 2);
    assert_eq!(log.recyclable(at(1000)).unwrap().streams[0].file_number, 5);
    let point = RecyclePoint {
        stamp: Stamp(1000),
        below_lsn: Some(Lsn(45)),
    };
    // The third log file has LSNs 31 to 45.
    let start = log.recyclable(point).unwrap();
    assert_eq!(start.streams[0].file_number, 3);
    assert_eq!(start.complete_from, Lsn(31));
}

/// A frame may be hardened while a commit with a smaller LSN is not. If L0 passed that commit,
/// recovery would keep the frames that depend on it.
#[test]
fn nothing_above_the_horizon_is_recycled() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, recycling(2));
    for stamp in 1..=20 {
        write(&log, stamp);
    }
    // LSN 21, not hardened.
    put(log.stream(WorkerId(1)), 21, b"late").unwrap();
    for stamp in 22..=70 {
        write(&log, stamp);
    }
    assert_eq!(log.horizon(), Lsn(21));
    let start = log.recyclable(at(1000)).unwrap();
    assert_eq!(start.streams[0].file_number, 2);
    assert_eq!(start.complete_from, Lsn(16));
    let point = RecyclePoint {
        below_lsn: Some(Lsn(60)),
        ..at(1000)
    };
    assert_eq!(log.recyclable(point).unwrap(), start);
    log.flush_all().unwrap();
    assert_eq!(log.recyclable(at(1000)).unwrap().streams[0].file_number, 5);
}

/// Runs commits over all streams, with a checkpoint after each `every`, and marks the acknowledged
/// ones.
fn run(sim: &SimDisk, config: &LogConfig, every: u64, seed: u64) -> usize {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut manifest = Manifest::of(info(config));
    manifest.write(&*disk);
    let created = sim.events();
    let mut random = Random::seeded(seed);
    let mut acknowledged = 0;
    for stamp in 1..=150_u64 {
        let stream = log.stream(WorkerId(
            random.below(u64::from(config.streams.get())) as u16
        ));
        let mut payload = stamp.to_le_bytes().to_vec();
        payload.resize(8 + random.below(1400) as usize, stamp as u8);
        put(stream, stamp, &payload).unwrap();
        if random.chance(0.5) {
            stream.flush().unwrap();
        }
        if random.chance(0.2) {
            log.flush_all().unwrap();
            sim.mark(stamp);
            acknowledged = stamp;
        }
        if stamp % every == 0 {
            // Everything below is acknowledged, as it must be to be in an image.
            let image = acknowledged - random.below(4).min(acknowledged);
            let image = image.max(manifest.image.0);
            checkpoint(&log, &*disk, &mut manifest, image);
        }
    }
    log.close().unwrap();
    created
}

/// The stamps that are read beyond the image.
fn recovered(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Vec<u64> {
    let info = &manifest.generations[0];
    let readers = (0..info.streams).map(|worker| reader(disk, info, worker).unwrap());
    let mut merge = Merge::by_lsn(readers.collect(), info.complete_lsn(), None);
    let mut found = Vec::new();
    while let Some(record) = merge.next_record().unwrap() {
        let stamp = record.stamp;
        assert_eq!(record.payload[..8], stamp.0.to_le_bytes());
        assert!(
            record.payload[8..]
                .iter()
                .all(|byte| *byte == stamp.0 as u8)
        );
        if stamp > manifest.image {
            found.push(stamp.0);
        }
    }
    merge.finish().unwrap();
    found
}

#[test]
fn no_crash_at_any_step_of_recycling_loses_a_commit() {
    for seed in 0..4 {
        for (streams, every) in [(1, 7), (1, 16), (3, 11), (3, 40)] {
            let config = recycling(streams);
            let sim = SimDisk::new();
            let created = run(&sim, &config, every, seed);
            let mut began_later = 0;
            for at in created..=sim.events() {
                let acknowledged = sim.marks_before(at).last().copied().unwrap_or(0);
                let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
                let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
                for loss in losses.into_iter().chain(names) {
                    let image = sim.crash_image(at, loss);
                    let disk: Arc<dyn Disk> = Arc::new(image);
                    let what = format!(
                        "seed {seed}, {streams} streams, {every}, event {at} ({}), {loss:?}",
                        sim.describe(at.saturating_sub(1))
                    );
                    let manifest = Manifest::read(&*disk);
                    began_later += u32::from(!manifest.generations[0].starts.is_empty());
                    let found = recovered(&disk, &manifest);
                    let first = manifest.image.0 + 1;
                    let last = found.last().map_or(manifest.image.0, |last| *last);
                    // One thread appends, so LSNs are in the order of stamps.
                    assert_eq!(found, (first..=last).collect::<Vec<_>>(), "{what}");
                    assert!(last >= acknowledged, "{what}: {last} of {acknowledged}");
                    // The next opening removes the files before the starts, and no others.
                    let removed =
                        remove_superfluous(&*disk, &wal(), &manifest.generations, manifest.oldest);
                    assert!(removed.failed.is_empty(), "{what}");
                    assert_eq!(recovered(&disk, &manifest), found, "{what}");
                    for worker in 0..streams {
                        let kept = files(&*disk, worker);
                        let start = manifest.generations[0].start(WorkerId(worker));
                        let before = kept.iter().filter(|path| {
                            let name = path.file_name().unwrap().to_str().unwrap();
                            name[7..15].parse::<u64>().unwrap() < start.file_number
                        });
                        assert_eq!(before.count(), 0, "{what}");
                    }
                }
            }
            assert!(began_later > 0);
        }
    }
}

#[test]
fn old_bytes_of_recycled_files_are_never_read_as_new() {
    // With these counts the stream ends at every position of a recycled log file.
    for last in 60..95 {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let log: Arc<Log<()>> = create(&disk, recycling(1));
        let mut manifest = Manifest::of(info(&recycling(1)));
        for stamp in 1..=last {
            write(&log, stamp);
            if stamp % 10 == 0 {
                checkpoint(&log, &*disk, &mut manifest, stamp);
            }
        }
        let flags = disk.read(&log_file(last.div_ceil(FRAMES))).unwrap()[58..60].to_vec();
        assert_eq!(flags, [0; 2], "it was recycled");
        let start = manifest.generations[0].starts[0];
        let expected: Vec<_> = (start.sequence..=last).collect();
        assert_eq!(stamps(&disk, &manifest.generations[0]), expected);
        // Nor do they prevent the seal.
        manifest.last().seal = Some(log.close().unwrap());
        assert_eq!(stamps(&disk, &manifest.generations[0]), expected);
    }
}

#[test]
fn a_lost_beginning_is_told_from_a_recycled_one() {
    for seals in [false, true] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let log: Arc<Log<()>> = create(&disk, recycling(1));
        let mut manifest = Manifest::of(info(&recycling(1)));
        for stamp in 1..=70 {
            write(&log, stamp);
        }
        checkpoint(&log, &*disk, &mut manifest, 40);
        let seal = log.close().unwrap();
        if seals {
            manifest.last().seal = Some(seal);
        }
        let info = &manifest.generations[0];
        let crash = || sim.crash_image(sim.events(), Loss::None);
        let lost = |image: &SimDisk| {
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            match read(&disk, info, 0) {
                Err(ReadError::BeginningLost {
                    file,
                    worker,
                    sequence,
                }) => {
                    assert_eq!((worker, sequence), (W, 31));
                    file
                }
                other => panic!("{other:?}"),
            }
        };
        // The first file, and with it all later ones.
        let image = crash();
        for number in 3..=5 {
            assert!(image.read(&log_file(number)).is_ok());
            image.remove(&log_file(number)).unwrap();
            assert_eq!(lost(&image), log_file(3));
        }
        // An older file in its place.
        image.rename(&log_file(1), &log_file(3)).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(image);
        assert!(read(&disk, info, 0).is_err());
        // A file in between.
        let image = crash();
        image.remove(&log_file(4)).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(image);
        match read(&disk, info, 0) {
            Err(ReadError::Damaged { file, missing, .. }) => {
                assert_eq!((file, missing), (log_file(4), true));
            }
            other => panic!("{other:?}"),
        }
        // Its first frame, and all later ones.
        let image = crash();
        for number in 3..=5 {
            let bytes = vec![0; LOG_FILE as usize - 512];
            image.damage(&log_file(number), 512, &bytes).unwrap();
        }
        assert_eq!(lost(&image), log_file(3));
    }
}

#[test]
fn a_file_that_cannot_be_removed_does_no_harm() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, recycling(1));
    let mut manifest = Manifest::of(info(&recycling(1)));
    for stamp in 1..=70 {
        write(&log, stamp);
    }
    let start = log.recyclable(at(70)).unwrap();
    manifest.last().begin_at(&start);
    manifest.write(&*disk);
    sim.inject(Fault::once(Step::Remove, 1, ErrorKind::PermissionDenied));
    let removed = log.recycle(&start, Generation(0), LOG_FILE).unwrap();
    assert_eq!(removed.files, 2);
    let failed: Vec<_> = removed.failed.iter().map(|(path, _)| path).collect();
    assert_eq!(failed, [&log_file(3)]);
    for stamp in 71..=130 {
        write(&log, stamp);
    }
    let expected: Vec<_> = (61..=130).collect();
    assert_eq!(stamps(&disk, &manifest.generations[0]), expected);
    log.close().unwrap();
    let removed = remove_superfluous(&*disk, &wal(), &manifest.generations, manifest.oldest);
    assert_eq!((removed.files, removed.failed.len()), (1, 0));
    assert_eq!(stamps(&disk, &manifest.generations[0]), expected);
}

#[test]
fn a_file_of_another_length_is_not_written_again() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = LogConfig {
        payload_bytes_max: Some(64 << 10),
        ..recycling(1)
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut manifest = Manifest::of(info(&config));
    let long = vec![9; 40 << 10];
    for stamp in 1..=3 {
        let fill = |into: &mut [u8]| into.copy_from_slice(&long);
        let stream = log.stream(W);
        let oversize = stream
            .prepare_oversize(ImageEffect::Longer, long.len(), fill)
            .unwrap();
        let entry = namiki_log::Entry::Commit;
        let appended = stream.append_oversize(entry, Stamp(stamp), Epoch(1), oversize, |()| {});
        stream.wait_hardened(appended.unwrap().ticket).unwrap();
    }
    // After the long frames: in the last of their log files, and then in others.
    for stamp in 4..=40 {
        write(&log, stamp);
    }
    let kept_bytes = log.kept_bytes();
    let start = log.recyclable(at(3)).unwrap();
    assert_eq!(
        start.streams[0],
        StreamStart {
            file_number: 3,
            sequence: 3,
            offset: 0,
        }
    );
    manifest.last().begin_at(&start);
    manifest.write(&*disk);
    let removed = log.recycle(&start, Generation(0), LOG_FILE).unwrap();
    assert_eq!(removed.files, 2);
    assert!(removed.bytes > 2 * long.len() as u64);
    assert_eq!(log.kept_bytes() + removed.bytes, kept_bytes);
    for stamp in 41..=70 {
        write(&log, stamp);
    }
    let expected: Vec<_> = (3..=70).collect();
    assert_eq!(stamps(&disk, &manifest.generations[0]), expected);
    assert!(disk.open(&log_file(1)).is_err() && disk.open(&log_file(2)).is_err());
}

#[test]
fn commits_and_checkpoints_run_side_by_side() {
    const COMMITS: u64 = 3000;
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = LogConfig {
        prepare: Prepare::Background,
        ..recycling(2)
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut manifest = Manifest::of(info(&config));
    let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for (worker, done) in acknowledged.iter().enumerate() {
            let stream = log.stream(WorkerId(worker as u16));
            scope.spawn(move || {
                for stamp in 1..=COMMITS {
                    let (ticket, _) = put(stream, stamp, &[7; 500]).unwrap();
                    if stamp % 3 == 0 {
                        stream.wait_hardened(ticket).unwrap();
                        done.store(stamp, Ordering::SeqCst);
                    }
                }
            });
        }
        let both = || {
            acknowledged
                .iter()
                .map(|it| it.load(Ordering::SeqCst))
                .min()
        };
        while both().unwrap() < COMMITS {
            let image = both().unwrap();
            checkpoint(&log, &*disk, &mut manifest, image);
        }
    });
    // Most of both streams is superfluous now, however the threads were scheduled.
    checkpoint(&log, &*disk, &mut manifest, COMMITS);
    manifest.last().seal = Some(log.close().unwrap());
    manifest.write(&*disk);
    let info = &manifest.generations[0];
    assert!(
        info.starts.iter().all(|start| start.file_number > 10),
        "{info:?}"
    );
    for worker in 0..2 {
        let (all, _) = read(&disk, info, worker).unwrap();
        let found: Vec<_> = all.iter().map(|(stamp, ..)| stamp.0).collect();
        assert!(found[0] <= manifest.image.0 + 1);
        assert_eq!(found, (found[0]..=COMMITS).collect::<Vec<_>>());
    }
    // From L0 on, no LSN is missing.
    let readers = [0, 1].map(|worker| reader(&disk, info, worker).unwrap());
    let last = Lsn(2 * COMMITS);
    let merge = Merge::by_lsn(readers.into(), info.complete_lsn(), Some(last));
    assert_eq!(merge.finish().unwrap().last_lsn, last);
    assert!(info.complete_from > Lsn(1));
}

/// Epochs that end when the test closes them.
#[derive(Debug)]
struct Epochs(AtomicU64);

impl EpochSource for Epochs {
    fn current(&self) -> Epoch {
        Epoch(self.0.load(Ordering::SeqCst))
    }

    fn finished(&self) -> Epoch {
        Epoch(self.current().0 - 1)
    }

    fn close(&self, Epoch(epoch): Epoch) {
        let (old, new) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.0.compare_exchange(epoch, epoch + 1, old, new);
    }
}

/// The last hardened frame of a stream may be the only evidence that its epochs were certified. Its
/// log file is kept while the first frame of the next file is under way.
#[test]
fn what_certifies_an_epoch_is_not_recycled() {
    let sim = SimDisk::new();
    sim.complete_after(u64::MAX);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let source = Arc::new(Epochs(AtomicU64::new(1)));
    let config = LogConfig {
        sequencer: SequencerKind::None,
        epochs: Some(source),
        async_flush_min_commits: Some(NonZeroU32::MIN),
        ..recycling(2)
    };
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut manifest = Manifest::of(config.generation_info(CutRule::Epoch));
    let mut stamp = 0;
    let mut put_in = |worker: u16, bytes: usize| {
        stamp += 1;
        put_epoch(&log, worker, stamp, bytes)
    };
    while log.kept_bytes() < 2 * LOG_FILE {
        put_in(0, 3000);
        log.flush_all().unwrap();
    }
    // Its last frame certifies, with that of the other stream, what no frame has as its horizon.
    put_in(1, 10);
    log.flush_all().unwrap();
    while log.recyclable(at(1000)).unwrap().streams[0].file_number < 3 {
        let ticket = put_in(0, 3000);
        let certified = log.certified_epoch();
        let before = log.kept_bytes();
        log.stream(W).begin_flush(ticket).unwrap();
        let rolled = log.kept_bytes() > before;
        let start = checkpoint(&log, &*disk, &mut manifest, 1000);
        if rolled {
            assert!(start.streams[0].file_number < 3, "{start:?}");
        }
        for loss in [Loss::None, Loss::All] {
            let image: Arc<dyn Disk> = Arc::new(sim.crash_image(sim.events(), loss));
            let info = &Manifest::read(&*image).generations[0];
            let ends = [0, 1].map(|worker| read(&image, info, worker).unwrap().1);
            assert!(durable_epoch(&ends) >= certified, "{start:?} {ends:?}");
        }
        log.flush_all().unwrap();
    }
}

fn put_epoch(log: &Log<()>, worker: u16, stamp: u64, bytes: usize) -> namiki_log::Ticket {
    let appended = log.stream(WorkerId(worker)).append(
        namiki_log::Entry::Commit,
        Stamp(stamp),
        Epoch(stamp),
        bytes,
        |_, _| {},
        |()| {},
    );
    appended.unwrap().ticket
}
