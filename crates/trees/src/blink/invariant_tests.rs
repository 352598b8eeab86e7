//! Invariants of a tree at rest, checked after tests with many threads.

use std::cmp::Ordering;

use crossbeam_epoch as epoch;
use namiki_index::key::Key;

use super::BlinkTree;

impl<K: Key> BlinkTree<K> {
    /// Checks every node: keys ascend between the fences, fences of neighbours meet, and each level
    /// has exactly the nodes, in order, that the one above knows.
    ///
    /// # Panics
    /// If something is wrong.
    pub(super) fn assert_sound(&self) {
        let guard = &epoch::pin();
        let root = self.root.load(guard);
        assert!(root.right().is_none() && !root.begin().is_dead());
        let mut known = vec![root];
        for level in (0..=root.level()).rev() {
            let mut below = Vec::new();
            let mut next = Some(known[0]);
            for node in &known {
                assert!(
                    next == Some(*node),
                    "a node that the level above does not know"
                );
                assert!(node.level() == level && !node.begin().is_dead());
                assert!(level == 0 || node.len() > 0);
                let inside = |key| {
                    K::cmp(node.low(), key) != Ordering::Greater
                        && node.high().is_none_or(|high| K::cmp(key, high).is_lt())
                };
                for i in 0..node.len() {
                    assert!(inside(node.key(i)), "a key outside of its node");
                    assert!(i == 0 || K::cmp(node.key(i - 1), node.key(i)).is_lt());
                    assert!(node.lower(node.key(i), i) == (i, true));
                    if level > 0 {
                        let child = node.child(i).map(|child| child.0);
                        let Some(child) = child else {
                            panic!("an entry without a child")
                        };
                        assert!(K::cmp(child.low(), node.key(i)).is_eq());
                        below.push(child);
                    }
                }
                next = node.right();
                if let (Some(right), Some(high)) = (next, node.high()) {
                    assert!(K::cmp(right.low(), high).is_eq(), "a gap between two nodes");
                }
            }
            assert!(next.is_none(), "a node that the level above does not know");
            known = below;
        }
    }
}

#[cfg(not(loom))]
mod tests {
    use std::thread;

    use namiki_index::contract::{KeyShape, Random};
    use namiki_index::key::{Fixed8, Key, Variable};
    use namiki_index::{IndexError, LeafVersion, Lookup, OrderedIndex, PointIndex};

    use crate::blink::{BlinkConfig, BlinkTree};

    /// Few keys, so that threads split, merge and lose levels where others do the same.
    fn stays_sound<K: Key>(shape: KeyShape) {
        for (round, keys) in [(0, 40), (1, 12), (2, 150), (3, 25), (4, 60), (5, 400)] {
            let tree = BlinkTree::<K>::new(BlinkConfig::tiny());
            thread::scope(|scope| {
                for thread in 0..4 {
                    let tree = &tree;
                    scope.spawn(move || {
                        let mut random = Random::new(round * 10 + thread);
                        for step in 0..6_000_u64 {
                            let key = shape.key(random.below(keys));
                            // Waves, so that levels come and go.
                            let growing = (step / 100) % 2 == 0;
                            let done = if random.chance(if growing { 9 } else { 1 }, 10) {
                                tree.write(&key, step)
                            } else {
                                tree.delete(&key)
                            };
                            assert!(done.is_ok());
                        }
                    });
                }
            });
            tree.assert_sound();
            for n in 0..keys {
                tree.delete(&shape.key(n)).unwrap();
            }
            tree.assert_sound();
            assert_eq!(tree.statistics().height, 1);
        }
    }

    #[test]
    fn the_structure_stays_sound_while_threads_split_and_merge() {
        stays_sound::<Fixed8>(KeyShape::Dense);
        stays_sound::<Variable>(KeyShape::SharedPrefix);
    }

    /// A full leaf without a number for its other half refuses the key, and nothing else.
    fn refuses_what_it_has_no_leaf_for<K: Key>() {
        let key = |n: u64| (2 * n).to_be_bytes();
        let tree = BlinkTree::<K>::new(BlinkConfig::tiny());
        let room = BlinkConfig::tiny().leaf_max as u64;
        for n in 0..room {
            tree.insert(&key(n), n).unwrap();
        }
        tree.table.use_up();
        for _ in 0..3 {
            let refused = tree.insert(&key(room), 1);
            assert!(matches!(refused, Err(IndexError::OutOfPages)));
            tree.assert_sound();
        }
        // The latch is released, the rest is unchanged, and a freed place is reused.
        assert_eq!(tree.len() as u64, room);
        tree.write(&key(1), 7).unwrap();
        assert_eq!(tree.delete(&key(0)).unwrap(), Some(0));
        tree.insert(&key(room), 1).unwrap();
        tree.assert_sound();
        let loaded = BlinkTree::<K>::new(BlinkConfig::tiny());
        loaded.table.use_up();
        let sorted = || (0..100).map(|n| (key(n), n));
        assert!(matches!(
            loaded.bulk_load(sorted()),
            Err(IndexError::OutOfPages)
        ));
        assert_eq!(loaded.len(), 0);
    }

    #[test]
    fn a_tree_without_leaf_numbers_refuses_only_what_needs_one() {
        refuses_what_it_has_no_leaf_for::<Fixed8>();
        refuses_what_it_has_no_leaf_for::<Variable>();
    }

    /// A reader that relied on a key's absence from an empty tree detects the load, even of one
    /// leaf.
    #[test]
    fn a_bulk_load_changes_the_version_and_keeps_the_stamp() {
        for keys in [1, 3, 100_u64] {
            let tree = BlinkTree::<Fixed8>::new(BlinkConfig::tiny());
            let missing = |key: u64| -> LeafVersion {
                match tree.get(&key.to_be_bytes()).unwrap() {
                    Lookup::Missing(version) => version,
                    Lookup::Found(_) => panic!("{key} was never there"),
                }
            };
            let seen = missing(0);
            assert!(tree.raise_and_check(seen, 9));
            let sorted = (0..keys).map(|n| ((2 * n).to_be_bytes(), n));
            tree.bulk_load(sorted).unwrap();
            tree.assert_sound();
            assert!(!tree.raise_and_check(seen, 10));
            for n in 0..keys {
                assert!(tree.leaf_rts(missing(2 * n + 1).leaf) >= 9);
            }
        }
    }
}
