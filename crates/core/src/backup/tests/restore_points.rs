//! A backup that is restored to a point has the state of that point, and only possible points are
//! listed.

use std::num::NonZeroU64;

use super::*;
use crate::commit::restore_points::mark_restore_point;
use crate::wal_format::restore_point::RestorePoint;

/// Settings for a database in which tests write restore points.
pub(super) fn with_points(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    builder(spec, disk).restore_points(Duration::MAX)
}

pub(super) fn mark(db: &Database) -> RestorePoint {
    let engine = &db.shared.engine;
    let marked = mark_restore_point(engine, engine.log.as_ref().unwrap());
    marked.unwrap().unwrap()
}

fn options(disk: &SimDisk) -> BackupOptions {
    let rate = NonZeroU64::new(u64::MAX).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    BackupOptions::default().disk(disk).bytes_per_second(rate)
}

#[test]
fn a_restore_to_a_point_is_its_state() {
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let disk = SimDisk::new();
        let db = with_points(spec, &disk).open(DIR).unwrap();
        let table = table_of(&db);
        let (history, done) = (History::default(), AtomicBool::new(false));
        let mut points = Vec::new();
        let before = mark(&db);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (db, table, history, done) = (&db, &table, &history, &done);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    let mut random = Random::seeded(seed << 8 | writer);
                    for _ in 0..2000 {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        history.commit(&mut session, table, &drawn(&mut random));
                    }
                    session.flush().unwrap();
                });
            }
            db.checkpoint().unwrap();
            for number in 0..5_u64 {
                db.transact(|tx| tx.put(&table, &(KEYS + number), b"seen"))
                    .unwrap();
                points.push(mark(&db));
            }
            done.store(true, Ordering::Relaxed);
        });
        // A backup has no points after its stamp, whatever its frames contain.
        back_up(&db, &disk).unwrap();
        let found = with_points(spec, &disk).restore_points_of(COPY).unwrap();
        assert_eq!(found, points, "{spec}");
        for (number, point) in (0..).zip(&points) {
            let mut expected = history.at(point.stamp);
            expected.extend((0..=number).map(|number| (KEYS + number, b"seen".to_vec())));
            let dir = format!("/point-{number}");
            let restored =
                with_points(spec, &disk).restore_to(COPY, &dir, point.stamp, &options(&disk));
            restored.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
            for order in BOTH_ORDERS {
                let db = builder(spec, &disk).replay_order(order);
                let db = db.open_read_only(&dir).unwrap();
                assert_eq!(contents(&db), expected, "{spec}, {point:?}, {order:?}");
            }
            let db = with_points(spec, &disk).open(&dir).unwrap();
            assert_eq!(contents(&db), expected, "{spec}, {point:?}");
        }
        // The image is of a later moment.
        let refused =
            with_points(spec, &disk).restore_to(COPY, "/no-point", before.stamp, &options(&disk));
        assert!(
            matches!(refused, Err(BackupError::NoSuchPoint { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_dropped_table_takes_its_points_away() {
    let (spec, disk) = ("TT(EPOCH)+PWAL(auto)".parse().unwrap(), SimDisk::new());
    let db = with_points(spec, &disk).open(DIR).unwrap();
    let table = table_of(&db);
    let put = |key: u64| db.transact(|tx| tx.put(&table, &key, b"kept")).unwrap();
    let other: Values = db.table("other").unwrap();
    db.transact(|tx| tx.put(&other, &1, b"dropped")).unwrap();
    let mut catalogue = db.shared.catalogue.lock();
    catalogue.last_point = mark(&db).stamp;
    drop(catalogue);
    db.drop_table("other").unwrap();
    put(1);
    let after = mark(&db);
    put(2);
    back_up(&db, &disk).unwrap();
    let found = with_points(spec, &disk).restore_points_of(COPY).unwrap();
    assert_eq!(found, [after]);
    let restored = with_points(spec, &disk).restore_to(COPY, "/new", after.stamp, &options(&disk));
    restored.unwrap();
    let db = builder(spec, &disk).open("/new").unwrap();
    assert_eq!(contents(&db).into_keys().collect::<Vec<_>>(), [1]);
}

/// The checkpointer's thread writes them while there are commits.
#[test]
fn points_are_put_into_the_log_while_there_are_commits() {
    let (spec, disk) = ("TT(NLR)+PWAL(4)".parse().unwrap(), SimDisk::new());
    let db = builder(spec, &disk).restore_points(Duration::from_millis(1));
    let db = db.open(DIR).unwrap();
    let table = table_of(&db);
    let mut found = Vec::new();
    for key in 0.. {
        db.transact(|tx| tx.put(&table, &key, b"x")).unwrap();
        if key % 1000 == 0 {
            back_up(&db, &disk).unwrap();
            found = builder(spec, &disk).restore_points_of(COPY).unwrap();
        }
        if found.len() >= 2 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(found.is_sorted_by_key(|point| (point.stamp, point.time_ms)));
}
