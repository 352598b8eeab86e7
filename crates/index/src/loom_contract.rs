//! Loom models of every tree's guarantees during splits and merges of leaves. Each model gets a
//! tree with the keys 10, 11, 20, 21, 30 and 31 in three full leaves, below one root of at most
//! four children; an empty leaf is merged with a neighbour.
#![allow(clippy::unwrap_used, reason = "a model fails by panicking")]

use crate::loom_two_threads::{
    both_ways, delete, has, insert, insert_and_look, is_gone, is_there, is_updated,
    no_insert_slips_past, rely_on_absence, update,
};
use crate::{OrderedIndex, PointIndex};

/// The same tree with only one record in one of its leaves.
pub fn sparse<T: PointIndex + 'static>(
    three_leaves: fn() -> T,
    left: u64,
) -> impl Fn() -> T + Copy + Send + Sync + 'static {
    move || {
        let tree = three_leaves();
        delete(&tree, left + 1);
        tree
    }
}

/// After a split the parent may not know the new half yet when the other thread reaches it.
pub fn an_insert_outlives_a_split<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    both_ways(
        three_leaves,
        |tree| insert(tree, 22),
        |tree| insert(tree, 15),
        |tree| has(tree, &[10, 11, 15, 20, 21, 22, 30, 31]),
    );
    both_ways(
        three_leaves,
        |tree| insert(tree, 22),
        |tree| insert(tree, 25),
        |tree| has(tree, &[10, 11, 20, 21, 22, 25, 30, 31]),
    );
}

/// Both splits change the parent, which overflows.
pub fn two_splits_below_one_parent_are_both_made<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    both_ways(
        three_leaves,
        |tree| insert(tree, 12),
        |tree| insert(tree, 32),
        |tree| {
            has(tree, &[10, 11, 12, 20, 21, 30, 31, 32]);
            let statistics = tree.statistics();
            assert_eq!((statistics.leaves, statistics.inner_nodes), (5, 3));
        },
    );
}

pub fn no_update_is_lost_while_its_leaf_is_split<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    both_ways(
        three_leaves,
        |tree| insert(tree, 22),
        |tree| update(tree, 20),
        |tree| {
            is_updated(tree, 20);
            is_there(tree, 22);
            assert_eq!(tree.len(), 7);
        },
    );
}

pub fn a_reader_finds_its_keys_while_their_leaf_is_split<
    T: OrderedIndex + Send + Sync + 'static,
>(
    three_leaves: fn() -> T,
) {
    both_ways(
        three_leaves,
        |tree| insert(tree, 22),
        |tree| {
            [20, 21, 30].iter().for_each(|key| is_there(tree, *key));
            is_gone(tree, 23);
        },
        |tree| {
            has(tree, &[10, 11, 20, 21, 22, 30, 31]);
            assert_eq!(tree.statistics().leaves, 4);
        },
    );
}

/// Inserts into the empty leaf and into the leaf that it is merged with; each is once the left one
/// and once the right one.
pub fn an_insert_outlives_a_merge<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    let left_stays = sparse(three_leaves, 20);
    both_ways(
        left_stays,
        |tree| delete(tree, 20),
        |tree| insert(tree, 25),
        |tree| has(tree, &[10, 11, 25, 30, 31]),
    );
    both_ways(
        left_stays,
        |tree| delete(tree, 20),
        |tree| insert(tree, 12),
        |tree| has(tree, &[10, 11, 12, 30, 31]),
    );
    let right_stays = sparse(three_leaves, 10);
    both_ways(
        right_stays,
        |tree| delete(tree, 10),
        |tree| insert(tree, 15),
        |tree| has(tree, &[15, 20, 21, 30, 31]),
    );
    both_ways(
        right_stays,
        |tree| delete(tree, 10),
        |tree| insert(tree, 22),
        |tree| has(tree, &[20, 21, 22, 30, 31]),
    );
}

pub fn a_reader_finds_its_keys_while_their_leaf_is_merged<
    T: OrderedIndex + Send + Sync + 'static,
>(
    three_leaves: fn() -> T,
) {
    both_ways(
        sparse(three_leaves, 10),
        |tree| delete(tree, 10),
        |tree| {
            [20, 30].iter().for_each(|key| is_there(tree, *key));
            is_gone(tree, 22);
        },
        |tree| {
            has(tree, &[20, 21, 30, 31]);
            assert_eq!(tree.statistics().leaves, 2);
        },
    );
}

/// The inserted key is the one that splits the leaf, or one that is added to the right half after
/// its absence was read in the whole leaf.
pub fn inserts_notice_readers_of_a_split_leaf<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    no_insert_slips_past(
        three_leaves,
        |tree| rely_on_absence(tree, &22_u64.to_be_bytes()),
        |tree| insert_and_look(tree, &22_u64.to_be_bytes()),
    );
    no_insert_slips_past(
        three_leaves,
        |tree| rely_on_absence(tree, &25_u64.to_be_bytes()),
        |tree| {
            insert(tree, 22);
            insert_and_look(tree, &25_u64.to_be_bytes());
        },
    );
}

/// A key is inserted into the range of a merged leaf, thus into the leaf that took the range over.
pub fn inserts_notice_readers_of_a_merged_leaf<T: OrderedIndex + Send + Sync + 'static>(
    three_leaves: fn() -> T,
) {
    no_insert_slips_past(
        sparse(three_leaves, 20),
        |tree| rely_on_absence(tree, &25_u64.to_be_bytes()),
        |tree| {
            delete(tree, 20);
            insert_and_look(tree, &25_u64.to_be_bytes());
        },
    );
}
