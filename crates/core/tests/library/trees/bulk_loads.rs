//! Bulk loads of trees from sorted keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use namiki_index::contract::{scan_all, sound};
use namiki_index::{IndexError, OrderedIndex, PointIndex, ScanRange};

use super::trees;

#[test]
fn a_bulk_load_of_any_size_equals_insertion() {
    for keys in [0, 1, 2, 3, 4, 5, 7, 10, 50, 51, 52, 1_000, 5_000] {
        for (tree, shape) in trees() {
            let mut sorted: Vec<_> = (0..keys).map(|n| (shape.key(n), n)).collect();
            sorted.sort();
            assert_eq!(
                tree.bulk_load(sorted.iter().map(|(k, n)| (k, *n))),
                Ok(keys as usize)
            );
            sound(&tree);
            assert_eq!(scan_all(&tree, ScanRange::all()), sorted);
            // And it can be changed afterwards.
            for n in keys..keys + 200 {
                tree.insert(&shape.key(n), n).unwrap();
            }
            for n in 0..keys + 200 {
                assert_eq!(tree.delete(&shape.key(n)), Ok(Some(n)));
            }
            sound(&tree);
            assert_eq!(tree.statistics().leaves, 1);
        }
    }
}

#[test]
fn a_refused_bulk_load_leaves_the_tree_unchanged() {
    for (tree, shape) in trees() {
        let twice = [(shape.key(1), 1), (shape.key(1), 2)];
        assert_eq!(
            tree.bulk_load(twice),
            Err(IndexError::NotSorted { position: 1 })
        );
        assert_eq!(tree.len(), 0);
        tree.write(&shape.key(3), 3).unwrap();
        assert_eq!(
            tree.bulk_load([(shape.key(1), 1)]),
            Err(IndexError::NotEmpty)
        );
        assert_eq!(tree.len(), 1);
    }
}

/// A thread that counts pages and looks for leaves by their numbers meets those of loads that are given up.
#[test]
fn a_tree_is_counted_beside_loads_that_fail() {
    for (tree, shape) in trees() {
        let mut keys: Vec<_> = (0..500).map(|n| shape.key(n)).collect();
        keys.sort();
        keys.push(keys[0].clone());
        let loads_left = AtomicU64::new(30);
        thread::scope(|scope| {
            scope.spawn(|| {
                while loads_left.load(Ordering::Relaxed) > 0 {
                    let load = tree.bulk_load(keys.iter().map(|key| (key, 1)));
                    assert_eq!(load, Err(IndexError::NotSorted { position: 500 }));
                    loads_left.fetch_sub(1, Ordering::Relaxed);
                }
            });
            while loads_left.load(Ordering::Relaxed) > 0 {
                // Not exact while a thread writes: pages of every concurrent load may count.
                let left_before = loads_left.load(Ordering::Relaxed);
                let statistics = tree.statistics();
                let loads = left_before - loads_left.load(Ordering::Relaxed) + 1;
                assert!(
                    statistics.records <= 500 * loads,
                    "{loads} loads: {statistics:?}"
                );
                for leaf in 0..100 {
                    if let Some(version) = tree.current(leaf) {
                        assert_eq!(version.leaf, leaf);
                        tree.raise_and_check(version, 1);
                    }
                }
            }
        });
        assert_eq!(tree.len(), 0);
        assert_eq!(
            tree.bulk_load(keys[..500].iter().map(|key| (key, 1))),
            Ok(500)
        );
        sound(&tree);
    }
}
