//! The hash table under the suite of the point trait. Small tables grow and shrink all the time.

use std::thread;

use namiki_index::contract::{self, KeyShape, Load};
use namiki_index::hash::{FixedHash, HashConfig, VariableHash};
use namiki_index::{Lookup, PointIndex, point_contract};

/// A small table with a high load factor: some keys in overflow lines, some lines with free slots.
fn small() -> HashConfig {
    HashConfig {
        first_bits: 2,
        keys_per_four_buckets: 20,
        stripe_bits: 4,
        batch: 3,
    }
}

point_contract! {
    fixed: [
        || FixedHash::new(HashConfig::tiny()),
        || FixedHash::new(small()),
    ],
    variable: [
        || VariableHash::new(HashConfig::tiny()),
        || VariableHash::new(small()),
    ],
}

#[test]
fn matches_a_map_with_default_sizes() {
    let index = FixedHash::default();
    contract::matches_a_map(&index, KeyShape::Sparse, 20_000, 200_000, 7);
    let index = VariableHash::default();
    contract::matches_a_map(&index, KeyShape::Nested, 20_000, 200_000, 8);
}

/// Every key and every payload is possible: no value is reserved for an empty slot.
#[test]
fn no_key_and_no_payload_is_special() {
    let index = FixedHash::new(HashConfig::tiny());
    let values = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
    for key in values {
        assert!(matches!(
            index.get(&key.to_be_bytes()),
            Ok(Lookup::Missing(_))
        ));
        for payload in values {
            index.write(&key.to_be_bytes(), payload).unwrap();
            assert_eq!(index.get(&key.to_be_bytes()), Ok(Lookup::Found(payload)));
        }
    }
    assert_eq!(index.len(), values.len());
}

#[test]
fn the_table_grows_and_shrinks_with_its_keys() {
    for config in [HashConfig::tiny(), small(), HashConfig::default()] {
        let index = FixedHash::new(config);
        let new = index.memory_bytes();
        let keys = 50_000_u64;
        for round in 0..2 {
            for n in 0..keys {
                index.insert(&KeyShape::Sparse.key(n), n).unwrap();
            }
            let full = index.statistics();
            assert_eq!(full.records, keys);
            let wanted = keys * 4 / u64::from(config.keys_per_four_buckets);
            assert!(
                full.leaves.abs_diff(wanted) <= 2 * u64::from(config.batch) + 2,
                "{round}: {full:?}"
            );
            for n in 0..keys {
                assert_eq!(index.delete(&KeyShape::Sparse.key(n)), Ok(Some(n)));
            }
            let empty = index.statistics();
            let first = 1 << config.first_bits;
            assert!(
                empty.leaves <= 2 * (first + u64::from(config.batch)),
                "{round}: {empty:?}"
            );
            assert_eq!((empty.records, empty.leaf_deltas), (0, 0));
            // The first line searched for a key was always the right one.
            assert_eq!(empty.restarts, 0);
            let now = index.memory_bytes();
            // Stripes stay: they hold the stamps of readers.
            let stripes = 16 << config.stripe_bits;
            assert!(
                now <= new + stripes + 8192,
                "{round}: {now} bytes, {new} when new"
            );
        }
        if config == HashConfig::default() {
            // Almost all keys are in their home line.
            for n in 0..keys {
                index.insert(&KeyShape::Dense.key(n), n).unwrap();
            }
            let statistics = index.statistics();
            assert!(statistics.leaf_deltas < keys / 6, "{statistics:?}");
            assert!(statistics.longest_chain <= 12, "{statistics:?}");
            let per_key = index.memory_bytes() as u64 / keys;
            assert!(per_key < 64, "{per_key} bytes for each key");
        }
    }
}

/// All threads fill the table and empty it again, while others look for keys that stay.
#[test]
fn keys_survive_growing_and_shrinking_by_many_threads() {
    for config in [HashConfig::tiny(), HashConfig::default()] {
        let index = &FixedHash::new(config);
        let keys = 20_000_u64;
        for n in 0..100 {
            index.insert(&KeyShape::Dense.key(n), n).unwrap();
        }
        for _ in 0..3 {
            thread::scope(|scope| {
                for thread in 1..=4 {
                    scope.spawn(move || {
                        for n in 0..keys / 4 {
                            let key = KeyShape::Dense.key(n * 4 + thread + 1_000);
                            index.insert(&key, n).unwrap();
                            let stays = KeyShape::Dense.key(n % 100);
                            assert_eq!(index.get(&stays), Ok(Lookup::Found(n % 100)));
                        }
                        for n in 0..keys / 4 {
                            let key = KeyShape::Dense.key(n * 4 + thread + 1_000);
                            assert_eq!(index.delete(&key), Ok(Some(n)));
                            let stays = KeyShape::Dense.key(n % 100);
                            assert_eq!(index.get(&stays), Ok(Lookup::Found(n % 100)));
                        }
                    });
                }
            });
            let statistics = index.statistics();
            assert_eq!((index.len(), statistics.records), (100, 100));
            // It is found again immediately in the right place, whichever thread changed the size
            // last.
            for n in 0..100 {
                assert_eq!(index.get(&KeyShape::Dense.key(n)), Ok(Lookup::Found(n)));
            }
            assert_eq!(index.statistics().restarts, statistics.restarts);
            assert!(statistics.leaves < 1_000, "{statistics:?}");
        }
    }
}

/// Long and short keys with common beginnings, at default sizes.
#[test]
fn long_keys_stay_apart() {
    let index = VariableHash::default();
    let load = Load {
        threads: 3,
        operations: 300,
        keys: 200,
        seed: 20,
    };
    contract::gets_never_miss_a_key_that_stays(&index, KeyShape::Huge, load);
}
