//! Tables by bytes: reads, writes and scans on slices, under every protocol.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki::faults::NoGapLocks;
use namiki::{
    ByteTable, ConcurrencyControl, Conflict, Database, Direction, Error, ProtocolSpec, RowScan,
    ScanRange, Session, Transaction, UntypedTable, WaitPolicy,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;
use namiki_tests::on_another_thread::on_another_thread;
use namiki_tests::tested_specs::{optimistic, with_and_without_log};

fn open(spec: ProtocolSpec) -> (Database, ByteTable) {
    let builder = Database::builder().disk(Arc::new(SimDisk::new()));
    let db = builder.spec(spec).open("/db").unwrap();
    let table = table(&db);
    (db, table)
}

fn table(db: &Database) -> ByteTable {
    db.create_untyped_table(&UntypedTable {
        name: "rows",
        key_type: "key",
        value_type: "row",
        ..UntypedTable::default()
    })
    .unwrap()
}

fn each_spec(check: impl Fn(&Database, &ByteTable)) {
    for spec in with_and_without_log() {
        let (db, table) = open(spec);
        check(&db, &table);
    }
}

#[test]
fn each_write_answers_whether_the_key_was_there() {
    each_spec(|db, table| {
        db.transact(|tx| {
            assert!(tx.insert_row(table, b"a", b"1")?);
            assert_eq!(tx.row(table, b"a")?, Some(&b"1"[..]));
            assert!(!tx.insert_row(table, b"a", b"2")?);
            // The transaction continues, and the row is what it was.
            assert_eq!(tx.row(table, b"a")?, Some(&b"1"[..]));
            tx.put_row(table, b"b", b"3")
        })
        .unwrap();
        db.transact(|tx| {
            assert!(!tx.insert_row(table, b"b", b"4")?);
            let double = |old: &[u8], new: &mut Vec<u8>| new.extend([old, old].concat());
            assert!(tx.update_row(table, b"b", double)?);
            assert!(!tx.update_row(table, b"none", double)?);
            assert!(tx.delete_row(table, b"a")?);
            assert!(!tx.delete_row(table, b"a")?);
            assert!(tx.insert_row(table, b"a", b"5")?);
            assert_eq!(tx.row_for_update(table, b"a")?, Some(&b"5"[..]));
            assert!(tx.delete_row(table, b"a")?);
            Ok(())
        })
        .unwrap();
        let mut seen = Vec::new();
        let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
        db.transact(|tx| {
            seen.clear();
            tx.rows(table, &keys, |at, row| {
                seen.push((at, row.map(<[u8]>::to_vec)));
            })
        })
        .unwrap();
        assert_eq!(seen, [(0, None), (1, Some(b"33".to_vec())), (2, None)]);
    });
}

/// An insert that found its key has read it. (TicToc may order the transaction before the deletion.)
#[test]
fn an_insert_that_answered_is_validated() {
    let is_silo = |spec: &ProtocolSpec| spec.concurrency == ConcurrencyControl::Silo;
    for spec in optimistic().into_iter().filter(is_silo) {
        let (db, table) = open(spec);
        db.transact(|tx| tx.put_row(&table, b"there", b"1"))
            .unwrap();
        let [mut one, mut other] = [(); 2].map(|()| db.session().unwrap());
        for (key, delete) in [(&b"there"[..], true), (&b"absent"[..], false)] {
            let failed = one.try_transact_async(|tx| {
                let inserted = tx.insert_row(&table, key, b"2")?;
                assert_eq!(inserted, !delete);
                change_elsewhere(&mut other, &table, key, delete);
                tx.put_row(&table, b"answer", &[u8::from(inserted)])
            });
            assert!(
                matches!(failed, Err(Error::Conflict(_))),
                "{spec}: {failed:?}"
            );
        }
        let answer = db.transact(|tx| Ok(tx.row(&table, b"answer")?.map(<[u8]>::to_vec)));
        assert_eq!(answer.unwrap(), None, "{spec}");
    }
}

/// Another transaction deletes the key, or inserts it.
fn change_elsewhere(session: &mut Session, table: &ByteTable, key: &[u8], delete: bool) {
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let changed = session.try_transact_async(|tx| {
                if delete {
                    tx.delete_row(table, key)
                } else {
                    tx.insert_row(table, key, b"3")
                }
            });
            assert!(changed.unwrap().0);
            session.flush().unwrap();
        });
        change.join().unwrap();
    });
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows of a map in a range, in its direction.
fn expected(model: &BTreeMap<Vec<u8>, Vec<u8>>, range: ScanRange<'_>) -> Rows {
    let below = |key: &[u8]| match range.start {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    };
    let above = |key: &[u8]| match range.end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    };
    let inside = model.iter().filter(|(key, _)| !below(key) && !above(key));
    let mut rows: Rows = inside
        .map(|(key, row)| (key.clone(), row.clone()))
        .collect();
    if range.direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

#[test]
fn scans_in_parts_see_what_whole_ones_see() {
    let seed = 37;
    each_spec(|db, table| {
        let random = &mut Random::seeded(seed);
        let mut model = BTreeMap::new();
        db.transact(|tx| {
            model.clear();
            for number in 0..400_u32 {
                let key = (number * 7 % 400).to_be_bytes()[2..].to_vec();
                let key = if number % 3 == 0 {
                    [&key[..], b"x"].concat()
                } else {
                    key
                };
                tx.put_row(table, &key, &number.to_le_bytes())?;
                model.insert(key, number.to_le_bytes().to_vec());
            }
            Ok(())
        })
        .unwrap();
        let view = db.view().unwrap();
        for bounds in [
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(&[0, 9][..]), Bound::Excluded(&[1, 1][..])),
            (Bound::Excluded(&[0, 9][..]), Bound::Included(&[0, 200][..])),
            (Bound::Excluded(&[1, 0][..]), Bound::Excluded(&[0, 1][..])),
        ] {
            for range in [
                ScanRange::forward(bounds.0, bounds.1),
                ScanRange::backward(bounds.0, bounds.1),
            ] {
                let expected = expected(&model, range);
                let mut found = Rows::new();
                let whole = db.transact(|tx| {
                    found.clear();
                    tx.scan_rows(table, range, |key, row| {
                        found.push((key.to_vec(), row.to_vec()));
                        ControlFlow::<()>::Continue(())
                    })
                });
                assert_eq!((whole.unwrap(), &found), (None, &expected), "{range:?}");
                // Within one transaction, over several ones, and in a view.
                let (mut one, mut several, mut viewed) = (Rows::new(), Rows::new(), Rows::new());
                let mut length = || 1 + random.below(40) as usize;
                db.transact(|tx| {
                    one.clear();
                    let mut scan = RowScan::new(range);
                    while !scan.is_finished() {
                        tx.resume_scan(table, &mut scan, part(&mut one, length()))?;
                    }
                    Ok(())
                })
                .unwrap();
                let mut scan = RowScan::new(range);
                while !scan.is_finished() {
                    let mut tx = db.begin().unwrap();
                    let ended = tx.resume_scan(table, &mut scan, part(&mut several, length()));
                    assert_eq!(ended.unwrap().is_none(), scan.is_finished());
                }
                let mut scan = RowScan::new(range);
                while !scan.is_finished() {
                    let ended = view.resume_scan(table, &mut scan, part(&mut viewed, length()));
                    assert_eq!(ended.unwrap().is_none(), scan.is_finished());
                }
                for parts in [one, several, viewed] {
                    assert_eq!(parts, expected, "seed {seed}, {range:?}");
                }
            }
        }
    });
}

/// A visitor that breaks off at the last of `length` rows.
fn part(rows: &mut Rows, length: usize) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    let mut left = length;
    move |key, row| {
        rows.push((key.to_vec(), row.to_vec()));
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// The parts of a scan within one transaction leave no gap between them.
#[test]
fn a_key_between_two_parts_is_a_phantom() {
    for spec in optimistic() {
        let (db, table) = open(spec);
        db.transact(|tx| {
            tx.put_row(&table, b"a", b"")?;
            tx.put_row(&table, b"c", b"")
        })
        .unwrap();
        let [mut one, mut other] = [(); 2].map(|()| db.session().unwrap());
        let failed = one.try_transact_async(|tx| {
            let mut scan = RowScan::new(ScanRange::all());
            let mut keys = Vec::new();
            while !scan.is_finished() {
                tx.resume_scan(&table, &mut scan, |key, _| {
                    keys.push(key.to_vec());
                    ControlFlow::Break(())
                })?;
            }
            assert_eq!(keys, [b"a", b"c"]);
            change_elsewhere(&mut other, &table, b"b", false);
            tx.put_row(&table, b"count", &[keys.len() as u8])
        });
        let is_phantom = matches!(
            failed,
            Err(Error::Conflict(Conflict::Phantom | Conflict::ReadChanged))
        );
        assert!(is_phantom, "{spec}: {failed:?}");
    }
}

/// Where reads are locked, so is the gap between two parts.
#[test]
fn a_key_between_two_locked_parts_has_to_wait() {
    for spec in ["S2PL(EPOCH)+PWAL(16)", "S2PL(NLR)+NOLOG"] {
        let builder = Database::builder().disk(Arc::new(SimDisk::new()));
        let builder = builder.spec(spec.parse().unwrap());
        let db = builder.wait_policy(WaitPolicy::NoWait).open("/db").unwrap();
        let table = table(&db);
        let mut session = db.session().unwrap();
        for (faulty, direction) in [
            (false, Direction::Forward),
            (false, Direction::Backward),
            (true, Direction::Forward),
        ] {
            db.transact(|tx| {
                tx.put_row(&table, b"a", b"")?;
                tx.put_row(&table, b"c", b"")?;
                tx.delete_row(&table, b"b").map(drop)
            })
            .unwrap();
            let body = |tx: &mut Transaction| {
                let mut scan = RowScan::new(ScanRange {
                    direction,
                    ..ScanRange::all()
                });
                let mut count = 0;
                while !scan.is_finished() {
                    tx.resume_scan(&table, &mut scan, |_, _| {
                        count += 1;
                        ControlFlow::Break(())
                    })?;
                }
                assert_eq!(count, 2);
                let inserted = on_another_thread(|| {
                    let mut other = db.session().unwrap();
                    let inserted = other.try_transact_async(|tx| tx.put_row(&table, b"b", b""));
                    inserted.map(drop)
                });
                let is_locked = matches!(inserted, Err(Error::Conflict(_)));
                assert_ne!(is_locked, faulty, "{spec}: {inserted:?}");
                Ok(())
            };
            let done = if faulty {
                session.try_faulty::<NoGapLocks, _>(body)
            } else {
                session.try_transact_async(body)
            };
            done.unwrap();
        }
    }
}

/// As a client does that deletes each row which its cursor has shown.
#[test]
fn a_scan_goes_on_after_its_last_key_is_deleted() {
    for spec in with_and_without_log() {
        for direction in [Direction::Forward, Direction::Backward] {
            let (db, table) = open(spec);
            let mut all = [b"a", b"b", b"c", b"d"];
            db.transact(|tx| (all.iter()).try_for_each(|key| tx.put_row(&table, *key, b"")))
                .unwrap();
            if direction == Direction::Backward {
                all.reverse();
            }
            let range = ScanRange {
                direction,
                ..ScanRange::all()
            };
            let mut scan = RowScan::new(range);
            // The first two in one transaction, the others in another one.
            for half in all.chunks(2) {
                db.transact(|tx| {
                    for key in half {
                        let mut shown = Vec::new();
                        tx.resume_scan(&table, &mut scan, part(&mut shown, 1))?;
                        assert_eq!(shown, [(key.to_vec(), Vec::new())], "{spec}");
                        assert!(tx.delete_row(&table, *key)?);
                    }
                    Ok(())
                })
                .unwrap();
            }
            let rest = db
                .transact(|tx| tx.resume_scan(&table, &mut scan.clone(), part(&mut Vec::new(), 1)));
            assert_eq!(rest.unwrap(), None);
        }
    }
}

#[test]
fn a_transaction_says_how_much_it_remembers() {
    let (db, table) = open("SILO(EPOCH)+PWAL(auto)".parse().unwrap());
    let mut tx = db.begin().unwrap();
    assert_eq!((tx.read_count(), tx.written_bytes()), (0, 0));
    tx.put_row(&table, b"key", b"value").unwrap();
    assert_eq!(tx.written_bytes(), 8);
    tx.commit().unwrap();
    let mut tx = db.begin().unwrap();
    tx.row(&table, b"key").unwrap();
    tx.row(&table, b"none").unwrap();
    assert_eq!(tx.read_count(), 2);
}
