//! The B-link tree under the contract suite. Small nodes make structure changes happen all the time.
#![cfg(not(loom))]

use namiki_index::blink::{BlinkConfig, FixedBlinkTree, VariableBlinkTree};
use namiki_index::contract::{self, KeyShape};
use namiki_index::{PointIndex, ordered_contract};
use namiki_platform::random::Random;

fn small() -> BlinkConfig {
    BlinkConfig {
        leaf_max: 8,
        inner_max: 6,
        load_percent: 70,
    }
}

ordered_contract! {
    fixed: [
        || FixedBlinkTree::new(BlinkConfig::tiny()),
        || FixedBlinkTree::new(small()),
    ],
    variable: [
        || VariableBlinkTree::new(BlinkConfig::tiny()),
        || VariableBlinkTree::new(small()),
    ],
}

#[test]
fn matches_a_sorted_map_with_default_nodes() {
    let tree = FixedBlinkTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBlinkTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBlinkTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::SharedPrefix, 20_000, 100_000, 9);
    assert_eq!(tree.statistics().height, 1);
}

/// Also below larger ones, as where two threads load a range each: the seam lies within a node.
#[test]
fn ascending_keys_fill_their_leaves() {
    for larger in [0, 1, 5, 30, 63] {
        let tree = FixedBlinkTree::default();
        for i in 0..larger {
            tree.insert(&(u64::MAX - i).to_be_bytes(), i).unwrap();
        }
        for i in 0..10_000_u64 {
            tree.insert(&i.to_be_bytes(), i).unwrap();
        }
        let statistics = tree.statistics();
        assert!(statistics.leaves < 170, "{larger}: {statistics:?}");
    }
}

/// And in the nodes above them, where each key is a leaf that was split.
#[test]
fn ascending_keys_fill_their_inner_nodes_below_larger_ones() {
    let tree = FixedBlinkTree::new(BlinkConfig {
        leaf_max: 8,
        inner_max: 16,
        ..BlinkConfig::default()
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
        let tree = FixedBlinkTree::default();
        let mut random = Random::seeded(8);
        for _ in 0..100_000 / run {
            let first = random.next_u64() >> 1;
            for key in first..first + run {
                tree.insert(&key.to_be_bytes(), key).unwrap();
            }
        }
        let statistics = tree.statistics();
        let per_leaf = statistics.records as f64 / statistics.leaves as f64;
        assert!(per_leaf > least, "{run}: {per_leaf} {statistics:?}");
    }
}
