//! Operation logging: records change before the commit, and every change without a commit is
//! undone, at once or by the next recovery.
//!
//! Paper: pwal §5.3, §5.5, §5.6
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use namiki::{
    Builder, Database, Error, ProtocolSpec, RecordFormat, Session, Table, TreeKind, WaitPolicy,
    WorkerId,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::builder;

type Texts = Table<u64, str>;

fn specs() -> Vec<ProtocolSpec> {
    let all = ProtocolSpec::all_durable().into_iter();
    all.filter(|spec| spec.logs_operations()).collect()
}

/// Two streams with buffers of 4 KiB, and only the test's thread: nothing is written in the
/// background.
fn settings(spec: ProtocolSpec, disk: &SimDisk) -> Builder {
    builder(&spec.to_string(), disk)
        .streams(NonZeroU16::new(2).unwrap())
        .buffer_bytes(4096)
        .transaction_bytes_max(4000)
}

fn open(spec: ProtocolSpec, disk: &SimDisk) -> (Database, Texts) {
    let db = settings(spec, disk).open("/db").unwrap();
    let table = db.table("texts").unwrap();
    (db, table)
}

/// A database in which the keys 0 to 9 say "old", durably.
fn filled(spec: ProtocolSpec) -> (SimDisk, Database, Texts) {
    let disk = SimDisk::new();
    let (db, table) = open(spec, &disk);
    db.transact(|tx| (0..10).try_for_each(|key| tx.put(&table, &key, "old")))
        .unwrap();
    (disk, db, table)
}

fn contents(db: &Database) -> BTreeMap<u64, String> {
    let table: Texts = db.table("texts").unwrap();
    db.transact(|tx| Ok(tx.scan(&table, ..)?.into_iter().collect()))
        .unwrap()
}

fn all_old() -> BTreeMap<u64, String> {
    (0..10).map(|key| (key, "old".to_owned())).collect()
}

/// Recovers a crash image under every protocol in turn, each after a crash of the previous one.
fn survives(disk: &SimDisk, loss: Loss, expected: &BTreeMap<u64, String>) {
    let mut disk = disk.crash_image(disk.events(), loss);
    for spec in ProtocolSpec::tested() {
        let db = settings(spec, &disk).open("/db").unwrap();
        assert_eq!(contents(&db), *expected, "reopened with {spec}");
        disk = disk.crash_image(disk.events(), Loss::All);
    }
}

/// Changes of every kind.
fn scribble(tx: &mut namiki::Transaction, table: &Texts) -> Result<(), Error> {
    tx.put(table, &0, "new")?;
    tx.put(table, &0, "newer")?;
    assert!(tx.delete(table, &1)?);
    tx.insert(table, &1, "again")?;
    assert!(tx.update(table, &2, |old| format!("{old}er"))?);
    tx.insert(table, &100, &"long ".repeat(300))?;
    tx.put(table, &3, &"longer ".repeat(300))?;
    assert!(tx.delete(table, &4)?);
    assert_eq!(tx.get(table, &0)?.as_deref(), Some("newer"));
    assert_eq!(tx.get(table, &4)?, None);
    Ok(())
}

#[test]
fn what_is_rolled_back_leaves_nothing_however_it_ends() {
    for spec in specs() {
        let (disk, db, table) = filled(spec);
        let mut tx = db.begin().unwrap();
        scribble(&mut tx, &table).unwrap();
        tx.rollback();
        assert_eq!(contents(&db), all_old(), "{spec}");

        let aborted = db.transact(|tx| {
            scribble(tx, &table)?;
            tx.abort::<()>("enough")
        });
        assert!(matches!(aborted, Err(Error::Aborted(_))));
        assert_eq!(contents(&db), all_old(), "{spec}");

        let panicked = AssertUnwindSafe(|| {
            db.transact(|tx| {
                scribble(tx, &table).unwrap();
                if true {
                    panic!("a bug in the caller");
                }
                Ok(())
            })
        });
        catch_unwind(panicked).unwrap_err();
        assert_eq!(contents(&db), all_old(), "{spec}");

        drop((db, table));
        survives(&disk, Loss::None, &all_old());
    }
}

#[test]
fn a_savepoint_takes_back_what_came_after_it() {
    for spec in specs() {
        let (disk, db, table) = filled(spec);
        db.transact(|tx| {
            tx.put(&table, &0, "kept")?;
            let outer = tx.savepoint();
            scribble(tx, &table)?;
            let inner = tx.savepoint();
            tx.put(&table, &5, "lost")?;
            tx.rollback_to(&inner)?;
            assert_eq!(tx.get(&table, &5)?.as_deref(), Some("old"));
            assert_eq!(tx.get(&table, &0)?.as_deref(), Some("newer"));
            tx.rollback_to(&outer)?;
            assert_eq!(tx.get(&table, &0)?.as_deref(), Some("kept"));
            assert_eq!(tx.get(&table, &1)?.as_deref(), Some("old"));
            tx.put(&table, &6, "kept")?;
            tx.rollback_to(&outer)?;
            tx.put(&table, &7, "kept")
        })
        .unwrap();
        let mut expected = all_old();
        expected.insert(0, "kept".to_owned());
        expected.insert(7, "kept".to_owned());
        assert_eq!(contents(&db), expected, "{spec}");
        drop((db, table));
        survives(&disk, Loss::All, &expected);
    }
}

#[test]
fn transactions_larger_than_the_buffer_commit_and_roll_back() {
    let long = |n: u64| format!("{n:0100}").repeat(10);
    for spec in specs() {
        let (disk, db, table) = filled(spec);
        let flushes = db.counters().log.flushes;
        db.transact(|tx| (0..50).try_for_each(|key| tx.put(&table, &key, &long(key))))
            .unwrap();
        let written = db.counters().log.flushes - flushes;
        assert!(written >= 10, "{spec}: {written} flushes");
        let expected: BTreeMap<_, _> = (0..50).map(|key| (key, long(key))).collect();
        assert_eq!(contents(&db), expected, "{spec}");

        let mut tx = db.begin().unwrap();
        for key in 0..100 {
            tx.put(&table, &key, &long(key + 1)).unwrap();
        }
        // Most of the changes are on the disk, and recovery undoes them.
        let crashed = disk.crash_image(disk.events(), Loss::All);
        survives(&crashed, Loss::All, &expected);
        tx.rollback();
        assert_eq!(contents(&db), expected, "{spec}");
        drop((db, table));
        survives(&disk, Loss::None, &expected);
    }
}

#[test]
fn whole_commits_are_within_the_limit_or_refused() {
    let disk = SimDisk::new();
    let (db, table) = open("S2PL(NLR)+PWAL(1)".parse().unwrap(), &disk);
    let long = "x".repeat(1000);
    let refused = db.transact(|tx| (0..50).try_for_each(|key| tx.put(&table, &key, &long)));
    assert!(matches!(refused, Err(Error::TransactionTooLarge { .. })));
}

/// A change beyond the limit is refused before any of it is logged or applied, so the transaction
/// can continue.
#[test]
fn a_value_beyond_the_limit_is_refused_alone() {
    for spec in specs() {
        let (disk, db, table) = filled(spec);
        let refuse = |tx: &mut namiki::Transaction| {
            tx.put(&table, &0, "new")?;
            tx.put(&table, &1, &"x".repeat(5000))
        };
        let refused = db.transact(refuse);
        assert!(
            matches!(refused, Err(Error::TransactionTooLarge { .. })),
            "{refused:?}"
        );
        assert_eq!(contents(&db), all_old(), "{spec}");

        let mut expected = all_old();
        expected.insert(0, "new".to_owned());
        db.transact(|tx| {
            assert!(refuse(tx).is_err());
            Ok(())
        })
        .unwrap();
        assert_eq!(contents(&db), expected, "{spec}");
        drop((db, table));
        survives(&disk, Loss::None, &expected);
    }
}

#[test]
fn amounts_are_added_at_once_and_taken_back() {
    for spec in specs() {
        let disk = SimDisk::new();
        let db = settings(spec, &disk).open("/db").unwrap();
        let sums: Table<u64, u64> = db.table("sums").unwrap();
        db.transact(|tx| {
            tx.add(&sums, &1, 5)?;
            tx.add(&sums, &1, 6)?;
            let savepoint = tx.savepoint();
            tx.add(&sums, &1, 100)?;
            tx.rollback_to(&savepoint)?;
            tx.add(&sums, &2, 7)
        })
        .unwrap();
        let full = db.transact(|tx| {
            tx.add(&sums, &2, 1)?;
            tx.add(&sums, &1, u64::MAX)
        });
        assert!(matches!(full, Err(Error::Overflow { .. })), "{full:?}");
        let read = |db: &Database| {
            let sums: Table<u64, u64> = db.table("sums").unwrap();
            db.transact(|tx| Ok([tx.get(&sums, &1)?, tx.get(&sums, &2)?]))
                .unwrap()
        };
        assert_eq!(read(&db), [Some(11), Some(7)], "{spec}");
        drop(db);
        let crashed = disk.crash_image(disk.events(), Loss::All);
        assert_eq!(
            read(&settings(spec, &crashed).open("/db").unwrap()),
            [Some(11), Some(7)]
        );
    }
}

fn sessions(db: &Database) -> [Session; 2] {
    [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap())
}

/// The log records of a transaction are on the disk, without the records of its rollback. Another
/// transaction has committed on the same key since, or has not.
#[test]
fn a_lost_rollback_undoes_no_later_change() {
    for spec in specs() {
        for commits in [true, false] {
            let (disk, db, table) = filled(spec);
            let [mut first, mut second] = sessions(&db);
            let aborted = first.try_transact_async(|tx| {
                tx.put(&table, &0, "lost")?;
                tx.put(&table, &1, "lost")?;
                let flusher = db.session_on(WorkerId(0))?;
                flusher.flush()?;
                tx.abort::<()>("enough")
            });
            assert!(matches!(aborted, Err(Error::Aborted(_))));
            let mut expected = all_old();
            if commits {
                second.transact(|tx| tx.put(&table, &0, "won")).unwrap();
                expected.insert(0, "won".to_owned());
            } else {
                let aborted = second.try_transact_async(|tx| {
                    tx.put(&table, &0, "open")?;
                    db.session_on(WorkerId(1))?.flush()?;
                    let crashed = disk.crash_image(disk.events(), Loss::All);
                    survives(&crashed, Loss::All, &expected);
                    tx.abort::<()>("enough")
                });
                assert!(matches!(aborted, Err(Error::Aborted(_))), "{aborted:?}");
            }
            survives(&disk, Loss::All, &expected);
        }
    }
}

/// The log records of both: the script `operation_logging` of the suite `isolation`.
#[test]
fn neither_readers_nor_rollbacks_fill_a_group() {
    let spec = "S2PL(NLR)+PWAL(2)+ARIES".parse().unwrap();
    let (db, table) = open(spec, &SimDisk::new());
    let mut session = db.session_on(WorkerId(0)).unwrap();
    let flushes = || db.counters().log.flushes;
    let (_, first) = session
        .transact_async(|tx| tx.put(&table, &1, "a"))
        .unwrap();
    session.transact_async(|tx| tx.get(&table, &2)).unwrap();
    session
        .transact_async(|tx| {
            tx.put(&table, &3, "d")?;
            tx.abort::<()>("enough")
        })
        .unwrap_err();
    assert_eq!(flushes(), 0);
    assert!(!session.is_acknowledged(&first));
    session
        .transact_async(|tx| tx.put(&table, &2, "e"))
        .unwrap();
    assert!(session.is_acknowledged(&first));
    assert_eq!(flushes(), 1);
}

#[test]
fn losers_are_counted_and_stay_losers() {
    for spec in specs() {
        let (disk, db, table) = filled(spec);
        let mut tx = db.begin().unwrap();
        scribble(&mut tx, &table).unwrap();
        for worker in 0..2 {
            if let Ok(session) = db.session_on(WorkerId(worker)) {
                session.flush().unwrap();
            }
        }
        let mut disk = disk.crash_image(disk.events(), Loss::All);
        for round in 0..3 {
            let db = settings(spec, &disk)
                .index(TreeKind::default())
                .open("/db")
                .unwrap();
            assert_eq!(db.recovery().undone, 1, "{spec}, round {round}");
            assert_eq!(db.recovery().replayed, 1 + round, "{spec}");
            assert_eq!(contents(&db)[&1], "old");
            let table: Texts = db.table("texts").unwrap();
            // The records that the transaction had changed remain usable, with stamps above the
            // earlier ones.
            let before = db.transact(|tx| tx.version(&table, &0)).unwrap();
            db.transact(|tx| tx.put(&table, &0, "new")).unwrap();
            let after = db.transact(|tx| tx.version(&table, &0)).unwrap();
            assert!(before.stamp < after.stamp, "{spec}");
            disk = disk.crash_image(disk.events(), Loss::All);
        }
        drop(tx);
    }
}

/// Its log records are before the seal that closing writes, without an end record.
#[test]
fn an_open_transaction_is_undone_at_every_opening() {
    for spec in specs() {
        for is_flushed in [true, false] {
            let (disk, db, table) = filled(spec);
            let mut tx = db.begin().unwrap();
            tx.put(&table, &0, "new").unwrap();
            tx.put(&table, &0, "newer").unwrap();
            tx.insert(&table, &100, "new").unwrap();
            assert!(tx.delete(&table, &1).unwrap());
            for worker in (0..2).filter(|_| is_flushed) {
                db.session_on(WorkerId(worker)).unwrap().flush().unwrap();
            }
            db.close().unwrap();
            let refused = tx.commit();
            assert!(refused.is_err(), "{spec}");
            for round in 0..3 {
                let (db, _) = open(spec, &disk);
                assert!(db.recovery().closed, "{spec}");
                assert_eq!(db.recovery().undone, 1, "{spec}, round {round}");
                assert_eq!(contents(&db), all_old(), "{spec}, round {round}");
                db.close().unwrap();
            }
            survives(&disk, Loss::All, &all_old());
        }
    }
}

/// A transaction that meets another's lock releases its own locks then, before its code notices the
/// failure.
#[test]
fn a_failed_transaction_is_undone_before_releasing_locks() {
    for spec in specs() {
        let disk = SimDisk::new();
        let db = settings(spec, &disk)
            .wait_policy(WaitPolicy::NoWait)
            .open("/db")
            .unwrap();
        let table: Texts = db.table("texts").unwrap();
        db.transact(|tx| (0..10).try_for_each(|key| tx.put(&table, &key, "old")))
            .unwrap();
        let mut holder = db.begin().unwrap();
        holder.put(&table, &1, "held").unwrap();
        let [mut first, mut second] = sessions(&db);
        let failed = first.try_transact_async(|tx| {
            tx.put(&table, &0, "lost")?;
            let refused = tx.put(&table, &1, "lost");
            assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
            on_another_thread(|| {
                second.try_transact_async(|tx| {
                    assert_eq!(tx.get(&table, &0)?.as_deref(), Some("old"), "{spec}");
                    tx.put(&table, &0, "won")
                })
            })?;
            second.flush()
        });
        assert!(matches!(failed, Err(Error::Conflict(_))), "{failed:?}");
        holder.rollback();
        let mut expected = all_old();
        expected.insert(0, "won".to_owned());
        assert_eq!(contents(&db), expected, "{spec}");
        drop((first, second));
        survives(&disk, Loss::None, &expected);
    }
}

/// On a device that is nearly full, some compensations fit and some do not.
#[test]
fn compensations_without_room_leave_a_log_that_opens() {
    let long = "x".repeat(3000);
    for spec in specs() {
        let mut cut = 0;
        for filler in 0..30 {
            for before_savepoint in [true, false] {
                let disk = SimDisk::new();
                let settings = settings(spec, &disk)
                    .streams(NonZeroU16::MIN)
                    .checkpoint_log_bytes(u64::MAX)
                    .shared_device("/db/log", 16 << 10);
                let db = settings.open("/db").unwrap();
                let table: Texts = db.table("texts").unwrap();
                let fill = (0..filler).try_for_each(|n| {
                    db.transact(|tx| tx.put(&table, &(1000 + n), &"y".repeat(300)))
                });
                let filled = fill.and_then(|()| db.transact(|tx| tx.put(&table, &1, &long)));
                if filled.is_err() {
                    continue;
                }
                let mut expected = contents(&db);
                let mut tx = db.begin().unwrap();
                let mut taken_back = Ok(());
                if !before_savepoint || tx.put(&table, &0, "new").is_ok() {
                    let savepoint = tx.savepoint();
                    if tx.put(&table, &1, "new").is_ok() {
                        taken_back = tx.rollback_to(&savepoint);
                    }
                }
                if taken_back.is_err() {
                    cut += 1;
                    assert!(tx.commit().is_err(), "{spec}: it cannot commit");
                } else {
                    drop(tx);
                }
                assert_eq!(contents(&db), expected, "{spec}, {filler}");
                // A later transaction that commits is not undone with it.
                if db.transact(|tx| tx.put(&table, &1, "won")).is_ok() {
                    expected.insert(1, "won".to_owned());
                }
                drop((db, table));
                for loss in [Loss::None, Loss::All] {
                    let crashed = disk.crash_image(disk.events(), loss);
                    let (db, _) = open(spec, &crashed);
                    assert_eq!(contents(&db), expected, "{spec}, {filler}, {loss:?}");
                }
            }
        }
        assert!(cut > 0, "{spec}: there was always room");
    }
}

/// In records of a fixed length, a shorter operation may need one more record: the rest of the last
/// record is empty, or holds a padding's header.
#[test]
fn changes_that_fill_the_buffer_can_be_undone() {
    let spec: ProtocolSpec = "S2PL(NLR)+PWAL(1)+ARIES".parse().unwrap();
    let disk = SimDisk::new();
    let format = RecordFormat::Fixed(NonZeroU16::new(64).unwrap());
    let settings = settings(spec, &disk).record_format(format);
    let db = settings.open("/db").unwrap();
    let table: Texts = db.table("texts").unwrap();
    let (mut changed, mut refused) = (0, 0);
    for bytes in 3700..4096 {
        let long = "x".repeat(bytes);
        // Without a before-image of the previous value.
        db.transact(|tx| tx.delete(&table, &1)).unwrap();
        if db.transact(|tx| tx.put(&table, &1, &long)).is_err() {
            continue;
        }
        for after in ["", "a", "ab", "abc", "abcdefgh"] {
            let mut tx = db.begin().unwrap();
            // Gives the previous operation a number of some length.
            tx.put(&table, &2, after).unwrap();
            let savepoint = tx.savepoint();
            match tx.put(&table, &1, after) {
                Ok(()) => {
                    changed += 1;
                    let taken_back = tx.rollback_to(&savepoint);
                    taken_back.unwrap_or_else(|error| panic!("{bytes}, {after:?}: {error:?}"));
                    tx.commit().unwrap();
                }
                Err(Error::TransactionTooLarge { .. }) => refused += 1,
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(contents(&db)[&1], long);
        }
    }
    assert!(changed > 0 && refused > 0, "{changed}, {refused}");
}
