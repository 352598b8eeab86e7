//! Visits all keys, concurrently with threads that insert, delete, and split and merge buckets.
//!
//! The order of places does not work for that: a merge moves keys back to a place that was visited.
//! The order of *reversed* hashes works. A bucket's place is the lowest bits of its keys' hashes,
//! so reversed it is the highest ones, and each bucket has one interval of reversed hashes. A split
//! halves it, a merge puts the halves together, and no key ever leaves its hash.
//!
//! ```text
//!   reversed   0 ─────────────┬────────────── … ── 2⁶⁴
//!   size 2     │    place 0   │   place 1     │
//!   size 3     │  0   │   2   │   place 1     │
//!   size 4     │  0   │   2   │   1   │   3   │
//! ```
//! So the visit goes through the reversed hashes from 0 on: it locks the bucket of the next one,
//! takes the keys from there to the end of the bucket's interval, and continues where that ends.

use std::ops::ControlFlow;

use super::HashIndex;
use super::keys::HashKey;

impl<K: HashKey> HashIndex<K> {
    /// Visits keys with their payloads, in an arbitrary order, until `visit` breaks. A key that is
    /// present throughout is visited once; one that is inserted or deleted during the visit, once
    /// or not at all. No lock is held during a visit.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) {
        let mut next = Some(0_u64);
        while let Some(from) = next {
            let pin = K::pin();
            // Another hash of the same bucket. A hash that equals a place's number would match a
            // dead bucket there (`Control::mask`); hashes of keys never do.
            let bucket = self.table.lock((from | 1).reverse_bits());
            // All ones behind the bits that the place fixes.
            let within = u64::MAX.checked_shr(bucket.depth()).unwrap_or(0);
            let mut entries = bucket.entries();
            // The bucket may have been merged with one that was visited.
            entries.retain(|(word, _)| self.hash_of_word(&bucket, *word).reverse_bits() >= from);
            bucket.keep();
            for (word, payload) in entries {
                if self
                    .with_key(word, &pin, |key| visit(key, payload))
                    .is_break()
                {
                    return;
                }
            }
            next = (from | within).checked_add(1);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use namiki_platform::seeded_random::Random;

    use super::super::{FixedHash, HashConfig, VariableHash};
    use super::*;
    use crate::{InsertOutcome, PointIndex};

    /// The payloads with which each key was visited.
    fn visited<K: HashKey>(index: &HashIndex<K>) -> BTreeMap<Vec<u8>, Vec<u64>> {
        let mut visited: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        index.for_each(|key, payload| {
            visited.entry(key.to_vec()).or_default().push(payload);
            ControlFlow::Continue(())
        });
        visited
    }

    fn key(number: u64) -> [u8; 8] {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
    }

    #[test]
    fn every_key_is_visited_once_with_its_payload() {
        for keys in [0, 1, 3, 1000] {
            let (fixed, variable) = (FixedHash::default(), VariableHash::new(HashConfig::tiny()));
            let mut expected = BTreeMap::new();
            for number in 0..keys {
                fixed.insert(&key(number), number).unwrap();
                variable.insert(&key(number), number).unwrap();
                expected.insert(key(number).to_vec(), vec![number]);
            }
            assert_eq!(visited(&fixed), expected);
            assert_eq!(visited(&variable), expected);
            let mut first = 0;
            fixed.for_each(|_, _| {
                first += 1;
                ControlFlow::Break(())
            });
            assert_eq!(first, keys.min(1));
        }
    }

    /// Keys that stay, while others are inserted and deleted until the table has grown and shrunk
    /// many times.
    fn stay_in_a_changing_table<K: HashKey>(index: &HashIndex<K>) {
        const STAYING: u64 = 200;
        const PASSING: u64 = 2000;
        for number in 0..STAYING {
            index.insert(&key(number), number).unwrap();
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mine = |number: u64| key(STAYING + thread * PASSING + number);
                    while !is_over.load(Ordering::Relaxed) {
                        for number in 0..PASSING {
                            let inserted = index.insert(&mine(number), number).unwrap();
                            assert!(matches!(inserted, InsertOutcome::Inserted(_)));
                        }
                        for number in 0..PASSING {
                            index.delete(&mine(number)).unwrap();
                        }
                    }
                });
            }
            let mut random = Random::seeded(9);
            for round in 0..200 {
                // Slow at times, so that much changes between two buckets.
                let slowly = random.chance(0.2);
                let mut met: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
                index.for_each(|key, _| {
                    *met.entry(key.to_vec()).or_default() += 1;
                    if slowly {
                        std::thread::yield_now();
                    }
                    ControlFlow::Continue(())
                });
                for number in 0..STAYING {
                    let times = met.get(&key(number)[..]).copied();
                    assert_eq!(times, Some(1), "key {number} in round {round}");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let changes = index.statistics();
        assert!(changes.splits > 100 && changes.merges > 100, "{changes:?}");
    }

    #[test]
    fn keys_that_stay_are_visited_once_beside_writers() {
        stay_in_a_changing_table(&FixedHash::new(HashConfig::tiny()));
        stay_in_a_changing_table(&VariableHash::new(HashConfig::tiny()));
    }
}
