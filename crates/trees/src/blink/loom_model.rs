//! Every interleaving, with a bounded number of preemptions, of a reader and of a writer that inserts,
//! splits or merges. The tree is that of production with nodes of two entries, as loom explores every
//! order of every access.

use crossbeam_epoch as epoch;
use loom::sync::Arc;
use loom::thread;
use namiki_index::{Lookup, OrderedIndex, PointIndex};
use namiki_platform::model_checker::explore;

use super::descend::DescentPath;
use super::merge::Merged;
use super::{BlinkConfig, FixedBlinkTree};

/// A tree with keys that equal their payloads, in leaves filled to `load_percent`.
fn tree(leaf_max: usize, load_percent: usize, keys: &[u64]) -> Arc<FixedBlinkTree> {
    let tree = FixedBlinkTree::new(BlinkConfig {
        leaf_max,
        inner_max: 4,
        load_percent,
    });
    let sorted = keys.iter().map(|key| (key.to_be_bytes(), *key));
    assert_eq!(tree.bulk_load(sorted), Ok(keys.len()));
    Arc::new(tree)
}

/// One full leaf.
fn about_to_split() -> Arc<FixedBlinkTree> {
    tree(2, 100, &[2, 6])
}

fn split(tree: &FixedBlinkTree) {
    insert(tree, 4);
}

/// Two leaves, of one record each.
fn about_to_merge() -> Arc<FixedBlinkTree> {
    tree(5, 20, &[2, 6])
}

fn merge(tree: &FixedBlinkTree) {
    let guard = &epoch::pin();
    assert!(matches!(tree.merge_at(0, 6, guard), Merged::Yes(_)));
}

fn get(tree: &FixedBlinkTree, key: u64) -> Option<u64> {
    match tree.get(&key.to_be_bytes()).unwrap() {
        Lookup::Found(payload) => Some(payload),
        Lookup::Missing(_) => None,
    }
}

fn insert(tree: &FixedBlinkTree, key: u64) {
    tree.insert(&key.to_be_bytes(), key).unwrap();
}

/// Runs `write` concurrently with `other`, and then asserts that the tree is sound and has these
/// keys.
fn explore_beside(
    preemptions: usize,
    make: fn() -> Arc<FixedBlinkTree>,
    write: fn(&FixedBlinkTree),
    other: fn(&FixedBlinkTree),
    after: &'static [u64],
) {
    explore(preemptions, move || {
        let tree = make();
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || write(&tree)
        });
        other(&tree);
        writer.join().unwrap();
        tree.assert_sound();
        for key in after {
            assert_eq!(get(&tree, *key), Some(*key));
        }
    });
}

#[test]
fn model_an_insert_hides_no_key_from_a_reader() {
    // The insert moves 6 to another place.
    explore_beside(
        2,
        || tree(2, 100, &[6]),
        |tree| insert(tree, 4),
        |tree| assert_eq!(get(tree, 6), Some(6)),
        &[4, 6],
    );
}

#[test]
fn model_a_split_hides_no_key_from_a_reader() {
    // The split moves 6 to a new leaf, and the tree gets a root.
    explore_beside(
        2,
        about_to_split,
        split,
        |tree| assert_eq!(get(tree, 6), Some(6)),
        &[2, 4, 6],
    );
}

/// The merge happens after a reader has reached one of the leaves and before it reads it: either
/// the leaf that is removed, or the left one, by an address from before the split.
#[test]
fn model_a_merge_hides_no_key_from_a_reader() {
    for stands_on in [6, 2] {
        explore(2, move || {
            let tree = about_to_merge();
            let guard = &epoch::pin();
            let mut path = DescentPath::sideways(tree.descend::<false>(0, stands_on, guard).node);
            let writer = thread::spawn({
                let tree = Arc::clone(&tree);
                move || merge(&tree)
            });
            assert_eq!(tree.find(&mut path, 6).payload.ok(), Some(6));
            writer.join().unwrap();
            tree.assert_sound();
        });
    }
}

/// A thread that latches a node for a key waits while another writer holds the latch, and then gets
/// the node with the key: not the one that has lost it by a split, nor the one that was merged
/// away.
#[test]
fn model_the_latched_node_has_the_key() {
    let latch = |tree: &FixedBlinkTree| {
        let guard = &epoch::pin();
        let node = tree.latch_at(0, 6, guard);
        assert!(!node.begin().is_dead() && node.lower(6, 0).1);
        node.latch().unlatch();
    };
    explore_beside(2, about_to_split, split, latch, &[2, 4, 6]);
    // With a third leaf, so that the removed one has an upper fence.
    let three = || tree(5, 20, &[2, 6, 8]);
    explore_beside(1, three, merge, latch, &[2, 6, 8]);
}

/// The root has one full leaf left and is about to be removed, while that leaf is split.
#[test]
fn model_a_leaving_root_learns_of_a_split() {
    explore_beside(
        2,
        || {
            let tree = tree(5, 80, &[1, 2, 3, 4, 6]);
            merge(&tree);
            tree
        },
        |tree| tree.lose_levels(&epoch::pin()),
        |tree| insert(tree, 5),
        &[1, 2, 3, 4, 5, 6],
    );
}

/// Two inserts into one leaf, one of which splits it: none is lost.
#[test]
fn model_two_writers_lose_no_key() {
    explore_beside(
        2,
        || tree(2, 100, &[4]),
        |tree| insert(tree, 2),
        |tree| insert(tree, 6),
        &[2, 4, 6],
    );
}

/// Two threads find a root with one child: it is removed once.
#[test]
fn model_a_root_that_two_take_away_goes_once() {
    explore_beside(
        2,
        || {
            let tree = tree(5, 80, &[1, 2, 3, 4, 6]);
            merge(&tree);
            tree
        },
        |tree| tree.lose_levels(&epoch::pin()),
        |tree| {
            tree.lose_levels(&epoch::pin());
            assert_eq!(tree.statistics().root_collapses, 1);
        },
        &[1, 2, 3, 4, 6],
    );
}

/// The right one of two leaves is to be merged into the left one, which is split first: then
/// another leaf is its left neighbour.
#[test]
fn model_a_merge_goes_into_the_current_left_leaf() {
    explore_beside(
        1,
        || tree(5, 80, &[1, 2, 3, 4, 6]),
        |tree| {
            insert(tree, 5);
            insert(tree, 0);
        },
        |tree| {
            let guard = &epoch::pin();
            while matches!(tree.merge_at(0, 6, guard), Merged::Again) {}
        },
        &[0, 1, 2, 3, 4, 5, 6],
    );
}
