//! Loom models of whole trees of the smallest sizes, in every variant with a protocol of its own: a
//! thread that changes the structure, concurrent with one that reads or writes. The models explore
//! helpers of a half-done change by interrupting the thread that makes it (`loom_two_threads.rs`).
//!
//! Hints and the bits that are advice only are not loom's (`base/child_prefetch_hint.rs`), and nothing is freed
//! before the end of a run (`defer.rs`).

use crossbeam_epoch as epoch;
use namiki_index::PointIndex;
use namiki_index::key::Fixed8;
use namiki_index::loom_contract::{
    a_reader_finds_its_keys_while_their_leaf_is_merged,
    a_reader_finds_its_keys_while_their_leaf_is_split, an_insert_outlives_a_merge,
    an_insert_outlives_a_split, inserts_notice_readers_of_a_merged_leaf,
    inserts_notice_readers_of_a_split_leaf, no_update_is_lost_while_its_leaf_is_split,
    two_splits_below_one_parent_are_both_made,
};
use namiki_index::loom_two_threads::{
    beside, both_ways, delete, has, insert, is_gone, is_there, is_updated, loaded, payload_of,
    update,
};

use super::consolidate::collect;
use super::descend::At;
use super::structure_change_types::Resize;
use super::{Both, BwConfig, BwTree, InChain, OpenBw, Plain, SplitHead, Variant};

type Tree<V> = BwTree<Fixed8, V>;

/// Leaves of two records at most, and consolidation at the second delta. Keys are in full leaves without
/// deltas.
fn tree<V: Variant>(keys: &[u64]) -> Tree<V> {
    tree_with_chains(2, keys)
}

/// The same, with consolidation of a leaf at `leaf_chain_max` deltas.
fn tree_with_chains<V: Variant>(leaf_chain_max: u8, keys: &[u64]) -> Tree<V> {
    let empty = Tree::new(BwConfig {
        leaf_max: 2,
        inner_max: 4,
        leaf_chain_max,
        inner_chain_max: 2,
        load_percent: 100,
    });
    loaded(empty, keys)
}

/// Asserts the numbers of leaves and inner nodes.
fn has_nodes<V: Variant>(tree: &Tree<V>, leaves: u64, inner_nodes: u64) {
    let statistics = tree.statistics();
    let nodes = (statistics.leaves, statistics.inner_nodes);
    assert_eq!(nodes, (leaves, inner_nodes), "{statistics:?}");
}

/// Puts a delta on the leaf of a key.
fn touch<V: Variant>(tree: &Tree<V>, key: u64) {
    let old = tree.update(&key.to_be_bytes(), payload_of(key));
    assert_eq!(old, Ok(Some(payload_of(key))));
}

/// The second delta triggers consolidation: by a swap of the head, or below itself.
fn a_reader_finds_its_key_while_its_leaf_is_consolidated<V: Variant>() {
    let make = || {
        let tree = tree::<V>(&[1, 2]);
        touch(&tree, 1);
        tree
    };
    beside(
        2,
        make,
        |tree| update(tree, 2),
        |tree| {
            is_there(tree, 1);
            is_gone(tree, 3);
        },
        |tree| {
            is_updated(tree, 2);
            // One is the load's.
            assert_eq!(tree.statistics().consolidations, 2);
        },
    );
}

#[test]
fn a_reader_finds_its_key_during_consolidation_in_each_variant() {
    a_reader_finds_its_key_while_its_leaf_is_consolidated::<Plain>();
    a_reader_finds_its_key_while_its_leaf_is_consolidated::<InChain>();
    a_reader_finds_its_key_while_its_leaf_is_consolidated::<OpenBw>();
}

/// Both threads consolidate, and each may include the other's write.
fn no_write_to_a_page_is_lost<V: Variant>() {
    let make = || {
        let tree = tree::<V>(&[1]);
        touch(&tree, 1);
        tree
    };
    beside(
        2,
        make,
        |tree| insert(tree, 2),
        |tree| update(tree, 1),
        |tree| {
            is_updated(tree, 1);
            is_there(tree, 2);
            assert_eq!(tree.len(), 2);
        },
    );
}

#[test]
fn no_write_to_a_page_is_lost_in_each_variant() {
    no_write_to_a_page_is_lost::<Plain>();
    no_write_to_a_page_is_lost::<InChain>();
    no_write_to_a_page_is_lost::<OpenBw>();
}

/// Both threads find the key absent at first, and one of them finds it present afterwards.
#[test]
fn a_key_is_inserted_once() {
    let once = |tree: &Tree<Plain>| {
        let inserted = tree.insert(&2_u64.to_be_bytes(), payload_of(2));
        assert!(inserted.is_ok());
    };
    beside(2, || tree(&[1]), once, once, |tree| has(tree, &[1, 2]));
}

/// Three full leaves below a root.
fn three_leaves<V: Variant>() -> Tree<V> {
    let tree = tree(&[10, 11, 20, 21, 30, 31]);
    has_nodes(&tree, 3, 1);
    tree
}

#[test]
fn an_insert_outlives_a_split_in_each_variant() {
    an_insert_outlives_a_split(three_leaves::<Plain>);
    an_insert_outlives_a_split(three_leaves::<SplitHead>);
    an_insert_outlives_a_split(three_leaves::<Both>);
    an_insert_outlives_a_split(three_leaves::<OpenBw>);
}

#[test]
fn two_splits_below_one_parent_are_both_made_plain() {
    two_splits_below_one_parent_are_both_made(three_leaves::<Plain>);
}

#[test]
fn no_update_is_lost_in_a_split_in_each_variant() {
    no_update_is_lost_while_its_leaf_is_split(three_leaves::<Plain>);
    no_update_is_lost_while_its_leaf_is_split(three_leaves::<SplitHead>);
    no_update_is_lost_while_its_leaf_is_split(three_leaves::<Both>);
}

#[test]
fn a_reader_finds_its_keys_in_a_split_each_variant() {
    a_reader_finds_its_keys_while_their_leaf_is_split(three_leaves::<Plain>);
    a_reader_finds_its_keys_while_their_leaf_is_split(three_leaves::<SplitHead>);
}

/// A tree of one leaf gains a level while another key is inserted into either half.
fn an_insert_outlives_the_growth_of_the_tree<V: Variant>() {
    both_ways(
        || tree::<V>(&[10, 20]),
        |tree| insert(tree, 30),
        |tree| insert(tree, 5),
        |tree| {
            has(tree, &[5, 10, 20, 30]);
            assert_eq!(tree.statistics().inner_nodes, 1);
        },
    );
}

#[test]
fn an_insert_outlives_tree_growth_in_each_variant() {
    an_insert_outlives_the_growth_of_the_tree::<Plain>();
    an_insert_outlives_the_growth_of_the_tree::<SplitHead>();
}

/// A root that is an inner page is split while one of its leaves is split, which then has another
/// parent.
#[test]
fn a_split_outlives_that_of_its_parent() {
    both_ways(
        || {
            let tree = tree::<Plain>(&[10, 11, 20, 21, 30, 31, 40, 41]);
            has_nodes(&tree, 4, 1);
            tree
        },
        |tree| insert(tree, 12),
        |tree| insert(tree, 42),
        |tree| {
            has(tree, &[10, 11, 12, 20, 21, 30, 31, 40, 41, 42]);
            let statistics = tree.statistics();
            assert_eq!((statistics.leaves, statistics.height), (6, 3));
        },
    );
}

#[test]
fn an_insert_outlives_a_merge_in_each_variant() {
    an_insert_outlives_a_merge(three_leaves::<Plain>);
    an_insert_outlives_a_merge(three_leaves::<Both>);
    an_insert_outlives_a_merge(three_leaves::<OpenBw>);
}

#[test]
fn a_reader_finds_its_keys_in_a_merge_each_variant() {
    a_reader_finds_its_keys_while_their_leaf_is_merged(three_leaves::<Plain>);
    a_reader_finds_its_keys_while_their_leaf_is_merged(three_leaves::<OpenBw>);
}

/// Merges of the left two pages below a parent, and of the right two.
#[test]
fn two_merges_beside_each_other_are_both_made() {
    let make = || {
        let tree = tree::<Plain>(&[10, 11, 20, 21, 30, 31, 40, 41]);
        [11, 31].iter().for_each(|key| delete(&tree, *key));
        tree
    };
    both_ways(
        make,
        |tree| delete(tree, 10),
        |tree| delete(tree, 30),
        |tree| {
            has(tree, &[20, 21, 40, 41]);
            has_nodes(tree, 2, 1);
        },
    );
}

/// The root has only one child left, which replaces it while that child is split.
#[test]
fn a_split_outlives_the_loss_of_a_level() {
    let make = || {
        let tree = tree::<Plain>(&[10, 20, 30, 31]);
        has_nodes(&tree, 2, 1);
        delete(&tree, 10);
        tree
    };
    both_ways(
        make,
        |tree| delete(tree, 20),
        |tree| insert(tree, 32),
        |tree| has(tree, &[30, 31, 32]),
    );
}

#[test]
fn no_insert_slips_past_a_reader_of_a_split_leaf() {
    inserts_notice_readers_of_a_split_leaf(three_leaves::<Plain>);
    inserts_notice_readers_of_a_split_leaf(three_leaves::<SplitHead>);
}

#[test]
fn no_insert_slips_past_a_reader_of_a_merged_leaf() {
    inserts_notice_readers_of_a_merged_leaf(three_leaves::<Plain>);
}

/// Splits the leaf of a key as far as the split delta, of which the parent does not know.
fn split_half<V: Variant>(tree: &Tree<V>, key: u64) {
    let guard = &epoch::pin();
    let place = tree.leaf(At(key), guard);
    let mut entries = Vec::new();
    collect(place.head, &mut entries);
    assert!(tree.part(place, &entries, guard).is_some());
}

/// The work of any thread that meets the leaf of a key: completes the change that it shows, and
/// consolidates.
fn compact<V: Variant>(tree: &Tree<V>, key: u64) {
    let guard = &epoch::pin();
    tree.consolidate(tree.leaf(At(key), guard), Resize::Never, guard);
}

/// The split is completed, and its right half merged away again, while a helper is about to complete it.
fn a_late_helper_does_not_restore_a_removed_page<V: Variant>() {
    let complete_and_merge = |tree: &Tree<V>| {
        compact(tree, 20);
        delete(tree, 21);
    };
    beside(
        1,
        || {
            let tree = three_leaves::<V>();
            split_half(&tree, 20);
            tree
        },
        complete_and_merge,
        |tree| compact(tree, 20),
        |tree| {
            is_gone(tree, 21);
            has(tree, &[10, 11, 20, 30, 31]);
            has_nodes(tree, 3, 1);
        },
    );
    // The same at the root, which is added and removed.
    beside(
        1,
        || {
            let tree = tree::<V>(&[20, 21]);
            split_half(&tree, 20);
            tree
        },
        complete_and_merge,
        |tree| compact(tree, 20),
        |tree| {
            is_gone(tree, 21);
            has(tree, &[20]);
            has_nodes(tree, 1, 0);
            let statistics = tree.statistics();
            assert_eq!((statistics.root_splits, statistics.root_collapses), (1, 1));
        },
    );
}

#[test]
fn a_late_helper_revives_no_page_in_each_variant() {
    a_late_helper_does_not_restore_a_removed_page::<Plain>();
    a_late_helper_does_not_restore_a_removed_page::<SplitHead>();
}

/// A thread that has completed a split removes the trace of that split only. Removing the trace of
/// a later one would keep that from ever reaching the parent.
fn a_late_helper_leaves_the_next_split_alone<V: Variant>() {
    beside(
        1,
        || {
            let tree = tree_with_chains::<V>(100, &[20, 25, 30, 31]);
            split_half(&tree, 20);
            // So the split delta cannot be taken off alone.
            touch(&tree, 20);
            tree
        },
        |tree| {
            compact(tree, 20);
            insert(tree, 22);
            split_half(tree, 20);
            touch(tree, 20);
        },
        |tree| {
            let guard = &epoch::pin();
            let place = tree.leaf(At(20), guard);
            tree.clear_change(place, guard);
        },
        |tree| {
            compact(tree, 20);
            has(tree, &[20, 22, 25, 30, 31]);
            let guard = &epoch::pin();
            let parent = tree.descend(1, At(20), guard);
            assert_eq!(parent.map(|place| place.head.len()), Some(4));
        },
    );
}

#[test]
fn a_late_helper_leaves_the_next_split_in_each_variant() {
    a_late_helper_leaves_the_next_split_alone::<Plain>();
    a_late_helper_leaves_the_next_split_alone::<SplitHead>();
}

/// One more delta is added after a consolidation has collected the deltas, below a split delta or
/// on top of it.
fn no_update_is_lost_when_a_half_split_is_consolidated<V: Variant>() {
    both_ways(
        || {
            // No thread consolidates because of the chain's length.
            let tree = tree_with_chains::<V>(100, &[10, 11, 20, 21, 30, 31]);
            split_half(&tree, 20);
            // So the split delta cannot be taken off alone.
            touch(&tree, 20);
            tree
        },
        |tree| compact(tree, 20),
        |tree| update(tree, 20),
        |tree| {
            is_updated(tree, 20);
            is_there(tree, 21);
            has_nodes(tree, 4, 1);
        },
    );
}

#[test]
fn no_update_is_lost_consolidating_a_half_split() {
    no_update_is_lost_when_a_half_split_is_consolidated::<Plain>();
    no_update_is_lost_when_a_half_split_is_consolidated::<SplitHead>();
    no_update_is_lost_when_a_half_split_is_consolidated::<Both>();
}
