//! Loom models: every interleaving, up to a number of preemptions. The first models are about
//! conflicts on the words of a leaf: the layout is the model's, the protocol is production code
//! (`leaf_word_changes.rs`, `leaf_table.rs`, `mwcas`). The others run two threads on a tree, which
//! is all production code.

use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use loom::sync::Arc;
use loom::thread;
use namiki_index::key::Fixed8;
use namiki_index::loom_contract::{
    a_reader_finds_its_keys_while_their_leaf_is_merged,
    a_reader_finds_its_keys_while_their_leaf_is_split, an_insert_outlives_a_merge,
    an_insert_outlives_a_split, inserts_notice_readers_of_a_merged_leaf,
    inserts_notice_readers_of_a_split_leaf, no_update_is_lost_while_its_leaf_is_split, sparse,
    two_splits_below_one_parent_are_both_made,
};
use namiki_index::loom_two_threads::{
    beside, both_ways, delete, has, insert, is_gone, is_there, is_updated, loaded, payload_of, put,
    update,
};
use namiki_index::{Lookup, PointIndex};
use namiki_platform::model_checker::explore;
use namiki_platform::sync::AtomicU64;

use super::leaf_lookup::hash;
use super::leaf_table::Leaves;
use super::leaf_word_changes::{self, Value};
use super::status_word::Status;
use super::write::show_newest;
use super::{Append, BzConfig, FixedBzTree, InPlace, Variant};
use crate::mwcas::{self, Change};

/// A leaf of one record in the in-place variant.
struct Leaf {
    status: AtomicU64,
    payload: AtomicU64,
}

impl Leaf {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            status: AtomicU64::new(Status::NEW.0),
            payload: AtomicU64::new(1),
        })
    }

    /// Freezes the leaf and returns the contents that a consolidation copies.
    fn freeze(&self, guard: &Guard) -> (Status, Option<u64>) {
        let status = leaf_word_changes::freeze(&self.status, guard);
        leaf_word_changes::freeze_payload(&self.payload, guard);
        (status, Value::read(&self.payload, guard).payload())
    }

    /// Deletes the record; returns its payload, unless another thread was faster.
    fn kill(&self, guard: &Guard) -> Option<u64> {
        let status = leaf_word_changes::status(&self.status, guard);
        let value = Value::read(&self.payload, guard);
        let killed = !status.is_frozen()
            && !value.is_frozen()
            && leaf_word_changes::kill((&self.status, status), (&self.payload, value), guard);
        killed.then(|| value.payload()).flatten()
    }

    fn replace(&self, payload: u64, guard: &Guard) -> bool {
        let seen = Value::read(&self.payload, guard);
        seen.payload().is_some() && leaf_word_changes::replace(&self.payload, seen, payload, guard)
    }
}

#[test]
fn a_frozen_leaf_swallows_no_replacement() {
    explore(3, || {
        let leaf = Leaf::new();
        let writers = [2, 3].map(|payload| {
            let leaf = Arc::clone(&leaf);
            thread::spawn(move || leaf.replace(payload, &epoch::pin()))
        });
        let (_, copied) = leaf.freeze(&epoch::pin());
        let done = writers.map(|writer| writer.join().unwrap());
        match copied {
            Some(1) => assert_eq!(done, [false, false]),
            Some(2) => assert!(done[0]),
            Some(3) => assert!(done[1]),
            other => panic!("{other:?}"),
        }
        // No last successful change is invisible.
        if done == [true, false] {
            assert_eq!(copied, Some(2));
        }
    });
}

#[test]
fn a_record_dies_with_the_version_or_not_at_all() {
    explore(2, || {
        let leaf = Leaf::new();
        let killer = thread::spawn({
            let leaf = Arc::clone(&leaf);
            move || leaf.kill(&epoch::pin())
        });
        let writer = thread::spawn({
            let leaf = Arc::clone(&leaf);
            move || leaf.replace(2, &epoch::pin())
        });
        let (status, copied) = leaf.freeze(&epoch::pin());
        let (killed, replaced) = (killer.join().unwrap(), writer.join().unwrap());
        assert_eq!(status.changes(), u64::from(killed.is_some()));
        assert_eq!(copied.is_none(), killed.is_some());
        // The payload that the deletion returned is the record's last one.
        if let Some(old) = killed {
            assert_eq!(old, if replaced { 2 } else { 1 });
        }
    });
}

/// The status that goes with a missing record is one of an instant at which it was dead.
#[test]
fn a_reader_of_a_dead_record_knows_of_its_death() {
    explore(3, || {
        let leaf = Leaf::new();
        let killer = thread::spawn({
            let leaf = Arc::clone(&leaf);
            move || leaf.kill(&epoch::pin())
        });
        let guard = &epoch::pin();
        let find = |_| Some(Value::read(&leaf.payload, guard));
        match leaf_word_changes::look_up(true, &leaf.status, guard, find) {
            Ok(payload) => assert_eq!(payload, 1),
            Err(seen) => assert_eq!(seen.changes(), 1),
        }
        assert_eq!(killer.join().unwrap(), Some(1));
    });
}

/// A leaf with a slot, and its possible replacements: each thread builds its own.
struct Split {
    child: AtomicU64,
    parent: AtomicU64,
    status: [AtomicU64; 3],
    /// Records that each was built with.
    built: [AtomicU64; 3],
    leaves: Option<Leaves>,
}

impl Split {
    fn new(with_table: bool) -> Arc<Self> {
        let leaves = with_table.then(|| {
            let leaves = Leaves::new();
            assert_eq!([(); 2].map(|()| leaves.take().unwrap().0), [0, 1]);
            leaves
        });
        Arc::new(Self {
            child: AtomicU64::new(0),
            parent: AtomicU64::new(Status::NEW.0),
            status: [(); 3].map(|()| AtomicU64::new(Status::NEW.0)),
            built: [(); 3].map(|()| AtomicU64::new(0)),
            leaves,
        })
    }

    /// Freezes the first leaf and exchanges it for leaf `new`, which only this thread builds.
    fn split(&self, new: usize, guard: &Guard) {
        let last = leaf_word_changes::freeze(&self.status[0], guard);
        if let Some(leaves) = &self.leaves {
            leaves.inherit(0, 1);
        }
        let copied = u64::from(last.visible().count_ones());
        self.built[new].store(copied, Ordering::Relaxed);
        let parent = leaf_word_changes::status(&self.parent, guard);
        Change::new(&self.child, 0, new as u64)
            .and(&self.parent, parent.0, parent.0)
            .commit(guard);
    }

    /// Inserts a record, into the leaf that it returns.
    fn insert(&self, guard: &Guard) -> usize {
        loop {
            let leaf = mwcas::read(&self.child, guard) as usize;
            let word = &self.status[leaf];
            let status = leaf_word_changes::status(word, guard);
            if status.is_frozen() {
                self.split(1, guard);
                continue;
            }
            let reserved = status.reserve();
            if leaf_word_changes::advance(word, status, reserved, guard).is_err() {
                continue;
            }
            let shown = reserved.show(status.reserved()).change();
            if leaf_word_changes::advance(word, reserved, shown, guard).is_ok() {
                return leaf;
            }
        }
    }
}

#[test]
fn an_insert_is_copied_by_the_split_or_follows() {
    explore(3, || {
        let split = Split::new(false);
        let splitter = thread::spawn({
            let split = Arc::clone(&split);
            move || split.split(2, &epoch::pin())
        });
        let guard = &epoch::pin();
        split.insert(guard);
        splitter.join().unwrap();
        let now = mwcas::read(&split.child, guard) as usize;
        assert!(now > 0, "the leaf has been split");
        let shown = leaf_word_changes::status(&split.status[now], guard).visible();
        let records = split.built[now].load(Ordering::Relaxed) + u64::from(shown.count_ones());
        assert_eq!(records, 1);
    });
}

#[test]
fn no_insert_slips_past_a_check_during_a_split() {
    const STAMP: u64 = 7;
    explore(2, || {
        let split = Split::new(true);
        let splitter = thread::spawn({
            let split = Arc::clone(&split);
            move || split.split(2, &epoch::pin())
        });
        let reader = thread::spawn({
            let split = Arc::clone(&split);
            move || {
                split.leaves.as_ref().unwrap().raise(0, STAMP);
                leaf_word_changes::status(&split.status[0], &epoch::pin()) == Status::NEW
            }
        });
        let leaf = split.insert(&epoch::pin());
        let number = u64::from(leaf > 0);
        let rts = split.leaves.as_ref().unwrap().rts(number);
        splitter.join().unwrap();
        if reader.join().unwrap() {
            assert!(rts >= STAMP, "the insert slipped past the reader");
        }
    });
}

type Tree<V> = FixedBzTree<V>;

/// Three full leaves of two records below a root; each is replaced when another record is added.
fn three_leaves<V: Variant>() -> Tree<V> {
    let empty = Tree::new(BzConfig {
        leaf_max: 2,
        inner_max: 4,
        slots: 1,
        load_percent: 100,
    });
    let tree = loaded(empty, &[10, 11, 20, 21, 30, 31]);
    assert_eq!(tree.statistics().leaves, 3);
    tree
}

#[test]
fn an_insert_outlives_a_split_in_each_variant() {
    an_insert_outlives_a_split(three_leaves::<InPlace>);
    an_insert_outlives_a_split(three_leaves::<Append>);
}

#[test]
fn two_splits_below_one_parent_are_both_made_in_place() {
    two_splits_below_one_parent_are_both_made(three_leaves::<InPlace>);
}

#[test]
fn no_update_is_lost_in_a_split_in_each_variant() {
    no_update_is_lost_while_its_leaf_is_split(three_leaves::<InPlace>);
    no_update_is_lost_while_its_leaf_is_split(three_leaves::<Append>);
}

#[test]
fn a_reader_finds_its_keys_in_a_split_each_variant() {
    a_reader_finds_its_keys_while_their_leaf_is_split(three_leaves::<InPlace>);
    a_reader_finds_its_keys_while_their_leaf_is_split(three_leaves::<Append>);
}

/// The replacement is one leaf, as one of the records is dead.
fn a_reader_finds_its_key_while_its_leaf_is_replaced<V: Variant>() {
    both_ways(
        sparse(three_leaves::<V>, 20),
        |tree| insert(tree, 22),
        |tree| {
            is_there(tree, 20);
            is_gone(tree, 23);
        },
        |tree| has(tree, &[10, 11, 20, 22, 30, 31]),
    );
}

#[test]
fn a_reader_finds_its_key_in_replacement_each_variant() {
    a_reader_finds_its_key_while_its_leaf_is_replaced::<InPlace>();
    a_reader_finds_its_key_while_its_leaf_is_replaced::<Append>();
}

#[test]
fn an_insert_outlives_a_merge_in_each_variant() {
    an_insert_outlives_a_merge(three_leaves::<InPlace>);
    an_insert_outlives_a_merge(three_leaves::<Append>);
}

#[test]
fn a_reader_finds_its_keys_in_a_merge_in_place() {
    a_reader_finds_its_keys_while_their_leaf_is_merged(three_leaves::<InPlace>);
}

#[test]
fn no_insert_slips_past_a_reader_of_a_split_leaf() {
    inserts_notice_readers_of_a_split_leaf(three_leaves::<InPlace>);
}

#[test]
fn no_insert_slips_past_a_reader_of_a_merged_leaf() {
    inserts_notice_readers_of_a_merged_leaf(three_leaves::<InPlace>);
}

/// A blind write does not search for its key, so it must detect a frozen leaf in another way.
#[test]
fn a_put_outlives_a_split() {
    both_ways(
        three_leaves::<Append>,
        |tree| insert(tree, 22),
        |tree| put(tree, 25),
        |tree| has(tree, &[10, 11, 20, 21, 22, 25, 30, 31]),
    );
}

/// The last slot is taken for key 25 and written; it is shown while another thread, which finds the leaf
/// full, replaces it.
#[test]
fn a_record_that_is_shown_late_is_copied_or_refused() {
    both_ways(
        || {
            let empty = Tree::<Append>::new(BzConfig {
                leaf_max: 2,
                inner_max: 4,
                slots: 2,
                load_percent: 50,
            });
            let tree = loaded(empty, &[10, 20, 30]);
            insert(&tree, 21);
            let guard = &epoch::pin();
            let leaf = tree.leaf(25, guard);
            let status = leaf_word_changes::status(leaf.status(), guard);
            assert_eq!((leaf.len(), status.reserved()), (1, 1));
            let taken = leaf_word_changes::advance(leaf.status(), status, status.reserve(), guard);
            assert_eq!(taken, Ok(()));
            leaf.slot_fill(1, 25, hash::<Fixed8>(25), payload_of(25));
            tree
        },
        |tree| insert(tree, 22),
        |tree| {
            let guard = &epoch::pin();
            let leaf = tree.leaf(25, guard);
            let status = leaf_word_changes::status(leaf.status(), guard);
            // The leaf's replacement has both records in order.
            let is_first = leaf.len() == 1;
            let key = (25, hash::<Fixed8>(25));
            if !is_first || show_newest(leaf, key, 1, status, guard).is_none() {
                insert(tree, 25);
            }
        },
        |tree| has(tree, &[10, 20, 21, 22, 25, 30]),
    );
}

/// Writes key 15, and notes the payload at key 10 if that of another writer was there.
fn write_after_another(tree: &impl PointIndex, payload: u64) {
    let before = tree.write(&15_u64.to_be_bytes(), payload);
    if before.unwrap().is_some() {
        assert!(matches!(
            tree.update(&10_u64.to_be_bytes(), payload),
            Ok(Some(_))
        ));
    }
}

/// Both take a slot of one leaf, and show it in either order.
fn of_two_writes_the_later_one_stays<V: Variant>() {
    beside(
        2,
        || {
            let empty = FixedBzTree::<V>::new(BzConfig {
                leaf_max: 4,
                inner_max: 4,
                slots: 4,
                load_percent: 100,
            });
            loaded(empty, &[10, 20])
        },
        |tree| write_after_another(tree, 1),
        |tree| write_after_another(tree, 2),
        |tree| {
            let get = |key: u64| tree.get(&key.to_be_bytes());
            let last = get(15);
            assert!(matches!(last, Ok(Lookup::Found(1 | 2))), "{last:?}");
            assert_eq!(get(10), last);
            // The key has no second record.
            assert!(matches!(tree.delete(&15_u64.to_be_bytes()), Ok(Some(_))));
            is_gone(tree, 15);
        },
    );
}

#[test]
fn of_two_writes_the_later_one_stays_in_each_variant() {
    of_two_writes_the_later_one_stays::<InPlace>();
    of_two_writes_the_later_one_stays::<Append>();
}

/// Two inner nodes become one, and that the root, while a leaf below one of them is split, or replaced by
/// another one.
#[test]
fn an_insert_outlives_a_merge_of_inner_nodes() {
    let make = || {
        let empty = Tree::<InPlace>::new(BzConfig {
            leaf_max: 2,
            inner_max: 4,
            slots: 1,
            load_percent: 50,
        });
        let tree = loaded(empty, &[10, 20, 30, 40]);
        insert(&tree, 11);
        let statistics = tree.statistics();
        assert_eq!((statistics.leaves, statistics.inner_nodes), (4, 3));
        tree
    };
    both_ways(
        make,
        |tree| delete(tree, 40),
        |tree| insert(tree, 12),
        |tree| {
            has(tree, &[10, 11, 12, 20, 30]);
            let statistics = tree.statistics();
            assert_eq!((statistics.leaves, statistics.inner_nodes), (4, 1));
        },
    );
    both_ways(
        make,
        |tree| delete(tree, 40),
        |tree| {
            insert(tree, 21);
            // In the leaf's replacement.
            update(tree, 20);
        },
        |tree| {
            is_updated(tree, 20);
            is_there(tree, 21);
            assert_eq!(tree.len(), 5);
        },
    );
}
