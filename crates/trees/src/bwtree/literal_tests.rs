//! Tests of the paper's own tree: consolidation by readers and writers, how long a split delta stays, and
//! the node stack.
//!
//! Paper: bwtree §4.1.1, figure 6; §4.2.1, §4.2.2

use crossbeam_epoch as epoch;
use namiki_index::contract::sound;
use namiki_index::key::Fixed8;
use namiki_index::{Lookup, OrderedIndex, PointIndex};

use super::descend::{At, Place};
use super::node::{Kind, OwnedNode};
use super::node_stack::Stack;
use super::structure_change_types::Resize;
use super::{BwConfig, BwTree, Paper, PaperInChain, PaperSplitHead, Variant};

const N: u8 = 4;

/// The keys 0, 1, 2, … in full leaves of eight, below inner pages of four.
fn tree<V: Variant>(keys: u64) -> BwTree<Fixed8, V> {
    let tree = BwTree::new(BwConfig {
        leaf_max: 8,
        inner_max: 4,
        leaf_chain_max: N,
        inner_chain_max: N,
        load_percent: 100,
    });
    let sorted = (0..keys).map(|n| (n.to_be_bytes(), n));
    assert_eq!(tree.bulk_load(sorted), Ok(keys as usize));
    tree
}

/// Puts deltas about these keys on their leaf as writers that are suspended before they consolidate.
fn push<V: Variant>(tree: &BwTree<Fixed8, V>, keys: impl Iterator<Item = u64>) {
    let guard = &epoch::pin();
    for key in keys {
        let place = tree.leaf(At(key), guard);
        let delta = OwnedNode::record(Kind::Put, key, key, place.head);
        assert!(tree.mapping.push(place.id, place.head, delta).is_ok());
    }
}

fn head_of<V: Variant>(tree: &BwTree<Fixed8, V>, key: u64) -> (Kind, u8) {
    let guard = &epoch::pin();
    let head = tree.leaf(At(key), guard).head;
    (head.kind(), head.depth())
}

/// A state found by a walk is that of the chain's newest delta, over merged pages too.
fn lengths_and_fences_are_found_below<V: Variant>() {
    let tree = tree::<V>(24);
    let guard = &epoch::pin();
    let page = tree.leaf(At(8), guard);
    let (fence, right) = (page.head.high(), page.head.right());
    assert_eq!((page.head.len(), fence), (8, Some(16)));
    assert_eq!(tree.delete(&9_u64.to_be_bytes()), Ok(Some(9)));
    tree.update(&10_u64.to_be_bytes(), 1).unwrap();
    let changed = tree.leaf(At(8), guard).head;
    assert_eq!((changed.kind(), changed.len()), (Kind::Put, 7));
    assert_eq!((changed.high(), changed.right()), (fence, right));
    // The right leaf goes into it.
    for key in 16..24_u64 {
        assert!(tree.delete(&key.to_be_bytes()).is_ok());
    }
    assert_eq!(tree.leaf(At(8), guard).head.high(), None);
    assert_eq!(tree.len(), 15);
    sound(&tree);
}

#[test]
fn lengths_and_fences_are_found_below_the_head() {
    lengths_and_fences_are_found_below::<Paper>();
    lengths_and_fences_are_found_below::<PaperInChain>();
    lengths_and_fences_are_found_below::<PaperSplitHead>();
}

/// Paper: bwtree §4.2.1
#[test]
fn every_visitor_past_the_threshold_consolidates() {
    let tree = tree::<Paper>(24);
    push(&tree, [8, 9, 10].into_iter());
    let look = |key: u64| assert_eq!(tree.get(&key.to_be_bytes()), Ok(Lookup::Found(key)));
    look(15);
    assert_eq!(head_of(&tree, 8), (Kind::Put, N - 1));
    push(&tree, [11].into_iter());
    assert_eq!(head_of(&tree, 8), (Kind::Put, N));
    look(15);
    assert_eq!(head_of(&tree, 8), (Kind::Base, 0));
}

/// Under proposal (a), only the writer of the delta with the number consolidates.
#[test]
fn readers_consolidate_nothing_under_proposal_a() {
    let tree = tree::<PaperInChain>(24);
    push(&tree, 8..8 + u64::from(N));
    for key in 8..16_u64 {
        assert_eq!(tree.get(&key.to_be_bytes()), Ok(Lookup::Found(key)));
    }
    assert_eq!(head_of(&tree, 8), (Kind::Put, N));
    assert_eq!(tree.statistics().consolidations, 1, "the load's");
}

/// Paper: bwtree §4.2.2
fn a_split_delta_stays<V: Variant>() {
    let tree = tree::<V>(8);
    push(&tree, [0].into_iter());
    let guard = &epoch::pin();
    assert!(tree.insert(&8_u64.to_be_bytes(), 8).is_ok());
    assert_eq!(tree.statistics().splits, 1);
    let left = tree.leaf(At(0), guard);
    let split = left.head.smo().expect("the split delta");
    assert_eq!(split.kind(), Kind::Split);
    let parent = tree.descend(1, At(0), guard).unwrap();
    assert_eq!(parent.head.route(At(split.key())).low, split.key());
    tree.consolidate(left, Resize::Never, guard);
    assert!(tree.leaf(At(0), guard).head.smo().is_none());
    sound(&tree);
}

#[test]
fn a_split_delta_stays_until_it_is_consolidated() {
    a_split_delta_stays::<Paper>();
    a_split_delta_stays::<PaperInChain>();
    a_split_delta_stays::<PaperSplitHead>();
}

/// Without a walk down the chain for its length. Paper: bwtree §4.2.2
#[test]
fn a_blind_writer_splits_where_it_consolidates() {
    let put = |tree: &BwTree<Fixed8, Paper>, key: u64| tree.put(&key.to_be_bytes(), key).unwrap();
    let splits = |tree: &BwTree<Fixed8, Paper>| tree.statistics().splits;
    let by_consolidation = tree::<Paper>(8);
    for key in 8..12_u64 {
        assert_eq!(splits(&by_consolidation), 0);
        put(&by_consolidation, key);
    }
    assert_eq!(splits(&by_consolidation), 1);
    sound(&by_consolidation);
    // A reader consolidates first, and does not split.
    let after_reader = tree::<Paper>(8);
    for key in 8..11_u64 {
        put(&after_reader, key);
    }
    push(&after_reader, [0].into_iter());
    assert_eq!(after_reader.get(&[0; 8]), Ok(Lookup::Found(0)));
    assert_eq!(head_of(&after_reader, 0), (Kind::Base, 0));
    assert_eq!(splits(&after_reader), 0);
    put(&after_reader, 11);
    assert_eq!(splits(&after_reader), 1);
    sound(&after_reader);
}

/// Trap "stale parent stack". Paper: bwtree §4.1.1, figure 6
#[test]
fn a_stack_leads_to_the_parent_after_its_split() {
    let tree = tree::<Paper>(8 * 4 * 4);
    let guard = &epoch::pin();
    let parent = |at: u64| tree.descend(1, At(at), guard).unwrap();
    let last = parent(127).id;
    let leaf = tree.leaf(At(127), guard);
    assert_eq!(leaf.stack.page(1), Some(last));
    assert_eq!(leaf.stack.page(2), Some(tree.root.load().page));
    assert_eq!(leaf.stack.page(3), None);
    // The parent is split, and no search from the root is needed to find its right half.
    for key in 128..180_u64 {
        assert!(tree.insert(&key.to_be_bytes(), key).is_ok());
    }
    let half = parent(127);
    assert_ne!(parent(179).id, half.id);
    let found = tree.descend_along(leaf.stack, 1, At(179), guard).unwrap();
    assert_eq!(found.id, parent(179).id);
    // Its pages are removed: the search restarts from the root.
    for key in 0..180_u64 {
        assert!(tree.delete(&key.to_be_bytes()).is_ok());
    }
    assert!(tree.descend_along(leaf.stack, 1, At(179), guard).is_none());
    let place = tree.leaf(At(179), guard);
    tree.consolidate(
        Place {
            stack: leaf.stack,
            ..place
        },
        Resize::SplitOrMerge,
        guard,
    );
    assert_eq!(tree.len(), 0);
    sound(&tree);
}

/// Figure 20: a search goes no further down than to the delta about its key.
#[test]
fn a_search_ends_at_the_delta_about_its_key() {
    let tree = tree::<PaperSplitHead>(24);
    push(&tree, [9, 10].into_iter());
    let guard = &epoch::pin();
    let head = tree.leaf(At(8), guard).head;
    let walked = |key| {
        let (node, visits) = head.walk_to_fence(At(key));
        (node.map(|node| node.kind()), visits)
    };
    assert_eq!((walked(10), walked(9)), ((None, 1), (None, 2)));
    assert_eq!(walked(11), (Some(Kind::Base), 2));
    assert!(!head.is_left_of(At(10)) && !head.is_left_of(At(11)) && head.is_left_of(At(16)));
}

/// Paper: bwtree §5.4
#[test]
fn searches_count_the_deltas_that_they_visit() {
    let tree = tree::<Paper>(24);
    let visits = || tree.statistics().delta_visits;
    push(&tree, [9, 10].into_iter());
    let before = visits();
    for key in [8_u64, 9, 10] {
        assert_eq!(tree.get(&key.to_be_bytes()), Ok(Lookup::Found(key)));
    }
    assert_eq!(visits() - before, 3 * 2);
    assert_eq!(tree.get(&16_u64.to_be_bytes()), Ok(Lookup::Found(16)));
    assert_eq!(visits() - before, 3 * 2, "its leaf has no deltas");
}
