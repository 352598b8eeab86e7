//! Every interleaving, with a bounded number of preemptions, of a reader and of a writer that inserts,
//! splits or merges. The tree is that of production with nodes of two entries, as loom explores every
//! order of every access.

use crossbeam_epoch as epoch;
use loom::sync::Arc;
use loom::thread;

use super::{BlinkConfig, FixedBlinkTree};
use crate::{Lookup, PointIndex};

/// A tree whose leaves have room for `leaf_max` records, with some keys that are their payloads.
fn tree(leaf_max: usize, keys: &[u64]) -> Arc<FixedBlinkTree> {
    let tree = FixedBlinkTree::new(BlinkConfig {
        leaf_max,
        inner_max: 4,
        load_percent: 100,
    });
    for key in keys {
        tree.insert(&key.to_be_bytes(), *key).unwrap();
    }
    Arc::new(tree)
}

fn get(tree: &FixedBlinkTree, key: u64) -> Option<u64> {
    match tree.get(&key.to_be_bytes()).unwrap() {
        Lookup::Found(payload) => Some(payload),
        Lookup::Missing(_) => None,
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_with(2, model);
}

/// With so many preemptions; fewer where the writers do much.
fn explore_with(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

/// A writer beside a reader of a key that stays.
fn a_reader_finds(
    key: u64,
    leaf_max: usize,
    keys: &'static [u64],
    write: impl Fn(&FixedBlinkTree) + Copy + Send + Sync + 'static,
) {
    explore(move || {
        let tree = tree(leaf_max, keys);
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || write(&tree)
        });
        assert_eq!(get(&tree, key), Some(key));
        writer.join().unwrap();
        assert_eq!(get(&tree, key), Some(key));
    });
}

#[test]
fn model_an_insert_hides_no_key_from_a_reader() {
    // The insert moves 6 to another place.
    a_reader_finds(6, 4, &[2, 6], |tree| {
        tree.insert(&4_u64.to_be_bytes(), 4).unwrap();
    });
}

#[test]
fn model_a_split_hides_no_key_from_a_reader() {
    // The split moves 6 to a new leaf, and the tree gets a root.
    a_reader_finds(6, 2, &[2, 6], |tree| {
        tree.insert(&4_u64.to_be_bytes(), 4).unwrap();
    });
}

/// The merge happens while the reader has come to the leaf that goes, and has not yet looked at it.
#[test]
fn model_a_reader_on_a_node_that_is_merged_away_finds_its_key() {
    explore(|| {
        let tree = tree(2, &[2, 4, 6]);
        tree.delete(&2_u64.to_be_bytes()).unwrap();
        let guard = &epoch::pin();
        let mut way = tree.descend::<false>(0, 6, guard);
        let removed = way.node;
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || assert_eq!(tree.delete(&4_u64.to_be_bytes()), Ok(Some(4)))
        });
        assert_eq!(tree.find(&mut way, 6).payload.ok(), Some(6));
        writer.join().unwrap();
        assert!(removed.begin().is_dead());
        let mut late = super::descend::Way::sideways(removed);
        assert_eq!(tree.find(&mut late, 6).payload.ok(), Some(6));
    });
}

/// And while a reader comes to the left leaf with an address from before the leaves were split.
#[test]
fn model_a_reader_on_the_node_that_grows_by_a_merge_finds_the_key() {
    explore(|| {
        let tree = tree(2, &[2, 4, 6]);
        tree.delete(&2_u64.to_be_bytes()).unwrap();
        let guard = &epoch::pin();
        let left = tree.descend::<false>(0, 4, guard).node;
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || assert_eq!(tree.delete(&4_u64.to_be_bytes()), Ok(Some(4)))
        });
        let mut way = super::descend::Way::sideways(left);
        assert_eq!(tree.find(&mut way, 6).payload.ok(), Some(6));
        writer.join().unwrap();
        tree.assert_sound();
    });
}

/// Two writers split two leaves whose parent, the root, is full: one of them splits the parent while
/// the other one is on its way to it.
#[test]
fn model_a_parent_that_splits_meanwhile_is_told_in_the_right_place() {
    explore_with(1, || {
        let tree = tree(2, &[10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(tree.statistics().leaves, 4);
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || tree.insert(&15_u64.to_be_bytes(), 15).unwrap()
        });
        tree.insert(&75_u64.to_be_bytes(), 75).unwrap();
        writer.join().unwrap();
        tree.assert_sound();
        for key in [10, 15, 20, 30, 40, 50, 60, 70, 75, 80] {
            assert_eq!(get(&tree, key), Some(key));
        }
    });
}

/// One writer empties a leaf, and the root would lose its level, while the other one splits what is
/// left.
#[test]
fn model_a_root_that_is_about_to_go_is_told_of_a_split() {
    explore_with(1, || {
        let tree = tree(2, &[2, 4, 6]);
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || assert_eq!(tree.delete(&6_u64.to_be_bytes()), Ok(Some(6)))
        });
        tree.insert(&3_u64.to_be_bytes(), 3).unwrap();
        writer.join().unwrap();
        tree.assert_sound();
        for key in [2, 3, 4] {
            assert_eq!(get(&tree, key), Some(key));
        }
    });
}

/// Two inserts into one leaf, one of which splits it: none is lost, and the leaf's version counts both.
#[test]
fn model_two_writers_lose_no_key() {
    explore(|| {
        let tree = tree(2, &[4]);
        let writer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || tree.insert(&2_u64.to_be_bytes(), 2).unwrap()
        });
        tree.insert(&6_u64.to_be_bytes(), 6).unwrap();
        writer.join().unwrap();
        for key in [2, 4, 6] {
            assert_eq!(get(&tree, key), Some(key));
        }
        tree.assert_sound();
    });
}
