//! The adaptive radix tree under the contract suite. Small leaves make structure changes happen all the
//! time.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_index::art::{ArtConfig, FixedArtTree, VariableArtTree};
use namiki_index::contract::{self, KeyShape};
use namiki_index::{
    IndexError, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange, ordered_contract,
};

fn small() -> ArtConfig {
    ArtConfig { leaf_max: 9 }
}

ordered_contract! {
    fixed: [
        || FixedArtTree::new(ArtConfig::tiny()),
        || FixedArtTree::new(small()),
    ],
    variable: [
        || VariableArtTree::new(ArtConfig::tiny()),
        || VariableArtTree::new(small()),
    ],
}

#[test]
fn matches_a_sorted_map_with_default_leaves() {
    let tree = FixedArtTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableArtTree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}

/// Keys of 64 KiB that diverge early, late, and where others end: paths are long, and no walk
/// recurses.
#[test]
fn long_keys_that_share_long_prefixes_make_deep_trees() {
    let tree = VariableArtTree::new(ArtConfig::tiny());
    let key = |n: usize| {
        let mut key = vec![b'x'; 1 << 16];
        // Each group leaves the shared prefix one kilobyte after the one before.
        key[(n / 8) * 1024] = b'a' + (n % 8) as u8;
        key.truncate(if n.is_multiple_of(3) {
            (n / 8) * 1024 + 1
        } else {
            1 << 16
        });
        key
    };
    for n in 0..400 {
        assert_eq!(tree.write(&key(n), n as u64), Ok(None), "{n}");
    }
    let statistics = tree.statistics();
    assert!(statistics.height > 40, "{statistics:?}");
    contract::sound(&tree);
    for n in 0..400 {
        assert_eq!(tree.delete(&key(n)), Ok(Some(n as u64)), "{n}");
    }
    let statistics = tree.statistics();
    assert_eq!((statistics.leaves, statistics.inner_nodes), (1, 0));
}

fn eight(first: u8, last: u8) -> [u8; 8] {
    [first, first, first, first, first, first, first, last]
}

/// Five keys of one block, alone in the leaf at the edge of a node with a path that they do not
/// share. A bound lifts all of them to one side, into a leaf with one record too many; the other
/// side is empty. With the next key they become a block.
#[test]
fn keys_of_a_block_are_lifted_from_another_path() {
    for first in [0, 9] {
        let tree = FixedArtTree::new(ArtConfig::tiny());
        let inner = |n: u8| [5, n, 0, 0, 0, 0, 0, 0];
        for n in 1..=8 {
            tree.write(&inner(n), 0).unwrap();
        }
        // Other keys replace those of the leaf at that edge.
        let edge = if first == 0 {
            [1, 2, 3, 4]
        } else {
            [8, 7, 6, 5]
        };
        for n in &edge[..2] {
            tree.delete(&inner(*n)).unwrap();
        }
        for last in 0..2 {
            tree.write(&eight(first, last), u64::from(last)).unwrap();
        }
        for n in &edge[2..] {
            tree.delete(&inner(*n)).unwrap();
        }
        let before = tree.statistics();
        for last in 2..5 {
            tree.write(&eight(first, last), u64::from(last)).unwrap();
        }
        let lifted = tree.statistics();
        assert_eq!(lifted.splits, before.splits + 1, "{lifted:?}");
        assert_eq!(lifted.inner_nodes, before.inner_nodes + 1, "{lifted:?}");
        assert_eq!(lifted.consolidations, before.consolidations, "no block yet");
        contract::sound(&tree);
        // A leaf that is too full can be read, changed, and emptied.
        for last in 0..5 {
            let payload = tree.write(&eight(first, last), u64::from(last)).unwrap();
            assert_eq!(payload, Some(u64::from(last)));
        }
        tree.write(&eight(first, 5), 5).unwrap();
        let block = tree.statistics();
        assert_eq!(block.consolidations, lifted.consolidations + 1, "a block");
        contract::sound(&tree);
        for last in 0..6 {
            assert_eq!(tree.delete(&eight(first, last)), Ok(Some(u64::from(last))));
        }
        for n in 1..=8 {
            tree.delete(&inner(n)).unwrap();
        }
        contract::sound(&tree);
        let emptied = tree.statistics();
        assert_eq!((emptied.leaves, emptied.inner_nodes), (1, 0));
    }
}

/// The same for byte strings, which share more than the bound that fits above the node.
#[test]
fn keys_with_long_prefixes_are_lifted_from_another_path() {
    for edge in [b'a', b'z'] {
        let tree = VariableArtTree::new(ArtConfig::tiny());
        let inner = |n: u8| vec![b'm', b'm', n];
        let outer = |n: u8| vec![edge, edge, edge, n];
        for n in 1..=8 {
            tree.write(&inner(n), 0).unwrap();
        }
        let at_edge = if edge == b'a' {
            [1, 2, 3, 4]
        } else {
            [8, 7, 6, 5]
        };
        for n in &at_edge[..2] {
            tree.delete(&inner(*n)).unwrap();
        }
        for n in 0..2 {
            tree.write(&outer(n), u64::from(n)).unwrap();
        }
        for n in &at_edge[2..] {
            tree.delete(&inner(*n)).unwrap();
        }
        for n in 2..40 {
            tree.write(&outer(n), u64::from(n)).unwrap();
            contract::sound(&tree);
        }
        for n in 0..40 {
            assert_eq!(tree.delete(&outer(n)), Ok(Some(u64::from(n))), "{n}");
        }
        contract::sound(&tree);
    }
}

/// A bulk load fills leaves well, makes blocks of dense keys, and no deeper a tree than insertion does.
#[test]
fn a_bulk_load_makes_full_leaves_and_a_shallow_tree() {
    for (shape, leaves_most) in [(KeyShape::Dense, 500), (KeyShape::Sparse, 8_000)] {
        let keys = 100_000;
        let mut sorted: Vec<_> = (0..keys).map(|n| (shape.key(n), n)).collect();
        sorted.sort();
        let (loaded, inserted) = (FixedArtTree::default(), FixedArtTree::default());
        assert_eq!(
            loaded.bulk_load(sorted.iter().map(|(key, n)| (key, *n))),
            Ok(keys as usize)
        );
        for (key, n) in &sorted {
            inserted.write(key, *n).unwrap();
        }
        contract::sound(&loaded);
        let (loaded, inserted) = (loaded.statistics(), inserted.statistics());
        assert!(loaded.leaves <= leaves_most, "{loaded:?}");
        assert!(loaded.height <= inserted.height, "{loaded:?} {inserted:?}");
        assert_eq!(loaded.splits, 0);
    }
}

/// A concurrent count sees nothing or all; a failed load shows nothing; a reader that relied on the
/// empty tree detects the load.
#[test]
fn a_bulk_load_is_seen_at_one_instant() {
    let keys = 20_000_u64;
    for round in 0..10 {
        let tree = FixedArtTree::new(small());
        let Ok(Lookup::Missing(seen)) = tree.get(&[7; 8]) else {
            panic!("empty")
        };
        assert!(tree.raise_and_check(seen, 99));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The last key cannot be there without the first.
                    let last = tree.get(&(keys - 1).to_be_bytes()).unwrap();
                    let first = tree.get(&0_u64.to_be_bytes()).unwrap();
                    if matches!(last, Lookup::Found(_)) {
                        assert_eq!(first, Lookup::Found(0));
                    }
                    let leaves = tree.current(seen.leaf);
                    assert!(leaves.is_none_or(|now| now.leaf == seen.leaf));
                }
            });
            let short = (0..keys).map(|n| ((n % (keys - 1)).to_be_bytes(), n));
            assert_eq!(
                tree.bulk_load(short),
                Err(IndexError::NotSorted {
                    position: keys as usize - 1
                }),
                "{round}"
            );
            assert_eq!(tree.current(seen.leaf), Some(seen), "nothing was done");
            let all = (0..keys).map(|n| (n.to_be_bytes(), n));
            assert_eq!(tree.bulk_load(all), Ok(keys as usize));
            done.store(true, Ordering::Relaxed);
        });
        assert!(!tree.raise_and_check(seen, 100));
        let mut leaves = 0;
        let scanned = tree.scan(ScanRange::all(), |item| {
            if let ScanItem::Leaf(leaf) = item {
                leaves += 1;
                assert!(tree.leaf_rts(leaf.leaf) >= 99, "answers for the empty leaf");
            }
            ControlFlow::Continue(())
        });
        assert_eq!(scanned, Ok(()));
        assert_eq!(tree.statistics().leaves, leaves);
    }
}

/// Failed loads release the numbers of their leaves.
#[test]
fn failed_loads_use_no_numbers_up() {
    let tree = FixedArtTree::new(small());
    // Too far apart for blocks, so that there are many leaves.
    let bad = || (0..10_000_u64).map(|n| ((n % 9_999 * 1_000).to_be_bytes(), n));
    assert!(tree.bulk_load(bad()).is_err());
    let bytes = tree.memory_bytes();
    for _ in 0..20 {
        assert!(tree.bulk_load(bad()).is_err());
    }
    assert_eq!(tree.memory_bytes(), bytes);
}
