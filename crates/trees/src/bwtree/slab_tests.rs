//! Tests of trees with deltas in slabs, with threads that are suspended halfway.
//!
//! Paper: bwtree §2.4, reference 11

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::contract::sound;
use namiki_index::key::{Fixed8, Key, Variable};
use namiki_index::{InsertOutcome, Lookup, OrderedIndex, PointIndex};

use super::descend::{At, Place};
use super::node::{Kind, NodeRef, OwnedNode, Spot};
use super::structure_change_types::Resize;
use super::{BwConfig, BwTree, OpenBw};

/// Keys of the one leaf: 0, 10, 20, ….
const KEYS: u64 = 20;
const CHAIN: u8 = 6;
/// `slots_of` a chain of six.
const SLOTS: usize = 7;

fn bytes<K: Key>(n: u64) -> Vec<u8> {
    let mut bytes = if K::INLINE {
        Vec::new()
    } else {
        b"some prefix of all: ".to_vec()
    };
    bytes.extend((n * 10).to_be_bytes());
    bytes
}

/// A tree of one leaf.
fn leaf<K: Key>() -> BwTree<K, OpenBw> {
    let tree = BwTree::new(BwConfig {
        leaf_chain_max: CHAIN,
        ..BwConfig::default()
    });
    let sorted = (0..KEYS).map(|n| (bytes::<K>(n), n));
    assert_eq!(tree.bulk_load(sorted), Ok(KEYS as usize));
    tree
}

fn head<'g, K: Key>(tree: &BwTree<K, OpenBw>, guard: &'g Guard) -> Place<'g, K, OpenBw> {
    tree.leaf(At(K::min()), guard)
}

fn record<K: Key>(key: &[u8], payload: u64, on: NodeRef<'_, K, OpenBw>) -> OwnedNode<K, OpenBw> {
    let key = K::parse(key).unwrap();
    OwnedNode::record(Kind::Put, key, payload, on)
}

fn push<'g, K: Key>(
    tree: &BwTree<K, OpenBw>,
    on: Place<'g, K, OpenBw>,
    delta: OwnedNode<K, OpenBw>,
) -> NodeRef<'g, K, OpenBw> {
    match tree.mapping.push(on.id, on.head, delta) {
        Ok(head) => head,
        Err(_) => panic!("alone"),
    }
}

fn deltas_lie_in_the_slab_until_the_page_is_consolidated<K: Key>() {
    let tree = leaf::<K>();
    let guard = &epoch::pin();
    let memory = tree.memory_bytes();
    let mut consolidated = 0;
    for n in 0..100 {
        tree.update(&bytes::<K>(n % KEYS), n).unwrap();
        let head = head(&tree, guard).head;
        if head.kind() == Kind::Base {
            consolidated += 1;
        } else {
            assert!(head.is_in_slab());
            let to_base = head.base().as_ptr().addr() - head.as_ptr().addr();
            assert!(to_base < (SLOTS + 1) * super::node::slot_bytes::<K>());
        }
        assert_eq!(tree.memory_bytes(), memory, "an update takes no memory");
    }
    assert_eq!(consolidated, 100 / u64::from(CHAIN));
    assert_eq!(tree.statistics().consolidations, 1 + consolidated);
    sound(&tree);
}

/// Slots of writers that are suspended before they publish their deltas are lost.
fn a_full_slab_holds_no_writer_up<K: Key>() {
    let tree = leaf::<K>();
    let guard = &epoch::pin();
    let asleep: Vec<_> = (0..SLOTS)
        .map(|n| record(&bytes::<K>(n as u64), 666, head(&tree, guard).head))
        .collect();
    assert!(asleep.iter().all(|delta| delta.as_ref().is_in_slab()));
    for n in 0..KEYS {
        assert_eq!(tree.write(&bytes::<K>(n), 100 + n), Ok(Some(n)));
        for n in 0..KEYS {
            assert!(matches!(tree.get(&bytes::<K>(n)), Ok(Lookup::Found(value)) if value < 200));
        }
        tree.put(&bytes::<K>(n), 200 + n).unwrap();
        assert_eq!(tree.get(&bytes::<K>(n)), Ok(Lookup::Found(200 + n)));
        assert_eq!(tree.write(&bytes::<K>(n), n), Ok(Some(200 + n)));
    }
    // The page has been consolidated and has a fresh slab.
    tree.put(&bytes::<K>(0), 0).unwrap();
    assert!(tree.statistics().consolidations > 1);
    let newest = head(&tree, guard).head;
    assert!(newest.kind() == Kind::Base || newest.is_in_slab());
    // The suspended writers' slots are not those of the current base node (`slab_slots.rs`, O2).
    for delta in asleep {
        let place = head(&tree, guard);
        let key = K::parse(b"01234567").unwrap();
        let delta = delta.relink(key, 1, place.head);
        let far = delta
            .as_ref()
            .as_ptr()
            .addr()
            .abs_diff(place.head.base().as_ptr().addr());
        assert!(!delta.as_ref().is_in_slab() || far < 4_096);
        drop(delta);
    }
    sound(&tree);
}

/// Trap: a delta that a failed writer takes along to the new head must not lie in a slab that is
/// about to be freed.
fn a_slot_stays_with_its_base_node<K: Key>() {
    let tree = leaf::<K>();
    let guard = &epoch::pin();
    let before = head(&tree, guard);
    let delta = record(&bytes::<K>(1), 100, before.head);
    let slot = delta.as_ref().as_ptr();
    // The same base node: the slot, too, is the same.
    tree.update(&bytes::<K>(2), 50).unwrap();
    let updated = head(&tree, guard);
    let key = bytes::<K>(1);
    let key = K::parse(&key).unwrap();
    let delta = delta.relink(key, 101, updated.head);
    assert_eq!(delta.as_ref().as_ptr(), slot);
    assert!(delta.as_ref().is_in_slab());
    // Another base node: another slot.
    tree.consolidate(updated, Resize::Never, guard);
    let after = head(&tree, guard);
    assert!(after.head.kind() == Kind::Base && after.head != updated.head.base());
    let delta = delta.relink(key, 102, after.head);
    assert_ne!(delta.as_ref().as_ptr(), slot);
    assert!(delta.as_ref().is_in_slab());
    let head = push(&tree, after, delta);
    assert_eq!(head.next(), Some(after.head));
    assert_eq!(tree.get(&bytes::<K>(1)), Ok(Lookup::Found(102)));
    sound(&tree);
}

fn a_search_passes_deltas_of_other_keys<K: Key>() {
    let tree = leaf::<K>();
    let guard = &epoch::pin();
    let past = |n: u64| {
        let key = bytes::<K>(n);
        let head = head(&tree, guard).head;
        head.past_deltas(K::parse(&key).unwrap()).is_some()
    };
    // (The mark of the smallest key equals an unwritten mark.)
    assert!((1..KEYS).all(past), "the marks rule all keys out");
    tree.update(&bytes::<K>(3), 33).unwrap();
    tree.delete(&bytes::<K>(4)).unwrap();
    tree.put(&bytes::<K>(5), 55).unwrap();
    let marked: Vec<u64> = (1..KEYS).filter(|n| !past(*n)).collect();
    assert_eq!(marked, [3, 4, 5]);
    assert_eq!(tree.get(&bytes::<K>(3)), Ok(Lookup::Found(33)));
    assert!(matches!(tree.get(&bytes::<K>(4)), Ok(Lookup::Missing(_))));
    assert_eq!(tree.get(&bytes::<K>(5)), Ok(Lookup::Found(55)));
    // A mark of a delta that was never published misleads no search.
    drop(record(&bytes::<K>(6), 666, head(&tree, guard).head));
    assert!(!past(6));
    assert_eq!(tree.get(&bytes::<K>(6)), Ok(Lookup::Found(6)));
    sound(&tree);
}

/// Instantiates each of these tests for both kinds of keys.
macro_rules! for_both_keys {
    ($($test:ident),+ $(,)?) => {
        mod fixed {
            $(#[test] fn $test() { super::$test::<super::Fixed8>(); })+
        }
        mod variable {
            $(#[test] fn $test() { super::$test::<super::Variable>(); })+
        }
    };
}

for_both_keys! {
    deltas_lie_in_the_slab_until_the_page_is_consolidated,
    a_full_slab_holds_no_writer_up,
    a_slot_stays_with_its_base_node,
    a_search_passes_deltas_of_other_keys,
}

/// Among deltas in the slab there may be some that did not fit.
#[test]
fn keys_too_long_for_a_slot_are_found() {
    let tree = leaf::<Variable>();
    let guard = &epoch::pin();
    let long = |n: u64| [vec![b'x'; 200], n.to_be_bytes().to_vec()].concat();
    assert!(matches!(
        tree.insert(&long(1), 1),
        Ok(InsertOutcome::Inserted(_))
    ));
    assert!(!head(&tree, guard).head.is_in_slab());
    tree.put(&bytes::<Variable>(1), 11).unwrap();
    assert!(head(&tree, guard).head.is_in_slab());
    for (n, found) in [(0, 0), (1, 11), (2, 2)] {
        assert_eq!(tree.get(&bytes::<Variable>(n)), Ok(Lookup::Found(found)));
    }
    assert_eq!(tree.get(&long(1)), Ok(Lookup::Found(1)));
    assert!(matches!(tree.get(&long(2)), Ok(Lookup::Missing(_))));
    for n in 2..500 {
        tree.insert(&long(n), n).unwrap();
        tree.put(&bytes::<Variable>(n % 9), n).unwrap();
    }
    assert!((1..500).all(|n| tree.get(&long(n)) == Ok(Lookup::Found(n))));
    sound(&tree);
}

/// The position that a writer found spares the consolidation a search.
#[test]
fn deltas_say_where_their_keys_are_in_the_base_node() {
    let tree = leaf::<Fixed8>();
    let guard = &epoch::pin();
    let spot = || head(&tree, guard).head.spot();
    let own = |n: u64| n.to_be_bytes();
    tree.put(&own(70), 1).unwrap();
    assert_eq!(spot(), Spot::UNKNOWN);
    tree.update(&own(30), 1).unwrap();
    assert_eq!(spot(), Spot::new(3, true));
    tree.insert(&own(31), 1).unwrap();
    assert_eq!(spot(), Spot::new(4, false));
    // As the delta below says.
    tree.delete(&own(31)).unwrap();
    assert_eq!(spot(), Spot::new(4, false));
    tree.insert(&own(u64::MAX), 1).unwrap();
    assert_eq!(spot(), Spot::new(KEYS as usize, false));
    tree.delete(&own(30)).unwrap();
    assert_eq!(head(&tree, guard).head.kind(), Kind::Base, "six deltas");
    assert_eq!(tree.len() as u64, KEYS);
    assert_eq!(tree.get(&own(70)), Ok(Lookup::Found(1)));
    assert!(matches!(tree.get(&own(30)), Ok(Lookup::Missing(_))));
    sound(&tree);
}
