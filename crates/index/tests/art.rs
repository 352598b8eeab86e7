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

/// Keys of 64 KiB that part early, late, and where others end: ways down are long, and no walk recurses.
#[test]
fn long_keys_that_share_long_prefixes_make_deep_trees() {
    let tree = VariableArtTree::new(ArtConfig::tiny());
    let key = |n: usize| {
        let mut key = vec![b'x'; 1 << 16];
        // Each group leaves the shared prefix one kilobyte after the one before.
        key[(n / 8) * 1024] = b'a' + (n % 8) as u8;
        key.truncate(if n.is_multiple_of(3) {
            (n / 8) * 1024 + 1
        } else {
            1 << 16
        });
        key
    };
    for n in 0..400 {
        assert_eq!(tree.write(&key(n), n as u64), Ok(None), "{n}");
    }
    let statistics = tree.statistics();
    assert!(statistics.height > 40, "{statistics:?}");
    contract::sound(&tree);
    for n in 0..400 {
        assert_eq!(tree.delete(&key(n)), Ok(Some(n as u64)), "{n}");
    }
    let statistics = tree.statistics();
    assert_eq!((statistics.leaves, statistics.inner_nodes), (1, 0));
}
