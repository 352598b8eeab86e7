//! Growing and shrinking, one bucket at a time.
//!
//! Each thread that inserts or deletes hands in its count of keys from time to time, and itself
//! splits or merges some buckets if there are too few or too many of them. No thread waits for more
//! than one bucket: to claim a split is one compare-and-swap of `size`, and splits of different
//! buckets run in parallel. A split that depends on another unfinished one completes that first.
//!
//! A claim alone changes no bucket: when the parent is locked, `size` decides whether the child
//! should be live. So it does not matter in which order claims to grow and to shrink reach a
//! bucket.
//!
//! Memory is freed by whole segments of home lines. A segment without a live bucket is freed while
//! no thread activates a bucket: threads skip growth in that time.
//!
//! # Invariants
//! - G1. A bucket is activated and deactivated under the lock of its parent. The parent's depth tells which
//!   of its children are live: those of the bits from its own length up to its depth.
//! - G2. A bucket is deactivated only after all its children.

use std::sync::atomic::Ordering;

use namiki_platform::sync::RwLockReadGuard;

use super::HashIndex;
use super::keys::HashKey;
use super::linear_hashing::{Table, parent};
use super::locked_bucket::Bucket;
use crate::shared::counters::Event;

/// Buckets that one hand-in of a thread splits or merges at most, for each key of its batch.
const STEPS_PER_KEY: u64 = 2;

/// Proof that the memory of home lines stays while buckets are activated in them.
type Activations<'a> = RwLockReadGuard<'a, ()>;

impl Table {
    /// Target number of buckets for this number of keys.
    fn wanted(&self, keys: u64) -> u64 {
        let least = 1 << self.config.first_bits;
        let wanted = (keys * 4).div_ceil(u64::from(self.config.keys_per_four_buckets));
        wanted.clamp(least, self.homes.max())
    }

    /// Counts one more bucket and returns its place. `None`: another thread did, or there is no memory.
    fn claim_growth(&self, size: u64) -> Option<u64> {
        let claimed = self.homes.reach(size) && self.claim(size, size + 1);
        claimed.then_some(size)
    }

    /// Frees the memory of the segment if the bucket that was just deactivated was its last live
    /// one.
    fn discard_if_unused(&self, place: u64) {
        let segment = self.homes.segment(place);
        if self.live_buckets[segment].fetch_sub(1, Ordering::AcqRel) > 1 || segment == 0 {
            return;
        }
        let alone = self.activations.write();
        // `Acquire` pairs with the `AcqRel` of the last deactivation: nothing is written there any more,
        // and activations are excluded by the lock.
        if self.live_buckets[segment].load(Ordering::Acquire) == 0 {
            self.homes.discard(place);
        }
        drop(alone);
    }
}

impl<K: HashKey> HashIndex<K> {
    /// Counts an inserted (1) or deleted (-1) key.
    #[inline]
    pub(super) fn count(&self, change: i64) {
        if let Some(keys) = self.table.count.add(change) {
            self.adapt(keys);
        }
    }

    /// Splits or merges a few buckets if there are too few or too many for this number of keys.
    #[inline(never)]
    fn adapt(&self, keys: u64) {
        let table = &self.table;
        let wanted = table.wanted(keys);
        for _ in 0..STEPS_PER_KEY * u64::from(table.config.batch) {
            let size = table.size.load(Ordering::Acquire);
            if size < wanted {
                // Another thread is freeing memory: the next insertion will grow the table.
                let Ok(activations) = table.activations.try_read() else {
                    return;
                };
                if let Some(place) = table.claim_growth(size) {
                    self.ensure_active(place, &activations);
                }
            } else if size / 2 >= wanted {
                if table.claim(size, size - 1) {
                    self.ensure_inactive(size - 1);
                }
            } else {
                return;
            }
        }
    }

    /// Makes the bucket at `place` live, if `size` still demands that.
    fn ensure_active(&self, place: u64, activations: &Activations<'_>) {
        let (from, bit) = parent(place);
        // Under the parent's lock, or when it was found dead: an earlier shrink past this bucket is seen,
        // and a later one finds the child.
        let unwanted = || self.table.size_in_order() <= place;
        loop {
            let Some(bucket) = self.table.lock_place(from) else {
                if unwanted() {
                    return;
                }
                self.ensure_active(from, activations);
                continue;
            };
            let depth = bucket.depth();
            if depth > bit || unwanted() {
                bucket.keep();
                return;
            }
            // An older child with a split that another thread has claimed but not begun comes first.
            self.split(bucket, activations);
            if depth == bit {
                return;
            }
        }
    }

    /// Hands half of a bucket's keys to the next of its children.
    fn split(&self, mut bucket: Bucket<'_>, _births: &Activations<'_>) {
        let table = &self.table;
        let depth = bucket.depth();
        let place = bucket.place | 1 << depth;
        let mut child = Bucket::inactive(&table.overflow, place, table.homes.line(place));
        let entries = bucket.entries();
        for (word, _) in &entries {
            K::prefetch(*word, None);
        }
        bucket.clear();
        for (word, payload) in entries {
            if self.hash_of_word(&bucket, word) >> depth & 1 == 0 {
                bucket.add(word, payload);
            } else {
                child.add(word, payload);
            }
        }
        table.homes.hold(place);
        table.live_buckets[table.homes.segment(place)].fetch_add(1, Ordering::AcqRel);
        // The child is complete while the parent is locked (`linear_hashing.rs`, B1).
        child.activate(depth + 1, table.floor.load(Ordering::Acquire));
        bucket.change_depth(depth + 1);
        table.counters.add(Event::Split);
    }

    /// Makes the bucket at `place` dead, if `size` still demands that.
    fn ensure_inactive(&self, place: u64) {
        let (to, bit) = parent(place);
        let wanted = || self.table.size_in_order() > place;
        loop {
            // If the parent is dead, so is the child (G2).
            let Some(bucket) = self.table.lock_place(to) else {
                return;
            };
            let depth = bucket.depth();
            if depth <= bit || wanted() {
                bucket.keep();
                return;
            }
            let last = to | 1 << (depth - 1);
            if last != place {
                // A younger child with a merge that another thread has claimed but not begun goes first.
                bucket.keep();
                self.ensure_inactive(last);
                continue;
            }
            let Some(child) = self.table.lock_place(place) else {
                unreachable!("its parent's depth says that it lives")
            };
            let depth = child.depth();
            if depth > bit + 1 {
                child.keep();
                bucket.keep();
                self.ensure_inactive(place | 1 << (depth - 1));
                continue;
            }
            self.merge(bucket, child);
            return;
        }
    }

    /// Hands all keys of the last of a bucket's children back to it.
    fn merge(&self, mut bucket: Bucket<'_>, mut child: Bucket<'_>) {
        let table = &self.table;
        let place = child.place;
        for (word, payload) in child.entries() {
            bucket.add(word, payload);
        }
        child.clear();
        let floor = child.deactivate();
        table.floor.fetch_max(floor, Ordering::AcqRel);
        let depth = bucket.depth();
        bucket.change_depth(depth - 1);
        table.counters.add(Event::Merge);
        table.discard_if_unused(place);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model {
    //! Every interleaving, with at most two preemptions, of claims to grow and to shrink that reach a bucket in some order: when all have,
    //! the buckets that live are those that are counted.

    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model_checker::explore;

    use super::super::{FixedHash, HashConfig};
    use super::*;

    fn claim(index: &FixedHash, sizes: &[u64]) {
        for pair in sizes.windows(2) {
            assert!(index.table.homes.reach(pair[0].max(pair[1]) - 1));
            assert!(index.table.claim(pair[0], pair[1]));
        }
    }

    fn ensure_active(index: &FixedHash, place: u64) {
        index.ensure_active(place, &index.table.activations.read().unwrap());
    }

    /// Runs `one` concurrently with `other` in a table of one bucket that `before` has changed.
    /// Then the delayed threads that claimed the places of `late` before reach them.
    fn explore_beside(
        before: fn(&FixedHash),
        one: fn(&FixedHash),
        other: fn(&FixedHash),
        late: &'static [u64],
    ) {
        explore(2, move || {
            let index = Arc::new(FixedHash::new(HashConfig {
                first_bits: 0,
                keys_per_four_buckets: 4,
                stripe_bits: 0,
                batch: 1,
            }));
            before(&index);
            let beside = thread::spawn({
                let index = Arc::clone(&index);
                move || one(&index)
            });
            other(&index);
            beside.join().unwrap();
            late.iter().for_each(|place| ensure_active(&index, *place));
            let table = &index.table;
            let size = table.size.load(Ordering::Acquire);
            for place in 0..4 {
                let lives =
                    table.homes.reach(place) && !table.homes.line(place).control().is_inactive();
                assert_eq!(lives, place < size, "{place} of {size}");
                // No look-up has to walk.
                let mut first = place;
                while first >= size {
                    first = parent(first).0;
                }
                assert_eq!(table.guess(1 << 63 | place).0, first, "{place} of {size}");
            }
        });
    }

    /// A thread that shrinks the table finds the parent dead, which is why the child is dead, too. A thread
    /// that grew it before activates both, unless it finds the table shrunk.
    #[test]
    fn a_bucket_does_not_live_that_is_unwanted_by_now() {
        explore_beside(
            |index| claim(index, &[1, 2, 3, 4]),
            |index| ensure_active(index, 3),
            |index| {
                claim(index, &[4, 3]);
                index.ensure_inactive(3);
            },
            &[1, 2],
        );
    }

    #[test]
    fn a_bucket_does_not_wait_for_an_unwanted_parent() {
        explore_beside(
            |index| claim(index, &[1, 2, 3, 4]),
            |index| ensure_active(index, 3),
            |index| {
                for size in [4, 3, 2] {
                    claim(index, &[size, size - 1]);
                    index.ensure_inactive(size - 1);
                }
            },
            &[],
        );
    }

    #[test]
    fn a_wanted_bucket_is_not_deactivated() {
        explore_beside(
            |index| {
                claim(index, &[1, 2, 3, 4]);
                (1..4).for_each(|place| ensure_active(index, place));
                claim(index, &[4, 3]);
            },
            |index| index.ensure_inactive(3),
            |index| {
                claim(index, &[3, 4]);
                ensure_active(index, 3);
            },
            &[],
        );
    }

    /// A change of the guide may be overtaken by one that changes it back.
    #[test]
    fn the_guide_is_that_of_the_last_size() {
        explore_beside(
            |index| {
                claim(index, &[1, 2, 3]);
                (1..3).for_each(|place| ensure_active(index, place));
            },
            |index| {
                claim(index, &[3, 2]);
                index.ensure_inactive(2);
            },
            |index| {
                if index.table.claim(2, 3) {
                    ensure_active(index, 2);
                }
            },
            &[],
        );
    }
}
