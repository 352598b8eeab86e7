//! Every interleaving, up to a bound of preemptions, of a reader and a structure change, on trees of the
//! smallest sizes. All code is that of production; only the atomics are loom's.

use loom::sync::Arc;
use loom::thread;
use namiki_platform::model::explore;

use super::{ArtConfig, FixedArtTree};
use crate::{InsertOutcome, Lookup, PointIndex};

/// Makes a tree with `prepare`, then runs `change` beside `look`, a look-up of a key that is there
/// throughout.
fn check(prepare: fn(&FixedArtTree), change: fn(&FixedArtTree), look: fn(&FixedArtTree)) {
    explore(2, move || {
        let tree = FixedArtTree::new(ArtConfig::tiny());
        prepare(&tree);
        let tree = Arc::new(tree);
        let changer = thread::spawn({
            let tree = Arc::clone(&tree);
            move || change(&tree)
        });
        look(&tree);
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
