//! Every interleaving, up to a bound of preemptions, of a reader and a structure change, on trees of the
//! smallest sizes. All code is that of production; only the atomics are loom's.

use loom::sync::Arc;
use loom::thread;
use namiki_platform::model::explore;

use super::{ArtConfig, FixedArtTree};
use crate::{IndexError, InsertOutcome, Lookup, OrderedIndex, PointIndex};

/// Makes a tree with `prepare`, then runs `change` beside `look`, a look-up of a key that is there
/// throughout.
fn check(prepare: fn(&FixedArtTree), change: fn(&FixedArtTree), look: fn(&FixedArtTree)) {
    check_beside(prepare, change, look, look);
}

/// Makes a tree with `prepare`, then runs `change` beside `work`, and then `look`.
fn check_beside(
    prepare: fn(&FixedArtTree),
    change: fn(&FixedArtTree),
    work: fn(&FixedArtTree),
    look: fn(&FixedArtTree),
) {
    explore(2, move || {
        let tree = FixedArtTree::new(ArtConfig::tiny());
        prepare(&tree);
        let tree = Arc::new(tree);
        let changer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || change(&tree)
        });
        work(&tree);
        changer.join().unwrap();
        look(&tree);
    });
}

const fn key(first: u64, second: u64) -> u64 {
    first << 56 | second << 48
}

fn insert(tree: &FixedArtTree, key: u64) {
    let inserted = tree.insert(&key.to_be_bytes(), !key);
    assert!(matches!(inserted, Ok(InsertOutcome::Inserted(_))));
}

fn delete(tree: &FixedArtTree, key: u64) {
    assert_eq!(tree.delete(&key.to_be_bytes()), Ok(Some(!key)));
}

fn is_there(tree: &FixedArtTree, key: u64) {
    assert_eq!(tree.get(&key.to_be_bytes()), Ok(Lookup::Found(!key)));
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
/// is not below the node any more, of which not a word has changed (A1).
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

/// A tree is loaded while a key is inserted: one of the two comes first.
#[test]
fn an_insert_outlives_a_load() {
    check_beside(
        |_| (),
        |tree| {
            let sorted = [1, 2].map(|byte| (key(byte, 0).to_be_bytes(), !key(byte, 0)));
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
        |tree| (1..=4).for_each(|byte| insert(tree, key(1, byte))),
        once,
        once,
        |tree| assert_eq!(tree.len(), 5),
    );
}
