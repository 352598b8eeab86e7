//! Keys that are not unique, in every tree.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::thread;

use namiki::index::{KeyKind, Tree, TreeKind};
use namiki_index::contract::{KeyShape, Random, announce, sound};
use namiki_index::{IndexError, PairItem, PairOutcome, Pairs, PointIndex};

fn each_tree(test: impl Fn(Pairs<Tree>)) {
    for kind in TreeKind::in_build() {
        test(Pairs::over(Tree::new(kind, KeyKind::Variable).unwrap()).unwrap());
    }
}

#[test]
fn a_key_has_the_payloads_of_a_set() {
    for shape in [KeyShape::Nested, KeyShape::SharedPrefix, KeyShape::Sparse] {
        each_tree(|pairs| {
            let seed = 21;
            let _announcement = announce("a_key_has_the_payloads_of_a_set", seed);
            let mut random = Random::new(seed);
            let mut model: BTreeMap<Vec<u8>, BTreeSet<u64>> = BTreeMap::new();
            let mut found = vec![7];
            for _ in 0..8_000 {
                let key = shape.key(random.below(40));
                // Some keys get many payloads, and large ones among them.
                let payload = random.below(300) << (random.below(2) * 55);
                let set = model.entry(key.clone()).or_default();
                match random.below(5) {
                    0..3 => {
                        let added = set.insert(payload);
                        let outcome = pairs.insert_pair(&key, payload).unwrap();
                        assert_eq!(outcome != PairOutcome::Exists, added);
                    }
                    3 => {
                        assert_eq!(pairs.delete_pair(&key, payload), Ok(set.remove(&payload)));
                    }
                    _ => {
                        pairs.get_all(&key, &mut found).unwrap();
                        assert!(set.iter().eq(&found), "{key:?}");
                    }
                }
            }
            sound(pairs.index());
            let all: usize = model.values().map(BTreeSet::len).sum();
            assert_eq!(pairs.index().len(), all);
            assert!(all > 2_000, "{all}");
        });
    }
}

/// Two threads add the same pairs of few keys: each pair is added by one of them.
#[test]
fn a_pair_is_inserted_once_by_racing_threads() {
    each_tree(|pairs| {
        let added: u64 = thread::scope(|scope| {
            let threads = [0, 1].map(|thread| {
                let pairs = &pairs;
                scope.spawn(move || {
                    let mut added = 0;
                    for n in 0..3_000_u64 {
                        let payload = if thread == 0 { n } else { 2_999 - n };
                        let outcome = pairs.insert_pair(b"hot", payload).unwrap();
                        added += u64::from(outcome != PairOutcome::Exists);
                    }
                    added
                })
            });
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(added, 3_000);
        let mut found = Vec::new();
        pairs.get_all(b"hot", &mut found).unwrap();
        assert!(found.iter().copied().eq(0..3_000));
    });
}

/// What says that a key has no other payload changes when it gets one.
#[test]
fn an_inserted_pair_changes_a_version_that_was_reported() {
    each_tree(|pairs| {
        for n in 0..50 {
            pairs.insert_pair(b"before", n).unwrap();
            pairs.insert_pair(b"here", n * 2).unwrap();
        }
        for n in 0..49 {
            let mut leaves = Vec::new();
            let look = |item| {
                if let PairItem::Leaf(version) = item {
                    leaves.push(version);
                }
                ControlFlow::Continue(())
            };
            pairs.scan_key(b"here", look).unwrap();
            let PairOutcome::Inserted(inserted) = pairs.insert_pair(b"here", n * 2 + 1).unwrap()
            else {
                panic!("there already")
            };
            assert!(leaves.contains(&inserted.before), "{leaves:?}");
        }
    });
}

#[test]
fn what_cannot_hold_pairs_is_refused() {
    let fixed = Tree::new(TreeKind::default(), KeyKind::Fixed8).unwrap();
    let error = Pairs::over(fixed).unwrap_err();
    assert!(matches!(error, IndexError::KeyLength { .. }), "{error}");
    let used = Tree::new(TreeKind::default(), KeyKind::Variable).unwrap();
    used.write(b"something", 1).unwrap();
    assert_eq!(Pairs::over(used).unwrap_err(), IndexError::NotEmpty);
    each_tree(|pairs| {
        let longest = vec![1; (1 << 16) - 10];
        assert!(pairs.insert_pair(&longest, 1).is_ok());
        let zero = vec![0; (1 << 16) - 10];
        assert_eq!(
            pairs.insert_pair(&zero, 1),
            Err(IndexError::KeyTooLong {
                len: 2 * ((1 << 16) - 10) + 10,
                max: 1 << 16
            })
        );
        let mut found = vec![1];
        pairs.get_all(&longest, &mut found).unwrap();
        assert_eq!(found, [1]);
        assert!(pairs.get_all(&zero, &mut found).is_err());
        assert!(found.is_empty());
    });
}
