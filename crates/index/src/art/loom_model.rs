//! Every interleaving, up to a bound of preemptions, of a reader and a structure change, on trees of the
//! smallest sizes. All code is that of production; only the atomics are loom's.

use std::ops::{Bound, ControlFlow};

use super::{ArtConfig, FixedArtTree};
use crate::loom_two_threads::{beside, delete, insert, is_there};
use crate::{IndexError, OrderedIndex, PointIndex, ScanItem, ScanRange};

/// Makes a tree with `prepare`, then runs `change` concurrently with `look`, a look-up of a key
/// that is present throughout.
fn check(prepare: fn(&FixedArtTree), change: fn(&FixedArtTree), look: fn(&FixedArtTree)) {
    check_beside(2, prepare, change, look, look);
}

/// Makes a tree with `prepare`, then runs `change` concurrently with `work`, and then `look`.
fn check_beside(
    preemptions: usize,
    prepare: fn(&FixedArtTree),
    change: fn(&FixedArtTree),
    work: fn(&FixedArtTree),
    look: fn(&FixedArtTree),
) {
    let make = move || {
        let tree = FixedArtTree::new(ArtConfig::tiny());
        prepare(&tree);
        tree
    };
    beside(preemptions, make, change, work, look);
}

const fn key(first: u64, second: u64) -> u64 {
    first << 56 | second << 48
}

/// A Node4 with four full leaves gets a fifth, and becomes a Node16.
#[test]
fn a_reader_finds_its_key_while_a_node_grows() {
    check(
        |tree| {
            (1..=16).for_each(|byte| insert(tree, key(byte, 0)));
            assert_eq!(tree.statistics().leaves, 4);
        },
        |tree| insert(tree, key(17, 0)),
        |tree| is_there(tree, key(16, 0)),
    );
}

/// The first leaf below a node is split above the node, where a new one comes: keys move to a leaf that
/// is not below the node any more, of which not a word has changed (`art/mod.rs`, A1).
#[test]
fn a_reader_finds_its_key_while_a_prefix_is_split() {
    check(
        |tree| {
            (1..=5).for_each(|byte| insert(tree, key(1, byte)));
            delete(tree, key(1, 4));
            insert(tree, key(0, 9));
            assert_eq!(tree.statistics().inner_nodes, 1);
        },
        |tree| {
            insert(tree, key(0, 8));
        },
        |tree| is_there(tree, key(0, 9)),
    );
}

/// A leaf is merged into its only neighbour, and the node above both goes.
#[test]
fn a_reader_finds_its_key_while_a_node_goes() {
    check(
        |tree| {
            (1..=6).for_each(|byte| insert(tree, key(1, byte)));
            delete(tree, key(1, 3));
            delete(tree, key(1, 4));
            assert_eq!(tree.statistics().inner_nodes, 1);
        },
        |tree| {
            delete(tree, key(1, 5));
            assert_eq!(tree.statistics().inner_nodes, 0);
        },
        |tree| is_there(tree, key(1, 6)),
    );
}

/// A leaf is merged into the one left of it while a key is inserted there.
#[test]
fn an_insert_into_the_neighbour_outlives_a_merge() {
    check_beside(
        2,
        |tree| {
            (1..=6).for_each(|byte| insert(tree, key(1, byte)));
            delete(tree, key(1, 3));
            delete(tree, key(1, 4));
        },
        |tree| delete(tree, key(1, 5)),
        |tree| insert(tree, key(1, 0)),
        |tree| is_there(tree, key(1, 0)),
    );
}

/// A leaf is merged into the first leaf of the next node, which extends that leaf's range without a write
/// to it: a scan that was there must not take the old bound for the end of what it has seen (A1).
#[test]
fn a_scan_meets_a_key_once_during_a_merge() {
    check_beside(
        1,
        |tree| {
            for byte in [1, 2, 4, 5] {
                insert(tree, key(2, byte));
            }
            for key in [key(1, 0), key(2, 3), key(1, 1)] {
                insert(tree, key);
            }
            let statistics = tree.statistics();
            assert_eq!((statistics.inner_nodes, statistics.leaves), (2, 3));
        },
        |tree| delete(tree, key(1, 1)),
        |tree| {
            let mut met = Vec::new();
            let range = ScanRange::backward(Bound::Unbounded, Bound::Unbounded);
            let scanned = tree.scan(range, |item| {
                if let ScanItem::Entry(key, _) = item {
                    met.push(u64::from_be_bytes(key.try_into().unwrap()));
                }
                ControlFlow::Continue(())
            });
            assert_eq!(scanned, Ok(()));
            met.retain(|met| *met != key(1, 1));
            let there = [
                key(2, 5),
                key(2, 4),
                key(2, 3),
                key(2, 2),
                key(2, 1),
                key(1, 0),
            ];
            assert_eq!(met, there);
        },
        |tree| assert_eq!(tree.statistics().leaves, 2, "merged"),
    );
}

/// Three leaves below one node: one with two records, one with `middle`, and one with eight bytes of key
/// of which only the last differ.
fn three_leaves(tree: &FixedArtTree, middle: u64) {
    (0..4).for_each(|last| insert(tree, key(3, 0) + last));
    insert(tree, key(1, 0));
    insert(tree, key(1, 1));
    (0..3).for_each(|byte| insert(tree, key(2, byte)));
    (middle..3).for_each(|byte| delete(tree, key(2, byte)));
    let statistics = tree.statistics();
    assert_eq!((statistics.inner_nodes, statistics.leaves), (1, 3));
}

/// A leaf becomes a block while a neighbour is merged, which writes all links of the node.
#[test]
fn a_new_block_outlives_a_merge_beside_it() {
    check_beside(
        1,
        |tree| three_leaves(tree, 2),
        |tree| insert(tree, key(3, 0) + 4),
        |tree| delete(tree, key(1, 0)),
        |tree| {
            assert_eq!(tree.statistics().leaves, 2, "merged");
            is_there(tree, key(3, 0) + 4);
        },
    );
}

/// A block becomes a bucket while a neighbouring leaf is merged.
#[test]
fn a_new_bucket_outlives_a_merge_beside_it() {
    check_beside(
        1,
        |tree| {
            three_leaves(tree, 3);
            insert(tree, key(3, 0) + 4);
            (0..3).for_each(|last| delete(tree, key(3, 0) + last));
            delete(tree, key(1, 0));
        },
        |tree| delete(tree, key(1, 1)),
        |tree| delete(tree, key(3, 0) + 3),
        |tree| {
            assert_eq!(tree.statistics().leaves, 2, "merged");
            is_there(tree, key(3, 0) + 4);
        },
    );
}

/// A tree is loaded while a key is inserted: one of the two comes first.
#[test]
fn an_insert_outlives_a_load() {
    check_beside(
        2,
        |_| (),
        |tree| {
            let sorted = [1, 2].map(|byte| (key(byte, 0).to_be_bytes(), byte));
            let loaded = tree.bulk_load(sorted);
            assert!(matches!(loaded, Ok(2) | Err(IndexError::NotEmpty)));
        },
        |tree| insert(tree, key(3, 0)),
        |tree| is_there(tree, key(3, 0)),
    );
}

/// Two threads insert the same key, for which a leaf has to be split.
#[test]
fn a_key_is_inserted_once_into_a_full_leaf() {
    let once = |tree: &FixedArtTree| {
        let inserted = tree.insert(&key(1, 5).to_be_bytes(), !key(1, 5));
        assert!(inserted.is_ok());
    };
    check_beside(
        2,
        |tree| (1..=4).for_each(|byte| insert(tree, key(1, byte))),
        once,
        once,
        |tree| assert_eq!(tree.len(), 5),
    );
}

/// The same, and where the key has gone is full again when the slower one comes there.
#[test]
fn a_key_is_inserted_once_into_a_refilled_leaf() {
    check_beside(
        1,
        |tree| {
            for byte in [1, 2, 4, 5] {
                insert(tree, key(1, byte));
            }
        },
        |tree| {
            let inserted = tree.insert(&key(1, 3).to_be_bytes(), !key(1, 3));
            assert!(inserted.is_ok());
            insert(tree, key(1, 6));
        },
        |tree| {
            let inserted = tree.insert(&key(1, 3).to_be_bytes(), !key(1, 3));
            assert!(inserted.is_ok());
        },
        |tree| assert_eq!(tree.len(), 6),
    );
}
