//! Every tree that a table can have: bulk loads, keys, names, memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bulk_loads;
mod hybrid_index;
mod keys;
mod memory;
mod name_parsing;

use namiki::index::{KeyKind, Tree, TreeKind};
use namiki_index::art::ArtConfig;
use namiki_index::contract::KeyShape;
#[cfg(feature = "all-indexes")]
use namiki_trees::{
    bwtree::BwConfig,
    masstree::{FixedMasstree, MasstreeConfig, VariableMasstree},
};

/// Every tree with its default sizes, and those with configurable sizes with the smallest.
pub(crate) fn trees() -> Vec<(Tree, KeyShape)> {
    let mut trees = vec![
        (
            Tree::art(KeyKind::Fixed8, ArtConfig::tiny()),
            KeyShape::Dense,
        ),
        (
            Tree::art(KeyKind::Variable, ArtConfig::tiny()),
            KeyShape::Nested,
        ),
    ];
    #[cfg(feature = "all-indexes")]
    trees.extend([
        (
            Tree::bwtree(KeyKind::Fixed8, BwConfig::tiny()),
            KeyShape::Dense,
        ),
        (
            Tree::bwtree(KeyKind::Variable, BwConfig::tiny()),
            KeyShape::SharedPrefix,
        ),
        (
            Tree::MasstreeFixed8(FixedMasstree::new(MasstreeConfig::tiny())),
            KeyShape::Dense,
        ),
        (
            Tree::MasstreeVariable(VariableMasstree::new(MasstreeConfig::tiny())),
            KeyShape::SharedPrefix,
        ),
    ]);
    for kind in TreeKind::in_build() {
        trees.push((new(kind, KeyKind::Fixed8), KeyShape::Sparse));
        trees.push((new(kind, KeyKind::Variable), KeyShape::Nested));
    }
    trees
}

/// A tree with its default sizes.
pub(crate) fn new(kind: TreeKind, keys: KeyKind) -> Tree {
    Tree::new(kind, keys).unwrap()
}
