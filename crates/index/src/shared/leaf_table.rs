//! Leaf number → the leaf's stamp, and the leaf itself: phantom protection for trees with leaves that carry
//! their own version. (The Bw-tree's mapping table does the same for pages, `bwtree/leaf_stamps.rs`.)
//!
//! A leaf that belongs to a tree has a [`LeafMark`]: its number and the counter of its version. Its *rts*
//! lies here instead, as it must outlive the leaf: an inserter of a key may ask for it after the leaf has
//! been merged away. Memory safety needs no promise from transactions, which hold nothing but numbers.
//!
//! ```text
//!  LeafVersion { leaf: 7, .. } --> | slot 7: leaf, rts, floor | --> LeafMark in the leaf: 7, counter
//! ```
//!
//! # The protocol
//!
//! A reader raises the rts and **then** reads the counter; an inserter changes the counter and **then**
//! reads the rts. All four are `SeqCst`: either the reader sees the counter changed, or the inserter sees
//! the rts raised. The counter is changed by the thread that has the leaf to itself (a lock), so that no
//! reader sees the key set of one version with the counter of another.
//!
//! - *Split of L into L and Q*, under the lock of L and before Q can be found: L's counter is changed, then
//!   Q's rts raised to L's. A reader that still finds L unchanged raised its rts before.
//! - *Merge of R into L*, under the locks of both: R's counter is invalidated, then L's rts is raised to
//!   R's, then L takes R's keys, or R's range at least.
//!
//! # Invariants
//! - T1. A slot's leaf is null or points to a mark that is alive for all pinned threads: a leaf is
//!   withdrawn before it is retired to the collector.
//! - T2. A pair of number and counter never recurs: a leaf that takes a number over starts above the
//!   counters that the number has had (`floor`).
//! - T3. The rts of a number never decreases.
//!
//! Source: TicToc's phantom protection needs more than versions, so leaves have a rts.
#![expect(unsafe_code, reason = "leads from a leaf's number to the leaf")]

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_platform::sync::{AtomicPtr, AtomicU64, total_order};

use crate::LeafVersion;
use crate::shared::id_pool::IdPool;
use crate::shared::segmented_array::SegmentedArray;

/// The counter of a leaf that is gone.
const DEAD: u64 = u64::MAX;

/// The part of the version that the leaf itself stores: its number and the count of changes of its
/// key set.
#[derive(Debug)]
pub struct LeafMark {
    number: u32,
    counter: AtomicU64,
}

impl LeafMark {
    /// The leaf's version. A tree has to read it at the same instant as the keys.
    #[inline]
    pub fn version(&self) -> LeafVersion {
        LeafVersion {
            leaf: u64::from(self.number),
            counter: self.counter.load(Ordering::SeqCst),
        }
    }

    /// The mark for a copy of the leaf that takes its place, made with the leaf locked: to be published
    /// when the copy is complete.
    #[inline]
    pub fn copy(&self) -> Self {
        Self {
            number: self.number,
            counter: AtomicU64::new(self.counter.load(Ordering::Relaxed)),
        }
    }

    /// The key set is about to change, or to be seen changed: call with the leaf locked, before the
    /// lock is released.
    #[inline]
    pub fn bump(&self) {
        // One writer at a time, so no read-modify-write. `SeqCst`: before the read of the rts.
        let next = self.counter.load(Ordering::Relaxed) + 1;
        self.counter.store(next, Ordering::SeqCst);
    }
}

struct Slot {
    leaf: AtomicPtr<LeafMark>,
    /// Largest stamp of a transaction that relied on an absent key here.
    rts: AtomicU64,
    /// Where the counter of the next leaf with this number starts.
    floor: AtomicU64,
}

/// The leaves of one tree by number.
pub struct LeafTable {
    slots: SegmentedArray<Slot>,
    numbers: IdPool,
}

impl LeafTable {
    pub fn new() -> Self {
        Self {
            slots: SegmentedArray::new(),
            numbers: IdPool::new(),
        }
    }

    #[inline]
    fn slot(&self, leaf: u64) -> Option<&Slot> {
        self.slots.get(u32::try_from(leaf).ok()?)
    }

    /// Takes all numbers that were never used.
    pub fn use_up(&self) {
        self.numbers.use_up();
    }

    /// A mark with a number of its own, for a leaf that is being made. `None`: all numbers are used
    /// up. It is to be given to [`publish`](Self::publish) or [`discard`](Self::discard).
    pub fn mark(&self) -> Option<LeafMark> {
        let number = self.numbers.take()?;
        self.slots.reach(number, || Slot {
            leaf: AtomicPtr::new(ptr::null_mut()),
            rts: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        });
        let floor = self.slots.get(number)?.floor.load(Ordering::SeqCst);
        Some(LeafMark {
            number,
            counter: AtomicU64::new(floor),
        })
    }

    /// Makes a leaf known by its number, or an exact copy of it in its place.
    ///
    /// # Safety
    /// `mark` stays where it is until [`withdraw`](Self::withdraw), or until another copy is published, and
    /// then until all pinned threads have unpinned (T1).
    pub unsafe fn publish(&self, mark: NonNull<LeafMark>) {
        // SAFETY: the caller's promise.
        let number = unsafe { mark.as_ref() }.number;
        if let Some(slot) = self.slots.get(number) {
            slot.leaf.store(mark.as_ptr(), Ordering::SeqCst);
        }
    }

    /// Returns the number of a mark that was never published.
    pub fn discard(&self, mark: &LeafMark) {
        self.numbers.give_back(mark.number);
    }

    /// To be called while `left` is locked and before `right`, which takes a part of its keys, is
    /// published: changes the version of `left`, and hands the stamps of its readers to `right`.
    pub fn split(&self, left: &LeafMark, right: &LeafMark) {
        left.bump();
        self.inherit(left, right);
    }

    /// To be called while both leaves are locked, before `into` takes the keys or the range of `gone`,
    /// which no search must find in it any longer: no reader can rely on `gone` from here on.
    pub fn merge(&self, gone: &LeafMark, into: &LeafMark) {
        let last = gone.counter.swap(DEAD, Ordering::SeqCst);
        self.inherit(gone, into);
        let into_last = into.counter.load(Ordering::Relaxed);
        into.counter
            .store(into_last.max(last) + 1, Ordering::SeqCst);
        self.forget(gone, last + 1);
    }

    /// Withdraws a leaf without a replacement: the tree is being emptied or dropped.
    pub fn withdraw(&self, gone: &LeafMark) {
        let last = gone.counter.swap(DEAD, Ordering::SeqCst);
        self.forget(gone, last + 1);
    }

    /// The caller then retires the leaf.
    fn forget(&self, gone: &LeafMark, floor: u64) {
        if let Some(slot) = self.slots.get(gone.number) {
            slot.floor.store(floor, Ordering::SeqCst);
            slot.leaf.store(ptr::null_mut(), Ordering::SeqCst);
            self.numbers.give_back(gone.number);
        }
    }

    #[inline]
    fn inherit(&self, from: &LeafMark, to: &LeafMark) {
        let rts = self.rts(u64::from(from.number));
        if let Some(slot) = self.slots.get(to.number) {
            slot.rts.fetch_max(rts, Ordering::SeqCst);
        }
    }

    /// See [`leaf_rts`](crate::PointIndex::leaf_rts).
    #[inline]
    pub fn rts(&self, leaf: u64) -> u64 {
        total_order();
        self.slot(leaf)
            .map_or(0, |slot| slot.rts.load(Ordering::SeqCst))
    }

    /// See [`raise_and_check`](crate::PointIndex::raise_and_check).
    #[inline]
    pub fn raise_and_check(&self, seen: LeafVersion, rts: u64, guard: &Guard) -> bool {
        let Some(slot) = self.slot(seen.leaf) else {
            return false;
        };
        // The common case under many readers: large enough already. A load suffices, as it is in
        // the same total order as the raise that it saw.
        if slot.rts.load(Ordering::SeqCst) < rts {
            slot.rts.fetch_max(rts, Ordering::SeqCst);
        }
        total_order();
        self.current(seen.leaf, guard) == Some(seen)
    }

    /// See [`current`](crate::PointIndex::current).
    #[inline]
    pub fn current(&self, leaf: u64, _guard: &Guard) -> Option<LeafVersion> {
        let mark = NonNull::new(self.slot(leaf)?.leaf.load(Ordering::SeqCst))?;
        // SAFETY: alive while `_guard` is pinned (T1); the store of the pointer was `SeqCst`.
        let version = unsafe { mark.as_ref() }.version();
        // The number is compared too: it may have passed to another leaf by now.
        (version.counter != DEAD && version.leaf == leaf).then_some(version)
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.numbers.bytes()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// A table and `N` leaves that are allocated separately.
    fn leaves<const N: usize>() -> (LeafTable, [Box<LeafMark>; N]) {
        let table = LeafTable::new();
        let marks = std::array::from_fn(|_| {
            let mark = Box::new(table.mark().unwrap_or_else(|| panic!("numbers used up")));
            // SAFETY: the tests keep the boxes.
            unsafe { table.publish(NonNull::from(&*mark)) };
            mark
        });
        (table, marks)
    }

    #[test]
    fn a_check_succeeds_while_nothing_changes() {
        let guard = &crossbeam_epoch::pin();
        let (table, [leaf]) = leaves::<1>();
        let seen = leaf.version();
        assert!(table.raise_and_check(seen, 5, guard));
        assert!(table.raise_and_check(seen, 3, guard));
        assert_eq!(table.rts(seen.leaf), 5);
        leaf.bump();
        assert!(!table.raise_and_check(seen, 9, guard));
        assert_eq!(table.rts(seen.leaf), 9);
        let nowhere = LeafVersion {
            leaf: u64::MAX,
            counter: 0,
        };
        assert!(!table.raise_and_check(nowhere, 1, guard));
    }

    #[test]
    fn both_halves_keep_the_stamps_of_the_whole() {
        let guard = &crossbeam_epoch::pin();
        let (table, [left, right]) = leaves::<2>();
        let seen = left.version();
        assert!(table.raise_and_check(seen, 5, guard));
        table.split(&left, &right);
        assert!(!table.raise_and_check(seen, 6, guard));
        assert_eq!(table.rts(right.version().leaf), 5);
    }

    #[test]
    fn a_merge_keeps_the_larger_counter_and_rts() {
        let guard = &crossbeam_epoch::pin();
        let (table, [left, right]) = leaves::<2>();
        right.bump();
        right.bump();
        let (seen_left, seen_right) = (left.version(), right.version());
        assert!(table.raise_and_check(seen_right, 8, guard));
        table.merge(&right, &left);
        assert!(!table.raise_and_check(seen_left, 1, guard));
        assert!(!table.raise_and_check(seen_right, 1, guard));
        assert_eq!(table.current(seen_right.leaf, guard), None);
        assert_eq!(left.version().counter, 3);
        assert_eq!(table.rts(seen_left.leaf), 8);
        // The number recurs, its versions do not.
        let again = table.mark().map(Box::new);
        let again = again.unwrap_or_else(|| panic!("numbers used up"));
        assert_eq!(again.version().leaf, seen_right.leaf);
        assert!(again.version().counter > seen_right.counter);
        assert_eq!(table.rts(seen_right.leaf), 8);
        table.discard(&again);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model {
    //! Every interleaving of a reader, a structure change and an inserter. The locks of leaves are
    //! loom's; table and marks are those of production.

    use loom::sync::{Arc, Mutex};
    use loom::thread;
    use namiki_platform::model_checker::explore;

    use super::*;

    const STAMP: u64 = 7;

    struct Leaves {
        table: LeafTable,
        left: Box<LeafMark>,
        right: Box<LeafMark>,
        /// The lock of both; whether the structure has changed.
        changed: Mutex<bool>,
    }

    impl Leaves {
        fn new() -> Arc<Self> {
            let table = LeafTable::new();
            let [left, right] = [(); 2].map(|()| Box::new(table.mark().unwrap()));
            for mark in [&left, &right] {
                // SAFETY: the marks live as long as the table.
                unsafe { table.publish(NonNull::from(&**mark)) };
            }
            Arc::new(Self {
                table,
                left,
                right,
                changed: Mutex::new(false),
            })
        }
    }

    /// Runs the three and checks that the inserter saw the stamp of a reader that succeeded.
    /// `insert_into` chooses the leaf by whether the structure has changed.
    fn check(
        read: fn(&Leaves) -> &LeafMark,
        change: fn(&Leaves),
        insert_into: fn(&Leaves, bool) -> &LeafMark,
    ) {
        explore(3, move || {
            let leaves = Leaves::new();
            let seen = read(&leaves).version();
            let reader = thread::spawn({
                let leaves = Arc::clone(&leaves);
                move || {
                    let guard = crossbeam_epoch::pin();
                    leaves.table.raise_and_check(seen, STAMP, &guard)
                }
            });
            let changer = thread::spawn({
                let leaves = Arc::clone(&leaves);
                move || {
                    let mut changed = leaves.changed.lock().unwrap();
                    change(&leaves);
                    *changed = true;
                }
            });
            let changed = leaves.changed.lock().unwrap();
            let leaf = insert_into(&leaves, *changed);
            leaf.bump();
            drop(changed);
            let rts = leaves.table.rts(u64::from(leaf.number));
            changer.join().unwrap();
            if reader.join().unwrap() {
                assert!(rts >= STAMP, "the insert slipped past the reader");
            }
        });
    }

    #[test]
    fn a_split_hides_no_reader_from_an_inserter() {
        check(
            |leaves| &leaves.left,
            |leaves| leaves.table.split(&leaves.left, &leaves.right),
            |leaves, split| if split { &leaves.right } else { &leaves.left },
        );
    }

    #[test]
    fn a_merge_hides_no_reader_from_an_inserter() {
        check(
            |leaves| &leaves.right,
            |leaves| leaves.table.merge(&leaves.right, &leaves.left),
            |leaves, merged| if merged { &leaves.left } else { &leaves.right },
        );
    }
}
