//! A hash table for keys that are looked up one by one and never scanned.
//!
//! ```text
//!  hash(key) = 1 | stripe . . . . . . . . | place      "stripe": version and rts, against phantoms
//!                                            |
//!     home lines   | 0 | 1 | 2 | … | size-1 |          one cache line each: three keys, three payloads
//!                        |                             (line.rs)
//!                        +--> overflow line            for one key in eight or so
//! ```
//!
//! A look-up costs one miss for most keys, stores nothing, and orders nothing, so that several overlap. The
//! table grows and shrinks a bucket at a time (*linear hashing*), in the thread that has just inserted or
//! deleted. There is never a second table, no thread waits for more than one bucket, and the memory goes
//! with the number of keys.
//!
//! | to learn about | read |
//! |---|---|
//! | a line, and what makes a reader's answer good | `line.rs` |
//! | lines that can be read for ever | `line_memory.rs`, `overflow_line_pool.rs` |
//! | keys in slots | `keys.rs` |
//! | which bucket a key is in, and where that is | `linear_hashing.rs`, `hash_to_line.rs` |
//! | versions and stamps | `version_stripes.rs` |
//! | the operations | `find.rs`, `write.rs`, `locked_bucket.rs` |
//! | growing and shrinking | `resize.rs`, `count.rs` |
//! | visiting all keys | `visit.rs` |
//!
//! Writers lock one bucket for a few instructions; readers of the same bucket retry until it is
//! unlocked. A thread that is preempted while it holds the lock delays only threads that need the
//! same bucket.
//!
//! Source: linear hashing is Litwin's; readers use sequence locks.
#![expect(unsafe_code, reason = "vouches that words of the table are alive")]

mod config;
mod count;
mod find;
mod hash_to_line;
mod keys;
mod line;
mod line_memory;
mod locked_bucket;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;

mod linear_hashing;
mod overflow_line_pool;
mod resize;
mod version_stripes;
mod visit;
mod write;

use std::fmt;
use std::marker::PhantomData;

pub use self::config::HashConfig;
pub use self::keys::HashKey;
use self::linear_hashing::Table;
use self::locked_bucket::Bucket;
use crate::key::{Fixed8, Variable};
use crate::shared::batch::get_in_lanes;
use crate::{Change, Changed, Expected, IndexError, LeafVersion, Lookup, PointIndex, Statistics};

/// A hash table over one kind of keys.
///
/// Payloads may be any `u64`, and so may keys of eight bytes. A leaf of the traits is a stripe
/// here: a fixed part of all hashes.
pub struct HashIndex<K: HashKey> {
    table: Table,
    keys: PhantomData<K>,
}

/// A table of eight-byte keys.
pub type FixedHash = HashIndex<Fixed8>;
/// A table of byte strings.
pub type VariableHash = HashIndex<Variable>;

impl<K: HashKey> HashIndex<K> {
    /// An empty table.
    #[must_use]
    pub fn new(config: HashConfig) -> Self {
        Self {
            table: Table::new(config),
            keys: PhantomData,
        }
    }

    #[inline]
    fn hash(&self, key: K::Ref<'_>) -> u64 {
        K::hash(self.table.seed, key)
    }

    /// The current version of a key's stripe; the key may be absent.
    ///
    /// # Errors
    /// If the key is not one this table can hold.
    pub fn leaf_of(&self, key: &[u8]) -> Result<LeafVersion, IndexError> {
        let hash = self.hash(K::parse(key)?);
        Ok(self.table.stripes.version(hash))
    }

    /// Whether a word that was found in a used slot is that of the key. The caller has the bucket's lock,
    /// or was pinned before it read the bucket's control word.
    #[inline]
    fn is(&self, word: u64, key: K::Ref<'_>, hash: u64) -> bool {
        // SAFETY: in the table, or there since the pin (W2).
        unsafe { K::is(word, key, hash) }
    }

    /// The hash of a word of a bucket that is locked.
    #[inline]
    fn hash_of_word(&self, _locked: &Bucket<'_>, word: u64) -> u64 {
        // SAFETY: it is in the table, and no thread takes it out without the lock.
        unsafe { K::hash_of_word(self.table.seed, word) }
    }

    /// Reads the key of a word that was in the table since the pin.
    #[inline]
    fn with_key<R>(&self, word: u64, _pin: &K::Pin, read: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: found in a used slot since the pin, which lasts (W2).
        unsafe { K::with_bytes(word, read) }
    }

    /// Frees a word that was taken out of a bucket that has been unlocked since.
    #[inline]
    fn retire(&self, word: u64, pin: &K::Pin) {
        // SAFETY: no thread can find it any more, and it was in one slot (W1).
        unsafe { K::retire(word, pin) };
    }

    /// Visits the keys of every bucket, by their words, under its lock.
    fn for_each_bucket(&self, mut visit: impl FnMut(&[(u64, u64)])) {
        for place in self.table.live_places() {
            if let Some(bucket) = self.table.lock_place(place) {
                let entries = bucket.entries();
                visit(&entries);
                bucket.keep();
            }
        }
    }
}

impl<K: HashKey> PointIndex for HashIndex<K> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let key = K::parse(key)?;
        let pin = K::pin();
        Ok(self.look_up(key, self.hash(key), &pin))
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        get_in_lanes::<K>(keys, out, |keys, out| self.get_lanes(keys, out))
    }

    #[inline]
    fn change(
        &self,
        key: &[u8],
        _: Expected,
        decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        Ok(self.change_key(K::parse(key)?, decide))
    }

    fn leaf_rts(&self, leaf: u64) -> u64 {
        self.table.stripes.rts(leaf)
    }

    fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        self.table.stripes.raise_and_check(seen, rts)
    }

    fn current(&self, leaf: u64) -> Option<LeafVersion> {
        self.table.stripes.current(leaf)
    }

    /// A leaf is a bucket here; its chain consists of the keys in overflow lines.
    fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            height: 1,
            ..self.table.counters.statistics()
        };
        self.for_each_bucket(|entries| {
            let further = entries.len().saturating_sub(line::SLOTS) as u64;
            statistics.records += entries.len() as u64;
            statistics.leaves += 1;
            statistics.leaf_deltas += further;
            statistics.longest_chain = statistics.longest_chain.max(further);
        });
        statistics
    }

    fn memory_bytes(&self) -> usize {
        let mut bytes = self.table.bytes();
        if !K::INLINE {
            self.for_each_bucket(|entries| {
                for (word, _) in entries {
                    // SAFETY: the bucket is locked.
                    bytes += unsafe { K::bytes(*word) };
                }
            });
        }
        bytes
    }

    fn len(&self) -> usize {
        self.table.count.sum() as usize
    }
}

impl<K: HashKey> Default for HashIndex<K> {
    fn default() -> Self {
        Self::new(HashConfig::default())
    }
}

impl<K: HashKey> Drop for HashIndex<K> {
    fn drop(&mut self) {
        if !K::INLINE {
            self.for_each_bucket(|entries| {
                for (word, _) in entries {
                    // SAFETY: `&mut self`: no other thread uses the table, and its words are in one slot
                    // each (W1).
                    unsafe { K::free(*word) };
                }
            });
        }
    }
}

impl<K: HashKey> fmt::Debug for HashIndex<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashIndex")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}
