//! Where trees that look out for ascending keys cut their full nodes.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namiki_index::PointIndex;
use namiki_index::blink::{BlinkConfig, FixedBlinkTree};
use namiki_index::bwtree::{BwConfig, FixedBwTree};
use namiki_platform::random::Random;

fn insert(tree: &impl PointIndex, key: u64) {
    tree.insert(&key.to_be_bytes(), key).unwrap();
}

fn fill_leaves<T: PointIndex + Default>() {
    for larger in [0, 1, 5, 30, 63] {
        let tree = T::default();
        (0..larger).for_each(|i| insert(&tree, u64::MAX - i));
        (0..10_000).for_each(|i| insert(&tree, i));
        let statistics = tree.statistics();
        assert!(statistics.leaves < 200, "{larger}: {statistics:?}");
    }
}

/// Also below larger ones, as where two threads load a range each: the seam lies within a node.
#[test]
fn ascending_keys_fill_their_leaves() {
    fill_leaves::<FixedBwTree>();
    fill_leaves::<FixedBlinkTree>();
}

fn fill_inner_nodes(tree: &impl PointIndex) {
    (0..100).for_each(|i| insert(tree, u64::MAX - i));
    (0..20_000).for_each(|i| insert(tree, i));
    let statistics = tree.statistics();
    assert!(
        statistics.inner_nodes < statistics.leaves / 10,
        "{statistics:?}"
    );
}

/// And in the nodes above them, where each key is a leaf that was split.
#[test]
fn ascending_keys_fill_their_inner_nodes_below_larger_ones() {
    fill_inner_nodes(&FixedBwTree::new(BwConfig {
        leaf_max: 8,
        inner_max: 16,
        ..BwConfig::default()
    }));
    fill_inner_nodes(&FixedBlinkTree::new(BlinkConfig {
        leaf_max: 8,
        inner_max: 16,
        ..BlinkConfig::default()
    }));
}

fn cut_in_the_middle<T: PointIndex + Default>() {
    // Records a leaf: about ln 2 of its room. Long runs are more like an ascent.
    for (run, least) in [(1, 42.0), (2, 42.0), (5, 39.0)] {
        let tree = T::default();
        let mut random = Random::seeded(8);
        for _ in 0..100_000 / run {
            let first = random.next_u64() >> 1;
            (first..first + run).for_each(|key| insert(&tree, key));
            if run == 1 {
                // An update adds no key, although it is the neighbour of the next one that comes.
                for key in [first, first - 1, first] {
                    tree.write(&key.to_be_bytes(), 0).unwrap();
                }
                insert(&tree, first + 1);
            }
        }
        let statistics = tree.statistics();
        let per_leaf = statistics.records as f64 / statistics.leaves as f64;
        assert!(per_leaf > least, "{run}: {per_leaf} {statistics:?}");
    }
}

/// Short runs at random places are no ascent: a cut behind them would be anywhere.
#[test]
fn leaves_are_cut_in_the_middle_where_short_runs_come_in_no_order() {
    cut_in_the_middle::<FixedBwTree>();
    cut_in_the_middle::<FixedBlinkTree>();
}
