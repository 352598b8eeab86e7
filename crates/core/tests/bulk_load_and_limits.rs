//! Bulk loads, limits, names, and a tree as large as tests can afford.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use namiki::index::{Index, IndexKind, KeyKind, Tree, TreeKind};
use namiki_index::art::ArtConfig;
use namiki_index::contract::{KeyShape, Random, matches_a_sorted_map, scan_all, sound};
use namiki_index::{IndexError, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange};
#[cfg(feature = "all-indexes")]
use namiki_trees::{
    blink::{BlinkConfig, VariableBlinkTree},
    bwtree::{BwConfig, BwTree},
    bztree::{BzConfig, VariableBzTree},
    masstree::{FixedMasstree, MasstreeConfig, VariableMasstree},
};

/// Every tree with its default sizes, and those with configurable sizes with the smallest.
fn trees() -> Vec<(Tree, KeyShape)> {
    let mut trees = vec![
        (
            Tree::art(KeyKind::Fixed8, ArtConfig::tiny()),
            KeyShape::Dense,
        ),
        (
            Tree::art(KeyKind::Variable, ArtConfig::tiny()),
            KeyShape::Nested,
        ),
    ];
    #[cfg(feature = "all-indexes")]
    trees.extend([
        (
            Tree::bwtree(KeyKind::Fixed8, BwConfig::tiny()),
            KeyShape::Dense,
        ),
        (
            Tree::bwtree(KeyKind::Variable, BwConfig::tiny()),
            KeyShape::SharedPrefix,
        ),
        (
            Tree::MasstreeFixed8(FixedMasstree::new(MasstreeConfig::tiny())),
            KeyShape::Dense,
        ),
        (
            Tree::MasstreeVariable(VariableMasstree::new(MasstreeConfig::tiny())),
            KeyShape::SharedPrefix,
        ),
    ]);
    for kind in TreeKind::in_build() {
        trees.push((new(kind, KeyKind::Fixed8), KeyShape::Sparse));
        trees.push((new(kind, KeyKind::Variable), KeyShape::Nested));
    }
    trees
}

/// A tree with its default sizes.
fn new(kind: TreeKind, keys: KeyKind) -> Tree {
    Tree::new(kind, keys).unwrap()
}

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

/// Every tree, small and with its default sizes, against a sorted map: keys that are prefixes of others and
/// share beginnings of any length, ends of scans that need not be there.
#[test]
fn keys_with_shared_prefixes_are_kept_in_order() {
    let small = || {
        vec![
            #[cfg(feature = "all-indexes")]
            Tree::bwtree(KeyKind::Variable, BwConfig::tiny()),
            #[cfg(feature = "all-indexes")]
            Tree::OpenbwVariable(BwTree::new(BwConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BztreeAppendVariable(VariableBzTree::new(BzConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BztreeInplaceVariable(VariableBzTree::new(BzConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::MasstreeVariable(VariableMasstree::new(MasstreeConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BlinkVariable(VariableBlinkTree::new(BlinkConfig::tiny())),
            Tree::art(KeyKind::Variable, ArtConfig::tiny()),
        ]
    };
    let large = |kind| new(kind, KeyKind::Variable);
    for seed in 20..23 {
        for tree in small() {
            matches_a_sorted_map(&tree, KeyShape::Runs, 400, 6_000, seed);
        }
        for tree in TreeKind::in_build().map(large) {
            matches_a_sorted_map(&tree, KeyShape::Runs, 4_000, 20_000, seed);
        }
    }
}

#[test]
fn keys_of_the_wrong_length_are_refused_everywhere() {
    for kind in TreeKind::in_build() {
        refuses_keys_of_the_wrong_length(kind);
    }
}

fn refuses_keys_of_the_wrong_length(kind: TreeKind) {
    let fixed = new(kind, KeyKind::Fixed8);
    let variable = new(kind, KeyKind::Variable);
    let long = vec![7; (1 << 16) + 1];
    let too_long = IndexError::KeyTooLong {
        len: 65_537,
        max: 65_536,
    };
    let not_eight = IndexError::KeyLength {
        expected: 8,
        got: 3,
    };
    for (tree, key, error) in [
        (&fixed, &b"abc"[..], &not_eight),
        (&variable, &long, &too_long),
    ] {
        assert_eq!(tree.get(key).as_ref(), Err(error));
        assert_eq!(tree.insert(key, 1).as_ref(), Err(error));
        assert_eq!(tree.write(key, 1).as_ref(), Err(error));
        assert_eq!(tree.update(key, 1).as_ref(), Err(error));
        assert_eq!(tree.delete(key).as_ref(), Err(error));
        assert_eq!(tree.remove_if(key, 1).as_ref(), Err(error));
        assert_eq!(tree.get_or_insert(key, || 1).as_ref(), Err(error));
        assert_eq!(tree.bulk_load([(key, 1)]).as_ref(), Err(error));
        let mut out = vec![Lookup::Found(1)];
        assert_eq!(
            tree.get_many(&[b"12345678", key], &mut out).as_ref(),
            Err(error)
        );
        assert!(out.is_empty());
        let range = ScanRange::forward(Bound::Included(key), Bound::Unbounded);
        assert_eq!(
            tree.scan(range, |_| ControlFlow::Continue(())).as_ref(),
            Err(error)
        );
        assert_eq!(tree.len(), 0);
    }
    assert_eq!(variable.write(&long[1..], 9), Ok(None));
    assert_eq!(variable.write(b"", 8), Ok(None));
    assert_eq!(variable.get(&long[1..]), Ok(Lookup::Found(9)));
    assert_eq!(variable.get(b""), Ok(Lookup::Found(8)));
}

#[test]
fn names_are_read_back() {
    for kind in TreeKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
        for keys in [KeyKind::Fixed8, KeyKind::Variable] {
            assert_eq!(keys.to_string().parse(), Ok(keys));
            if kind.is_in_build() {
                let tree = new(*kind, keys);
                assert_eq!((tree.kind(), tree.key_kind()), (*kind, keys));
            }
        }
    }
    let error = "bwtre".parse::<TreeKind>().unwrap_err();
    let names: Vec<String> = TreeKind::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(
        error.to_string(),
        format!(
            "unknown tree \"bwtre\", expected one of: {}",
            names.join(", ")
        )
    );
    assert!("fixed9".parse::<KeyKind>().is_err());
}

/// The versions reported for an empty range are those a later insert there changes.
#[test]
fn an_empty_range_reports_the_covering_leaf() {
    for (tree, shape) in trees() {
        for n in 0..300 {
            tree.write(&shape.key(n * 2), n).unwrap();
        }
        for n in 0..300 {
            let key = shape.key(n * 2 + 1);
            for range in [
                ScanRange::forward(Bound::Included(&key), Bound::Included(&key)),
                ScanRange::backward(Bound::Included(&key), Bound::Included(&key)),
                ScanRange::forward(Bound::Excluded(&key), Bound::Excluded(&key)),
                ScanRange::backward(Bound::Included(&key), Bound::Excluded(&key)),
            ] {
                let mut seen = Vec::new();
                let scanned = tree.scan(range, |item| {
                    seen.push(format!("{item:?}"));
                    ControlFlow::Continue(())
                });
                assert_eq!(scanned, Ok(()));
                let Ok(Lookup::Missing(version)) = tree.get(&key) else {
                    panic!("present")
                };
                assert!(
                    seen.contains(&format!("{:?}", ScanItem::Leaf(version))),
                    "{seen:?}"
                );
            }
        }
    }
}

/// What a key and its payload may take: about a tenth more than they do, and far less than twice what the
/// leanest peers of the kind take (43 bytes in the OpenBw-Tree, 41 in the BzTree, 35 in Masstree, 29 in ART).
fn bytes_per_key_max(kind: IndexKind, shape: KeyShape) -> f64 {
    use TreeKind::{
        Art, Blink, Bwtree, BwtreeBoth, BwtreeInchain, BwtreeSplithead, BztreeAppend,
        BztreeInplace, Masstree, Openbw,
    };
    match kind {
        IndexKind::Ordered(Bwtree | BwtreeInchain | BwtreeSplithead | BwtreeBoth) => 26.0,
        IndexKind::Ordered(Openbw) => 47.0,
        IndexKind::Ordered(BztreeAppend | BztreeInplace) => 29.0,
        IndexKind::Ordered(Masstree) => 34.0,
        IndexKind::Ordered(Blink) => 27.0,
        IndexKind::Ordered(Art) if shape == KeyShape::Dense => 10.0,
        IndexKind::Ordered(Art) => 38.0,
        IndexKind::Hash => 45.0,
        other => unreachable!("{other} has no line here"),
    }
}

#[test]
fn a_million_keys_in_random_order() {
    for kind in TreeKind::in_build() {
        takes_a_million_keys(&new(kind, KeyKind::Fixed8));
    }
}

/// Of the hash table, the dense ones, too.
#[test]
fn a_million_scattered_keys_take_little_memory() {
    let trees = TreeKind::in_build().map(IndexKind::Ordered);
    let cases = trees
        .chain([IndexKind::Hash])
        .map(|kind| (kind, KeyShape::Sparse));
    for (kind, shape) in cases.chain([(IndexKind::Hash, KeyShape::Dense)]) {
        let index = &Index::new(kind, KeyKind::Fixed8).unwrap();
        let order = shuffled(1_000_000);
        std::thread::scope(|scope| {
            for half in order.chunks(order.len() / 2) {
                scope.spawn(move || {
                    for &n in half {
                        assert!(matches!(index.write(&shape.key(n), n), Ok(None)));
                    }
                });
            }
        });
        assert_eq!(index.len(), order.len());
        assert_lean(kind, shape, index);
    }
}

/// The numbers below this one. In an order by rule, leaves would fill and split at the same time, and how full they are
/// in the end would depend on how far one thread is ahead of the other.
fn shuffled(numbers: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..numbers).collect();
    let mut random = Random::new(5);
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

fn assert_lean(kind: IndexKind, shape: KeyShape, index: &impl PointIndex) {
    let bytes_per_key = index.memory_bytes() as f64 / index.len() as f64;
    let most = bytes_per_key_max(kind, shape);
    assert!(
        bytes_per_key < most,
        "{kind}, {shape:?}: {bytes_per_key} bytes a key"
    );
}

fn takes_a_million_keys(tree: &Tree) {
    let order = shuffled(1_000_000);
    std::thread::scope(|scope| {
        for half in order.chunks(order.len() / 2) {
            scope.spawn(move || {
                for n in half {
                    assert!(matches!(tree.write(&n.to_be_bytes(), n + 1), Ok(None)));
                }
            });
        }
    });
    let statistics = tree.statistics();
    assert_eq!(statistics.records, order.len() as u64);
    assert!((2..=8).contains(&statistics.height), "{statistics:?}");
    assert_lean(tree.kind().into(), KeyShape::Dense, tree);
    let mut batch = Vec::new();
    for chunk in order.chunks(100).step_by(50) {
        let chunk: Vec<[u8; 8]> = chunk.iter().map(|n| n.to_be_bytes()).collect();
        let refs: Vec<&[u8]> = chunk.iter().map(<[u8; 8]>::as_slice).collect();
        assert_eq!(tree.get_many(&refs, &mut batch), Ok(()));
        for (key, lookup) in chunk.iter().zip(&batch) {
            assert_eq!(*lookup, Lookup::Found(u64::from_be_bytes(*key) + 1));
        }
    }
    let mut next = 0;
    let scanned = tree.scan(ScanRange::all(), |item| {
        if let ScanItem::Entry(key, payload) = item {
            assert_eq!((key, payload), (&u64::to_be_bytes(next)[..], next + 1));
            next += 1;
        }
        ControlFlow::Continue(())
    });
    assert_eq!((scanned, next), (Ok(()), order.len() as u64));
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
                // Exact only if no thread writes.
                let statistics = tree.statistics();
                assert!(statistics.records <= 500, "{statistics:?}");
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
