//! Tests of the paper's two proposals, with threads that are suspended halfway.
//!
//! Paper: bwtree §5.4

use std::collections::BTreeSet;
use std::thread;

use crossbeam_epoch as epoch;
use namiki_index::contract::sound;
use namiki_index::key::Fixed8;
use namiki_index::{Lookup, OrderedIndex, PointIndex};

use super::consolidate::{Consolidated, collect, consolidated};
use super::descend::{At, Place};
use super::node::{Kind, NodeRef, OwnedNode};
use super::structure_change_types::Below;
use super::structure_change_types::Resize;
use super::{
    Both, BwConfig, BwTree, InChain, OpenBw, Paper, PaperInChain, PaperSplitHead, Plain, SplitHead,
    Variant,
};

const N: u8 = 4;

/// A tree of one leaf with room, and some keys.
fn leaf<V: Variant>(keys: u64) -> BwTree<Fixed8, V> {
    let tree = BwTree::<Fixed8, V>::new(BwConfig {
        leaf_chain_max: N,
        ..BwConfig::default()
    });
    let sorted = (0..keys).map(|n| (n.to_be_bytes(), n));
    assert_eq!(tree.bulk_load(sorted), Ok(keys as usize));
    tree
}

fn deltas<V: Variant>(head: NodeRef<'_, Fixed8, V>) -> usize {
    let (mut node, mut deltas) = (head, 0);
    while let Some(below) = node.next() {
        (node, deltas) = (below, deltas + 1);
    }
    deltas
}

/// Trap "the swap succeeds only under segment ownership": writers of one leaf, and no other thread.
fn failed_consolidations_under_writers<V: Variant>() -> u64 {
    let tree = &leaf::<V>(8);
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            scope.spawn(move || {
                for n in 0..20_000 {
                    let key = ((n + writer) % 8).to_be_bytes();
                    assert!(matches!(tree.update(&key, n), Ok(Some(_))));
                }
            });
        }
    });
    sound(tree);
    let statistics = tree.statistics();
    assert_eq!(statistics.records, 8);
    assert!(statistics.consolidations >= 80_000 / 255, "{statistics:?}");
    statistics.consolidations_failed
}

#[test]
fn consolidation_within_the_chain_never_fails() {
    assert_eq!(failed_consolidations_under_writers::<InChain>(), 0);
    assert_eq!(failed_consolidations_under_writers::<Both>(), 0);
    assert_eq!(failed_consolidations_under_writers::<PaperInChain>(), 0);
}

/// What figure 19 counts: a chain that is no longer below a delta is not replaced.
#[test]
fn a_cut_of_a_chain_that_was_replaced_fails() {
    let tree = leaf::<InChain>(8);
    let guard = &epoch::pin();
    for n in 0..2_u64 {
        let place = tree.leaf(At(0), guard);
        let delta = OwnedNode::record(Kind::Put, n, 100 + n, place.head);
        assert!(tree.mapping.push(place.id, place.head, delta).is_ok());
    }
    let seam = tree.leaf(At(0), guard).head;
    let below = seam.next().unwrap();
    let failures = [0, 1].map(|_| {
        let Consolidated::Base(base) = consolidated(below, usize::MAX) else {
            panic!("it has 8 entries")
        };
        tree.cut_below(seam, below, base, guard);
        tree.statistics().consolidations_failed
    });
    assert_eq!(failures, [0, 1]);
    assert_eq!(deltas(seam), 1);
    sound(&tree);
}

/// Figure 19: the chain below is exchanged; the head and the numbers stay.
#[test]
fn the_head_stays_while_what_is_below_is_consolidated() {
    let tree = leaf::<InChain>(8);
    let guard = &epoch::pin();
    let mut longest = 0;
    for n in 1..=100_u64 {
        tree.update(&(n % 8).to_be_bytes(), n).unwrap();
        let head = tree.leaf(At(0), guard).head;
        assert_eq!((head.kind(), u64::from(head.depth())), (Kind::Put, n));
        longest = longest.max(deltas(head));
    }
    assert_eq!(longest, usize::from(N));
    let statistics = tree.statistics();
    assert_eq!(
        (statistics.consolidations, statistics.leaf_deltas),
        (1 + 25, 1)
    );
}

/// The numbers wrap around, and a chain is cut as often after the last as before.
#[test]
fn numbers_begin_again() {
    let tree = leaf::<Both>(8);
    for n in 0..2_000_u64 {
        tree.update(&(n % 8).to_be_bytes(), n).unwrap();
        assert!(tree.statistics().longest_chain <= 2 * u64::from(N));
    }
    for n in 0..8 {
        assert_eq!(tree.get(&u64::to_be_bytes(n)), Ok(Lookup::Found(1992 + n)));
    }
}

/// Trap "writer 2N may walk the old N.next while writer N swaps it".
#[test]
fn a_writer_leaves_a_segment_to_its_predecessor_briefly() {
    let tree = leaf::<InChain>(8);
    let guard = &epoch::pin();
    let mut seams = Vec::new();
    // Writers that are suspended as soon as their delta is published.
    for n in 1..=3 * u64::from(N) {
        let place = tree.leaf(At(0), guard);
        let delta = OwnedNode::record(Kind::Put, n % 8, 100 + n, place.head);
        let Ok(head) = tree.mapping.push(place.id, place.head, delta) else {
            panic!("alone")
        };
        if head.depth().is_multiple_of(N) {
            seams.push(head);
        }
    }
    let head = tree.leaf(At(0), guard).head;
    let before = deltas(head);
    assert!(tree.consolidate_below(seams[1], Resize::Never, guard) == Below::Done);
    assert_eq!(
        deltas(head),
        before,
        "the lower segment is the first writer's"
    );
    assert!(tree.consolidate_below(seams[0], Resize::Never, guard) == Below::Done);
    assert_eq!(deltas(head), before - 3);
    // The second writer never resumes; the third would wait for it, but not for a fourth segment.
    assert!(tree.consolidate_below(seams[2], Resize::Never, guard) == Below::Done);
    assert_eq!(deltas(head), before - 3);
    let place = tree.leaf(At(0), guard);
    let mut last = place;
    for n in 0..u64::from(N) {
        let delta = OwnedNode::record(Kind::Put, n % 8, 200 + n, last.head);
        let Ok(head) = tree.mapping.push(last.id, last.head, delta) else {
            panic!("alone")
        };
        last = Place::new(last.id, head);
    }
    assert!(tree.consolidate_below(last.head, Resize::Never, guard) == Below::Done);
    assert_eq!(deltas(last.head), 1);
    // The suspended writers resume: the chains they cut are no longer in the tree, and are freed
    // once.
    assert!(tree.consolidate_below(seams[1], Resize::Never, guard) == Below::Done);
    let mut entries = Vec::new();
    collect(last.head, &mut entries);
    let expected: Vec<(u64, u64)> = (0..8)
        .map(|n| {
            if n < 4 {
                (n, 200 + n)
            } else {
                (n, if n == 4 { 112 } else { 100 + n })
            }
        })
        .collect();
    assert_eq!(entries, expected);
    sound(&tree);
}

/// Splits the leaf as far as the split delta; the splitter is suspended.
fn half_split<V: Variant>(tree: &BwTree<Fixed8, V>) -> super::page_id::PageId {
    let guard = &epoch::pin();
    let place = tree.leaf(At(0), guard);
    let mut entries = Vec::new();
    collect(place.head, &mut entries);
    assert!(tree.part(place, &entries, guard).is_some());
    place.id
}

/// Figure 20.
#[test]
fn updates_go_below_a_split_delta_at_the_head() {
    let tree = leaf::<SplitHead>(20);
    let page = half_split(&tree);
    let guard = &epoch::pin();
    let split = tree.mapping.load(page, guard).unwrap();
    assert_eq!(split.kind(), Kind::Split);
    // The split delta has number 1.
    for n in 1..u64::from(N) - 1 {
        assert_eq!(
            tree.update(&[0; 8], 100 + n),
            Ok(Some(if n == 1 { 0 } else { 99 + n }))
        );
        let head = tree.mapping.load(page, guard).unwrap();
        assert_eq!((head.kind(), head.smo()), (Kind::Put, Some(split)));
        assert!(split.newest() == head);
        assert_eq!(deltas(head) as u64, n, "the split delta is not below them");
        assert_eq!((head.high(), head.right()), (split.high(), split.right()));
    }
    assert_eq!(tree.len(), 20);
    // Bytes and deltas of the state include the split delta.
    assert_eq!(tree.statistics().longest_chain, u64::from(N) - 1);
    sound(&tree);
    let head = tree.mapping.load(page, guard).unwrap();
    tree.clear_change(Place::new(page, head), guard);
    assert_eq!(tree.mapping.load(page, guard).unwrap().kind(), Kind::Base);
    assert_eq!(tree.get(&[0; 8]), Ok(Lookup::Found(102)));
}

/// Trap: the slot's compare-and-swap does not detect updates below a split delta. A thread that has
/// frozen that pointer and is suspended blocks no other thread.
fn any_thread_replaces_a_frozen_split_delta<V: Variant>() {
    for updates in 0..3_u64 {
        for by_put in [false, true] {
            let tree = leaf::<V>(20);
            let page = half_split(&tree);
            for n in 0..updates {
                tree.update(&[0; 8], 100 + n).unwrap();
            }
            let guard = &epoch::pin();
            let head = tree.mapping.load(page, guard).unwrap();
            let split = head.smo().unwrap();
            let newest = if updates == 0 {
                std::ptr::null_mut()
            } else {
                head.as_ptr()
            };
            assert!(split.updates().freeze(newest));
            // Readers go on.
            let found = if updates == 0 { 0 } else { 99 + updates };
            assert_eq!(tree.get(&[0; 8]), Ok(Lookup::Found(found)));
            if by_put {
                tree.put(&[0; 8], 7).unwrap();
            } else {
                assert_eq!(tree.write(&[0; 8], 7), Ok(Some(found)));
            }
            assert_eq!(tree.get(&[0; 8]), Ok(Lookup::Found(7)));
            // The suspended thread resumes, with its replacement.
            let late = OwnedNode::record(Kind::Put, 0, 666, head);
            assert!(tree.mapping.push(page, head, late).is_err());
            assert!(!tree.mapping.trim_split(page, split, guard));
            assert_eq!(tree.get(&[0; 8]), Ok(Lookup::Found(7)));
            assert_eq!(tree.len(), 20);
            sound(&tree);
        }
    }
}

#[test]
fn frozen_updates_block_no_thread() {
    any_thread_replaces_a_frozen_split_delta::<SplitHead>();
    any_thread_replaces_a_frozen_split_delta::<Both>();
    any_thread_replaces_a_frozen_split_delta::<PaperSplitHead>();
}

/// A put does not search for its key, so its leaf is counted when a count is needed.
fn puts_are_counted_at_rest<V: Variant>() {
    let tree = leaf::<V>(3);
    let guard = &epoch::pin();
    let version = |tree: &BwTree<Fixed8, V>| {
        tree.current(u64::from(tree.leaf(At(0), guard).id.0))
            .unwrap()
    };
    let before = version(&tree);
    tree.put(&7_u64.to_be_bytes(), 1).unwrap();
    let added = version(&tree);
    assert!(added != before, "the key was absent");
    tree.put(&7_u64.to_be_bytes(), 2).unwrap();
    assert_eq!(version(&tree), added, "and is seen to be present now");
    assert!(tree.leaf(At(0), guard).head.is_uncounted());
    assert_eq!((tree.len(), tree.statistics().records), (4, 4));
    let mut keys = BTreeSet::from([0, 1, 2, 7]);
    for n in 0..50 {
        tree.put(&u64::to_be_bytes(n), n).unwrap();
        keys.insert(n);
        assert_eq!(tree.len(), keys.len());
    }
    for n in 0..50 {
        assert_eq!(tree.delete(&u64::to_be_bytes(n)), Ok(Some(n)));
        assert_eq!(tree.len() as u64, 49 - n);
    }
    sound(&tree);
}

#[test]
fn puts_are_counted_in_every_variant() {
    puts_are_counted_at_rest::<Plain>();
    puts_are_counted_at_rest::<InChain>();
    puts_are_counted_at_rest::<SplitHead>();
    puts_are_counted_at_rest::<Both>();
    puts_are_counted_at_rest::<OpenBw>();
    puts_are_counted_at_rest::<Paper>();
    puts_are_counted_at_rest::<PaperInChain>();
    puts_are_counted_at_rest::<PaperSplitHead>();
}
