//! The Bw-tree under the contract suite. Small pages make structure changes happen all the time.
#![cfg(not(loom))]

use namiki_index::PointIndex;
use namiki_index::bwtree::{BwConfig, BwTree, FixedBwTree, VariableBwTree};
use namiki_index::contract::{self, KeyShape, Load};
use namiki_index::key::Key;
use namiki_platform::random::Random;

fn small() -> BwConfig {
    BwConfig {
        leaf_max: 8,
        inner_max: 6,
        leaf_chain_max: 4,
        inner_chain_max: 3,
        load_percent: 70,
    }
}

/// Runs a test for every kind of key and the shapes that go with it, with two page sizes.
fn for_each_tree(test: impl Fn(Case)) {
    for config in [BwConfig::tiny(), small()] {
        for shape in KeyShape::FIXED {
            test(Case::Fixed(FixedBwTree::new(config), *shape));
        }
        for shape in KeyShape::VARIABLE {
            test(Case::Variable(VariableBwTree::new(config), *shape));
        }
    }
}

enum Case {
    Fixed(FixedBwTree, KeyShape),
    Variable(VariableBwTree, KeyShape),
}

/// Calls a generic contract function with the tree of a case.
macro_rules! with {
    ($case:expr, $tree:ident, $shape:ident => $body:expr) => {
        match $case {
            Case::Fixed($tree, $shape) => $body,
            Case::Variable($tree, $shape) => $body,
        }
    };
}

/// An emptied tree is one leaf again.
fn collapsed<K: Key>(tree: &BwTree<K>) {
    let statistics = tree.statistics();
    assert_eq!(
        (statistics.leaves, statistics.inner_nodes),
        (1, 0),
        "{statistics:?}"
    );
}

#[test]
fn matches_a_sorted_map() {
    for seed in 0..4 {
        for_each_tree(|case| {
            with!(case, tree, shape => {
                let huge = shape == KeyShape::Huge;
                let (keys, steps) = if huge { (60, 2_000) } else { (400, 8_000) };
                contract::matches_a_sorted_map(&tree, shape, keys, steps, seed);
                collapsed(&tree);
            });
        });
    }
}

#[test]
fn matches_a_sorted_map_with_default_pages() {
    let tree = FixedBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    collapsed(&tree);
    let tree = VariableBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    collapsed(&tree);
}

#[test]
fn updates_and_consolidations_keep_the_version() {
    for_each_tree(|case| {
        with!(case, tree, shape =>
            contract::updates_and_consolidations_keep_the_version(&tree, shape));
    });
}

#[test]
fn deletes_and_inserts_change_the_version() {
    for_each_tree(|case| {
        with!(case, tree, shape => if shape != KeyShape::Huge {
            contract::deletes_and_inserts_change_the_version(&tree, shape, 11);
        });
    });
}

#[test]
fn inserts_report_versions_and_splits() {
    for_each_tree(|case| {
        with!(case, tree, shape => if shape != KeyShape::Huge {
            contract::inserts_report_versions_and_splits(&tree, shape, 12);
        });
    });
}

#[test]
fn no_insert_slips_past_a_successful_check() {
    contract::no_insert_slips_past_a_successful_check(
        || FixedBwTree::new(BwConfig::tiny()),
        KeyShape::Dense,
        400,
        13,
    );
}

/// Few keys on few leaves; more keys than a leaf has; few keys among many that come and go.
#[test]
fn point_operations_are_linearizable() {
    for (keys, apart) in [(3, 1), (60, 1), (1_500, 300)] {
        for_each_tree(|case| {
            let load = Load {
                threads: 4,
                operations: 3_000,
                keys,
                seed: 14,
            };
            with!(case, tree, shape => if shape != KeyShape::Huge {
                contract::point_operations_are_linearizable(&tree, shape, load, apart);
            });
        });
    }
}

#[test]
fn scans_and_point_operations_are_linearizable() {
    for (keys, apart) in [(12, 1), (400, 40)] {
        for_each_tree(|case| {
            let load = Load {
                threads: 4,
                operations: 3_000,
                keys,
                seed: 17,
            };
            with!(case, tree, shape => if shape != KeyShape::Huge {
                contract::scans_and_point_operations_are_linearizable(&tree, shape, load, apart);
            });
        });
    }
}

#[test]
fn scans_never_miss_or_double_a_key_that_stays() {
    for_each_tree(|case| {
        let load = Load {
            threads: 3,
            operations: 8_000,
            keys: 1_000,
            seed: 15,
        };
        with!(case, tree, shape => if shape != KeyShape::Huge {
            contract::scans_never_miss_or_double_a_key_that_stays(&tree, shape, load);
        });
    });
}

#[test]
fn gets_never_miss_a_key_that_stays() {
    for_each_tree(|case| {
        let load = Load {
            threads: 3,
            operations: 8_000,
            keys: 400,
            seed: 18,
        };
        with!(case, tree, shape => if shape != KeyShape::Huge {
            contract::gets_never_miss_a_key_that_stays(&tree, shape, load);
        });
    });
}

#[test]
fn churn_keeps_the_tree_sound() {
    for_each_tree(|case| {
        let load = Load {
            threads: 4,
            operations: 0,
            keys: 2_000,
            seed: 16,
        };
        with!(case, tree, shape => if shape != KeyShape::Huge {
            contract::churn_keeps_the_tree_sound(&tree, shape, load);
        });
    });
}

/// Readers shorten chains as they pass, which must not keep full pages from being split.
#[test]
fn pages_split_however_many_readers_pass() {
    let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for reads in [0, 20] {
        let tree = FixedBwTree::default();
        for i in 0..20_000_u64 {
            tree.insert(&spread(i), i).unwrap();
            for read in 0..reads {
                tree.get(&spread(i * (read + 1) / reads)).unwrap();
            }
        }
        let statistics = tree.statistics();
        assert!(statistics.leaves > 20_000 / 65, "{statistics:?}");
    }
    let tree = FixedBwTree::default();
    for i in 0..100_000_u64 {
        tree.insert(&i.to_be_bytes(), i).unwrap();
    }
    let statistics = tree.statistics();
    assert!(
        statistics.inner_nodes > statistics.leaves / 257,
        "{statistics:?}"
    );
}

/// Also below larger ones, as where two threads load a range each: the seam lies within a page.
#[test]
fn ascending_keys_fill_their_leaves() {
    for larger in [0, 1, 5, 30, 63] {
        let tree = FixedBwTree::default();
        for i in 0..larger {
            tree.insert(&(u64::MAX - i).to_be_bytes(), i).unwrap();
        }
        for i in 0..10_000_u64 {
            tree.insert(&i.to_be_bytes(), i).unwrap();
        }
        let statistics = tree.statistics();
        assert!(statistics.leaves < 200, "{larger}: {statistics:?}");
    }
}

/// And in the pages above them, where each key is a leaf that was split.
#[test]
fn ascending_keys_fill_their_inner_pages_below_larger_ones() {
    let tree = FixedBwTree::new(BwConfig {
        leaf_max: 8,
        inner_max: 16,
        ..BwConfig::default()
    });
    for i in 0..100 {
        tree.insert(&(u64::MAX - i).to_be_bytes(), i).unwrap();
    }
    for i in 0..20_000_u64 {
        tree.insert(&i.to_be_bytes(), i).unwrap();
    }
    let statistics = tree.statistics();
    assert!(
        statistics.inner_nodes < statistics.leaves / 10,
        "{statistics:?}"
    );
}

/// Short runs at random places are no ascent: a cut behind them would be anywhere.
#[test]
fn leaves_are_cut_in_the_middle_where_short_runs_come_in_no_order() {
    // Records a leaf: about ln 2 of its room. Long runs are more like an ascent.
    for (run, least) in [(1, 42.0), (2, 42.0), (5, 39.0)] {
        let tree = FixedBwTree::default();
        let mut random = Random::seeded(8);
        for _ in 0..100_000 / run {
            let first = random.next_u64() >> 1;
            for key in first..first + run {
                tree.insert(&key.to_be_bytes(), key).unwrap();
            }
            if run == 1 {
                // An update adds no key, although it is the neighbour of the next one that comes.
                tree.write(&first.to_be_bytes(), 0).unwrap();
                tree.write(&(first - 1).to_be_bytes(), 0).unwrap();
                tree.write(&first.to_be_bytes(), 0).unwrap();
                tree.insert(&(first + 1).to_be_bytes(), 0).unwrap();
            }
        }
        let statistics = tree.statistics();
        let per_leaf = statistics.records as f64 / statistics.leaves as f64;
        assert!(per_leaf > least, "{run}: {per_leaf} {statistics:?}");
    }
}
