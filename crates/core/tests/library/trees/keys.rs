//! Keys in trees: their order, their lengths, and the leaf that represents an empty range.

use std::ops::{Bound, ControlFlow};

use namiki::index::{KeyKind, Tree, TreeKind};
use namiki_index::art::ArtConfig;
use namiki_index::contract::{KeyShape, matches_a_sorted_map};
use namiki_index::{IndexError, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange};
#[cfg(feature = "all-indexes")]
use namiki_trees::{
    blink::{BlinkConfig, VariableBlinkTree},
    bwtree::{BwConfig, BwTree},
    bztree::{BzConfig, VariableBzTree},
    masstree::{MasstreeConfig, VariableMasstree},
};

use super::{new, trees};

/// Every tree, small and with its default sizes, against a sorted map: keys that are prefixes of others and
/// share beginnings of any length, ends of scans that need not be there.
#[test]
fn keys_with_shared_prefixes_are_kept_in_order() {
    let small = || {
        vec![
            #[cfg(feature = "all-indexes")]
            Tree::bwtree(KeyKind::Variable, BwConfig::tiny()),
            #[cfg(feature = "all-indexes")]
            Tree::OpenbwVariable(BwTree::new(BwConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BwtreePaperVariable(BwTree::new(BwConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BztreeAppendVariable(VariableBzTree::new(BzConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BztreeInplaceVariable(VariableBzTree::new(BzConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::MasstreeVariable(VariableMasstree::new(MasstreeConfig::tiny())),
            #[cfg(feature = "all-indexes")]
            Tree::BlinkVariable(VariableBlinkTree::new(BlinkConfig::tiny())),
            Tree::art(KeyKind::Variable, ArtConfig::tiny()),
        ]
    };
    let large = |kind| new(kind, KeyKind::Variable);
    for seed in 20..23 {
        for tree in small() {
            matches_a_sorted_map(&tree, KeyShape::Runs, 400, 6_000, seed);
        }
        for tree in TreeKind::in_build().map(large) {
            matches_a_sorted_map(&tree, KeyShape::Runs, 4_000, 20_000, seed);
        }
    }
}

#[test]
fn keys_of_the_wrong_length_are_refused_everywhere() {
    for kind in TreeKind::in_build() {
        refuses_keys_of_the_wrong_length(kind);
    }
}

fn refuses_keys_of_the_wrong_length(kind: TreeKind) {
    let fixed = new(kind, KeyKind::Fixed8);
    let variable = new(kind, KeyKind::Variable);
    let long = vec![7; (1 << 16) + 1];
    let too_long = IndexError::KeyTooLong {
        len: 65_537,
        max: 65_536,
    };
    let not_eight = IndexError::KeyLength {
        expected: 8,
        got: 3,
    };
    for (tree, key, error) in [
        (&fixed, &b"abc"[..], &not_eight),
        (&variable, &long, &too_long),
    ] {
        assert_eq!(tree.get(key).as_ref(), Err(error));
        assert_eq!(tree.insert(key, 1).as_ref(), Err(error));
        assert_eq!(tree.write(key, 1).as_ref(), Err(error));
        assert_eq!(tree.update(key, 1).as_ref(), Err(error));
        assert_eq!(tree.delete(key).as_ref(), Err(error));
        assert_eq!(tree.remove_if(key, 1).as_ref(), Err(error));
        assert_eq!(tree.get_or_insert(key, || 1).as_ref(), Err(error));
        assert_eq!(tree.bulk_load([(key, 1)]).as_ref(), Err(error));
        let mut out = vec![Lookup::Found(1)];
        assert_eq!(
            tree.get_many(&[b"12345678", key], &mut out).as_ref(),
            Err(error)
        );
        assert!(out.is_empty());
        let range = ScanRange::forward(Bound::Included(key), Bound::Unbounded);
        assert_eq!(
            tree.scan(range, |_| ControlFlow::Continue(())).as_ref(),
            Err(error)
        );
        assert_eq!(tree.len(), 0);
    }
    assert_eq!(variable.write(&long[1..], 9), Ok(None));
    assert_eq!(variable.write(b"", 8), Ok(None));
    assert_eq!(variable.get(&long[1..]), Ok(Lookup::Found(9)));
    assert_eq!(variable.get(b""), Ok(Lookup::Found(8)));
}

/// The versions reported for an empty range are those a later insert there changes.
#[test]
fn an_empty_range_reports_the_covering_leaf() {
    for (tree, shape) in trees() {
        for n in 0..300 {
            tree.write(&shape.key(n * 2), n).unwrap();
        }
        for n in 0..300 {
            let key = shape.key(n * 2 + 1);
            for range in [
                ScanRange::forward(Bound::Included(&key), Bound::Included(&key)),
                ScanRange::backward(Bound::Included(&key), Bound::Included(&key)),
                ScanRange::forward(Bound::Excluded(&key), Bound::Excluded(&key)),
                ScanRange::backward(Bound::Included(&key), Bound::Excluded(&key)),
            ] {
                let mut seen = Vec::new();
                let scanned = tree.scan(range, |item| {
                    seen.push(format!("{item:?}"));
                    ControlFlow::Continue(())
                });
                assert_eq!(scanned, Ok(()));
                let Ok(Lookup::Missing(version)) = tree.get(&key) else {
                    panic!("present")
                };
                assert!(
                    seen.contains(&format!("{:?}", ScanItem::Leaf(version))),
                    "{seen:?}"
                );
            }
        }
    }
}
