//! Log files that are prepared before they are needed, and old ones that are reused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::common::*;
use namiki_log::{
    Entry, Grant, ImageEffect, Log, LogConfig, LogError, LogRoom, Prepare, RecyclePoint, Retain,
    WantedFile,
};
use namiki_platform::disk::sim::{self, Fault, Loss, SimDisk};
use namiki_platform::disk::{Disk, DiskCall};
use namiki_platform::{Epoch, Generation, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);
/// Frames of [`write`] in a log file.
const FRAMES: u64 = 15;

fn keeping(kept: u32) -> LogConfig {
    let mut config = config(1);
    config.retain = Retain::Last(NonZeroU32::new(kept).unwrap());
    config
}

/// Writes one commit, its number, in a frame of its own.
fn write(log: &Log<()>, number: u64) -> Result<(), LogError> {
    put(log.stream(W), number, &[7; 700])?;
    log.stream(W).flush()
}

/// The numbers of the commits in the log.
fn numbers(disk: &Arc<dyn Disk>, config: &LogConfig) -> Vec<u64> {
    let (all, _) = read(disk, &info(config), 0).unwrap();
    all.iter().map(|(stamp, ..)| stamp.0).collect()
}

fn files(disk: &dyn Disk) -> usize {
    disk.list(Path::new("/db/wal/0000")).unwrap().len()
}

#[test]
fn prepared_files_are_used_in_order() {
    for frames in [0, 1, 15, 16, 40, 60] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let config = config(1);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        log.prepare_log_files(3).unwrap();
        assert_eq!(files(&*disk), 3);
        for next in 0..frames {
            write(&log, next).unwrap();
            // The fourth file is made when three are full.
            assert_eq!(files(&*disk), ((next / FRAMES) as usize + 1).max(3));
        }
        assert_eq!(numbers(&disk, &config), (0..frames).collect::<Vec<_>>());
    }
}

#[test]
fn one_spare_file_beyond_the_kept_suffices() {
    for (kept, prepare) in [
        (1, Prepare::Inline),
        (2, Prepare::Inline),
        (3, Prepare::Background),
    ] {
        let created = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&created);
        let disk = hooked(&SimDisk::new(), move |step| {
            counted.fetch_add(
                u64::from(matches!(step, DiskCall::Create(_))),
                Ordering::SeqCst,
            );
            Ok(())
        });
        let mut config = keeping(kept);
        config.prepare = prepare;
        let log: Arc<Log<()>> = create(&disk, config);
        log.prepare_log_files(kept as usize + 1).unwrap();
        assert_eq!(created.load(Ordering::SeqCst), u64::from(kept) + 1);
        for next in 0..FRAMES * 20 {
            write(&log, next).unwrap();
        }
        log.close().unwrap();
        assert_eq!(created.load(Ordering::SeqCst), u64::from(kept) + 1);
    }
}

/// Calls `meanwhile` while the first log file is being made. Returns the disk, and the number of
/// files made.
fn while_one_is_made(meanwhile: impl FnOnce(&Log<()>, &dyn Disk)) -> (Arc<dyn Disk>, u64) {
    let (created, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(2)));
    let (counted, begins) = (Arc::clone(&created), Arc::clone(&begun));
    let disk = hooked(&SimDisk::new(), move |step| {
        if matches!(step, DiskCall::Create(_)) && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            begins.wait();
            // Gives the other thread time to proceed as far as it can.
            for _ in 0..1000 {
                thread::yield_now();
            }
        }
        Ok(())
    });
    let log: Arc<Log<()>> = create(&disk, config(1));
    thread::scope(|scope| {
        scope.spawn(|| log.prepare_log_files(1).unwrap());
        begun.wait();
        meanwhile(&log, &*disk);
    });
    (disk, created.load(Ordering::SeqCst))
}

#[test]
fn an_append_waits_for_a_file_being_made() {
    let (disk, created) = while_one_is_made(|log, _| log.prepare_log_files(1).unwrap());
    assert_eq!((created, files(&*disk)), (1, 1));
}

/// Grants `left` files. For deletions it grants one more to a stream with reserved room, and any
/// file that is made for them.
#[derive(Debug)]
struct Granting {
    left: AtomicU64,
    given_back: AtomicU64,
}

impl Granting {
    fn so_many(files: u64) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicU64::new(files),
            given_back: AtomicU64::new(0),
        })
    }
}

impl LogRoom for Granting {
    fn grant(&self, file: WantedFile) -> io::Result<Grant> {
        let one_less = |left: u64| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        {
            Ok(_) => Ok(Grant::All),
            Err(_) if file.is_kept_for || file.frees_bytes.is_some() => Ok(Grant::Deletions),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn give_back(&self, _: WantedFile, _: Grant) {
        self.given_back.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_file_that_is_not_granted_is_refused() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let log: Arc<Log<()>> = create(&disk, config(1));
    let room = Granting::so_many(1);
    log.keep_room(Arc::clone(&room) as _);
    log.prepare_log_files(1).unwrap();
    for _ in 0..2 {
        let refused = log.prepare_log_files(2);
        assert!(
            matches!(refused, Err(LogError::DiskFull { .. })),
            "{refused:?}"
        );
        assert!(log.is_short_of_room() && files(&*disk) == 1);
    }
    room.left.store(2, Ordering::SeqCst);
    sim.inject(Fault::once(sim::Step::Create, 0, ErrorKind::Other));
    assert!(log.prepare_log_files(2).is_err());
    assert_eq!(room.given_back.load(Ordering::SeqCst), 1);
    log.prepare_log_files(2).unwrap();
    assert_eq!(files(&*disk), 2);
}

/// Deletions have reserved room: if all contents of a stream are in an image, it continues in a
/// file for deletions.
#[test]
fn deletions_go_on_where_the_rest_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.retain = Retain::UntilRecycled;
    let log: Arc<Log<()>> = create(&disk, config.clone());
    log.keep_room(Granting::so_many(1));
    let stream = log.stream(WorkerId(0));
    let append = |needs| {
        let (stamp, payload) = (Stamp(1), [7; 500]);
        let encode = |into: &mut [u8], _| into.copy_from_slice(&payload);
        let appended =
            stream.append_as(needs, Entry::Commit, stamp, Epoch(1), 500, encode, |()| {});
        appended.and_then(|appended| stream.wait_hardened(appended.ticket))
    };
    let fill = |needs| {
        let full = loop {
            if let Err(error) = append(needs) {
                break error;
            }
        };
        assert!(matches!(full, LogError::DiskFull { .. }), "{full:?}");
    };
    fill(Grant::All);
    // No image has the contents of the file yet.
    assert!(append(Grant::Deletions).is_err());
    let all = RecyclePoint {
        stamp: Stamp(1),
        below_lsn: None,
    };
    log.imaged(all);
    assert!(append(Grant::All).is_err() && log.is_short_of_room());
    append(Grant::Deletions).unwrap();
    assert!(append(Grant::All).is_err());
    let restricted = log.restricted();
    assert_eq!(restricted.len(), 1);
    assert_eq!(log.files().unwritten_bytes, 0);
    log.accept_all(&restricted);
    append(Grant::All).unwrap();
    assert!(log.restricted().is_empty() && !log.is_short_of_room());
    assert!(log.files().unwritten_bytes > 0);
    log.close().unwrap();
    read(&disk, &info(&config), 0).unwrap();
}

/// An entry longer than a buffer is refused where a shorter one is, in a file of the usual length
/// and in one of its own. Each refusal is reported until room was sought.
#[test]
fn long_entries_need_what_short_ones_need() {
    // Granted before: one file; or, for entries with a frame of their own, one file and two more.
    for (bytes, granted) in [(5_000, 1), (50_000, 3)] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut config = config(1);
        config.retain = Retain::UntilRecycled;
        config.payload_bytes_max = Some(100_000);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        log.keep_room(Granting::so_many(granted));
        let stream = log.stream(W);
        let append = |effect| {
            let oversize = stream.prepare_oversize(effect, bytes, |into| into.fill(7))?;
            let (stamp, epoch) = (Stamp(1), Epoch(1));
            let appended =
                stream.append_oversize(Entry::Commit, stamp, epoch, oversize, |()| {})?;
            stream.wait_hardened(appended.ticket)
        };
        let refused = |effect| {
            log.forget_refusals();
            let refused = append(effect);
            let is_full = matches!(refused, Err(LogError::DiskFull { .. }));
            assert!(is_full && log.is_short_of_room(), "{bytes}: {refused:?}");
        };
        while append(ImageEffect::Longer).is_ok() {}
        refused(ImageEffect::Longer);
        let all = RecyclePoint {
            stamp: Stamp(1),
            below_lsn: None,
        };
        log.imaged(all);
        refused(ImageEffect::Longer);
        append(ImageEffect::Shorter(bytes as u64)).unwrap();
        refused(ImageEffect::Longer);
        log.close().unwrap();
        read(&disk, &info(&config), 0).unwrap();
    }
}

/// A file that was made for one long deletion never takes other entries, which have to find their
/// place behind it: if there is room for the next file, they are accepted. A crash may tear them
/// there.
#[test]
fn commits_go_on_behind_a_long_deletion() {
    for deletes_between in [false, true] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut config = config(1);
        config.payload_bytes_max = Some(100_000);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let created = sim.events();
        let room = Granting::so_many(1);
        log.keep_room(Arc::clone(&room) as _);
        let stream = log.stream(W);
        let mut stamps = (1..).map(Stamp);
        let mut append = |needs, bytes| {
            let (stamp, encode) = (stamps.next().unwrap(), |into: &mut [u8], _| into.fill(7));
            let appended = stream.append_as(
                needs,
                Entry::Commit,
                stamp,
                Epoch(1),
                bytes,
                encode,
                |()| {},
            );
            appended.map(|appended| appended.ticket)
        };
        append(Grant::All, 100).unwrap();
        let effect = ImageEffect::Shorter(50_000);
        let deletion = stream.prepare_oversize(effect, 50_000, |into| into.fill(7));
        let (entry, stamp) = (Entry::Commit, Stamp(100));
        let appended = stream.append_oversize(entry, stamp, Epoch(1), deletion.unwrap(), |()| {});
        stream.wait_hardened(appended.unwrap().ticket).unwrap();
        if deletes_between {
            append(Grant::Deletions, 100).unwrap();
        }
        let refused = append(Grant::All, 1000);
        assert!(
            matches!(refused, Err(LogError::DiskFull { .. })),
            "{refused:?}"
        );
        room.left.store(1, Ordering::SeqCst);
        stream
            .wait_hardened(append(Grant::All, 1000).unwrap())
            .unwrap();
        assert!(log.restricted().is_empty());
        log.close().unwrap();
        let found = numbers(&disk, &config).len();
        assert_eq!(found, 3 + usize::from(deletes_between));
        for at in created..=sim.events() {
            let sectors = 0..sim.pending_sectors(at);
            let one = sectors.flat_map(|sector| [Loss::Only(sector), Loss::OnlyKept(sector)]);
            for loss in one.chain([Loss::None, Loss::All]) {
                let image: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
                let read = read(&image, &info(&config), 0).map(|_| ());
                assert!(read.is_ok(), "after event {at}, {loss:?}: {read:?}");
            }
        }
    }
}

#[test]
fn a_closed_log_prepares_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(1));
    log.close().unwrap();
    assert!(matches!(log.prepare_log_files(3), Err(LogError::Closed)));
    assert_eq!(files(&*disk), 0);
}

#[test]
fn a_full_disk_leaves_what_was_made_before_it() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    sim.set_capacity(Some(2 * (16 << 10)));
    let log: Arc<Log<()>> = create(&disk, config(1));
    let full = log.prepare_log_files(4);
    assert!(matches!(full, Err(LogError::DiskFull { .. })), "{full:?}");
    for next in 0..FRAMES * 2 {
        write(&log, next).unwrap();
    }
    assert!(write(&log, FRAMES * 2).is_err());
    sim.set_capacity(None);
    log.prepare_log_files(2).unwrap();
    write(&log, FRAMES * 2).unwrap();
    log.close().unwrap();
}

/// An old log file that could not be renamed is the next one to be renamed; otherwise the reader
/// would find a gap before the one after it. A renamed file is gone.
#[test]
fn recycling_goes_on_where_it_failed() {
    for step in [sim::Step::Rename, sim::Step::SyncDir] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let config = keeping(2);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let (mut next, mut refused) = (0, 0);
        while next < FRAMES * 8 {
            if next == FRAMES * 3 && refused == 0 {
                sim.inject(Fault::once(step, 0, ErrorKind::StorageFull));
            }
            match write(&log, next) {
                Ok(()) => next += 1,
                Err(LogError::DiskFull { .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            // The current log file and the one before it are there, without a gap between.
            let numbers = numbers(&disk, &config);
            let first = numbers[0];
            assert_eq!(numbers, (first..next).collect::<Vec<_>>());
            let kept = next.saturating_sub(1) / FRAMES * FRAMES;
            assert!(first <= kept.saturating_sub(FRAMES), "{first} {next}");
        }
        assert_eq!(refused, 1, "{step:?}");
        assert!(files(&*disk) <= 3, "{step:?}");
    }
}

/// As when another program removes files of the log, or a rename takes place and reports a failure.
#[test]
fn a_missing_old_file_is_made_anew() {
    type Lose = fn(&SimDisk);
    let remove: Lose = |sim| {
        // The two files before the current one, both for reuse.
        for number in [1, 2] {
            let path = format!("/db/wal/0000/000001-{number:08}.log");
            sim.remove(Path::new(&path)).unwrap();
        }
    };
    let rename: Lose = |sim| {
        let fault = Fault::once(sim::Step::Rename, 0, ErrorKind::Other);
        sim.inject(fault.though_it_takes_place());
    };
    for (lose, refused) in [(remove, 0), (rename, 1)] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut config = config(1);
        config.retain = Retain::UntilRecycled;
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let room = Granting::so_many(100);
        log.keep_room(Arc::clone(&room) as _);
        for next in 0..FRAMES * 2 + 1 {
            write(&log, next).unwrap();
        }
        let point = RecyclePoint {
            stamp: Stamp(FRAMES * 2 - 1),
            below_lsn: None,
        };
        let start = log.recyclable(point).unwrap();
        log.recycle(&start, Generation(0), u64::MAX).unwrap();
        lose(&sim);
        let mut failures = 0;
        for next in FRAMES * 2 + 1..FRAMES * 5 {
            while let Err(error) = write(&log, next) {
                failures += 1;
                assert!(error.is_refusal() && failures <= refused, "{error:?}");
            }
        }
        assert_eq!(failures, refused);
        // The grant of an old file was returned, and requested again for a new file that takes
        // room. So was the grant of the failed one.
        assert_eq!(room.given_back.load(Ordering::SeqCst), 2);
        let mut info = info(&config);
        info.begin_at(&start);
        let (kept, _) = read(&disk, &info, 0).unwrap();
        let kept: Vec<_> = kept.iter().map(|(stamp, ..)| stamp.0).collect();
        assert_eq!(kept, (FRAMES * 2..FRAMES * 5).collect::<Vec<_>>());
    }
}

/// Each failed attempt leaves an old log file with the header of the next one. A crash may leave it
/// under either name.
#[test]
fn no_crash_after_a_failed_recycling_is_damage() {
    for (failures, syncs) in [(1, 1), (2, 1), (3, 1), (1, 2)] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let config = keeping(2);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let start = sim.events();
        for next in 0..FRAMES * 4 {
            write(&log, next).unwrap();
            sim.mark(next);
        }
        let mut next = FRAMES * 4;
        for _ in 0..failures {
            for sync in 0..syncs {
                sim.inject(Fault::once(
                    sim::Step::SyncDir,
                    sync,
                    ErrorKind::StorageFull,
                ));
            }
            match write(&log, next) {
                Err(LogError::DiskFull { .. }) => {}
                Err(error) if error.is_poison() => break,
                Err(error) => panic!("{error:?}"),
                Ok(()) => next += 1,
            }
        }
        sim.heal();
        for _ in 0..FRAMES * 3 {
            if log.poisoned().is_some() {
                break;
            }
            write(&log, next).unwrap();
            sim.mark(next);
            next += 1;
        }
        for at in start..=sim.events() {
            let marks = sim.marks_before(at);
            let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
            let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
            for loss in losses.into_iter().chain(names) {
                let image: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
                let (all, _) = read(&image, &info(&config), 0)
                    .unwrap_or_else(|error| panic!("{failures} {syncs}, {at} {loss:?}: {error}"));
                let last = all.last().map(|(stamp, ..)| stamp.0);
                assert!(last >= marks.last().copied(), "{at} {loss:?}: {last:?}");
            }
        }
    }
}

#[test]
fn no_crash_loses_a_frame_of_a_recycling_log() {
    for (kept, ahead) in [(1, 5), (2, 2), (2, 4), (3, 3)] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let config = keeping(kept);
        let log: Arc<Log<()>> = create(&disk, config.clone());
        let start = sim.events();
        log.prepare_log_files(ahead).unwrap();
        for next in 0..FRAMES * 7 {
            write(&log, next).unwrap();
            sim.mark(next);
            if next % 37 == 36 {
                log.prepare_log_files(ahead).unwrap();
            }
        }
        for at in start..=sim.events() {
            let acknowledged = sim.marks_before(at).len() as u64;
            let losses = [Loss::None, Loss::All, Loss::Seeded(at as u64)];
            let names = (0..sim.pending_names(at)).map(Loss::NamesAfter);
            for loss in losses.into_iter().chain(names) {
                let image: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
                let numbers = numbers(&image, &config);
                let first = numbers.first().copied().unwrap_or(0);
                let end = first + numbers.len() as u64;
                assert_eq!(numbers, (first..end).collect::<Vec<_>>(), "{at} {loss:?}");
                assert!(
                    (acknowledged..=acknowledged + 1).contains(&end),
                    "{kept} {ahead} {at} {loss:?}: {end} of {acknowledged}"
                );
            }
        }
    }
}
