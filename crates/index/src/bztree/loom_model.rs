//! Every interleaving, up to a number of preemptions, of what meets on the words of a leaf. Where words
//! lie is the model's; what is done to them is production code (`words.rs`, `leaves.rs`, `mwcas`).

use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use loom::sync::Arc;
use loom::thread;
use namiki_platform::model::explore;

use super::leaves::Leaves;
use super::status::Status;
use super::words::{self, Value};
use crate::mwcas::{self, Change};
use crate::sync::AtomicU64;

/// A leaf of one record in place.
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

    /// What a consolidation copies.
    fn freeze(&self, guard: &Guard) -> (Status, Option<u64>) {
        let status = words::freeze(&self.status, guard);
        words::freeze_payload(&self.payload, guard);
        (status, Value::read(&self.payload, guard).payload())
    }

    /// Lets the record die; the payload that it had, unless somebody was faster.
    fn kill(&self, guard: &Guard) -> Option<u64> {
        let status = words::status(&self.status, guard);
        let value = Value::read(&self.payload, guard);
        let killed = !status.is_frozen()
            && !value.is_frozen()
            && words::kill((&self.status, status), (&self.payload, value), guard);
        killed.then(|| value.payload()).flatten()
    }

    fn replace(&self, payload: u64, guard: &Guard) -> bool {
        let seen = Value::read(&self.payload, guard);
        seen.payload().is_some() && words::replace(&self.payload, seen, payload, guard)
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
        // Nobody was the last to succeed and is not seen.
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
        // The payload that went with the record is the last it had.
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
        match words::look_up(true, &leaf.status, guard, find) {
            Ok(payload) => assert_eq!(payload, 1),
            Err(seen) => assert_eq!(seen.changes(), 1),
        }
        assert_eq!(killer.join().unwrap(), Some(1));
    });
}

/// A leaf with a slot, and what it may be replaced by: each thread builds its own.
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
        let last = words::freeze(&self.status[0], guard);
        if let Some(leaves) = &self.leaves {
            leaves.inherit(0, 1);
        }
        let copied = u64::from(last.visible().count_ones());
        self.built[new].store(copied, Ordering::Relaxed);
        let parent = words::status(&self.parent, guard);
        Change::new(&self.child, 0, new as u64)
            .and(&self.parent, parent.0, parent.0)
            .commit(guard);
    }

    /// Inserts a record, into the leaf that it returns.
    fn insert(&self, guard: &Guard) -> usize {
        loop {
            let leaf = mwcas::read(&self.child, guard) as usize;
            let word = &self.status[leaf];
            let status = words::status(word, guard);
            if status.is_frozen() {
                self.split(1, guard);
                continue;
            }
            let reserved = status.reserve();
            if words::advance(word, status, reserved, guard).is_err() {
                continue;
            }
            let shown = reserved.show(status.reserved()).change();
            if words::advance(word, reserved, shown, guard).is_ok() {
                return leaf;
            }
        }
    }
}

#[test]
fn an_insert_is_copied_by_the_split_or_made_after_it() {
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
        assert!(now > 0, "somebody has split the leaf");
        let shown = words::status(&split.status[now], guard).visible();
        let records = split.built[now].load(Ordering::Relaxed) + u64::from(shown.count_ones());
        assert_eq!(records, 1);
    });
}

#[test]
fn no_insert_slips_past_a_successful_check_while_its_leaf_is_split() {
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
                words::status(&split.status[0], &epoch::pin()) == Status::NEW
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
