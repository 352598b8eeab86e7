//! Release by epochs: when a commit is acknowledged, and which commits survive a crash, under every
//! concurrency control.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::time::Duration;

use namiki::faults::{Checks, NoFaults, ViewOnlyFlushes};
use namiki::{Database, ReplayOrder, Session, Ticket, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::small_database::{BOTH_ORDERS, Numbers, builder, keys, numbers};

/// Every concurrency control with this group size.
fn of_group(group: &str) -> [String; 3] {
    ["TT", "SILO", "S2PL"].map(|concurrency| format!("{concurrency}(EPOCH)+PWAL({group})"))
}

/// Every concurrency control with every group size.
fn specs() -> impl Iterator<Item = String> {
    ["1", "16", "auto"].into_iter().flat_map(of_group)
}

/// The given protocols, each with every replay order.
fn in_both_orders(
    specs: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = (String, ReplayOrder)> {
    let each = |spec: String| BOTH_ORDERS.map(|order| (spec.clone(), order));
    specs.into_iter().flat_map(each)
}

/// Three streams, and only the test's thread: nothing is written in the background.
fn open(spec: &str, disk: &SimDisk, order: ReplayOrder) -> Database {
    let settings = builder(spec, disk).streams(NonZeroU16::new(3).unwrap());
    let settings = settings.epoch_length(Duration::MAX).replay_order(order);
    settings.open("/db").unwrap()
}

fn sessions(db: &Database) -> [Session; 3] {
    [0, 1, 2].map(|worker| db.session_on(WorkerId(worker)).unwrap())
}

/// A blind write.
fn put(session: &mut Session, table: &Numbers, key: u64) -> Ticket {
    let put = session.transact_async(|tx| tx.put(table, &key, &1));
    put.unwrap().1
}

/// Reads one existing key, and writes another.
fn derive(session: &mut Session, table: &Numbers, from: u64, key: u64) -> Ticket {
    let derived = session.transact_async(|tx| {
        let value = tx.get(table, &from)?.unwrap();
        tx.put(table, &key, &(value + 1))
    });
    derived.unwrap().1
}

/// A crash that loses every write that was not durable.
fn crash(disk: &SimDisk) -> SimDisk {
    disk.crash_image(disk.events(), Loss::All)
}

#[test]
fn readers_of_lost_versions_are_cut_off_for_good() {
    for (spec, order) in in_both_orders(of_group("16")) {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, order);
        let table = numbers(&db);
        let [mut writer, mut reader, _] = sessions(&db);
        put(&mut writer, &table, 1);
        let depends = derive(&mut reader, &table, 1, 2);
        let independent = put(&mut reader, &table, 3);
        let depends_too = derive(&mut reader, &table, 2, 4);
        reader.flush().unwrap();
        assert!(db.is_acknowledged(&independent));
        assert!(!db.is_acknowledged(&depends) && !db.is_acknowledged(&depends_too));

        let mut disk = crash(&disk);
        for round in 0..3 {
            let db = open(&spec, &disk, order);
            let report = db.recovery();
            assert_eq!(report.dropped, 2, "{spec}, {order:?}, {report:?}");
            let mut expected = vec![3];
            expected.extend(10..10 + round);
            assert_eq!(keys(&db), expected, "{spec}, {order:?}");
            // Epochs start anew, above those that were truncated.
            let table = numbers(&db);
            let [mut writer, mut reader, _] = sessions(&db);
            let put = put(&mut writer, &table, 10 + round);
            assert!(put.stamp() > depends_too.stamp());
            for _ in 0..5 {
                reader.transact(|tx| tx.get(&table, &(10 + round))).unwrap();
                writer.transact(|tx| tx.put(&table, &3, &5)).unwrap();
            }
            disk = crash(&disk);
        }
    }
}

/// The keys that survive a crash after a view has shown the keys 1 and 2. The transaction that
/// wrote 2 had read 1 before it was durable.
fn left_after_a_view<C: Checks>(spec: &str, order: ReplayOrder) -> Vec<u64> {
    let disk = SimDisk::new();
    let db = open(spec, &disk, order);
    let table = numbers(&db);
    let [mut writer, mut reader, _] = sessions(&db);
    put(&mut writer, &table, 1);
    derive(&mut reader, &table, 1, 2);
    let view = db.faulty_view::<C>().unwrap();
    assert_eq!(view.count(&table, ..).unwrap(), 2, "{spec}");
    keys(&open(spec, &crash(&disk), order))
}

/// Flushing alone is not enough: recovery truncates the commits that a stream without writes has
/// not certified.
#[test]
fn a_crash_takes_nothing_away_that_a_view_has_shown() {
    for (spec, order) in in_both_orders(of_group("16")) {
        let left = left_after_a_view::<NoFaults>(&spec, order);
        assert_eq!(left, [1, 2], "{spec}, {order:?}");
        let left = left_after_a_view::<ViewOnlyFlushes>(&spec, order);
        assert_eq!(left, [1], "{spec}, {order:?}: the bug was not caught");
    }
}

/// A transaction adds an amount to a value that it never read, and the sum contains that value.
#[test]
fn increments_of_a_lost_value_are_cut_off() {
    for (spec, order) in in_both_orders(of_group("16")) {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, order);
        let table = numbers(&db);
        let [mut writer, mut adder, _] = sessions(&db);
        let add = |adder: &mut Session, key| {
            let added = adder.transact_async(|tx| tx.add(&table, &key, 5));
            let ((), ticket) = added.unwrap();
            adder.flush().unwrap();
            ticket
        };
        put(&mut writer, &table, 1);
        let depends = add(&mut adder, 1);
        let independent = add(&mut adder, 2);
        assert!(!db.is_acknowledged(&depends) && db.is_acknowledged(&independent));
        let after = open(&spec, &crash(&disk), order);
        assert_eq!(after.recovery().dropped, 1, "{spec}, {order:?}");
        assert_eq!(keys(&after), [2], "{spec}, {order:?}");
        adder.wait(&depends).unwrap();
        let after = open(&spec, &crash(&disk), order);
        assert_eq!(keys(&after), [1, 2], "{spec}, {order:?}");
        let sum = after.transact(|tx| tx.get(&numbers(&after), &1)).unwrap();
        assert_eq!(sum, Some(6), "{spec}, {order:?}");
    }
}

#[test]
fn what_was_acknowledged_survives_beside_a_stream_that_rests() {
    for (spec, order) in in_both_orders(specs()) {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, order);
        let table = numbers(&db);
        let [mut writer, mut reader, mut resting] = sessions(&db);
        // The last frame of this stream for the rest of the run.
        let rests = put(&mut resting, &table, 100);
        resting.wait(&rests).unwrap();
        for round in 0..4 {
            put(&mut writer, &table, 2 * round);
            let depends = derive(&mut reader, &table, 2 * round, 2 * round + 1);
            // In groups of one, the version it has read is durable by now.
            let at_once = spec.ends_with("PWAL(1)");
            assert_eq!(db.is_acknowledged(&depends), at_once, "{spec}");
            reader.wait(&depends).unwrap();
            assert!(db.is_acknowledged(&depends));
            let after = open(&spec, &crash(&disk), order);
            let expected: Vec<_> = (0..2 * round + 2).chain([100]).collect();
            assert_eq!(keys(&after), expected, "{spec}, {order:?}");
            assert_eq!(after.recovery().dropped, 0);
        }
    }
}

#[test]
fn what_was_not_waited_for_is_never_half_there() {
    // At every event of a run: a reader survives only together with the versions it read.
    for (spec, order) in in_both_orders(of_group("1")) {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, order);
        let table = numbers(&db);
        let [mut writer, mut reader, mut third] = sessions(&db);
        let from = disk.events();
        for round in 0..6 {
            put(&mut writer, &table, 3 * round);
            derive(&mut reader, &table, 3 * round, 3 * round + 1);
            let last = derive(&mut third, &table, 3 * round + 1, 3 * round + 2);
            if round % 2 == 1 {
                db.wait(&last).unwrap();
            }
        }
        for at in from..=disk.events() {
            let after = open(&spec, &disk.crash_image(at, Loss::All), order);
            let there = keys(&after);
            for key in &there {
                let needs = (key / 3 * 3)..*key;
                assert!(
                    needs.clone().all(|it| there.contains(&it)),
                    "{key} without {needs:?}"
                );
            }
        }
    }
}

#[test]
fn a_read_only_transaction_waits_for_its_reads() {
    for spec in specs() {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, ReplayOrder::HighestStamp);
        let table = numbers(&db);
        let [mut writer, mut reader, _] = sessions(&db);
        put(&mut writer, &table, 1);
        let (found, read) = reader.transact_async(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(found, Some(1));
        assert!(!db.is_acknowledged(&read), "{spec}");
        reader.wait(&read).unwrap();
        let after = open(&spec, &crash(&disk), ReplayOrder::HighestStamp);
        assert_eq!(keys(&after), [1], "{spec}");

        // A read of durable versions needs no wait and no write.
        let writes = db.counters().log.flushes;
        let (_, again) = reader.transact_async(|tx| tx.get(&table, &1)).unwrap();
        assert!(db.is_acknowledged(&again), "{spec}");
        reader.transact(|tx| tx.get(&table, &2)).unwrap();
        assert_eq!(db.counters().log.flushes, writes, "{spec}");

        // A failure that depends on versions that could be lost must not be reported either.
        put(&mut writer, &table, 5);
        let failed = reader.transact(|tx| match tx.get(&table, &5)? {
            Some(_) => tx.abort::<()>("it is there"),
            None => Ok(()),
        });
        failed.unwrap_err();
        let after = open(&spec, &crash(&disk), ReplayOrder::HighestStamp);
        assert_eq!(keys(&after), [1, 5], "{spec}");
    }
}

#[test]
fn a_single_committer_needs_one_write_per_commit() {
    for spec in specs() {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, ReplayOrder::HighestStamp);
        let table = numbers(&db);
        let [mut session, ..] = sessions(&db);
        session.transact(|tx| tx.put(&table, &1, &0)).unwrap();
        let before = db.counters().log.flushes;
        for _ in 0..20 {
            session
                .transact(|tx| tx.update(&table, &1, |value| value + 1))
                .unwrap();
        }
        assert_eq!(db.counters().log.flushes - before, 20, "{spec}");
        let after = open(&spec, &crash(&disk), ReplayOrder::HighestStamp);
        let value = after.transact(|tx| tx.get(&numbers(&after), &1)).unwrap();
        assert_eq!(value, Some(20), "{spec}");
    }
}

#[test]
fn closing_acknowledges_what_was_accepted() {
    for spec in specs() {
        let disk = SimDisk::new();
        let db = open(&spec, &disk, ReplayOrder::Merge);
        let table = numbers(&db);
        let [mut writer, mut reader, mut third] = sessions(&db);
        put(&mut writer, &table, 1);
        let depends = derive(&mut reader, &table, 1, 2);
        let read = third.transact_async(|tx| tx.get(&table, &2)).unwrap().1;
        drop([writer, reader, third]);
        db.close().unwrap();
        for ticket in [depends, read] {
            assert!(db.is_acknowledged(&ticket), "{spec}");
            db.wait(&ticket).unwrap();
        }
        let db = open("TT(ELR)+PWAL(1)", &disk, ReplayOrder::Merge);
        assert_eq!(keys(&db), [1, 2], "{spec}");
        assert_eq!(db.recovery().dropped, 0);
    }
}

/// Without writes, far more epochs pass than floors are remembered. No marker is written for epochs
/// that were certified long ago.
#[test]
fn reading_certified_versions_writes_nothing() {
    for spec in of_group("auto") {
        let settings = builder(&spec, &SimDisk::new()).epoch_length(Duration::ZERO);
        let db = settings.open("/db").unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        session.transact(|tx| tx.put(&table, &1, &1)).unwrap();
        session.transact(|tx| tx.get(&table, &1)).unwrap();
        let before = db.counters();
        for _ in 0..5000 {
            session.transact(|tx| tx.get(&table, &1)).unwrap();
        }
        let after = db.counters();
        assert!(after.epoch.0 > before.epoch.0 + 4000, "{spec}");
        assert_eq!(after.log.flushes, before.log.flushes, "{spec}");
    }
}
