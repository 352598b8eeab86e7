//! The BzTree, both variants, under the contract suite. Small nodes make structure changes happen all the
//! time.
#![cfg(not(loom))]

use namiki_index::bztree::{Append, BzConfig, FixedBzTree, InPlace, VariableBzTree, Variant};
use namiki_index::contract::{self, KeyShape};
use namiki_index::{IndexError, Lookup, PointIndex, ordered_contract};

fn small() -> BzConfig {
    BzConfig {
        leaf_max: 8,
        inner_max: 6,
        slots: 5,
        load_percent: 70,
    }
}

mod append {
    use super::*;

    ordered_contract! {
        fixed: [
            || FixedBzTree::<Append>::new(BzConfig::tiny()),
            || FixedBzTree::<Append>::new(small()),
        ],
        variable: [
            || VariableBzTree::<Append>::new(BzConfig::tiny()),
            || VariableBzTree::<Append>::new(small()),
        ],
    }
}

mod inplace {
    use super::*;

    ordered_contract! {
        fixed: [
            || FixedBzTree::<InPlace>::new(BzConfig::tiny()),
            || FixedBzTree::<InPlace>::new(small()),
        ],
        variable: [
            || VariableBzTree::<InPlace>::new(BzConfig::tiny()),
            || VariableBzTree::<InPlace>::new(small()),
        ],
    }
}

fn matches_a_sorted_map_with_default_nodes<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
    let tree = VariableBzTree::<V>::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}

#[test]
fn matches_a_sorted_map_with_default_nodes_append() {
    matches_a_sorted_map_with_default_nodes::<Append>();
}

#[test]
fn matches_a_sorted_map_with_default_nodes_in_place() {
    matches_a_sorted_map_with_default_nodes::<InPlace>();
}

fn refuses_payloads_that_use_the_mark_bits<V: Variant>() {
    let tree = FixedBzTree::<V>::default();
    let (key, other) = ([0; 8], [1; 8]);
    let most = (1 << 61) - 1;
    tree.put(&key, most).unwrap();
    assert_eq!(tree.get(&key), Ok(Lookup::Found(most)));
    for bit in 61..64 {
        let payload = 1 << bit;
        let refused = IndexError::PayloadReserved {
            payload,
            reserved: 7 << 61,
        };
        for key in [&key, &other] {
            assert_eq!(tree.insert(key, payload).as_ref(), Err(&refused));
            assert_eq!(tree.update(key, payload).as_ref(), Err(&refused));
            assert_eq!(tree.write(key, payload).as_ref(), Err(&refused));
            assert_eq!(tree.put(key, payload).as_ref(), Err(&refused));
        }
        let made = tree.get_or_insert(&other, &mut || payload);
        assert_eq!(made.as_ref(), Err(&refused));
        assert_eq!(
            namiki_index::OrderedIndex::bulk_load(&FixedBzTree::<V>::default(), [(key, payload)]),
            Err(refused)
        );
    }
    assert_eq!(tree.get(&key), Ok(Lookup::Found(most)));
    assert_eq!(tree.len(), 1);
}

#[test]
fn payloads_that_use_the_mark_bits_are_refused() {
    refuses_payloads_that_use_the_mark_bits::<Append>();
    refuses_payloads_that_use_the_mark_bits::<InPlace>();
}
