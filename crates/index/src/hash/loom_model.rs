//! Every interleaving of splits and merges with a reader, a writer and an inserter. Table, lines and
//! stripes are those of production.

use loom::sync::Arc;
use loom::thread;
use namiki_platform::model_checker::explore;

use super::{FixedHash, HashConfig};
use crate::{InsertOutcome, LeafVersion, Lookup, PointIndex};

/// Two keys in one bucket with a child that takes one of them, as `hash` decides with a seed of zero.
fn keys(index: &FixedHash, bits: [u64; 2]) -> [[u8; 8]; 2] {
    bits.map(|bit| {
        let of_bit = |key: &u64| index.hash(*key) & 1 == bit;
        let number = (1..1_000).find(of_bit).unwrap();
        number.to_be_bytes()
    })
}

fn index(keys_per_four_buckets: u32) -> FixedHash {
    let mut index = FixedHash::new(HashConfig {
        first_bits: 0,
        keys_per_four_buckets,
        stripe_bits: 0,
        batch: 1,
    });
    index.table.seed = 0;
    index
}

/// One bucket that the next insert splits.
fn about_to_split() -> Arc<FixedHash> {
    Arc::new(index(4))
}

/// An index of two buckets that the next delete merges, with `kept` and the key to be deleted.
fn about_to_merge(kept: &[u8], gone: &[u8]) -> Arc<FixedHash> {
    let index = index(4);
    index.insert(kept, 1).unwrap();
    index.insert(gone, 2).unwrap();
    assert_eq!(index.statistics().leaves, 2);
    Arc::new(index)
}

#[test]
fn a_reader_finds_its_key_while_a_bucket_is_split() {
    explore(2, || {
        let index = about_to_split();
        let [stays, moves] = keys(&index, [0, 1]);
        index.insert(&moves, 7).unwrap();
        let writer = thread::spawn({
            let index = Arc::clone(&index);
            move || index.insert(&stays, 8).unwrap()
        });
        assert_eq!(index.get(&moves), Ok(Lookup::Found(7)));
        writer.join().unwrap();
        assert_eq!(index.get(&stays), Ok(Lookup::Found(8)));
        assert_eq!(index.statistics().leaves, 2);
    });
}

#[test]
fn a_reader_finds_its_key_while_two_buckets_are_merged() {
    explore(2, || {
        let [gone, kept] = keys(&about_to_split(), [0, 1]);
        let index = about_to_merge(&kept, &gone);
        let writer = thread::spawn({
            let index = Arc::clone(&index);
            move || index.delete(&gone).unwrap()
        });
        assert_eq!(index.get(&kept), Ok(Lookup::Found(1)));
        assert_eq!(writer.join().unwrap(), Some(2));
        assert_eq!(index.get(&kept), Ok(Lookup::Found(1)));
    });
}

#[test]
fn a_write_survives_a_split() {
    explore(2, || {
        let index = about_to_split();
        let [stays, moves] = keys(&index, [0, 1]);
        index.insert(&moves, 7).unwrap();
        let writer = thread::spawn({
            let index = Arc::clone(&index);
            move || index.insert(&stays, 8).unwrap()
        });
        assert_eq!(index.update(&moves, 9), Ok(Some(7)));
        assert_eq!(index.get(&moves), Ok(Lookup::Found(9)));
        writer.join().unwrap();
        assert_eq!(index.get(&moves), Ok(Lookup::Found(9)));
    });
}

/// One thread grows the table, the other shrinks it again.
#[test]
fn growing_and_shrinking_side_by_side_lose_nothing() {
    explore(2, || {
        let [gone, kept] = keys(&about_to_split(), [0, 1]);
        let index = about_to_merge(&kept, &gone);
        let writer = thread::spawn({
            let index = Arc::clone(&index);
            move || index.delete(&gone).unwrap()
        });
        let mut other = (1..1_000_u64).map(u64::to_be_bytes);
        let other = other.find(|key| *key != kept && *key != gone).unwrap();
        index.insert(&other, 3).unwrap();
        writer.join().unwrap();
        assert_eq!(index.get(&kept), Ok(Lookup::Found(1)));
        assert_eq!(index.get(&other), Ok(Lookup::Found(3)));
        assert_eq!(index.statistics().records, 2);
    });
}

/// A failed get returns the version of one instant: an insert of the key either comes later and
/// changes the version, or came before.
#[test]
fn absence_and_version_are_of_one_instant() {
    explore(2, || {
        let index = Arc::new(index(400));
        let key = 5_u64.to_be_bytes();
        let before = index.current(0);
        let inserter = thread::spawn({
            let index = Arc::clone(&index);
            move || index.insert(&key, 1).unwrap()
        });
        if let Ok(Lookup::Missing(seen)) = index.get(&key) {
            assert_eq!(Some(seen), before);
        }
        let InsertOutcome::Inserted(done) = inserter.join().unwrap() else {
            panic!("no other thread inserts it")
        };
        assert_eq!(Some(done.before), before);
    });
}

/// A reader that sees a key added or removed also sees another version.
#[test]
fn a_change_of_keys_is_seen_with_its_version() {
    for there in [false, true] {
        explore(2, move || {
            let index = Arc::new(index(400));
            let key = 5_u64.to_be_bytes();
            if there {
                index.insert(&key, 1).unwrap();
            }
            let before = index.current(0);
            let writer = thread::spawn({
                let index = Arc::clone(&index);
                move || {
                    if there {
                        assert_eq!(index.delete(&key), Ok(Some(1)));
                    } else {
                        index.insert(&key, 1).unwrap();
                    }
                }
            });
            let found = matches!(index.get(&key), Ok(Lookup::Found(1)));
            if found != there {
                assert_ne!(index.current(0), before);
            }
            writer.join().unwrap();
        });
    }
}

#[test]
fn no_insert_slips_past_a_reader_of_its_absence() {
    const STAMP: u64 = 7;
    explore(2, || {
        let index = Arc::new(index(400));
        let key = 5_u64.to_be_bytes();
        let reader = thread::spawn({
            let index = Arc::clone(&index);
            move || match index.get(&key) {
                Ok(Lookup::Missing(seen)) => index.raise_and_check(seen, STAMP),
                _ => false,
            }
        });
        let InsertOutcome::Inserted(done) = index.insert(&key, 1).unwrap() else {
            panic!("no other thread inserts it")
        };
        let LeafVersion { leaf, .. } = done.after;
        let rts = index.leaf_rts(leaf);
        if reader.join().unwrap() {
            assert!(rts >= STAMP, "the insert slipped past the reader");
        }
    });
}
