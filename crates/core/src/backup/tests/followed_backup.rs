//! A backup that follows a database has each point before the log with it is freed, and delays no
//! checkpoint.

use std::num::NonZeroU64;
use std::sync::atomic::AtomicUsize;

use namiki_platform::disk::sim::{Fault, Step};

use super::restore_points::{mark, with_points};
use super::*;
use crate::backup::followed_backup::BackupStats;
use crate::wal_format::restore_point::RestorePoint;

const HOUR: Duration = Duration::from_hours(1);

/// A database with a backup that follows it onto another disk: taken at the opening, and then only
/// before checkpoints.
fn followed(spec: ProtocolSpec, disk: &SimDisk, copies: &SimDisk) -> Database {
    let disk_of_copies: Arc<dyn Disk> = Arc::new(copies.clone());
    let options = BackupOptions::default().disk(disk_of_copies).keep(HOUR);
    let db = with_points(spec, disk)
        .checkpoint_at_close(Some(1))
        .backup_to(COPY, Duration::MAX, options)
        .open(DIR)
        .unwrap();
    wait(&db, |backup| backup.taken == 1);
    db
}

fn wait(db: &Database, is_over: impl Fn(&BackupStats) -> bool) {
    while !is_over(&db.stats().backup.unwrap()) {
        std::thread::yield_now();
    }
}

fn points_of(spec: ProtocolSpec, copies: &SimDisk) -> Vec<Stamp> {
    let found = with_points(spec, copies).restore_points_of(COPY).unwrap();
    found.into_iter().map(|point| point.stamp).collect()
}

fn restored(spec: ProtocolSpec, copies: &SimDisk, stamp: Stamp) -> Contents {
    let disk = SimDisk::new();
    let on = BackupOptions::default().disk(Arc::new(disk.clone()));
    with_points(spec, copies)
        .restore_to(COPY, DIR, stamp, &on)
        .unwrap();
    contents(&with_points(spec, &disk).open_read_only(DIR).unwrap())
}

/// Stops the threads that run until this is set, also after a panic.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_point_is_missing_between_two_images() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let (disk, copies) = (SimDisk::new(), SimDisk::new());
        let history = History::default();
        let points = Mutex::<Vec<RestorePoint>>::default();
        // The second opening continues the backup.
        for opening in 0..2 {
            let db = followed(spec, &disk, &copies);
            let (table, done) = (table_of(&db), AtomicBool::new(false));
            // A few points more than are waited for, so that writes continue during a checkpoint,
            // however long that takes.
            let most = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let _done = SetWhenDropped(&done);
                for writer in 0..2 {
                    let (db, table, history, points) = (&db, &table, &history, &points);
                    let (done, most) = (&done, &most);
                    scope.spawn(move || {
                        let mut session = db.session().unwrap();
                        let mut random = Random::seeded(seed << 8 | opening << 4 | writer);
                        while !done.load(Ordering::Relaxed) {
                            if points.lock().unwrap().len() >= most.load(Ordering::Relaxed) {
                                // The other one may want locks of its group.
                                session.flush().unwrap();
                                std::thread::yield_now();
                                continue;
                            }
                            for _ in 0..3 {
                                history.commit(&mut session, table, &drawn(&mut random));
                            }
                            if writer == 0 {
                                let catalogue = db.shared.catalogue.lock();
                                points.lock().unwrap().push(mark(db));
                                drop(catalogue);
                            }
                        }
                        session.flush().unwrap();
                    });
                }
                for _ in 0..3 {
                    let before = points.lock().unwrap().len();
                    most.store(before + 20, Ordering::Relaxed);
                    while points.lock().unwrap().len() < before + 4 {
                        std::thread::yield_now();
                    }
                    db.checkpoint().unwrap();
                }
            });
            let backup = db.stats().backup.unwrap();
            assert_eq!((backup.taken, backup.gaps), (4, 0), "{spec}: {backup:?}");
            // It takes a checkpoint, and so a backup.
            db.close().unwrap();
        }
        let (found, points) = (points_of(spec, &copies), points.into_inner().unwrap());
        for point in &points {
            assert!(found.contains(&point.stamp), "{spec}, {point:?}");
        }
        let mut random = Random::seeded(seed);
        for _ in 0..6 {
            let stamp = found[random.below(found.len() as u64) as usize];
            let state = restored(spec, &copies, stamp);
            assert_eq!(state, history.at(stamp), "{spec}, {stamp}");
        }
    }
}

#[test]
fn a_backup_that_fails_is_in_no_checkpoints_way() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let db = followed(spec, &disk, &copies);
    let table = table_of(&db);
    let put = |key: u64| {
        db.transact(|tx| tx.put(&table, &key, b"x")).unwrap();
        mark(&db).stamp
    };
    let missing = put(1);
    copies.inject(Fault::once(Step::Sync, 0, std::io::ErrorKind::Other).and_ever_after());
    db.checkpoint().unwrap();
    let backup = db.stats().backup.unwrap();
    assert_eq!((backup.taken, backup.failed, backup.gaps), (1, 1, 1));
    let error = backup.last_error.unwrap();
    assert!(matches!(&*error, BackupError::Device { path, .. } if path.starts_with(COPY)));
    let text = db.stats().to_string();
    assert!(text.contains("1 gaps"), "{text}");

    copies.heal();
    let kept = put(2);
    db.checkpoint().unwrap();
    let backup = db.stats().backup.unwrap();
    assert_eq!((backup.taken, backup.gaps), (2, 1));
    assert!(backup.last_error.is_none() && backup.last_ago.is_some());
    let found = points_of(spec, &copies);
    assert!(found.contains(&kept) && !found.contains(&missing));
    let expected = [1, 2].map(|key| (key, b"x".to_vec()));
    assert_eq!(restored(spec, &copies, kept), Contents::from(expected));
}

/// As if its file system were not mounted any more.
#[test]
fn a_directory_that_is_gone_is_a_gap() {
    let spec = "TT(NLR)+PWAL(4)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let db = followed(spec, &disk, &copies);
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &1, b"x")).unwrap();
    copies.remove(&Manifest::path(Path::new(COPY))).unwrap();
    db.checkpoint().unwrap();
    let backup = db.stats().backup.unwrap();
    assert_eq!((backup.taken, backup.gaps), (1, 1), "{backup:?}");
}

/// The checkpoint ends before it frees the log that the backup does not have yet.
#[test]
fn closing_amid_a_checkpoints_backup_loses_no_point() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let copying = Arc::new(AtomicBool::new(false));
    let copies_now = Arc::clone(&copying);
    // After its first piece it would wait for an hour, unless the database is closed.
    let options = BackupOptions::default()
        .disk(Arc::new(copies.clone()))
        .keep(HOUR)
        .bytes_per_second(NonZeroU64::MIN)
        .on_progress(Arc::new(move |_| copies_now.store(true, Ordering::Relaxed)));
    let db = with_points(spec, &disk)
        .checkpoint_at_close(None)
        .backup_to(COPY, Duration::MAX, options)
        .open(DIR)
        .unwrap();
    wait(&db, |backup| backup.taken == 1);
    let table = table_of(&db);
    let points: Vec<_> = (0..3)
        .map(|key| {
            db.transact(|tx| tx.put(&table, &key, b"x")).unwrap();
            mark(&db).stamp
        })
        .collect();
    let ended = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint());
        while !copying.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        db.close().unwrap();
        checkpoint.join().unwrap()
    });
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    // The last one is taken at the end, at full speed.
    let backup = db.stats().backup.unwrap();
    assert_eq!((backup.taken, backup.failed, backup.gaps), (2, 0, 0));

    let db = followed(spec, &disk, &copies);
    db.checkpoint().unwrap();
    let found = points_of(spec, &copies);
    assert!(points.iter().all(|it| found.contains(it)), "{found:?}");
}

/// In intervals, until the database is closed, which does not wait for a slow one.
#[test]
fn a_backup_is_taken_in_intervals() {
    let spec = "TT(NLR)+PWAL(4)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let open = |bytes_per_second: u64| {
        let options = BackupOptions::default()
            .disk(Arc::new(copies.clone()))
            .bytes_per_second(NonZeroU64::new(bytes_per_second).unwrap());
        let builder = builder(spec, &disk).backup_to(COPY, Duration::ZERO, options);
        builder.open(DIR).unwrap()
    };
    let db = open(u64::MAX);
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &1, &[1; 4000])).unwrap();
    let then = db.stats().backup.unwrap().taken;
    wait(&db, |backup| backup.taken >= then + 2);
    let expected = contents(&db);
    db.close().unwrap();
    assert_eq!(copied(spec, &copies, ReplayOrder::Merge), expected);

    let db = open(1);
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &2, &[2; 4000])).unwrap();
    db.close().unwrap();
    let backup = db.stats().backup.unwrap();
    assert_eq!(backup.failed, 0, "{backup:?}");
}

/// No commit is lost, and the next opening continues both.
#[test]
fn a_close_tells_that_the_backup_is_behind() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let (disk, copies) = (SimDisk::new(), SimDisk::new());
    let db = followed(spec, &disk, &copies);
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &1, b"x")).unwrap();
    copies.inject(Fault::once(Step::Sync, 0, std::io::ErrorKind::Other).and_ever_after());
    for _ in 0..2 {
        let closed = db.close().unwrap_err();
        assert!(
            matches!(&closed, Error::BackupBehind { dir, .. } if dir == Path::new(COPY)),
            "{closed:?}"
        );
        let told = closed.to_string();
        assert!(told.contains("nothing is lost"), "{told}");
    }
    let error = db.stats().backup.unwrap().last_error.unwrap();
    assert!(matches!(&*error, BackupError::Device { path, .. } if path.starts_with(COPY)));
    drop((db, table));
    copies.heal();
    let db = followed(spec, &disk, &copies);
    assert!(db.recovery().closed);
    db.close().unwrap();
    let expected = Contents::from([(1, b"x".to_vec())]);
    assert_eq!(copied(spec, &copies, ReplayOrder::Merge), expected);
}

/// A child that is forked during the last backup must be able to release the lock.
#[test]
fn the_lock_stays_where_it_is_during_the_last_backup() {
    let spec = "TT(EPOCH)+PWAL(auto)".parse().unwrap();
    let disk = SimDisk::new();
    let shared = Arc::new(Mutex::new(std::sync::Weak::new()));
    let seen = Arc::new(Mutex::new(None));
    let (looked_at, told) = (Arc::clone(&shared), Arc::clone(&seen));
    let options = BackupOptions::default()
        .disk(Arc::new(SimDisk::new()))
        .on_progress(Arc::new(move |_| {
            let shared = looked_at.lock().unwrap();
            let shared: Option<Arc<crate::api::database::Shared>> = shared.upgrade();
            *told.lock().unwrap() = shared.map(|it| it.dir_lock.lock().is_some());
        }));
    let db = with_points(spec, &disk)
        .backup_to(COPY, Duration::MAX, options)
        .open(DIR)
        .unwrap();
    wait(&db, |backup| backup.taken == 1);
    *shared.lock().unwrap() = Arc::downgrade(&db.shared);
    let table = table_of(&db);
    db.transact(|tx| tx.put(&table, &1, &[7; 5000])).unwrap();
    *seen.lock().unwrap() = None;
    db.close().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(true));
    assert!(db.shared.dir_lock.lock().is_none());
}

/// Every commit is in the backup of a database that was closed in order, also where it was closed before the first backup was taken.
#[test]
fn an_orderly_close_brings_the_backup_up_to_date() {
    for spec in ProtocolSpec::tested() {
        let (disk, copies) = (SimDisk::new(), SimDisk::new());
        let mut expected = Contents::new();
        for opening in 0..4_u64 {
            let options = BackupOptions::default().disk(Arc::new(copies.clone()));
            let options = match opening {
                3 => options.keep(HOUR),
                _ => options,
            };
            let checkpoint = (opening % 2 == 1).then_some(1);
            let db = builder(spec, &disk)
                .checkpoint_at_close(checkpoint)
                .backup_to(COPY, Duration::MAX, options)
                .open(DIR)
                .unwrap();
            if opening == 1 {
                wait(&db, |backup| backup.taken == 1);
            }
            let table = table_of(&db);
            db.transact(|tx| tx.put(&table, &opening, b"last")).unwrap();
            expected.insert(opening, b"last".to_vec());
            match opening % 2 {
                0 => db.close().unwrap(),
                _ => drop((db, table)),
            }
            let found = copied(spec, &copies, ReplayOrder::Merge);
            assert_eq!(found, expected, "{spec}, opening {opening}");
        }
    }
}
