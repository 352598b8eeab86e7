//! Tables with each kind of index have the same contents and the same serializability. Operations
//! that need an order fail on an index without one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use namiki::{Builder, Database, Error, IndexKind, Table, TreeKind};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

/// Every tree, the hash table, and both together.
fn kinds() -> impl Iterator<Item = IndexKind> {
    let trees = TreeKind::ALL.iter().copied().map(IndexKind::Ordered);
    trees.chain([
        IndexKind::Hash,
        IndexKind::OrderedAndHash(TreeKind::default()),
    ])
}

/// The other suites assume that this list has every tree.
#[test]
fn every_tree_is_in_this_build() {
    assert!(TreeKind::ALL.iter().copied().eq(TreeKind::in_build()));
}

fn builder(disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let streams = NonZeroU16::new(2).unwrap();
    Database::builder().disk(disk).streams(streams)
}

fn open(disk: &SimDisk, index: IndexKind) -> (Database, Table<u64, u64>, Table<str, u64>) {
    let db = builder(disk).index(index).open(Path::new("/db")).unwrap();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    (db, numbers, names)
}

/// The contents written with one index are recovered with the next: no index is stored.
#[test]
fn contents_outlive_the_index() {
    let disk = SimDisk::new();
    let mut random = Random::seeded(3);
    let mut expected = std::collections::BTreeMap::new();
    for (round, index) in kinds().chain(kinds()).enumerate() {
        let (db, numbers, names) = open(&disk, index);
        for key in 0..200_u64 {
            let found = db.transact(|tx| {
                let name = key.to_string();
                let found = (tx.get(&numbers, &key)?, tx.get(&names, name.as_str())?);
                Ok(found)
            });
            let value = expected.get(&key).copied();
            assert_eq!(found.unwrap(), (value, value), "{round} {key}");
        }
        for _ in 0..100 {
            let (key, value) = (random.below(200), random.next_u64());
            let name = key.to_string();
            let written = db.transact(|tx| {
                if value.is_multiple_of(4) {
                    tx.delete(&numbers, &key)?;
                    tx.delete(&names, name.as_str())?;
                } else {
                    tx.put(&numbers, &key, &value)?;
                    tx.put(&names, name.as_str(), &value)?;
                }
                Ok(())
            });
            written.unwrap();
            if value.is_multiple_of(4) {
                expected.remove(&key);
            } else {
                expected.insert(key, value);
            }
        }
        db.close().unwrap();
    }
}

#[test]
fn a_scan_of_an_unordered_table_ends_nothing() {
    let disk = SimDisk::new();
    let db = builder(&disk)
        .table_index("numbers", IndexKind::Hash)
        .open(Path::new("/db"))
        .unwrap();
    let numbers: Table<u64, u64> = db.table("numbers").unwrap();
    let others: Table<u64, u64> = db.table("others").unwrap();
    let both = db.transact(|tx| {
        tx.put(&numbers, &1, &2)?;
        tx.put(&others, &1, &2)?;
        let refused = tx.scan(&numbers, ..).unwrap_err();
        assert!(matches!(&refused, Error::Unordered { table } if table == "numbers"));
        assert!(refused.to_string().contains("art+hash"), "{refused}");
        assert!(matches!(
            tx.versions(&numbers, ..),
            Err(Error::Unordered { .. })
        ));
        Ok((tx.get(&numbers, &1)?, tx.scan(&others, ..)?))
    });
    assert_eq!(both.unwrap(), (Some(2), vec![(1, 2)]));
}

/// Each of two transactions finds a key absent that the other inserts: at most one can commit.
#[test]
fn absence_that_was_read_is_kept() {
    for index in kinds() {
        let (db, numbers, names) = open(&SimDisk::new(), index);
        for round in 0..50_u64 {
            let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
            let [one, other] = [2 * round, 2 * round + 1];
            let (one_name, other_name) = (one.to_string(), other.to_string());
            assert_eq!(a.get(&numbers, &one).unwrap(), None);
            assert_eq!(b.get(&names, other_name.as_str()).unwrap(), None);
            a.put(&names, other_name.as_str(), &1).unwrap();
            b.put(&numbers, &one, &1).unwrap();
            let committed = [a.commit().is_ok(), b.commit().is_ok()];
            assert_ne!(committed, [true, true], "{index} {round}");
            // A transaction can insert a key that it has found absent itself.
            let mut alone = db.begin().unwrap();
            assert_eq!(alone.get(&names, one_name.as_str()).unwrap(), None);
            alone.put(&names, one_name.as_str(), &1).unwrap();
            alone.commit().unwrap();
        }
    }
}

/// Threads count in records that one of them has to create first.
#[test]
fn no_count_is_lost() {
    for index in kinds() {
        let (db, numbers, _) = open(&SimDisk::new(), index);
        let keys = 300_u64;
        thread::scope(|scope| {
            for thread in 0..3 {
                let (db, numbers) = (&db, &numbers);
                scope.spawn(move || {
                    let mut random = Random::seeded(thread);
                    for _ in 0..1_000 {
                        let key = random.below(keys);
                        db.transact(|tx| {
                            let count = tx.get(numbers, &key)?.unwrap_or(0);
                            tx.put(numbers, &key, &(count + 1))
                        })
                        .unwrap();
                    }
                });
            }
        });
        let sum = db.transact(|tx| {
            let mut sum = 0;
            for key in 0..keys {
                sum += tx.get(&numbers, &key)?.unwrap_or(0);
            }
            Ok(sum)
        });
        assert_eq!(sum.unwrap(), 3_000, "{index}");
    }
}
