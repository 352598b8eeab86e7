//! The Masstree under the contract suite, and what is special to it: layers.
#![cfg(not(loom))]

use namiki_index::contract::{self, KeyShape};
use namiki_index::masstree::{FixedMasstree, MasstreeConfig, VariableMasstree};
use namiki_index::{PointIndex, ordered_contract};

fn small() -> MasstreeConfig {
    MasstreeConfig {
        leaf_max: 5,
        inner_max: 7,
        load_percent: 70,
    }
}

ordered_contract! {
    fixed: [
        || FixedMasstree::new(MasstreeConfig::tiny()),
        || FixedMasstree::new(small()),
    ],
    variable: [
        || VariableMasstree::new(MasstreeConfig::tiny()),
    ],
}

#[test]
fn matches_a_sorted_map_with_default_nodes() {
    let tree = FixedMasstree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableMasstree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}
