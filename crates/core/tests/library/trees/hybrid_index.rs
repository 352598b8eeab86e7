//! A tree and a hash table over the same keys, under the suite of the point trait; and the
//! guarantees of every index of the engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::{Bound, ControlFlow};
use std::thread;

use namiki::index::{Added, Index, IndexKind, KeyKind, TreeKind};
use namiki_index::contract::{KeyShape, Subject};
use namiki_index::{
    IndexError, LeafVersion, Lookup, PointIndex, ScanItem, ScanRange, point_contract,
};

const TREE: TreeKind = if TreeKind::Bwtree.is_in_build() {
    TreeKind::Bwtree
} else {
    TreeKind::Art
};
const BOTH: IndexKind = IndexKind::OrderedAndHash(TREE);
const KINDS: [IndexKind; 3] = [IndexKind::Ordered(TREE), IndexKind::Hash, BOTH];

point_contract! {
    every: every_tree_with_a_hash_table(),
}

fn every_tree_with_a_hash_table() -> impl Iterator<Item = Subject<impl Fn() -> Index>> {
    let of_both_keys = |tree: TreeKind| {
        let kind = IndexKind::OrderedAndHash(tree);
        [
            (KeyKind::Fixed8, KeyShape::FIXED),
            (KeyKind::Variable, KeyShape::VARIABLE),
        ]
        .map(|(keys, shapes)| Subject {
            make: move || Index::new(kind, keys).unwrap(),
            shapes,
        })
    };
    TreeKind::in_build().flat_map(of_both_keys)
}

/// All that a scan reports.
fn scanned(index: &Index) -> (Vec<LeafVersion>, Vec<(Vec<u8>, u64)>) {
    let (mut leaves, mut entries) = (Vec::new(), Vec::new());
    let scanned = index.scan(ScanRange::all(), |item| {
        match item {
            ScanItem::Leaf(leaf) => leaves.push(leaf),
            ScanItem::Ahead(_) => {}
            ScanItem::Entry(key, payload) => entries.push((key.to_vec(), payload)),
        }
        ControlFlow::Continue(())
    });
    assert_eq!(scanned, Ok(()));
    (leaves, entries)
}

#[test]
fn an_index_without_order_says_so() {
    let index = Index::new(IndexKind::Hash, KeyKind::Fixed8).unwrap();
    let refused = index.scan(ScanRange::all(), |_| ControlFlow::Continue(()));
    assert_eq!(refused, Err(IndexError::Unordered));
    assert!(!IndexKind::Hash.is_ordered() && BOTH.is_ordered());
}

#[test]
fn every_index_is_filled_and_refuses_what_it_cannot_hold() {
    for kind in KINDS {
        let index = Index::new(kind, KeyKind::Fixed8).unwrap();
        let sorted = (0..5_000_u64).map(|n| (n.to_be_bytes(), n));
        assert_eq!(index.fill(sorted), Ok(5_000), "{kind}");
        assert_eq!(index.len(), 5_000);
        for n in 0..5_000_u64 {
            assert_eq!(index.get(&n.to_be_bytes()), Ok(Lookup::Found(n)));
        }
        if kind.is_ordered() {
            assert_eq!(scanned(&index).1.len(), 5_000);
        }
        let short = Index::new(kind, KeyKind::Fixed8)
            .unwrap()
            .fill([(&b"short"[..], 1)]);
        assert!(matches!(short, Err(IndexError::KeyLength { .. })), "{kind}");
    }
}

/// A reader that relied on the absence of a key is noticed by its insert, whichever part it read.
#[test]
fn an_insert_changes_versions_for_lookups_and_scans() {
    for kind in KINDS {
        let index = Index::new(kind, KeyKind::Fixed8).unwrap();
        for n in 0..1_000_u64 {
            let key = (n * 7).to_be_bytes();
            let Ok(Lookup::Missing(looked)) = index.get(&key) else {
                panic!("key {n} is absent");
            };
            let leaves = if kind.is_ordered() {
                scanned(&index).0
            } else {
                Vec::new()
            };
            assert!(index.raise_and_check(looked, 2 * n));
            for leaf in &leaves {
                assert_eq!(index.current(leaf.leaf), Some(*leaf));
                assert!(index.raise_and_check(*leaf, 2 * n + 1));
            }
            let Ok(Added::New {
                leaf,
                scanned: of_scans,
                rts,
            }) = index.add(&key, n)
            else {
                panic!("key {n} is absent");
            };
            assert!(
                rts >= 2 * n + u64::from(kind.is_ordered()),
                "{kind} {n} {rts}"
            );
            assert_eq!(leaf.before, looked);
            assert!(!index.raise_and_check(looked, 0));
            assert_eq!(of_scans.is_some(), kind == BOTH);
            let changed = of_scans.unwrap_or(leaf).before;
            if kind.is_ordered() {
                assert!(leaves.contains(&changed));
                assert!(!index.raise_and_check(changed, 0));
            }
            assert_eq!(index.add(&key, 0), Ok(Added::Exists(n)));
        }
    }
}

/// A transaction that wrote a key found the record, which another one is just inserting, by a look-up, and
/// has to see it in its own scans.
#[test]
fn what_a_look_up_finds_the_next_scan_shows() {
    const KEYS: u64 = 20_000;
    let index = &Index::new(BOTH, KeyKind::Fixed8).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..KEYS {
                index.insert(&n.to_be_bytes(), n).unwrap();
            }
        });
        for n in 0..KEYS {
            let key = n.to_be_bytes();
            while !matches!(index.get(&key), Ok(Lookup::Found(_))) {
                thread::yield_now();
            }
            let range = ScanRange::forward(Bound::Included(&key), Bound::Included(&key));
            let mut shown = 0;
            let scanned = index.scan(range, |item| {
                shown += u64::from(matches!(item, ScanItem::Entry(..)));
                ControlFlow::Continue(())
            });
            assert_eq!((scanned, shown), (Ok(()), 1), "{n}");
        }
    });
}

/// While threads insert, replace and delete, every key that a scan shows is found by a look-up that
/// begins later, unless it was deleted in between. At rest both show the same.
#[test]
fn scans_and_look_ups_agree() {
    let index = &Index::new(BOTH, KeyKind::Fixed8).unwrap();
    let stays = |n: u64| n.is_multiple_of(3);
    for n in (0..3_000).filter(|n| stays(*n)) {
        index.insert(&n.to_be_bytes(), n).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for round in 0..6_000_u64 {
                    let n = KeyShape::Sparse.key(round * 3 + thread);
                    let n = u64::from_be_bytes(n.try_into().unwrap()) % 3_000;
                    let key = n.to_be_bytes();
                    if stays(n) {
                        assert!(matches!(index.update(&key, round), Ok(Some(_))));
                    } else if round % 2 == 0 {
                        index.write(&key, round).unwrap();
                    } else {
                        index.delete(&key).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..50 {
                let seen = scanned(index).1;
                let kept = seen.iter().filter(|(key, _)| {
                    let n = u64::from_be_bytes(key.as_slice().try_into().unwrap());
                    let found = matches!(index.get(key), Ok(Lookup::Found(_)));
                    assert!(found || !stays(n));
                    stays(n)
                });
                assert_eq!(kept.count(), 1_000);
            }
        });
    });
    let (_, entries) = scanned(index);
    assert_eq!(entries.len(), index.len());
    for (key, payload) in entries {
        assert_eq!(index.get(&key), Ok(Lookup::Found(payload)));
    }
}
