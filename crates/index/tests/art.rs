//! The adaptive radix tree under the contract suite. Small leaves make structure changes happen all the
//! time.
#![cfg(not(loom))]

use namiki_index::art::{ArtConfig, FixedArtTree, VariableArtTree};
use namiki_index::contract::{self, KeyShape};
use namiki_index::{PointIndex, ordered_contract};

fn small() -> ArtConfig {
    ArtConfig { leaf_max: 9 }
}

ordered_contract! {
    fixed: [
        || FixedArtTree::new(ArtConfig::tiny()),
        || FixedArtTree::new(small()),
    ],
    variable: [
        || VariableArtTree::new(ArtConfig::tiny()),
        || VariableArtTree::new(small()),
    ],
}

#[test]
fn matches_a_sorted_map_with_default_leaves() {
    let tree = FixedArtTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableArtTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}
