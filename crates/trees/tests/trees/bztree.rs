//! The BzTree, both variants, under the contract suite. Small nodes make structure changes happen all the
//! time.
#![expect(clippy::unwrap_used, reason = "tests of both variants share functions")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_index::contract::{self, KeyShape};
use namiki_index::{
    IndexError, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange, ordered_contract,
};
use namiki_trees::bztree::{Append, BzConfig, FixedBzTree, InPlace, VariableBzTree, Variant};

fn small() -> BzConfig {
    BzConfig {
        leaf_max: 8,
        inner_max: 6,
        slots: 5,
        load_percent: 70,
    }
}

mod append {
    use super::*;

    ordered_contract! {
        fixed: [
            || FixedBzTree::<Append>::new(BzConfig::tiny()),
            || FixedBzTree::<Append>::new(small()),
        ],
        variable: [
            || VariableBzTree::<Append>::new(BzConfig::tiny()),
            || VariableBzTree::<Append>::new(small()),
        ],
    }
}

mod inplace {
    use super::*;

    ordered_contract! {
        fixed: [
            || FixedBzTree::<InPlace>::new(BzConfig::tiny()),
            || FixedBzTree::<InPlace>::new(small()),
        ],
        variable: [
            || VariableBzTree::<InPlace>::new(BzConfig::tiny()),
            || VariableBzTree::<InPlace>::new(small()),
        ],
    }
}

fn matches_a_sorted_map_with_default_nodes<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBzTree::<V>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}

#[test]
fn matches_a_sorted_map_with_default_nodes_append() {
    matches_a_sorted_map_with_default_nodes::<Append>();
}

#[test]
fn matches_a_sorted_map_with_default_nodes_in_place() {
    matches_a_sorted_map_with_default_nodes::<InPlace>();
}

fn refuses_payloads_that_use_the_mark_bits<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    let (key, other) = ([0; 8], [1; 8]);
    let most = (1 << 61) - 1;
    tree.put(&key, most).unwrap();
    assert_eq!(tree.get(&key), Ok(Lookup::Found(most)));
    for bit in 61..64 {
        let payload = 1 << bit;
        let refused = IndexError::PayloadReserved {
            payload,
            reserved: 7 << 61,
        };
        assert_eq!(tree.insert(&other, payload).as_ref(), Err(&refused));
        assert_eq!(tree.update(&key, payload).as_ref(), Err(&refused));
        for key in [&key, &other] {
            assert_eq!(tree.write(key, payload).as_ref(), Err(&refused));
            assert_eq!(tree.put(key, payload).as_ref(), Err(&refused));
        }
        let made = tree.get_or_insert(&other, || payload);
        assert_eq!(made.as_ref(), Err(&refused));
        assert_eq!(
            FixedBzTree::<V>::default().bulk_load([(key, payload)]),
            Err(refused)
        );
    }
    assert_eq!(tree.get(&key), Ok(Lookup::Found(most)));
    assert_eq!(tree.len(), 1);
}

#[test]
fn payloads_that_use_the_mark_bits_are_refused() {
    refuses_payloads_that_use_the_mark_bits::<Append>();
    refuses_payloads_that_use_the_mark_bits::<InPlace>();
}

/// A writer writes the same payloads to the first and then to the last key of a leaf.
fn scans_see_a_leaf_at_one_instant<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    let keys = 50_u64;
    tree.bulk_load((0..keys).map(|n| (n.to_be_bytes(), 0)))
        .unwrap();
    let ends = [0, keys - 1].map(u64::to_be_bytes);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..50_000 {
                for key in &ends {
                    tree.update(key, turn).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let mut seen = Vec::new();
            tree.scan(ScanRange::all(), |item| {
                if let ScanItem::Entry(_, payload) = item {
                    seen.push(payload);
                }
                ControlFlow::Continue(())
            })
            .unwrap();
            let (first, last) = (seen[0], seen[keys as usize - 1]);
            assert!(first == last || first == last + 1, "{first} {last}");
        }
    });
}

/// A reader sees a completed `put`, or a later write that saw it.
fn no_put_is_hidden_by_an_older_write<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    let key = [9; 8];
    let is_put = |payload: u64| payload % 2 == 1;
    let (done, start) = (AtomicBool::new(false), Barrier::new(2));
    tree.put(&key, 1).unwrap();
    let (covered, seen) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            start.wait();
            let (mut seen, mut turn) = (BTreeSet::new(), 0);
            while !done.load(Ordering::Relaxed) {
                turn += 2;
                let old = tree.write(&key, turn).unwrap();
                seen.extend(old.filter(|old| is_put(*old)));
            }
            seen
        });
        start.wait();
        let mut covered = Vec::new();
        for turn in 1..40_000 {
            let payload = 2 * turn + 1;
            tree.put(&key, payload).unwrap();
            if tree.get(&key) != Ok(Lookup::Found(payload)) {
                covered.push(payload);
            }
        }
        done.store(true, Ordering::Relaxed);
        (covered, writer.join().unwrap())
    });
    for payload in covered {
        assert!(seen.contains(&payload), "{payload} was lost");
    }
}

#[test]
fn no_put_is_hidden_by_an_older_write_append() {
    no_put_is_hidden_by_an_older_write::<Append>();
}

#[test]
fn no_put_is_hidden_by_an_older_write_in_place() {
    no_put_is_hidden_by_an_older_write::<InPlace>();
}

/// A reader that relied on the left leaf may not take the union of both for it.
#[test]
fn a_merge_changes_the_version_of_the_leaf_that_stays() {
    let tree = FixedBzTree::<InPlace>::new(small());
    let key = |n: u64| n.to_be_bytes();
    for n in 0..12 {
        tree.insert(&key(2 * n), n).unwrap();
    }
    assert_eq!(tree.statistics().leaves, 2);
    for n in 1..5 {
        tree.delete(&key(2 * n)).unwrap();
    }
    // So that the left leaf's counter is the larger one by far.
    for n in 0..100 {
        tree.write(&key(0), n).unwrap();
        tree.delete(&key(0)).unwrap();
    }
    let Ok(Lookup::Missing(seen)) = tree.get(&key(1)) else {
        panic!("present")
    };
    let mut left = 11;
    while tree.statistics().merges == 0 {
        assert_eq!(tree.current(seen.leaf), Some(seen));
        tree.delete(&key(2 * left)).unwrap();
        left -= 1;
    }
    assert_eq!(tree.statistics().leaves, 1);
    assert!(!tree.raise_and_check(seen, 1));
}

#[test]
fn scans_see_a_leaf_at_one_instant_append() {
    scans_see_a_leaf_at_one_instant::<Append>();
}

#[test]
fn scans_see_a_leaf_at_one_instant_in_place() {
    scans_see_a_leaf_at_one_instant::<InPlace>();
}

/// With small nodes, so that several levels are built; and the tree can be changed afterwards.
fn a_bulk_load_equals_insertion<V: Variant>() {
    for keys in [0, 1, 3, 4, 5, 12, 50, 51, 3_000] {
        for config in [BzConfig::tiny(), small()] {
            let tree = VariableBzTree::<V>::new(config);
            let shape = KeyShape::SharedPrefix;
            let mut sorted: Vec<_> = (0..keys).map(|n| (shape.key(n), n)).collect();
            sorted.sort();
            assert_eq!(tree.bulk_load(sorted.clone()), Ok(keys as usize));
            contract::sound(&tree);
            assert_eq!(contract::scan_all(&tree, ScanRange::all()), sorted);
            for n in keys..keys + 100 {
                tree.insert(&shape.key(n), n).unwrap();
            }
            for n in 0..keys + 100 {
                assert_eq!(tree.delete(&shape.key(n)), Ok(Some(n)));
            }
            let statistics = tree.statistics();
            assert_eq!((statistics.leaves, statistics.inner_nodes), (1, 0));
        }
    }
}

#[test]
fn a_bulk_load_equals_insertion_append() {
    a_bulk_load_equals_insertion::<Append>();
}

#[test]
fn a_bulk_load_equals_insertion_in_place() {
    a_bulk_load_equals_insertion::<InPlace>();
}

/// A load and an insertion at the same time: the load finds the tree empty, or changes nothing.
fn a_bulk_load_swallows_no_insertion<V: Variant>() {
    let mut loads = 0;
    for round in 0..300_u64 {
        let tree = FixedBzTree::<V>::new(BzConfig::tiny());
        let start = Barrier::new(2);
        let key = |n: u64| (2 * n).to_be_bytes();
        let loaded = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                for _ in 0..round {
                    std::hint::spin_loop();
                }
                assert_eq!(tree.write(&21_u64.to_be_bytes(), 7), Ok(None));
            });
            start.wait();
            tree.bulk_load((0..30).map(|n| (key(n), n)))
        });
        let all = contract::scan_all(&tree, ScanRange::all());
        let expected = match loaded {
            Ok(30) => 31,
            Err(IndexError::NotEmpty) => 1,
            other => panic!("{other:?}"),
        };
        loads += usize::from(loaded.is_ok());
        assert_eq!(all.len(), expected);
        assert_eq!(tree.get(&21_u64.to_be_bytes()), Ok(Lookup::Found(7)));
        contract::sound(&tree);
    }
    assert!(loads > 0);
}

#[test]
fn a_bulk_load_swallows_no_insertion_append() {
    a_bulk_load_swallows_no_insertion::<Append>();
}

#[test]
fn a_bulk_load_swallows_no_insertion_in_place() {
    a_bulk_load_swallows_no_insertion::<InPlace>();
}

fn churn_keeps_default_nodes_sound<V: Variant>() {
    let load = contract::Load {
        threads: 3,
        operations: 0,
        keys: 6_000,
        seed: 21,
    };
    let tree = VariableBzTree::<V>::default();
    contract::churn_keeps_the_tree_sound(&tree, KeyShape::SharedPrefix, load);
    let tree = FixedBzTree::<V>::default();
    contract::churn_keeps_the_tree_sound(&tree, KeyShape::Sparse, load);
}

#[test]
fn churn_keeps_default_nodes_sound_append() {
    churn_keeps_default_nodes_sound::<Append>();
}

#[test]
fn churn_keeps_default_nodes_sound_in_place() {
    churn_keeps_default_nodes_sound::<InPlace>();
}

/// Keys that come in ascending order leave full leaves behind.
#[test]
fn ascending_keys_fill_their_leaves() {
    let tree = FixedBzTree::<InPlace>::default();
    for n in 0..20_000_u64 {
        tree.insert(&n.to_be_bytes(), n).unwrap();
    }
    let statistics = tree.statistics();
    assert!(statistics.leaves < 20_000 / 58, "{statistics:?}");
}

/// A payload that is replaced in place takes no slot, and a key that comes and goes takes one.
#[test]
fn in_place_changes_of_one_key_replace_no_leaf() {
    let tree = FixedBzTree::<InPlace>::default();
    let key = [3; 8];
    for n in 0..1_000 {
        assert_eq!(tree.write(&key, n), Ok(None));
        assert_eq!(tree.write(&key, n + 1), Ok(Some(n)));
        assert_eq!(tree.delete(&key), Ok(Some(n + 1)));
    }
    let statistics = tree.statistics();
    assert_eq!((statistics.consolidations, statistics.leaf_deltas), (0, 1));
}
