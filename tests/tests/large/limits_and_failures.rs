//! A transaction that is too large, or has no room, is refused with a typed error. None of its
//! writes is visible, and the database continues.

use std::io::ErrorKind;

use namiki::{Error, LogError, ProtocolSpec};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_tests::crash::tested_combinations;
use namiki_tests::small_database::builder;

use crate::round_trips::{Texts, small, value};

#[test]
fn a_transaction_at_the_limit_commits_and_none_above() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let limit = 50_000;
        let open = || builder(&spec.to_string(), &disk).transaction_bytes_max(limit);
        let db = open().open("/db").unwrap();
        let table: Texts = db.table("texts").unwrap();
        // The overhead of a record depends on the log format.
        let put = |bytes| db.transact(|tx| tx.put(&table, &bytes, &value(1, 1, bytes as usize)));
        let Err(Error::TransactionTooLarge {
            len_bytes,
            max_bytes,
        }) = put(49_999)
        else {
            panic!("{spec}: too large");
        };
        assert_eq!(max_bytes, limit, "{spec}");
        let longest = 49_999 - (len_bytes - limit) as u64;
        put(longest).unwrap_or_else(|error| panic!("{spec}: {error:?}"));
        let refused = put(longest + 1);
        assert!(
            matches!(&refused, Err(Error::TransactionTooLarge { len_bytes, .. })
                if *len_bytes == limit + 1),
            "{spec}: {refused:?}"
        );
        let text = refused.unwrap_err().to_string();
        for word in ["50001", "50000", "transaction_bytes_max", "Database::load"] {
            assert!(text.contains(word), "{text}");
        }
        drop((table, db));
        let db = open().open("/db").unwrap();
        let table: Texts = db.table("texts").unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let keys: Vec<_> = rows.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [longest], "{spec}");
    }
}

#[test]
fn a_full_disk_refuses_a_large_transaction_alone() {
    for (spec, shared) in tested_combinations() {
        let context = format!("{spec}, shared {shared}");
        let disk = SimDisk::new();
        // No checkpoint makes room.
        let never = small(spec, shared, &disk).checkpoint_log_bytes(u64::MAX);
        let db = never.open("/db").unwrap();
        let table: Texts = db.table("texts").unwrap();
        let put = |key, bytes| db.transact(|tx| tx.put(&table, &key, &value(key, 1, bytes)));
        put(1, 200_000).unwrap();
        put(2, 100).unwrap();
        if shared {
            // Each region has 2 MiB, and the limit of a transaction is less than half of that.
            put(3, 960_000).unwrap();
        } else {
            disk.set_capacity(Some(400 << 10));
        }
        let refused = put(4, 960_000);
        match &refused {
            Err(Error::DiskFull(LogError::RegionFull { .. })) => assert!(shared, "{context}"),
            Err(Error::DiskFull(LogError::DiskFull { .. })) => assert!(!shared, "{context}"),
            other => panic!("{context}: {other:?}"),
        }
        // A smaller one has room.
        put(4, 1000).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        put(5, 40_000).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        drop((table, db));
        let disk = disk.crash_image(disk.events(), Loss::All);
        let db = small(spec, shared, &disk).open("/db").unwrap();
        let table: Texts = db.table("texts").unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let mut expected = vec![(1, 200_000), (2, 100), (4, 1000), (5, 40_000)];
        if shared {
            expected.push((3, 960_000));
            expected.sort_unstable();
        }
        let found: Vec<_> = rows.iter().map(|(key, it)| (*key, it.len())).collect();
        assert_eq!(found, expected, "{context}");
        assert!(
            rows.into_iter()
                .all(|(key, it)| it == value(key, 1, it.len()))
        );
    }
}

/// Each step of its commit fails once: then its outcome is unknown, or it is known to have failed.
#[test]
fn a_failing_disk_loses_nothing_but_the_large_transaction() {
    let steps = [
        Step::Append,
        Step::Sync,
        Step::Rename,
        Step::SyncDir,
        Step::Write,
    ];
    for (spec, shared) in tested_combinations() {
        for step in steps {
            for nth in 0..3 {
                let context = format!("{spec}, shared {shared}, {step:?} {nth}");
                let disk = SimDisk::new();
                let db = small(spec, shared, &disk).open("/db").unwrap();
                let table: Texts = db.table("texts").unwrap();
                let put =
                    |key, bytes| db.transact(|tx| tx.put(&table, &key, &value(key, 1, bytes)));
                put(1, 30_000).unwrap();
                put(2, 100).unwrap();
                disk.inject(Fault::once(step, nth, ErrorKind::Other));
                let ended = put(3, 50_000);
                disk.heal();
                if let Err(Error::NoLogFile(_)) = &ended {
                    // Nothing was written, and the obstacle is gone.
                    put(4, 10).unwrap();
                } else if let Err(error) = &ended {
                    let unknown = matches!(error, Error::OutcomeUnknown(_));
                    let failed = matches!(error, Error::LogFailed(_));
                    assert!(unknown || failed, "{context}: {error:?}");
                    assert!(matches!(put(4, 10), Err(Error::LogFailed(_))), "{context}");
                }
                drop((table, db));
                let disk = disk.crash_image(disk.events(), Loss::All);
                let db = small(spec, shared, &disk).open("/db").unwrap();
                let table: Texts = db.table("texts").unwrap();
                let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
                let found: Vec<_> = rows.iter().map(|(key, it)| (*key, it.len())).collect();
                let known = [(1, 30_000), (2, 100)];
                assert_eq!(found[..2], known, "{context}");
                let there = found.iter().any(|(key, _)| *key == 3);
                match ended {
                    Ok(()) => assert!(there, "{context}"),
                    Err(Error::OutcomeUnknown(_)) => {}
                    Err(_) => assert!(!there, "{context}"),
                }
                assert!(
                    rows.into_iter()
                        .all(|(key, it)| it == value(key, 1, it.len()))
                );
            }
        }
    }
}
