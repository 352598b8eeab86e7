//! Loom models: every interleaving of two threads on a tree of production code, with nodes of four
//! entries.

use namiki_index::loom_two_threads::{
    READER, WRITER, beside, insert_and_look, no_insert_slips_past, payload_of, rely_on_absence,
};
use namiki_index::{Lookup, PointIndex};

use super::{FixedMasstree, Masstree, MasstreeConfig, Slicing, VariableMasstree};

/// A tree in which `there` are present, number `i` with payload `i`.
fn tree<K: Slicing>(there: &[&[u8]]) -> Masstree<K> {
    let tree = Masstree::new(MasstreeConfig::tiny());
    for (payload, key) in (0..).zip(there) {
        tree.write(key, payload).unwrap();
    }
    tree
}

/// Runs `write` concurrently with `read`, which is interrupted anywhere, and then `check`.
fn model<K: Slicing>(
    preemptions: usize,
    there: &'static [&'static [u8]],
    write: fn(&Masstree<K>),
    read: fn(&Masstree<K>),
    check: fn(&Masstree<K>),
) {
    beside(preemptions, || tree(there), write, read, check);
}

const A: [u8; 8] = [10; 8];
const B: [u8; 8] = [20; 8];
const C: [u8; 8] = [30; 8];

#[test]
fn a_reader_finds_all_keys_while_their_leaf_is_split() {
    let read = |tree: &FixedMasstree| {
        assert_eq!(tree.get(&C), Ok(Lookup::Found(1)));
        assert_eq!(tree.get(&A), Ok(Lookup::Found(0)));
    };
    let write = |tree: &FixedMasstree| {
        assert_eq!(tree.write(&B, 2), Ok(None));
    };
    model(2, &[&A, &C], write, read, |tree| {
        assert_eq!(tree.get(&B), Ok(Lookup::Found(2)));
        assert_eq!(tree.statistics().leaves, 2);
    });
}

#[test]
fn a_reader_finds_a_long_key_moving_down() {
    let read = |tree: &VariableMasstree| {
        assert_eq!(tree.get(b"aaaaaaaa_bbbbbbb1"), Ok(Lookup::Found(0)));
        let other = tree.get(b"aaaaaaaa_bbbbbbb2");
        assert!(matches!(other, Ok(Lookup::Missing(_) | Lookup::Found(2))));
    };
    let write = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaa_bbbbbbb2", 2), Ok(None));
    };
    model(2, &[b"aaaaaaaa_bbbbbbb1"], write, read, |tree| {
        assert_eq!(tree.get(b"aaaaaaaa_bbbbbbb2"), Ok(Lookup::Found(2)));
    });
}

/// A payload written to a long key while its suffix is replaced is not lost.
#[test]
fn no_update_is_lost_when_a_long_key_moves_down() {
    let read = |tree: &VariableMasstree| {
        assert_eq!(tree.update(b"aaaaaaaa1", 5), Ok(Some(0)));
    };
    let write = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaa2", 2), Ok(None));
    };
    model(2, &[b"aaaaaaaa1"], write, read, |tree| {
        assert_eq!(tree.get(b"aaaaaaaa1"), Ok(Lookup::Found(5)));
        assert_eq!(tree.get(b"aaaaaaaa2"), Ok(Lookup::Found(2)));
    });
}

#[test]
fn a_layer_is_put_above_another_that_is_written_to() {
    let read = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaabbbbbbbb3", 30), Ok(None));
    };
    let write = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaac", 20), Ok(None));
    };
    model(
        1,
        // A full leaf: the write gives the layer another root.
        &[
            b"aaaaaaaabbbbbbbb1",
            b"aaaaaaaabbbbbbbb2",
            b"aaaaaaaabbbbbbbb4",
            b"aaaaaaaabbbbbbbb5",
        ],
        write,
        read,
        |tree| {
            for (key, payload) in [
                (&b"aaaaaaaabbbbbbbb1"[..], 0),
                (b"aaaaaaaabbbbbbbb2", 1),
                (b"aaaaaaaabbbbbbbb3", 30),
                (b"aaaaaaaabbbbbbbb4", 2),
                (b"aaaaaaaabbbbbbbb5", 3),
                (b"aaaaaaaac", 20),
            ] {
                assert_eq!(tree.get(key), Ok(Lookup::Found(payload)));
            }
        },
    );
}

#[test]
fn a_reused_slot_shows_no_foreign_payload() {
    let read = |tree: &FixedMasstree| {
        let gone = tree.get(&A);
        assert!(
            matches!(gone, Ok(Lookup::Missing(_) | Lookup::Found(0))),
            "{gone:?}"
        );
        let come = tree.get(&B);
        assert!(
            matches!(come, Ok(Lookup::Missing(_) | Lookup::Found(2))),
            "{come:?}"
        );
    };
    let write = |tree: &FixedMasstree| {
        assert_eq!(tree.delete(&A), Ok(Some(0)));
        assert_eq!(tree.write(&B, 2), Ok(None));
    };
    model(2, &[&A], write, read, |_| ());
}

#[test]
fn an_insert_into_a_removed_leaf_is_not_lost() {
    let read = |tree: &FixedMasstree| {
        assert_eq!(tree.write(&[40; 8], 4), Ok(None));
    };
    let write = |tree: &FixedMasstree| {
        assert_eq!(tree.delete(&C), Ok(Some(2)));
    };
    // A and B, and C alone on the right.
    model(1, &[&A, &B, &C], write, read, |tree| {
        assert_eq!(tree.get(&[40; 8]), Ok(Lookup::Found(4)));
        assert_eq!(tree.get(&B), Ok(Lookup::Found(1)));
    });
}

#[test]
fn an_insert_into_a_removed_layer_is_not_lost() {
    let read = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaa3", 3), Ok(None));
    };
    let write = |tree: &VariableMasstree| {
        assert_eq!(tree.delete(b"aaaaaaaa1"), Ok(Some(0)));
        assert_eq!(tree.delete(b"aaaaaaaa2"), Ok(Some(1)));
    };
    model(1, &[b"aaaaaaaa1", b"aaaaaaaa2"], write, read, |tree| {
        assert_eq!(tree.get(b"aaaaaaaa3"), Ok(Lookup::Found(3)));
        assert_eq!(tree.len(), 1);
    });
}

/// The tree with the keys in which the two threads report their results.
fn tree_that_tells<K: Slicing>(there: &[&[u8]]) -> Masstree<K> {
    let tree = tree(there);
    for key in [READER, WRITER] {
        let key = key.to_be_bytes();
        tree.write(&key, payload_of(u64::from_be_bytes(key)))
            .unwrap();
    }
    tree
}

/// The counter returned for an absent key belongs to the entries among which it was absent.
#[test]
fn an_insert_that_splits_does_not_slip_past_a_reader() {
    no_insert_slips_past::<FixedMasstree>(
        || tree_that_tells(&[&[0; 8]]),
        |tree| rely_on_absence(tree, &20_u64.to_be_bytes()),
        |tree| insert_and_look(tree, &20_u64.to_be_bytes()),
    );
}

/// The layer is made for the very key that was absent.
#[test]
fn an_insert_that_makes_a_layer_is_noticed() {
    no_insert_slips_past::<VariableMasstree>(
        || tree_that_tells(&[b"aaaaaaaa1"]),
        |tree| rely_on_absence(tree, b"aaaaaaaa2"),
        |tree| insert_and_look(tree, b"aaaaaaaa2"),
    );
}

/// A key is added to the new layer after its absence was read in the leaf above.
#[test]
fn an_insert_into_a_new_layer_is_noticed_above() {
    no_insert_slips_past::<VariableMasstree>(
        || tree_that_tells(&[b"aaaaaaaa1"]),
        |tree| rely_on_absence(tree, b"aaaaaaaa3"),
        |tree| {
            assert_eq!(tree.write(b"aaaaaaaa2", 2), Ok(None));
            insert_and_look(tree, b"aaaaaaaa3");
        },
    );
}

/// The same where the new layer is put above another.
#[test]
fn an_insert_into_an_inserted_layer_is_noticed_above() {
    no_insert_slips_past::<VariableMasstree>(
        || tree_that_tells(&[b"aaaaaaaabbbbbbbb1", b"aaaaaaaabbbbbbbb2"]),
        |tree| rely_on_absence(tree, b"aaaaaaaad"),
        |tree| {
            assert_eq!(tree.write(b"aaaaaaaac", 2), Ok(None));
            insert_and_look(tree, b"aaaaaaaad");
        },
    );
}

/// Two threads each make a layer for their key, and one of them finds the other's.
#[test]
fn two_inserts_make_one_layer() {
    let read = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaa3", 3), Ok(None));
    };
    let write = |tree: &VariableMasstree| {
        assert_eq!(tree.write(b"aaaaaaaa2", 2), Ok(None));
    };
    model(1, &[b"aaaaaaaa1"], write, read, |tree| {
        for (key, payload) in [(b"aaaaaaaa1", 0), (b"aaaaaaaa2", 2), (b"aaaaaaaa3", 3)] {
            assert_eq!(tree.get(key), Ok(Lookup::Found(payload)));
        }
        assert_eq!((tree.len(), tree.statistics().leaves), (3, 2));
    });
}
