//! A directory that keeps earlier backups can be restored to each point that it was given, whatever happens to it.

use namiki_platform::disk::sim::Fault;
use namiki_platform::disk::sim::Step;

use super::restore_points::{mark, with_points};
use super::*;
use crate::backup::retention::earlier_backups;
use crate::error::OpenError;
use crate::wal_format::restore_point::RestorePoint;

const HOUR: Duration = Duration::from_hours(1);

fn options(disk: &SimDisk, keep: Duration) -> BackupOptions {
    BackupOptions::default()
        .disk(Arc::new(disk.clone()))
        .keep(keep)
}

/// A database that is backed up before each checkpoint, with points in between.
struct Followed {
    spec: ProtocolSpec,
    /// The backup's disk.
    disk: SimDisk,
    db: Database,
    history: History,
    random: Random,
    points: Vec<RestorePoint>,
}

impl Followed {
    /// On one disk.
    fn new(spec: ProtocolSpec, seed: u64) -> Self {
        let disk = SimDisk::with_separate_directories();
        Self::on_disks(spec, seed, &disk.clone(), disk)
    }

    /// With the database on a disk of its own: a fault is for the backup, and not for a log file that is made ready.
    fn apart(spec: ProtocolSpec, seed: u64) -> Self {
        let [of_database, disk] = [(); 2].map(|()| SimDisk::with_separate_directories());
        Self::on_disks(spec, seed, &of_database, disk)
    }

    fn on_disks(spec: ProtocolSpec, seed: u64, of_database: &SimDisk, disk: SimDisk) -> Self {
        let db = with_points(spec, of_database).open(DIR).unwrap();
        Self {
            spec,
            disk,
            db,
            history: History::default(),
            random: Random::seeded(seed),
            points: Vec::new(),
        }
    }

    /// Some commits, each before a restore point.
    fn write(&mut self, commits: u64) {
        let table = table_of(&self.db);
        let mut session = self.db.session().unwrap();
        for _ in 0..commits {
            let written = drawn(&mut self.random);
            self.history.commit(&mut session, &table, &written);
            session.flush().unwrap();
            self.points.push(mark(&self.db));
        }
    }

    fn back_up(&self, keep: Duration) -> BackupReport {
        let options = options(&self.disk, keep);
        self.db.backup_with(COPY, &options).unwrap()
    }

    /// Restores a point, and fails if it is not its state.
    fn check(&self, disk: &SimDisk, stamp: Stamp, what: &str) {
        let other = SimDisk::new();
        let on = BackupOptions::default().disk(Arc::new(other.clone()));
        let restored = with_points(self.spec, disk).restore_to(COPY, DIR, stamp, &on);
        restored.unwrap_or_else(|error| panic!("{}, {stamp}, {what}: {error:?}", self.spec));
        let db = with_points(self.spec, &other).open_read_only(DIR).unwrap();
        let expected = self.history.at(stamp);
        assert_eq!(contents(&db), expected, "{}, {stamp}, {what}", self.spec);
    }
}

fn points_of(spec: ProtocolSpec, disk: &SimDisk) -> Vec<Stamp> {
    let found = with_points(spec, disk).restore_points_of(COPY);
    let found = found.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
    found.into_iter().map(|point| point.stamp).collect()
}

/// Runs, log files and manifests of the backup.
fn files(disk: &SimDisk) -> usize {
    let dirs = ["image", "wal/0000", "wal/0001", "earlier"];
    let dirs = dirs.iter().map(|dir| Path::new(COPY).join(dir));
    let files = dirs.filter_map(|dir| disk.list(&dir).ok());
    files.map(|files| files.len()).sum()
}

/// Dates the oldest ones of the earlier backups back. Returns the stamp of the last of these.
fn date_back(disk: &SimDisk, long_ago_ms: [u64; 2]) -> Stamp {
    let earlier = earlier_backups(disk, Path::new(COPY)).unwrap();
    let mut stamp = Stamp(0);
    for (taken_at_ms, mut backup) in long_ago_ms.into_iter().zip(earlier) {
        let mark = backup.manifest.backup.as_mut().unwrap();
        mark.taken_at_ms = taken_at_ms;
        stamp = mark.stamp;
        backup.manifest.write_file(disk, &backup.path).unwrap();
    }
    stamp
}

#[test]
fn each_point_since_then_can_be_restored() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let mut followed = Followed::new(spec, seed);
        let mut kept = 0;
        for round in 0..4 {
            followed.write(3);
            followed.back_up(HOUR);
            followed.write(3);
            kept = followed.back_up(HOUR).earlier_kept;
            assert_eq!(kept, round, "{spec}");
            followed.db.checkpoint().unwrap();
        }
        let disk = &followed.disk;
        let found = points_of(spec, disk);
        for point in &followed.points {
            assert!(found.contains(&point.stamp), "{spec}, {point:?}: {found:?}");
        }
        for (number, stamp) in (0..).zip(&found) {
            if (seed + number) % 4 == 0 || *stamp == found[0] {
                followed.check(&followed.disk, *stamp, "as it is");
            }
        }
        let read = copied(spec, disk, ReplayOrder::Merge);
        assert_eq!(read, contents(&followed.db), "{spec}");

        // Only the last one remains, and no file of the others.
        let before = files(&followed.disk);
        let report = followed.back_up(Duration::ZERO);
        assert_eq!((kept, report.earlier_kept), (3, 0), "{spec}");
        let after = files(&followed.disk);
        assert!(after < before, "{spec}: {before}, {after}");
        let disk = SimDisk::new();
        let only = BackupOptions::default().disk(Arc::new(disk.clone()));
        followed.db.backup_with(COPY, &only).unwrap();
        assert!(
            after <= files(&disk) + 2,
            "{spec}: {after}, {}",
            files(&disk)
        );
    }
}

/// The right earlier backups are removed, and no file that another one needs.
#[test]
fn a_crash_takes_away_no_point_that_is_kept() {
    let (mut listed, mut gone) = (0, 0);
    for spec in ["TT(EPOCH)+PWAL(auto)", "S2PL(ELR)+PWAL(16)+ARIES"] {
        let spec: ProtocolSpec = spec.parse().unwrap();
        let mut followed = Followed::new(spec, 7);
        for _ in 0..4 {
            followed.write(4);
            followed.back_up(HOUR);
            followed.db.checkpoint().unwrap();
        }
        followed.write(2);
        let all = points_of(spec, &followed.disk);
        // Two of the three that are kept were taken long ago.
        let oldest_kept = date_back(&followed.disk, [1000, 2000]);
        let begin = followed.disk.events();
        assert_eq!(followed.back_up(HOUR).earlier_kept, 3, "{spec}");
        let acknowledged = followed.disk.events();
        let mut random = Random::seeded(1);
        for at in begin..=acknowledged {
            for loss in [Loss::None, Loss::All, Loss::Seeded(random.next_u64())] {
                let what = format!("{loss:?} after event {at}, {}", followed.disk.describe(at));
                let crashed = followed.disk.crash_image(at, loss);
                let found = points_of(spec, &crashed);
                let mut kept = all.iter().filter(|stamp| **stamp >= oldest_kept);
                assert!(kept.all(|stamp| found.contains(stamp)), "{spec}, {what}");
                gone += u32::from(!found.contains(&all[0]));
                listed += found.len();
                for stamp in [found[0], found[random.below(found.len() as u64) as usize]] {
                    followed.check(&crashed, stamp, &what);
                }
                if random.below(8) == 0 {
                    let db = with_points(spec, &crashed).open(DIR).unwrap();
                    let report = db.backup_with(COPY, &options(&crashed, HOUR)).unwrap();
                    assert_eq!(report.earlier_kept, 3, "{spec}, {what}");
                    assert_eq!(copied(spec, &crashed, ReplayOrder::Merge), contents(&db));
                    let found = points_of(spec, &crashed);
                    for stamp in [found[0], found[found.len() - 1]] {
                        followed.check(&crashed, stamp, &what);
                    }
                }
            }
        }
    }
    assert!(listed > 1000 && gone > 10, "{listed}, {gone}");
}

/// The next backup gets the space of backups that are too old by now.
#[test]
fn a_full_directory_gives_up_what_is_too_old() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let mut followed = Followed::apart(spec, 3);
    for _ in 0..4 {
        followed.write(4);
        followed.back_up(HOUR);
        followed.db.checkpoint().unwrap();
    }
    followed.write(2);
    let before = files(&followed.disk);
    let all = points_of(spec, &followed.disk);
    let full = |disk: &SimDisk, errors: Fault| {
        disk.inject(errors);
        let done = followed.db.backup_with(COPY, &options(disk, HOUR));
        disk.heal();
        done
    };
    let once = || Fault::once(Step::Create, 0, std::io::ErrorKind::StorageFull);
    // All are still to be kept.
    let refused = full(&followed.disk, once());
    assert!(
        matches!(refused, Err(BackupError::DiskFull { .. })),
        "{refused:?}"
    );
    assert_eq!(points_of(spec, &followed.disk), all);

    let oldest_kept = date_back(&followed.disk, [1000, 2000]);
    let refused = full(&followed.disk, once().and_ever_after());
    assert!(
        matches!(refused, Err(BackupError::DiskFull { .. })),
        "{refused:?}"
    );
    assert!(files(&followed.disk) < before);
    let found = points_of(spec, &followed.disk);
    let mut kept = all.iter().filter(|stamp| **stamp >= oldest_kept);
    assert!(kept.all(|stamp| found.contains(stamp)) && !found.contains(&all[0]));
    for stamp in found {
        followed.check(&followed.disk, stamp, "full");
    }

    // It continues once the disk has room.
    date_back(&followed.disk, [1000, 2000]);
    let report = full(&followed.disk, once()).unwrap();
    assert_eq!(report.earlier_kept, 2);
    let read = copied(spec, &followed.disk, ReplayOrder::Merge);
    assert_eq!(read, contents(&followed.db));
}

/// A failing device leaves every kept backup, and the next backup resumes.
#[test]
fn a_failing_device_takes_away_no_point_that_is_kept() {
    let spec = "TT(NLR)+PWAL(4)".parse().unwrap();
    let mut failed = 0;
    for step in [
        Step::Create,
        Step::Sync,
        Step::SyncDir,
        Step::Rename,
        Step::Remove,
    ] {
        for after in 0..8 {
            let mut followed = Followed::apart(spec, after);
            for _ in 0..2 {
                followed.write(3);
                followed.back_up(HOUR);
                followed.db.checkpoint().unwrap();
            }
            let before = points_of(spec, &followed.disk);
            let disk = &followed.disk;
            disk.inject(Fault::once(step, after, std::io::ErrorKind::Other));
            let done = followed
                .db
                .backup_with(COPY, &options(disk, Duration::ZERO));
            disk.heal();
            let what = format!("{step:?} {after}: {done:?}");
            if let Err(error) = &done {
                failed += 1;
                let found = points_of(spec, disk);
                assert!(before.iter().all(|it| found.contains(it)), "{what}");
                assert!(!matches!(error, BackupError::Database(_)), "{what}");
            }
            for stamp in points_of(spec, disk) {
                followed.check(disk, stamp, &what);
            }
            followed.write(1);
            assert!(followed.back_up(HOUR).earlier_kept <= 2, "{what}");
            let found = copied(spec, &followed.disk, ReplayOrder::Merge);
            assert_eq!(found, contents(&followed.db), "{what}");
        }
    }
    assert!(failed > 8, "{failed}");
}

#[test]
fn a_directory_that_keeps_earlier_ones_is_not_written_otherwise() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let mut followed = Followed::new(spec, 5);
    followed.write(2);
    followed.back_up(HOUR);
    followed.db.checkpoint().unwrap();
    followed.write(2);
    assert_eq!(followed.back_up(HOUR).earlier_kept, 1);
    let refused = back_up(&followed.db, &followed.disk);
    assert!(
        matches!(refused, Err(BackupError::KeepsEarlier { .. })),
        "{refused:?}"
    );
    let refused = with_points(spec, &followed.disk).open(COPY);
    assert!(
        matches!(refused, Err(OpenError::KeepsEarlierBackups { .. })),
        "{refused:?}"
    );
    let points = points_of(spec, &followed.disk);
    followed.check(&followed.disk, points[0], "refused");
}

/// A dropped table exists again in a restore to an earlier point.
#[test]
fn a_dropped_table_comes_back_with_an_earlier_backup() {
    for spec in ["TT(EPOCH)+PWAL(auto)", "TT(NLR)+PWAL(4)"] {
        let spec = spec.parse().unwrap();
        let disk = SimDisk::new();
        let db = with_points(spec, &disk).open(DIR).unwrap();
        let table = table_of(&db);
        db.transact(|tx| tx.put(&table, &1, b"kept")).unwrap();
        let point = mark(&db);
        db.backup_with(COPY, &options(&disk, HOUR)).unwrap();
        db.drop_table("values").unwrap();
        let report = db.backup_with(COPY, &options(&disk, HOUR)).unwrap();
        assert_eq!(report.earlier_kept, 1, "{spec}");
        let restored =
            with_points(spec, &disk).restore_to(COPY, "/new", point.stamp, &options(&disk, HOUR));
        restored.unwrap();
        let db = builder(spec, &disk).open("/new").unwrap();
        assert_eq!(contents(&db).len(), 1, "{spec}");
    }
}

/// Each backup that has something new, then, and its end is a moment that is listed.
#[test]
fn without_points_the_end_of_each_backup_is_kept() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let disk = SimDisk::new();
    let back_up = || {
        let done = builder(spec, &disk).backup_closed(DIR, COPY, &options(&disk, HOUR));
        done.unwrap()
    };
    let mut expected = Vec::new();
    for night in 0..4 {
        let db = builder(spec, &disk).open(DIR).unwrap();
        let table = table_of(&db);
        db.transact(|tx| tx.put(&table, &night, b"x")).unwrap();
        let state = contents(&db);
        db.close().unwrap();
        let report = back_up();
        assert_eq!(report.earlier_kept, night);
        // Nothing new.
        assert_eq!(back_up().earlier_kept, night);
        expected.push((report.stamp, state));
    }
    let stamps = expected.iter().map(|(stamp, _)| *stamp);
    // The last one is the backup as it is.
    let earlier: Vec<_> = stamps.take(3).collect();
    assert_eq!(points_of(spec, &disk), earlier);
    for (stamp, state) in expected {
        let other = SimDisk::new();
        let on = options(&other, HOUR);
        let restored = builder(spec, &disk).restore_to(COPY, DIR, stamp, &on);
        restored.unwrap();
        let db = builder(spec, &other).open_read_only(DIR).unwrap();
        assert_eq!(contents(&db), state, "{stamp}");
    }
}

/// A clock that was set back, or was ahead when a backup was taken, is reported, and removes no
/// backup.
#[test]
fn a_clock_that_was_set_back_is_told() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let mut followed = Followed::new(spec, 11);
    for _ in 0..4 {
        followed.write(2);
        assert_eq!(followed.back_up(HOUR).clock_behind, None);
        followed.db.checkpoint().unwrap();
    }
    let all = points_of(spec, &followed.disk);
    // The last ones were taken with a clock that was two hours ahead.
    let ahead_ms = crate::commit::restore_points::now_ms() + 2 * HOUR.as_millis() as u64;
    let dir = Path::new(COPY);
    let mut last = Manifest::read(&followed.disk, dir).unwrap().unwrap();
    last.backup.as_mut().unwrap().taken_at_ms = ahead_ms;
    last.write(&followed.disk, dir).unwrap();
    followed.write(2);
    for _ in 0..2 {
        let report = followed.back_up(HOUR);
        let behind = report.clock_behind.unwrap();
        assert!(behind > HOUR && behind <= 2 * HOUR, "{behind:?}");
        let found = points_of(spec, &followed.disk);
        assert!(all.iter().all(|stamp| found.contains(stamp)));
    }
}
