//! Hundreds of thousands of keys, and the memory that they take.

use std::ops::ControlFlow;

use namiki::index::{Index, IndexKind, KeyKind, Tree, TreeKind};
use namiki_index::contract::{KeyShape, Random};
use namiki_index::{Lookup, OrderedIndex, PointIndex, ScanItem, ScanRange};

use super::new;

/// Enough for trees of several levels.
const KEYS: u64 = 400_000;

/// The memory limit of a key and its payload: about a tenth more than they take, and far less than
/// twice the memory of the leanest peers of the kind (43 bytes in the OpenBw-Tree, 41 in the
/// BzTree, 35 in Masstree, 29 in ART).
fn bytes_per_key_max(kind: IndexKind, shape: KeyShape) -> f64 {
    use TreeKind::{
        Art, Blink, Bwtree, BwtreeBoth, BwtreeInchain, BwtreePaper, BwtreePaperInchain,
        BwtreePaperSplithead, BwtreeSplithead, BztreeAppend, BztreeInplace, Masstree, Openbw,
    };
    match kind {
        IndexKind::Ordered(Bwtree | BwtreeInchain | BwtreeSplithead | BwtreeBoth) => 26.0,
        IndexKind::Ordered(BwtreePaper | BwtreePaperInchain | BwtreePaperSplithead) => 26.0,
        IndexKind::Ordered(Openbw) => 47.0,
        IndexKind::Ordered(BztreeAppend | BztreeInplace) => 29.0,
        IndexKind::Ordered(Masstree) => 34.0,
        IndexKind::Ordered(Blink) => 27.0,
        IndexKind::Ordered(Art) if shape == KeyShape::Dense => 10.0,
        IndexKind::Ordered(Art) => 38.0,
        IndexKind::Hash => 45.0,
        other => unreachable!("{other} has no line here"),
    }
}

#[test]
fn many_keys_in_random_order() {
    for kind in TreeKind::in_build() {
        takes_many_keys(&new(kind, KeyKind::Fixed8));
    }
}

/// For the hash table, the dense keys are tested, too.
#[test]
fn many_scattered_keys_take_little_memory() {
    let trees = TreeKind::in_build().map(IndexKind::Ordered);
    let cases = trees
        .chain([IndexKind::Hash])
        .map(|kind| (kind, KeyShape::Sparse));
    for (kind, shape) in cases.chain([(IndexKind::Hash, KeyShape::Dense)]) {
        let index = &Index::new(kind, KeyKind::Fixed8).unwrap();
        let order = shuffled(KEYS);
        std::thread::scope(|scope| {
            for half in order.chunks(order.len() / 2) {
                scope.spawn(move || {
                    for &n in half {
                        assert!(matches!(index.write(&shape.key(n), n), Ok(None)));
                    }
                });
            }
        });
        assert_eq!(index.len(), order.len());
        assert_lean(kind, shape, index);
    }
}

/// The numbers below this one. In an order by rule, leaves would fill and split at the same time, and how full they are
/// in the end would depend on how far one thread is ahead of the other.
fn shuffled(numbers: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..numbers).collect();
    let mut random = Random::new(5);
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

fn assert_lean(kind: IndexKind, shape: KeyShape, index: &impl PointIndex) {
    let bytes_per_key = index.memory_bytes() as f64 / index.len() as f64;
    let most = bytes_per_key_max(kind, shape);
    assert!(
        bytes_per_key < most,
        "{kind}, {shape:?}: {bytes_per_key} bytes a key"
    );
}

fn takes_many_keys(tree: &Tree) {
    let order = shuffled(KEYS);
    std::thread::scope(|scope| {
        for half in order.chunks(order.len() / 2) {
            scope.spawn(move || {
                for n in half {
                    assert!(matches!(tree.write(&n.to_be_bytes(), n + 1), Ok(None)));
                }
            });
        }
    });
    let statistics = tree.statistics();
    assert_eq!(statistics.records, order.len() as u64);
    assert!((2..=8).contains(&statistics.height), "{statistics:?}");
    assert_lean(tree.kind().into(), KeyShape::Dense, tree);
    let mut batch = Vec::new();
    for chunk in order.chunks(100).step_by(50) {
        let chunk: Vec<[u8; 8]> = chunk.iter().map(|n| n.to_be_bytes()).collect();
        let refs: Vec<&[u8]> = chunk.iter().map(<[u8; 8]>::as_slice).collect();
        assert_eq!(tree.get_many(&refs, &mut batch), Ok(()));
        for (key, lookup) in chunk.iter().zip(&batch) {
            assert_eq!(*lookup, Lookup::Found(u64::from_be_bytes(*key) + 1));
        }
    }
    let mut next = 0;
    let scanned = tree.scan(ScanRange::all(), |item| {
        if let ScanItem::Entry(key, payload) = item {
            assert_eq!((key, payload), (&u64::to_be_bytes(next)[..], next + 1));
            next += 1;
        }
        ControlFlow::Continue(())
    });
    assert_eq!((scanned, next), (Ok(()), order.len() as u64));
}
