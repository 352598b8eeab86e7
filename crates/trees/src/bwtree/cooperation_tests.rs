//! Structure changes left half done at every step, and helpers that come too late.
//!
//! Paper: bwtree §4.2.4, figure 11

use std::ops::{Bound, ControlFlow};
use std::thread;

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::contract::{scan_all, sound};
use namiki_index::key::Fixed8;
use namiki_index::{InsertOutcome, Lookup, PointIndex, ScanRange};

use super::consolidate::collect;
use super::descend::{At, Below, Place};
use super::leaf_stamps::StampTable;
use super::node::{Change, Kind, NodeRef, OwnedNode};
use super::page_id::PageId;
use super::structure_change_types::Resize;
use super::{
    Both, BwConfig, BwTree, InChain, OpenBw, Paper, PaperInChain, PaperSplitHead, Plain, SplitHead,
    Variant,
};

const KEYS: u64 = 40;

fn key(n: u64) -> [u8; 8] {
    (n * 10).to_be_bytes()
}

/// A tree of a few levels with half-full pages.
fn tree<V: Variant>() -> BwTree<Fixed8, V> {
    let tree = BwTree::<Fixed8, V>::new(BwConfig {
        leaf_max: 8,
        inner_max: 4,
        leaf_chain_max: 100,
        inner_chain_max: 100,
        load_percent: 25,
    });
    let sorted = (0..KEYS).map(|n| (key(n), n));
    assert_eq!(
        namiki_index::OrderedIndex::bulk_load(&tree, sorted),
        Ok(KEYS as usize)
    );
    // The paper's own tree keeps the split delta of the load until the first leaf is consolidated.
    let guard = &epoch::pin();
    tree.clear_change(tree.leaf(At(0), guard), guard);
    tree
}

fn all_there<V: Variant>(tree: &BwTree<Fixed8, V>) {
    sound(tree);
    assert_eq!(tree.len(), KEYS as usize);
    for n in 0..KEYS {
        assert_eq!(tree.get(&key(n)), Ok(Lookup::Found(n)));
    }
}

/// A thread that counts pages, or looks for an earlier leaf, finds a removed page by its number. If
/// it has pinned one epoch after the retirement of the page, the collector may already unlink the
/// page, but not free it.
#[test]
fn a_removed_page_found_by_its_number_is_not_freed() {
    let mut found = 0;
    for _ in 0..200 {
        let tree = BwTree::<Fixed8, Plain>::new(BwConfig {
            leaf_max: 8,
            inner_max: 4,
            leaf_chain_max: 4,
            inner_chain_max: 4,
            load_percent: 50,
        });
        for n in 0..KEYS {
            tree.insert(&key(n), n).unwrap();
        }
        for n in 0..KEYS {
            assert_eq!(tree.delete(&key(n)), Ok(Some(n)));
        }
        epoch::pin().flush();
        let guard = &epoch::pin();
        let heads = tree
            .mapping
            .ids()
            .filter_map(|id| tree.mapping.load(id, guard));
        let removed: Vec<_> = heads.filter(|head| head.is_removed()).collect();
        found += removed.len();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..4 {
                    epoch::pin().flush();
                }
                // It gets the memory that was freed.
                all_there(&self::tree::<Plain>());
            });
        });
        assert!(removed.iter().all(|head| head.is_removed()));
    }
    assert!(found > 0);
}

/// The parent page of level 1 for a key.
fn parent<'g, V: Variant>(
    tree: &BwTree<Fixed8, V>,
    at: u64,
    guard: &'g Guard,
) -> Place<'g, Fixed8, V> {
    tree.descend(1, At(at), guard).unwrap()
}

/// A leaf that is not the first child of its parent, with the separator in front of it.
fn inner_child<V: Variant>(tree: &BwTree<Fixed8, V>, guard: &Guard) -> (u64, PageId) {
    for n in 0..KEYS {
        let at = n * 10;
        let above = parent(tree, at, guard);
        let route = above.head.route(At(at));
        if route.low != above.head.low() {
            return (route.low, route.child);
        }
    }
    panic!("every leaf is a first child");
}

/// Splits the leaf of a key as far as the split delta on the leaf, and returns it.
fn half_split<'g, V: Variant>(
    tree: &BwTree<Fixed8, V>,
    at: u64,
    guard: &'g Guard,
) -> (PageId, NodeRef<'g, Fixed8, V>) {
    let place = tree.leaf(At(at), guard);
    let mut entries = Vec::new();
    collect(place.head, &mut entries);
    let (split, _) = tree.part(place, &entries, guard).unwrap();
    (place.id, split)
}

/// Announces a merge in a page of `level` and takes `steps` further steps.
fn half_merge<V: Variant>(
    tree: &BwTree<Fixed8, V>,
    level: u8,
    separator: u64,
    victim: PageId,
    steps: usize,
) -> PageId {
    let guard = &epoch::pin();
    let above = tree.descend(level, At(separator), guard).unwrap();
    let change = Change {
        key: separator,
        child: victim,
        page: PageId::NONE,
        lower: separator,
        upper: None,
    };
    let delta = OwnedNode::index(Kind::Merging, &change, above.head);
    let Ok(_) = tree.mapping.push(above.id, above.head, delta) else {
        panic!("alone")
    };
    for _ in 0..steps {
        let head = tree.mapping.load(above.id, guard).unwrap();
        tree.advance_merge(Place::new(above.id, head), head.smo().unwrap(), guard);
    }
    above.id
}

fn shows_change<V: Variant>(tree: &BwTree<Fixed8, V>, page: PageId) -> bool {
    tree.mapping
        .load(page, &epoch::pin())
        .is_some_and(|head| head.smo().is_some())
}

fn a_half_split_is_invisible_and_completed_by_consolidation<V: Variant>() {
    let tree = tree::<V>();
    let guard = &epoch::pin();
    let (leaf, split) = half_split(&tree, 100, guard);
    all_there(&tree);
    assert!(tree.shows(leaf, split, guard));
    let head = tree.mapping.load(leaf, guard).unwrap();
    tree.consolidate(Place::new(leaf, head), Resize::Never, guard);
    assert!(!tree.shows(leaf, split, guard));
    assert_eq!(
        parent(&tree, split.key(), guard)
            .head
            .route(At(split.key()))
            .child,
        split.child()
    );
    all_there(&tree);
}

fn a_split_keeps_its_trace_until_the_parent_knows<V: Variant>() {
    let tree = tree::<V>();
    let guard = &epoch::pin();
    let (leaf, split) = half_split(&tree, 100, guard);
    // Deltas on top: the split delta can no longer be taken off alone.
    let low = tree.mapping.load(leaf, guard).unwrap().low();
    for _ in 0..5 {
        assert!(matches!(
            tree.update(&low.to_be_bytes(), low / 10),
            Ok(Some(_))
        ));
    }
    tree.complete_split(Place::new(leaf, split), guard);
    assert!(tree.shows(leaf, split, guard));
    let head = tree.mapping.load(leaf, guard).unwrap();
    tree.clear_change(Place::new(leaf, head), guard);
    assert!(!shows_change(&tree, leaf));
    all_there(&tree);
}

fn a_split_of_the_right_half_completes_the_root_split<V: Variant>() {
    let tree = BwTree::<Fixed8, V>::new(BwConfig {
        leaf_chain_max: 100,
        ..BwConfig::tiny()
    });
    for n in [3, 1, 0, 2] {
        tree.write(&key(n), n).unwrap();
    }
    let guard = &epoch::pin();
    let (left, first) = half_split(&tree, 0, guard);
    assert_eq!(tree.root.load().page, left);
    let (right, second) = half_split(&tree, 30, guard);
    assert_ne!(left, right);
    tree.complete_split(Place::new(right, second), guard);
    let root = tree.mapping.load(tree.root.load().page, guard).unwrap();
    assert_eq!((root.level(), root.len()), (1, 3));
    // The paper's own tree leaves it to the next consolidation.
    assert_eq!(tree.shows(left, first, guard), V::LITERAL);
    sound(&tree);
}

fn readers_writers_and_scans_complete_a_merge_left_anywhere<V: Variant>() {
    for steps in 0..4 {
        for helper in 0..4 {
            let tree = tree::<V>();
            let (separator, victim) = inner_child(&tree, &epoch::pin());
            let above = half_merge(&tree, 1, separator, victim, steps);
            assert_eq!(shows_change(&tree, above), steps < 3, "after step {steps}");
            match helper {
                0 => all_there(&tree),
                1 => {
                    let old = separator / 10;
                    assert_eq!(tree.write(&separator.to_be_bytes(), old), Ok(Some(old)));
                    let between = (separator + 1).to_be_bytes();
                    assert!(matches!(
                        tree.insert(&between, 0),
                        Ok(InsertOutcome::Inserted(_))
                    ));
                    assert_eq!(tree.delete(&between), Ok(Some(0)));
                }
                2 => {
                    let bounds = ScanRange::backward(Bound::Unbounded, Bound::Unbounded);
                    assert_eq!(scan_all(&tree, bounds).len(), KEYS as usize);
                }
                _ => {}
            }
            let guard = &epoch::pin();
            tree.complete_merge(above, victim, guard);
            assert!(!shows_change(&tree, above));
            // The separator is gone from the parent, and the range has one owner.
            let route = parent(&tree, separator, guard).head.route(At(separator));
            assert!(route.low < separator && route.child != victim);
            assert!(
                tree.mapping
                    .load(victim, guard)
                    .is_none_or(NodeRef::is_removed)
            );
            all_there(&tree);
            assert!(tree.statistics().merges > 0);
        }
    }
}

/// A delta above a merge does not answer for keys in the right one of its two chains.
fn updates_on_both_sides_of_a_merge_are_found<V: Variant>() {
    let tree = tree::<V>();
    let (separator, victim) = inner_child(&tree, &epoch::pin());
    let update_all = |from: u64| {
        for n in 0..KEYS {
            let seen = tree.update(&key(n), from + n).unwrap();
            assert_eq!(seen, Some(if from == 100 { n } else { 100 + n }));
        }
    };
    update_all(100);
    let above = half_merge(&tree, 1, separator, victim, 2);
    let guard = &epoch::pin();
    // A search for one of the right keys would complete the merge.
    let left = parent(&tree, separator, guard)
        .head
        .route(Below(separator))
        .child;
    let merge = tree.mapping.load(left, guard).unwrap();
    assert_eq!(merge.kind(), Kind::Merge);
    let added = separator - 1;
    tree.put(&added.to_be_bytes(), 7).unwrap();
    let head = tree.mapping.load(left, guard).unwrap();
    assert_eq!((head.kind(), head.next()), (Kind::Put, Some(merge)));
    let mut found = [0; 2];
    for n in 0..KEYS {
        let at = n * 10;
        if at >= head.low() && head.high().is_none_or(|high| at < high) {
            assert_eq!(head.find(at), Some(100 + n));
            found[usize::from(at >= separator)] += 1;
        }
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
    assert_eq!(head.find(added), Some(7));
    assert_eq!(head.find(separator + 1), None);
    assert_eq!(tree.delete(&added.to_be_bytes()), Ok(Some(7)));
    update_all(0);
    tree.complete_merge(above, victim, guard);
    all_there(&tree);
}

/// Trap: the parent must not split between the two siblings of a merge under way.
fn a_parent_completes_the_merge_below_before_it_splits<V: Variant>() {
    let tree = tree::<V>();
    let (separator, victim) = inner_child(&tree, &epoch::pin());
    let above = half_merge(&tree, 1, separator, victim, 1);
    let guard = &epoch::pin();
    let head = tree.mapping.load(above, guard).unwrap();
    tree.consolidate(Place::new(above, head), Resize::SplitOrMerge, guard);
    assert!(!shows_change(&tree, above));
    assert!(tree.statistics().merges > 0);
    all_there(&tree);
}

fn a_merge_goes_into_a_split_of_the_left_sibling<V: Variant>() {
    let tree = tree::<V>();
    let (separator, victim) = inner_child(&tree, &epoch::pin());
    let guard = &epoch::pin();
    let left = parent(&tree, separator, guard)
        .head
        .route(Below(separator))
        .child;
    let (page, split) = half_split(&tree, separator - 10, guard);
    assert_eq!(page, left);
    let above = half_merge(&tree, 1, separator, victim, 0);
    tree.complete_merge(above, victim, guard);
    // The left sibling's split is no obstacle and still half done.
    assert!(tree.shows(left, split, guard));
    let union = tree.mapping.load(split.child(), guard).unwrap();
    assert!(union.high().is_none_or(|high| high > separator));
    all_there(&tree);
    let head = tree.mapping.load(left, guard).unwrap();
    tree.clear_change(Place::new(left, head), guard);
    assert!(!shows_change(&tree, left));
    all_there(&tree);
}

/// Figure 11, one level up: both pages to be merged have a merge of their children under way.
fn a_merge_completes_what_its_two_pages_show_first<V: Variant>() {
    let tree = tree::<V>();
    let guard = &epoch::pin();
    // An inner page that is not the first child of its parent, and a child of it and of its left
    // sibling that are not first children.
    let mut found = None;
    for n in 0..KEYS {
        let route = tree.descend(2, At(n * 10), guard).unwrap();
        let (low, entry) = (route.head.low(), route.head.route(At(n * 10)));
        if entry.low != low {
            found = Some((entry.low, entry.child));
            break;
        }
    }
    let (separator, victim) = found.unwrap();
    let second_child = |page: PageId| {
        let head = tree.mapping.load(page, guard).unwrap();
        let first = head.route(At(head.low()));
        (
            first.high.unwrap(),
            head.route(At(first.high.unwrap())).child,
        )
    };
    let left = tree.descend(1, Below(separator), guard).unwrap().id;
    for page in [left, victim] {
        let (separator, child) = second_child(page);
        assert_eq!(half_merge(&tree, 1, separator, child, 1), page);
    }
    let above = half_merge(&tree, 2, separator, victim, 0);
    all_there(&tree);
    tree.complete_merge(above, victim, guard);
    assert!(!shows_change(&tree, left));
    assert!(!shows_change(&tree, above));
    assert!(tree.statistics().merges >= 3);
    all_there(&tree);
}

/// S3: a helper that was suspended before the right half was merged away and the root collapsed.
fn a_split_helper_that_comes_too_late_changes_nothing<V: Variant>() {
    let tree = BwTree::<Fixed8, V>::new(BwConfig {
        leaf_chain_max: 100,
        ..BwConfig::tiny()
    });
    for n in [3, 1, 0, 2] {
        tree.write(&key(n), n).unwrap();
    }
    let guard = &epoch::pin();
    let (page, split) = half_split(&tree, 0, guard);
    tree.complete_split(Place::new(page, split), guard);
    assert_eq!(tree.statistics().height, 2);
    for n in 1..4 {
        tree.delete(&key(n)).unwrap();
    }
    let head = tree.mapping.load(page, guard).unwrap();
    tree.consolidate(Place::new(page, head), Resize::SplitOrMerge, guard);
    let root = tree.root.load().page;
    let after = tree.mapping.load(root, guard).unwrap();
    assert_eq!((root, tree.statistics().height), (page, 1));
    tree.complete_split(Place::new(page, split), guard);
    assert_eq!(tree.root.load().page, root);
    assert!(tree.mapping.load(root, guard) == Some(after));
    sound(&tree);
}

/// The same below a parent that stays: the entry would name a page that no longer exists.
fn a_late_split_helper_does_not_restore_the_entry<V: Variant>() {
    let tree = tree::<V>();
    let guard = &epoch::pin();
    let (page, split) = half_split(&tree, 100, guard);
    tree.complete_split(Place::new(page, split), guard);
    half_merge(&tree, 1, split.key(), split.child(), 3);
    assert_eq!(tree.leaf(At(split.key()), guard).id, page);
    let before = parent(&tree, split.key(), guard);
    tree.complete_split(Place::new(page, split), guard);
    let after = parent(&tree, split.key(), guard);
    assert!(after.id == before.id && after.head == before.head);
    all_there(&tree);
}

/// Trap "id reuse": a number is reused for a new leaf only when no thread is pinned, and its
/// counter continues.
fn page_numbers_are_reused_and_their_versions_go_on<V: Variant>() {
    let tree = tree::<V>();
    let (separator, victim) = inner_child(&tree, &epoch::pin());
    let dead = tree.current(u64::from(victim.0)).unwrap();
    half_merge(&tree, 1, separator, victim, 3);
    assert_eq!(tree.current(dead.leaf), None);
    assert!(!tree.raise_and_check(dead, 77));
    let (mut reused, mut others) = (None, Vec::new());
    // Other tests in this process pin as well.
    for _ in 0..5_000 {
        epoch::pin().flush();
        if let Some(id) = tree.mapping.allocate() {
            if id == victim {
                reused = Some(id);
                break;
            }
            others.push(id);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let id = reused.expect("the number comes back");
    others
        .into_iter()
        .for_each(|id| tree.mapping.unfill(id, &epoch::pin()));
    assert!(tree.mapping.first_counter(id) > dead.counter);
    assert!(tree.leaf_rts(dead.leaf) >= 77, "an rts never decreases");
}

/// A reader's stamp on the unsplit leaf counts for both halves, and on both for their union.
fn stamps_follow_keys_through_splits_and_merges<V: Variant>() {
    let tree = tree::<V>();
    let guard = &epoch::pin();
    let before = tree
        .current(u64::from(tree.leaf(At(100), guard).id.0))
        .unwrap();
    assert!(tree.raise_and_check(before, 1000));
    let (leaf, split) = half_split(&tree, 100, guard);
    assert!(
        !tree.raise_and_check(before, 2000),
        "the split ended that version"
    );
    let right = u64::from(split.child().0);
    assert!(tree.leaf_rts(right) >= 1000);
    // Only the right half is read with a stamp later than all.
    let right_version = tree.current(right).unwrap();
    assert!(tree.raise_and_check(right_version, 5000));
    tree.complete_split(Place::new(leaf, split), guard);
    let above = half_merge(&tree, 1, split.key(), split.child(), 1);
    assert!(
        !tree.raise_and_check(right_version, 9000),
        "a leaf under removal fails every check"
    );
    tree.complete_merge(above, split.child(), guard);
    assert!(tree.leaf_rts(u64::from(leaf.0)) >= 5000);
}

/// Before the takeover the right half answers with the left one's stamp.
fn an_inherited_stamp_is_seen_before_its_splitter_has_it<V: Variant>() {
    let tree = tree::<V>();
    let (left, right) = (PageId(0), PageId(1));
    tree.mapping.inherit(right, left);
    tree.mapping.raise_rts(left, 123);
    assert_eq!(tree.leaf_rts(1), 123);
    tree.mapping.take_over_rts(right);
    tree.mapping.raise_rts(left, 456);
    assert_eq!(tree.leaf_rts(1), 123);
}

fn a_scan_may_use_the_tree_and_stop<V: Variant>() {
    let tree = tree::<V>();
    let mut seen = 0;
    let scanned = namiki_index::OrderedIndex::scan(&tree, ScanRange::all(), |item| {
        if let namiki_index::ScanItem::Entry(key, _) = item {
            assert!(matches!(tree.delete(key), Ok(Some(_))));
            seen += 1;
        }
        if seen == 30 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(
        (scanned, seen, tree.len()),
        (Ok(()), 30, KEYS as usize - 30)
    );
}

/// Instantiates each of these tests for every variant.
macro_rules! for_all_variants {
    ($($test:ident),+ $(,)?) => {
        for_all_variants!(@ plain Plain: $($test)+);
        for_all_variants!(@ in_chain InChain: $($test)+);
        for_all_variants!(@ split_head SplitHead: $($test)+);
        for_all_variants!(@ both Both: $($test)+);
        for_all_variants!(@ open_bw OpenBw: $($test)+);
        for_all_variants!(@ paper Paper: $($test)+);
        for_all_variants!(@ paper_in_chain PaperInChain: $($test)+);
        for_all_variants!(@ paper_split_head PaperSplitHead: $($test)+);
    };
    (@ $module:ident $variant:ident: $($test:ident)+) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test::<super::$variant>();
                }
            )+
        }
    };
}

for_all_variants! {
    a_half_split_is_invisible_and_completed_by_consolidation,
    a_split_keeps_its_trace_until_the_parent_knows,
    a_split_of_the_right_half_completes_the_root_split,
    readers_writers_and_scans_complete_a_merge_left_anywhere,
    updates_on_both_sides_of_a_merge_are_found,
    a_parent_completes_the_merge_below_before_it_splits,
    a_merge_goes_into_a_split_of_the_left_sibling,
    a_merge_completes_what_its_two_pages_show_first,
    a_split_helper_that_comes_too_late_changes_nothing,
    a_late_split_helper_does_not_restore_the_entry,
    page_numbers_are_reused_and_their_versions_go_on,
    stamps_follow_keys_through_splits_and_merges,
    an_inherited_stamp_is_seen_before_its_splitter_has_it,
    a_scan_may_use_the_tree_and_stop,
}

/// Whether there is a page above the leaves. (Counting takes long once all ids have been handed
/// out.)
fn has_grown<V: Variant>(tree: &BwTree<Fixed8, V>) -> bool {
    tree.descend(1, At(0), &epoch::pin()).is_some()
}

/// A tree runs out of page ids when it needs one more: for the right half, for the root above it,
/// and for the root above a page that was split before it became the root.
fn a_tree_without_page_ids_stays_as_it_is<V: Variant>() {
    for left in 0..3 {
        let tree = BwTree::<Fixed8, V>::new(BwConfig::tiny());
        let spare: Vec<PageId> = (0..left).filter_map(|_| tree.mapping.allocate()).collect();
        tree.mapping.use_up();
        spare
            .into_iter()
            .for_each(|id| tree.mapping.unfill(id, &epoch::pin()));
        for n in 0..6 {
            tree.insert(&key(n), n).unwrap();
        }
        assert_eq!(has_grown(&tree), left == 2);
        for n in 0..6 {
            assert_eq!(tree.get(&key(n)), Ok(Lookup::Found(n)));
            assert_eq!(tree.update(&key(n), 7), Ok(Some(n)));
            assert_eq!(tree.delete(&key(n)), Ok(Some(7)));
            assert!(matches!(tree.get(&key(n)), Ok(Lookup::Missing(_))));
        }
    }
    let tree = BwTree::<Fixed8, V>::new(BwConfig {
        leaf_chain_max: 100,
        ..BwConfig::tiny()
    });
    for n in 0..4 {
        tree.insert(&key(n), n).unwrap();
    }
    let guard = &epoch::pin();
    let page = tree.root.load().page;
    // The leaf is split as one that is not the root.
    let other = tree.mapping.allocate().unwrap();
    assert!(tree.root.replace(tree.root.load(), other));
    let (page, split) = {
        let head = tree.mapping.load(page, guard).unwrap();
        let mut entries = Vec::new();
        collect(head, &mut entries);
        let place = Place::new(page, head);
        (page, tree.part(place, &entries, guard).unwrap().0)
    };
    assert!(tree.root.replace(tree.root.load(), page));
    tree.mapping.use_up();
    assert!(!tree.complete_split(Place::new(page, split), guard));
    for round in 0..10 {
        for n in 0..4 {
            assert_eq!(
                tree.update(&key(n), n + round),
                Ok(Some(n + round.max(1) - 1))
            );
            assert_eq!(tree.get(&key(n)), Ok(Lookup::Found(n + round)));
        }
    }
    assert!(shows_change(&tree, page));
    // There is one again.
    tree.mapping.unfill(other, &epoch::pin());
    assert!(tree.complete_split(Place::new(page, split), guard));
    assert!(has_grown(&tree));
    for n in 0..4 {
        assert_eq!(tree.get(&key(n)), Ok(Lookup::Found(n + 9)));
    }
}

#[test]
fn trees_without_page_ids_stay_as_they_are() {
    a_tree_without_page_ids_stays_as_it_is::<Plain>();
    a_tree_without_page_ids_stays_as_it_is::<InChain>();
    a_tree_without_page_ids_stays_as_it_is::<SplitHead>();
    a_tree_without_page_ids_stays_as_it_is::<Both>();
    a_tree_without_page_ids_stays_as_it_is::<OpenBw>();
    a_tree_without_page_ids_stays_as_it_is::<Paper>();
    a_tree_without_page_ids_stays_as_it_is::<PaperInChain>();
    a_tree_without_page_ids_stays_as_it_is::<PaperSplitHead>();
}
