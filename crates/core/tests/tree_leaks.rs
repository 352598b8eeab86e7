//! A tree frees its memory: when it is emptied, and when it is dropped.
//!
//! One test in a process of its own, so that every allocation counted is the tree's.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "the threads of a test")]

use std::thread;

use crossbeam_epoch as epoch;
use namiki::index::{Index, IndexKind, KeyKind, Tree, TreeKind};
use namiki_index::contract::KeyShape;
use namiki_index::{OrderedIndex, PointIndex};
use namiki_platform::counting_allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Lets the collector free all that is retired, and returns the bytes that remain.
fn live_after_collection() -> isize {
    CountingAllocator::live_after(|| epoch::pin().flush())
}

/// Runs `work` for every other number below `keys` on each of two threads, and waits until both are
/// gone: the end of a scope alone would not wait for what a thread hands back as it goes.
fn halves(keys: u64, work: impl Fn(u64) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        let threads = [0, 1].map(|first| {
            scope.spawn(move || {
                (first..keys).step_by(2).for_each(work);
                epoch::pin().flush();
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn fill(index: &impl PointIndex, shape: KeyShape, keys: u64) {
    halves(keys, |n| {
        index.insert(&shape.key(n), n).unwrap();
        index.write(&shape.key(n / 2), n).unwrap();
    });
}

fn empty(index: &impl PointIndex, shape: KeyShape, keys: u64) {
    halves(keys, |n| {
        index.delete(&shape.key(n)).unwrap();
    });
}

/// A tree of small nodes.
#[cfg(feature = "all-indexes")]
fn small(keys: KeyKind) -> Tree {
    use namiki_trees::bwtree::BwConfig;
    let sizes = BwConfig {
        leaf_max: 8,
        inner_max: 8,
        ..BwConfig::default()
    };
    Tree::bwtree(keys, sizes)
}

/// The one tree of this build, with small nodes.
#[cfg(not(feature = "all-indexes"))]
fn small(keys: KeyKind) -> Tree {
    Tree::art(keys, namiki_index::art::ArtConfig::default())
}

#[test]
fn an_emptied_or_dropped_tree_returns_its_memory() {
    // The memory that the runtime and the collector keep is allocated before the count.
    for _ in 0..2 {
        let warm = small(KeyKind::Fixed8);
        fill(&warm, KeyShape::Dense, 2_000);
    }
    for (kind, shape) in [
        (KeyKind::Fixed8, KeyShape::Sparse),
        (KeyKind::Variable, KeyShape::SharedPrefix),
        // Many keys end within a slice, so that what follows lies apart.
        (KeyKind::Variable, KeyShape::Runs),
    ] {
        gives_back_what_it_took(|| small(kind), shape, 260_000);
        for tree in TreeKind::in_build() {
            let kept_max = match (tree, shape) {
                // Their leaves are small: of these keys they have the most.
                (TreeKind::Art, _) => 100_000,
                (TreeKind::Masstree, KeyShape::Runs) => 200_000,
                _ => 20_000,
            };
            gives_back_what_it_took(|| Tree::new(tree, kind).unwrap(), shape, kept_max);
            with_a_hash_table_gives_back_as_much(tree, kind, shape);
        }
    }
}

/// The most that a tree keeps of what it makes at its first use: counters, the first parts of its tables.
const FIRST_USE_BYTES: usize = 64 << 10;
/// The memory of the stripes that a hash table keeps: 2^14 of 16 bytes.
const STRIPES_BYTES: usize = 16 << 14;

/// `kept_max`: the bytes of the table of pages or leaves, which stays as large as the tree once was.
fn gives_back_what_it_took(make: impl Fn() -> Tree, shape: KeyShape, kept_max: usize) {
    let start = live_after_collection();
    let tree = make();
    let kind = format!("{}, {}", tree.kind(), tree.key_kind());
    let new = tree.memory_bytes();
    let keys = 20_000;
    let mut emptied = Vec::new();
    for _ in 0..3 {
        fill(&tree, shape, keys);
        let full = live_after_collection() - start;
        let counted = tree.memory_bytes() as isize;
        assert!(
            full > 20 * keys as isize,
            "{kind}: {full} bytes for {keys} keys"
        );
        assert!(
            (full - counted).abs() < full / 10,
            "{kind}: {counted} counted, {full} live"
        );
        empty(&tree, shape, keys);
        assert_eq!(tree.len(), 0);
        let statistics = tree.statistics();
        assert!(
            statistics.leaves < 10 && statistics.inner_nodes < 10,
            "{statistics:?}"
        );
        let counted = tree.memory_bytes();
        assert!(
            counted < new + FIRST_USE_BYTES + kept_max,
            "{kind}: {counted} bytes when empty, {new} when new"
        );
        emptied.push(live_after_collection() - start - counted as isize);
    }
    // Memory that the tree does not account for is close to zero, and does not grow over the
    // rounds.
    assert!(
        emptied.iter().all(|bytes| bytes.abs() < 20_000),
        "{kind}: {emptied:?} bytes more than counted when empty"
    );

    // A load that fails frees the nodes that it had built.
    let before = live_after_collection();
    let bad = (0..5_000).map(|n| (shape.key(if n == 4_000 { 0 } else { n * 2 + 2 }), n));
    let refused = make();
    let mut sorted: Vec<_> = bad.collect();
    sorted[..4_000].sort();
    assert!(refused.bulk_load(sorted).is_err());
    assert_eq!(refused.len(), 0);
    drop(refused);
    assert!(live_after_collection() <= before + 2_000);

    fill(&tree, shape, keys);
    drop(tree);
    let left = live_after_collection() - start;
    assert!(
        left < 20_000,
        "{kind}: {left} bytes left after the tree is dropped"
    );
}

/// The hash table's lines come from the kernel: tests/hash_leaks.rs looks at them.
fn with_a_hash_table_gives_back_as_much(tree: TreeKind, keys: KeyKind, shape: KeyShape) {
    let start = live_after_collection();
    let kind = IndexKind::OrderedAndHash(tree);
    let index = Index::new(kind, keys).unwrap();
    let (new, counted_new) = (live_after_collection(), index.memory_bytes());
    for _ in 0..2 {
        fill(&index, shape, 5_000);
        empty(&index, shape, 5_000);
        assert_eq!(index.len(), 0);
        let (left, counted) = (live_after_collection() - new, index.memory_bytes());
        let stays = STRIPES_BYTES + FIRST_USE_BYTES;
        assert!(
            left < 15_000 + stays as isize && counted < counted_new + 20_000 + stays,
            "{kind}, {keys}: {left} bytes live, {counted} counted when empty, {counted_new} when new"
        );
    }
    fill(&index, shape, 5_000);
    drop(index);
    let left = live_after_collection() - start;
    assert!(left < 5_000, "{kind}, {keys}: {left} bytes left");
}
