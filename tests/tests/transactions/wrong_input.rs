//! Invalid keys, values, tables and calls: a typed error names the cause.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::time::Duration;

use namiki::{Error, ProtocolSpec, Value, ValueBytes};
use namiki_platform::disk::SimDisk;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::small_database::{builder, in_memory, keys, numbers, put};

#[test]
fn a_key_that_is_too_long_ends_nothing() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk)
        .buffer_bytes(256 << 10)
        .log_file_bytes(1 << 20)
        .open("/db")
        .unwrap();
    let table = db.table::<[u8], u64>("words").unwrap();
    let long = vec![b'x'; 100_000];
    db.transact(|tx| {
        for result in [
            tx.put(&table, &long[..], &1),
            tx.insert(&table, &long[..], &1),
            tx.get(&table, &long[..]).map(drop),
            tx.delete(&table, &long[..]).map(drop),
        ] {
            match result.unwrap_err() {
                Error::KeyTooLong {
                    table,
                    len_bytes: 100_000,
                    max_bytes,
                } => {
                    assert_eq!(table, "words");
                    assert!(max_bytes < 100_000);
                }
                other => panic!("{other:?}"),
            }
        }
        tx.put(&table, &b"short"[..], &2)
    })
    .unwrap();
    // The longest key that fits.
    db.transact(|tx| tx.put(&table, &long[..65_536], &3))
        .unwrap();
    drop(db);
    let db = builder("TT(NLR)+PWAL(1)", &disk)
        .buffer_bytes(256 << 10)
        .log_file_bytes(1 << 20)
        .open("/db")
        .unwrap();
    let table = db.table::<[u8], u64>("words").unwrap();
    let read = db.transact(|tx| tx.get(&table, &long[..65_536])).unwrap();
    assert_eq!(read, Some(3));
    assert_eq!(
        db.transact(|tx| tx.scan::<[u8], u64>(&table, ..))
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_transaction_beyond_the_limit_changes_nothing() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let db = builder(&spec.to_string(), &disk)
            .transaction_bytes_max(8500)
            .open("/db")
            .unwrap();
        let blobs = db.table::<u64, [u8]>("blobs").unwrap();
        put(&db, 1).unwrap();
        let table = numbers(&db);
        let error = db
            .transact(|tx| {
                tx.put(&table, &1, &9)?;
                tx.put(&blobs, &1, &[7; 9000][..])
            })
            .unwrap_err();
        match error {
            Error::TransactionTooLarge {
                len_bytes,
                max_bytes,
            } => {
                assert!(len_bytes > 9000 && max_bytes == 8500);
            }
            other => panic!("{spec}: {other:?}"),
        }
        // No lock is left held.
        let read = db.transact(|tx| {
            tx.update(&table, &1, |old| old + 1)?;
            Ok((tx.get(&table, &1)?, tx.get(&blobs, &1)?))
        });
        assert_eq!(read.unwrap(), (Some(2), None), "{spec}");
        for bytes in [7000, 8400] {
            let value = vec![7; bytes];
            db.transact(|tx| tx.put(&blobs, &(bytes as u64), &value[..]))
                .unwrap_or_else(|error| panic!("{spec}: {error:?}"));
        }
    }
}

/// A program's own type. A later release of the program writes other bytes under the same name.
struct Earlier;
struct Later;

macro_rules! own_value {
    ($type:ident, $bytes:literal) => {
        impl Value for $type {
            type Owned = Self;
            const NAME: &'static str = "own";
            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(&[1; $bytes]);
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                (bytes.len() == $bytes).then_some(Self)
            }
        }
    };
}
own_value!(Earlier, 4);
own_value!(Later, 8);

#[test]
fn a_value_of_another_type_is_reported() {
    let db = in_memory("TT(NLR)+PWAL(1)");
    let earlier = db.table::<u64, Earlier>("own").unwrap();
    db.transact(|tx| tx.put(&earlier, &1, &Earlier)).unwrap();
    let later = db.table::<u64, Later>("own").unwrap();
    let told = |error: Option<Error>| match error {
        Some(Error::Undecodable {
            table,
            len_bytes: 4,
            ..
        }) => assert_eq!(table, "own"),
        other => panic!("{other:?}"),
    };
    told(db.transact(|tx| tx.get(&later, &1)).err());
    told(db.transact(|tx| tx.scan(&later, ..)).err());
    told(db.transact(|tx| tx.update(&later, &1, |old| old)).err());
}

#[test]
fn a_table_keeps_its_types_and_its_name_has_rules() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
        db.table::<u64, u64>("numbers").unwrap();
        let error = db.table::<u64, i64>("numbers").unwrap_err();
        match &error {
            Error::TableType {
                table,
                found,
                expected,
            } => {
                assert_eq!(
                    (table.as_str(), found.as_str(), expected.as_str()),
                    ("numbers", "u64 to u64", "u64 to i64")
                );
            }
            other => panic!("{other:?}"),
        }
        let error = db.table::<str, u64>("numbers").unwrap_err();
        assert!(matches!(error, Error::TableType { .. }), "{error:?}");
        for name in ["", &"n".repeat(256)] {
            let error = db.table::<u64, u64>(name).unwrap_err();
            assert!(matches!(error, Error::TableName { .. }), "{error:?}");
        }
        db.table::<u64, u64>(&"n".repeat(255)).unwrap();
        assert_eq!(db.tables().len(), 2);
    }
}

#[test]
fn records_have_room_for_2040_bytes_and_no_more() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
        for room in [2041, 1 << 20, usize::MAX] {
            // Whether or not the table exists.
            for name in ["absent", "least", "most"] {
                let error = db.table_with_room::<u64, [u8]>(name, room).unwrap_err();
                match &error {
                    Error::TableRoom {
                        table,
                        inline_bytes,
                        max_bytes: 2040,
                    } => assert_eq!((table.as_str(), *inline_bytes), (name, room)),
                    other => panic!("{other:?}"),
                }
                let said = error.to_string();
                for word in [&format!("{name:?}")[..], &room.to_string(), "2040"] {
                    assert!(said.contains(word), "{word} not in: {said}");
                }
            }
        }
        // The room is no limit: longer values fit into either table, and are read back unchanged.
        for (name, room) in [("least", 0), ("most", 2040)] {
            let table = db.table_with_room::<u64, [u8]>(name, room).unwrap();
            for len in [0, 1, 8, 9, 2040, 2041, 5000] {
                let value = vec![len as u8; len];
                db.transact(|tx| tx.put(&table, &(len as u64), &value[..]))
                    .unwrap();
                let found = db.transact(|tx| tx.get(&table, &(len as u64))).unwrap();
                assert_eq!(found, Some(value), "{name}: {len}");
            }
        }
        assert_eq!(db.tables(), ["least", "most"]);
        db.close().unwrap();
    }
}

#[test]
fn tuples_and_arrays_are_distinguished_by_their_parts() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
        let refused = |result: Result<(), Error>, asked: &str| match result {
            Err(Error::TableType {
                table, expected, ..
            }) => assert_eq!((table.as_str(), expected.as_str()), ("pairs", asked)),
            other => panic!("{asked}: {other:?}"),
        };
        db.table::<(u64, u64), [u8; 8]>("pairs").unwrap();
        let other_parts = db.table::<(String, u8), [u8; 8]>("pairs");
        refused(other_parts.map(drop), "(string, u8) to [u8; 8]");
        let signed = db.table::<(u64, i64), [u8; 8]>("pairs");
        refused(signed.map(drop), "(u64, i64) to [u8; 8]");
        let more = db.table::<(u64, u64, u64), [u8; 8]>("pairs");
        refused(more.map(drop), "(u64, u64, u64) to [u8; 8]");
        let longer = db.table::<(u64, u64), [u8; 16]>("pairs");
        refused(longer.map(drop), "(u64, u64) to [u8; 16]");
    }
}

#[test]
fn a_closed_database_says_so() {
    let disk = SimDisk::new();
    let db = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    session.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
    let mut open = db.begin().unwrap();
    open.put(&table, &2, &2).unwrap();
    db.close().unwrap();
    db.close().unwrap();
    let closed = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Closed)), "{result:?}");
    };
    closed(open.commit().map(drop));
    closed(session.transact(|tx| tx.get(&table, &1)).map(drop));
    closed(db.transact(|tx| tx.put(&table, &3, &3)));
    closed(db.begin().map(drop));
    closed(db.session().map(drop));
    closed(db.table::<u64, u64>("more").map(drop));
    // The earlier commits are durable, and the directory is unlocked although the handle lives.
    let again = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    assert_eq!(keys(&again), [1]);
}

#[test]
fn too_many_conflicts_are_reported_and_not_retried_for_ever() {
    let db = builder("TT(NLR)+NOLOG", &SimDisk::new())
        .attempts_max(NonZeroU32::new(3).unwrap())
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    put(&db, 1).unwrap();
    let mut attempts = 0;
    let error = db
        .transact(|tx| {
            attempts += 1;
            tx.get(&table, &1)?;
            // Another transaction always commits first.
            let mut other = db.begin()?;
            other.update(&table, &1, |old| old + 1)?;
            other.commit()?;
            tx.put(&table, &1, &0)
        })
        .unwrap_err();
    assert!(
        matches!(error, Error::TooManyConflicts { attempts: 3, .. }),
        "{error:?}"
    );
    assert_eq!(attempts, 3);
}

/// The records of a table live as long as its database. A transaction of another database would not
/// keep them alive. (In an earlier version such a transaction was accepted.)
#[test]
fn a_table_of_another_database_or_opening_is_foreign() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    let of_another = numbers(&in_memory("TT(NLR)+PWAL(1)"));
    put(&db, 1).unwrap();
    let of_before = numbers(&db);
    db.close().unwrap();
    drop(db);
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    for foreign in [of_another, of_before] {
        db.transact(|tx| {
            for result in [
                tx.get(&foreign, &1).map(drop),
                tx.put(&foreign, &1, &1),
                tx.insert(&foreign, &1, &1),
                tx.update(&foreign, &1, |old| old).map(drop),
                tx.delete(&foreign, &1).map(drop),
                tx.scan(&foreign, ..).map(drop),
                tx.version(&foreign, &1).map(drop),
                tx.versions(&foreign, ..).map(drop),
            ] {
                match result.unwrap_err() {
                    Error::ForeignTable { table } => assert_eq!(table, "numbers"),
                    other => panic!("{other:?}"),
                }
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(keys(&db), [1]);
}

/// Closing while others commit: each commit either returns and is durable, or reports that the
/// database is closed.
#[test]
fn a_database_closed_under_running_transactions_keeps_what_it_acknowledged() {
    for spec in ProtocolSpec::tested() {
        let spec = spec.to_string();
        for grace in [0, 1, 30] {
            let disk = SimDisk::new();
            let db = builder(&spec, &disk)
                .group_wait_max(Duration::from_millis(1))
                .open("/db")
                .unwrap();
            let table = numbers(&db);
            let acknowledged: Vec<u64> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3_u64)
                    .map(|thread| {
                        let (db, table) = (&db, &table);
                        scope.spawn(move || {
                            let mut acknowledged = Vec::new();
                            for number in 0.. {
                                let key = thread << 32 | number;
                                match db.transact(|tx| tx.put(table, &key, &key)) {
                                    Ok(()) => acknowledged.push(key),
                                    Err(Error::Closed) => break,
                                    Err(error) => panic!("{error:?}"),
                                }
                            }
                            acknowledged
                        })
                    })
                    .collect();
                while db.counters().committed < grace {
                    std::thread::yield_now();
                }
                db.close().unwrap();
                threads
                    .into_iter()
                    .flat_map(|thread| thread.join().unwrap())
                    .collect()
            });
            drop((table, db));
            let db = builder(&spec, &disk).open("/db").unwrap();
            assert!(db.recovery().closed);
            let found = keys(&db);
            let lost = acknowledged.iter().find(|key| !found.contains(key));
            assert_eq!(lost, None, "{spec}");
        }
    }
}

#[test]
fn sessions_are_counted_and_come_back_when_they_are_dropped() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+NOLOG", &disk).open("/db").unwrap();
    let mut sessions: Vec<_> = (0..65_536).map(|_| db.session().unwrap()).collect();
    for _ in 0..2 {
        let error = db.session().map(drop).unwrap_err();
        assert!(matches!(error, Error::TooManySessions), "{error:?}");
        let error = db.begin().map(drop).unwrap_err();
        assert!(matches!(error, Error::TooManySessions), "{error:?}");
    }
    sessions.pop();
    put(&db, 1).unwrap();
    assert_eq!(keys(&db), [1]);
}

#[test]
fn what_gave_up_after_conflicts_may_be_run_again() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(16)", &disk)
        .attempts_max(NonZeroU32::MIN)
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    put(&db, 1).unwrap();
    let mut other = db.session().unwrap();
    let error = db
        .transact(|tx| {
            let value = tx.get(&table, &1)?;
            on_another_thread(|| other.transact_async(|tx| tx.put(&table, &1, &2)))?;
            other.flush()?;
            tx.put(&table, &1, &value.unwrap_or(0))
        })
        .unwrap_err();
    assert!(
        matches!(error, Error::TooManyConflicts { attempts: 1, .. }),
        "{error:?}"
    );
    assert!(error.is_retryable());
    put(&db, 1).unwrap();
}
