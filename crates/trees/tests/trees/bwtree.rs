//! The Bw-tree under the contract suite. Small pages make structure changes happen all the time.

use namiki_index::contract::{self, KeyShape};
use namiki_index::key::{Fixed8, Variable};
use namiki_index::{Lookup, PointIndex, ordered_contract};
use namiki_trees::bwtree::{
    Both, BwConfig, BwTree, FixedBwTree, InChain, OpenBw, Paper, PaperInChain, PaperSplitHead,
    Plain, SplitHead, VariableBwTree,
};

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
variant!(open_bw, OpenBw);
variant!(paper, Paper);
variant!(paper_in_chain, PaperInChain);
variant!(paper_split_head, PaperSplitHead);

#[test]
fn matches_a_sorted_map_with_default_pages() {
    let tree = FixedBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBwTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}

#[test]
fn slabs_of_default_pages_match_a_sorted_map() {
    let tree = BwTree::<Fixed8, OpenBw>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 9);
    assert_eq!(tree.statistics().height, 1);
    let tree = BwTree::<Variable, OpenBw>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 10);
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

#[test]
fn any_payload_is_allowed() {
    let tree = FixedBwTree::default();
    for payload in [0, 1, u64::MAX, 1 << 63] {
        tree.write(&[0; 8], payload).unwrap();
        assert_eq!(tree.get(&[0; 8]), Ok(Lookup::Found(payload)));
    }
}
