//! The positions at which trees that detect ascending keys cut their full nodes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namiki_index::PointIndex;
use namiki_platform::seeded_random::Random;
use namiki_trees::blink::{BlinkConfig, FixedBlinkTree};
use namiki_trees::bwtree::{BwConfig, FixedBwTree};

fn insert(tree: &impl PointIndex, key: u64) {
    tree.insert(&key.to_be_bytes(), key).unwrap();
}

fn fill_leaves<T: PointIndex + Default>(leaf_max: usize) {
    let leaf_max = leaf_max as u64;
    for larger in [0, 1, 5, 30, leaf_max - 1] {
        let tree = T::default();
        (0..larger).for_each(|i| insert(&tree, u64::MAX - i));
        (0..10_000).for_each(|i| insert(&tree, i));
        let statistics = tree.statistics();
        let least = 10_000 / leaf_max;
        assert!(
            statistics.leaves < least * 4 / 3,
            "{larger}: {statistics:?}"
        );
    }
}

/// Also below larger keys, as when two threads load a range each: the seam lies within a node.
#[test]
fn ascending_keys_fill_their_leaves() {
    fill_leaves::<FixedBwTree>(BwConfig::default().leaf_max);
    fill_leaves::<FixedBlinkTree>(BlinkConfig::default().leaf_max);
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

fn cut_in_the_middle<T: PointIndex + Default>(leaf_max: usize) {
    // Fill factor of a leaf: about ln 2. Long runs are more like an ascent.
    for (run, least) in [(1, 0.656), (2, 0.656), (5, 0.608)] {
        let tree = T::default();
        let mut random = Random::seeded(8);
        for _ in 0..100_000 / run {
            let first = random.next_u64() >> 1;
            (first..first + run).for_each(|key| insert(&tree, key));
            if run == 1 {
                // An update adds no key, although it is the neighbour of the next insert.
                for key in [first, first - 1, first] {
                    tree.write(&key.to_be_bytes(), 0).unwrap();
                }
                insert(&tree, first + 1);
            }
        }
        let statistics = tree.statistics();
        let full = statistics.records as f64 / (statistics.leaves * leaf_max as u64) as f64;
        assert!(full > least, "{run}: {full} {statistics:?}");
    }
}

/// Short runs at random places are no ascent: cuts behind them would be at random places.
#[test]
fn unordered_short_runs_cut_leaves_in_the_middle() {
    cut_in_the_middle::<FixedBwTree>(BwConfig::default().leaf_max);
    cut_in_the_middle::<FixedBlinkTree>(BlinkConfig::default().leaf_max);
}
