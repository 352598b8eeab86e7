//! The Masstree under the contract suite, and tests of its layers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::thread;

use namiki_index::contract::{self, KeyShape};
use namiki_index::{
    InsertOutcome, LeafVersion, Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange,
    ordered_contract,
};
use namiki_trees::masstree::{FixedMasstree, MasstreeConfig, VariableMasstree};

fn small() -> MasstreeConfig {
    MasstreeConfig {
        leaf_max: 5,
        inner_max: 7,
        load_percent: 70,
    }
}

ordered_contract! {
    fixed: [
        || FixedMasstree::new(MasstreeConfig::tiny()),
        || FixedMasstree::new(small()),
    ],
    variable: [
        || VariableMasstree::new(MasstreeConfig::tiny()),
    ],
}

#[test]
fn matches_a_sorted_map_with_default_nodes() {
    let tree = FixedMasstree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Sparse, 20_000, 200_000, 7);
    assert_eq!(tree.statistics().height, 1);
}

#[test]
fn matches_a_sorted_map_of_byte_strings_with_default_nodes() {
    let tree = VariableMasstree::default();
    contract::matches_a_sorted_map(&tree, KeyShape::Nested, 20_000, 200_000, 8);
    assert_eq!(tree.statistics().height, 1);
}

/// Keys made of few different slices, so that layers are nested, some share whole slices, and
/// layers are created and removed.
fn layered(n: u64) -> Vec<u8> {
    const SLICES: [&[u8; 8]; 4] = [b"aaaaaaaa", b"aaaaaaab", &[0; 8], &[255; 8]];
    const TAILS: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a", b"\xff"];
    let mut random = contract::Random::new(n);
    let mut key = Vec::new();
    for _ in 0..random.below(5) {
        // Mostly the first, so that much is shared.
        let slice = if random.chance(1, 2) {
            0
        } else {
            random.below(4)
        };
        key.extend_from_slice(SLICES[slice as usize]);
    }
    key.extend_from_slice(TAILS[random.below(5) as usize]);
    key
}

fn leaves(tree: &VariableMasstree, range: ScanRange<'_>) -> Vec<LeafVersion> {
    let mut leaves = Vec::new();
    let scanned = tree.scan(range, |item| {
        if let ScanItem::Leaf(version) = item {
            leaves.push(version);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(scanned, Ok(()));
    leaves
}

/// The leaf versions of inserts, of absent keys and of scans agree in every layer.
#[test]
fn layers_match_a_sorted_map() {
    for seed in 0..6 {
        let tree = VariableMasstree::new(small());
        let mut model = BTreeMap::new();
        let mut random = contract::Random::new(seed);
        for step in 0..6_000_u64 {
            let key = layered(random.below(600));
            let growing = (step / 1_000).is_multiple_of(2);
            if random.chance(if growing { 7 } else { 2 }, 10) {
                let missing = tree.get(&key);
                match tree.insert(&key, step) {
                    Ok(InsertOutcome::Inserted(done)) => {
                        assert_eq!(missing, Ok(Lookup::Missing(done.before)));
                        assert_eq!(model.insert(key, step), None);
                        let (left, right) = done.split.unwrap_or((done.after, done.after));
                        assert_eq!(tree.current(left.leaf), Some(left));
                        assert_eq!(tree.current(right.leaf), Some(right));
                    }
                    Ok(InsertOutcome::Exists(payload)) => {
                        assert_eq!(model.get(&key), Some(&payload));
                    }
                    Err(error) => panic!("{error}"),
                }
            } else {
                let one = Bound::Included(key.as_slice());
                let seen = leaves(&tree, ScanRange::forward(one, one));
                assert_eq!(seen, leaves(&tree, ScanRange::backward(one, one)));
                if let Ok(Lookup::Missing(version)) = tree.get(&key) {
                    assert_eq!(seen, [version]);
                }
                assert_eq!(tree.delete(&key), Ok(model.remove(&key)));
            }
            if step.is_multiple_of(7) {
                let mut ends = [layered(random.below(600)), layered(random.below(600))];
                ends.sort();
                if ends[0] < ends[1] {
                    let bound = |random: &mut contract::Random, key| match random.below(2) {
                        0 => Bound::Included(key),
                        _ => Bound::Excluded(key),
                    };
                    let start = bound(&mut random, ends[0].clone());
                    let end = bound(&mut random, ends[1].clone());
                    let expected: Vec<_> = model.range((start.clone(), end.clone())).collect();
                    let (start, end) = (start.as_ref(), end.as_ref());
                    let (start, end) = (start.map(Vec::as_slice), end.map(Vec::as_slice));
                    let forward = contract::scan_all(&tree, ScanRange::forward(start, end));
                    let mut backward = contract::scan_all(&tree, ScanRange::backward(start, end));
                    backward.reverse();
                    assert_eq!(forward, backward);
                    assert!(forward.iter().map(|(k, p)| (k, p)).eq(expected));
                }
            }
        }
        contract::sound(&tree);
        for key in model.keys() {
            assert!(matches!(tree.delete(key), Ok(Some(_))));
        }
        let statistics = tree.statistics();
        assert_eq!((statistics.leaves, statistics.inner_nodes), (1, 0));
    }
}

/// A transaction that replaces what it relied on by what an insertion reports still covers all.
#[test]
fn an_insertion_adds_one_leaf_at_most_and_says_which() {
    let set = |leaves: Vec<LeafVersion>| -> BTreeSet<(u64, u64)> {
        leaves
            .into_iter()
            .map(|leaf| (leaf.leaf, leaf.counter))
            .collect()
    };
    let tree = VariableMasstree::new(MasstreeConfig::tiny());
    let mut known = set(leaves(&tree, ScanRange::all()));
    for n in 0..1_500 {
        if let Ok(InsertOutcome::Inserted(done)) = tree.insert(&layered(n), n) {
            assert!(known.remove(&(done.before.leaf, done.before.counter)));
            let (left, right) = done.split.unwrap_or((done.after, done.after));
            known.extend([left, right].map(|leaf| (leaf.leaf, leaf.counter)));
            assert_eq!(set(leaves(&tree, ScanRange::all())), known);
        }
    }
    let backward = ScanRange::backward(Bound::Unbounded, Bound::Unbounded);
    assert_eq!(set(leaves(&tree, backward)), known);
    assert!(known.len() > 50, "{}", known.len());
}

/// Threads that put layers above, below and between those of other threads, and empty them, lose no
/// key.
#[test]
fn layers_come_and_go_under_many_threads() {
    let keys: Vec<Vec<u8>> = (0..3_000)
        .map(layered)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    for round in 0..8 {
        let tree = VariableMasstree::new(MasstreeConfig::tiny());
        thread::scope(|scope| {
            for thread in 0..4 {
                let (tree, keys) = (&tree, &keys);
                scope.spawn(move || {
                    let mut random = contract::Random::new(round * 4 + thread);
                    let mut mine = BTreeMap::new();
                    for step in 0..6_000 {
                        let n = random.below(keys.len() as u64 / 4) * 4 + thread;
                        let Some(key) = keys.get(n as usize) else {
                            continue;
                        };
                        assert_eq!(
                            tree.get(key).map(|lookup| match lookup {
                                Lookup::Found(payload) => Some(payload),
                                Lookup::Missing(_) => None,
                            }),
                            Ok(mine.get(&n).copied())
                        );
                        if random.chance(if (step / 1_000) % 2 == 0 { 7 } else { 2 }, 10) {
                            assert_eq!(tree.write(key, step), Ok(mine.insert(n, step)));
                        } else {
                            assert_eq!(tree.delete(key), Ok(mine.remove(&n)));
                        }
                    }
                    for n in mine.into_keys() {
                        assert!(matches!(tree.delete(&keys[n as usize]), Ok(Some(_))));
                    }
                });
            }
        });
        contract::sound(&tree);
        let statistics = tree.statistics();
        assert_eq!(
            (
                statistics.records,
                statistics.leaves,
                statistics.inner_nodes
            ),
            (0, 1, 0),
            "round {round}"
        );
    }
}

/// No operation goes down layers by recursion, and dropping the tree does not.
#[test]
fn layers_may_lie_thousands_deep() {
    let longest = vec![b'x'; 1 << 16];
    let tree = VariableMasstree::default();
    let sorted = (0..=8_192).map(|n| (&longest[..n * 8], n as u64));
    assert_eq!(tree.bulk_load(sorted), Ok(8_193));
    assert!(tree.statistics().height > 4_000);
    for n in [0, 1, 4_000, 8_191, 8_192] {
        assert_eq!(tree.get(&longest[..n * 8]), Ok(Lookup::Found(n as u64)));
    }
    drop(tree);

    let tree = VariableMasstree::default();
    for n in 0..500 {
        assert_eq!(tree.write(&longest[..n * 8], n as u64), Ok(None));
    }
    contract::sound(&tree);
    for n in 0..500 {
        assert_eq!(tree.delete(&longest[..n * 8]), Ok(Some(n as u64)));
    }
    assert_eq!(tree.statistics().leaves, 1);
}

/// A shared prefix of a layer's keys is not a chain of layers.
#[test]
fn a_long_shared_prefix_is_one_layer() {
    let mut key = vec![b'x'; 1 << 16];
    let tree = VariableMasstree::default();
    for last in 0..5 {
        key[65_535] = last;
        assert_eq!(tree.write(&key, u64::from(last)), Ok(None));
    }
    let statistics = tree.statistics();
    assert_eq!((statistics.leaves, statistics.height), (2, 2));
    assert!(tree.memory_bytes() < 200_000);
    // And it is cut where a key needs it.
    for shared in [8, 60_000, 30_000, 30_001, 30_008] {
        let mut other = key[..shared].to_vec();
        other.push(b'y');
        assert_eq!(tree.write(&other, shared as u64), Ok(None));
        assert_eq!(tree.get(&other), Ok(Lookup::Found(shared as u64)));
        assert_eq!(tree.get(&key), Ok(Lookup::Found(4)));
    }
    contract::sound(&tree);
}

#[test]
fn ascending_keys_fill_their_nodes() {
    let tree = FixedMasstree::default();
    for n in 0..100_000_u64 {
        tree.insert(&n.to_be_bytes(), n).unwrap();
    }
    let statistics = tree.statistics();
    let per_leaf = statistics.records / statistics.leaves;
    let per_inner = statistics.leaves / statistics.inner_nodes;
    assert!(per_leaf >= 30 && per_inner > 50, "{statistics:?}");
}

/// A counting walk pins anew on the way, and then continues where it was.
#[test]
fn counts_are_exact_in_a_large_tree() {
    let items = |n: u64| (0..n).map(|n| (n.to_be_bytes(), n));
    let config = MasstreeConfig {
        leaf_max: 3,
        load_percent: 100,
        ..small()
    };
    for records in [3 * 1_024, 3 * 1_024 + 1, 3 * 2_500] {
        let tree = FixedMasstree::new(config);
        assert_eq!(tree.bulk_load(items(records)), Ok(records as usize));
        let statistics = tree.statistics();
        let mut inner = 0;
        let mut level = records.div_ceil(3);
        assert_eq!((statistics.records, statistics.leaves), (records, level));
        while level > 1 {
            level = level.div_ceil(7);
            inner += level;
        }
        assert_eq!(statistics.inner_nodes, inner);
        assert_eq!(tree.len() as u64, records);
        let tree = VariableMasstree::new(config);
        assert_eq!(tree.bulk_load(items(records)), Ok(records as usize));
        assert_eq!(tree.len() as u64, records);
    }
}

/// All slots but one hold keys with the same slice, which must stay together.
#[test]
fn keys_that_share_a_slice_stay_in_one_leaf() {
    let tree = VariableMasstree::new(MasstreeConfig::tiny());
    let mut keys: Vec<Vec<u8>> = (0..=9).map(|len| vec![0; len]).collect();
    keys.extend((1..50).map(|n| vec![n, 0, 0]));
    keys.extend((1..50).map(|n| vec![n]));
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(tree.write(key, n as u64), Ok(None));
    }
    contract::sound(&tree);
    assert_eq!(tree.len(), keys.len());
}

#[test]
fn any_payload_is_allowed() {
    let tree = VariableMasstree::default();
    for key in [&b""[..], b"short", b"longer than a slice"] {
        for payload in [0, 1, u64::MAX, 1 << 63] {
            tree.write(key, payload).unwrap();
            assert_eq!(tree.get(key), Ok(Lookup::Found(payload)));
        }
    }
}
