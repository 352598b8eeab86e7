//! The Bw-tree under the contract suite. Small pages make structure changes happen all the time.
#![cfg(not(loom))]

use namiki_index::bwtree::{
    Both, BwConfig, BwTree, FixedBwTree, InChain, Plain, SplitHead, VariableBwTree,
};
use namiki_index::contract::{self, KeyShape};
use namiki_index::key::{Fixed8, Variable};
use namiki_index::{PointIndex, ordered_contract};
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

/// The whole contract for each variant.
macro_rules! variant {
    ($module:ident, $variant:ty) => {
        mod $module {
            use super::*;

            ordered_contract! {
                fixed: [
                    || BwTree::<Fixed8, $variant>::new(BwConfig::tiny()),
                    || BwTree::<Fixed8, $variant>::new(small()),
                ],
                variable: [
                    || BwTree::<Variable, $variant>::new(BwConfig::tiny()),
                    || BwTree::<Variable, $variant>::new(small()),
                ],
            }
        }
    };
}

variant!(plain, Plain);
variant!(in_chain, InChain);
variant!(split_head, SplitHead);
variant!(both, Both);

#[test]
fn matches_a_sorted_map_with_default_pages() {
    let tree = FixedBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
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
