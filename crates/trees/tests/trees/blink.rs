//! The B-link tree under the contract suite. Small nodes make structure changes happen all the time.

use namiki_index::contract::{self, KeyShape};
use namiki_index::{PointIndex, ordered_contract};
use namiki_trees::blink::{BlinkConfig, FixedBlinkTree, VariableBlinkTree};

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
