//! Random transactions at high contention, and their histories.
//!
//! Few keys, many transactions. The set of keys moves on slowly ([`Mix::transactions_per_key`]), so
//! that some keys were never written. Only these can be phantoms, because a key that was written
//! once keeps its record when it is deleted.
//!
//! Three ways to run them:
//! - [`interleaved`]: many open transactions, their steps shuffled by a seed, on **one** thread:
//!   thousands of schedules a second, each reproducible from its seed;
//! - [`nested`]: the same with sessions, one running inside the other, so that bugs can be planted;
//! - [`threads`]: real threads.
//!
//! The reads of an attempt count only if it commits. Then they must be of committed versions, with
//! the values that were written; the history must have no cycle; and the final contents must be the
//! last versions. A transaction that adds to a key without reading it reads nothing. The version
//! that it writes must hold the sum of the amount and of the version before it, whichever that
//! turned out to be. The final value of such a key is the sum of all amounts added since a value
//! was put.

mod attempt;
pub mod interleaved;
pub mod nested;
mod own_write_effect;
mod run_result;
pub mod threads;

use namiki::ProtocolSpec;
use namiki_platform::seeded_random::Random;

use crate::history::Promise;

pub use attempt::Attempt;
pub use run_result::{Run, contents};

/// The table that all of them use. Its keys are numbers, whatever their
/// [spelling](crate::key_encoding).
pub type Numbers<K = u64> = namiki::Table<K, u64>;

/// The guarantee that histories under a protocol are checked for.
#[must_use]
pub fn promise_of(spec: ProtocolSpec) -> Promise {
    if spec.concurrency.is_strict() {
        Promise::StrictlySerializable
    } else {
        Promise::Serializable
    }
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads a key.
    Read(u64),
    /// Writes a key without reading it.
    Put(u64),
    /// Adds to a key's value without reading it.
    Add(u64),
    /// Replaces a key's value, if it is there.
    Update(u64),
    /// Replaces the values of consecutive keys, and of the first once more.
    UpdateMany {
        /// The first key.
        from: u64,
        /// Number of keys.
        count: u64,
    },
    /// Adds a key, if it is not there.
    Insert(u64),
    /// Removes a key, if it is there.
    Delete(u64),
    /// Reads the keys in a range, up to a limit.
    Scan {
        /// The first key.
        from: u64,
        /// The last key.
        to: u64,
        /// From the last key down.
        backward: bool,
        /// Maximum number of keys found.
        limit: usize,
    },
    /// Writes a key or adds to it, and rolls that back.
    WriteAndRollBack(u64),
}

/// The composition of random transactions.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Number of keys in use at any time.
    pub keys: u64,
    /// The keys in use move on by one after this number of transactions.
    pub transactions_per_key: u64,
    /// Maximum number of steps in a transaction.
    pub steps_max: u64,
    /// Percentage of steps that are scans.
    pub scans_percent: u64,
    /// Percentage of steps that write.
    pub writes_percent: u64,
}

impl Mix {
    /// Few keys, all kinds of steps.
    pub const HOT: Self = Self {
        keys: 6,
        transactions_per_key: 12,
        steps_max: 5,
        scans_percent: 20,
        writes_percent: 45,
    };
    /// Keys that are new every few transactions, and many scans.
    pub const PHANTOMS: Self = Self {
        keys: 6,
        transactions_per_key: 3,
        steps_max: 4,
        scans_percent: 40,
        writes_percent: 45,
    };
    /// Many keys, most of them new, and scans across many leaves that split.
    pub const WIDE: Self = Self {
        keys: 400,
        transactions_per_key: 1,
        steps_max: 14,
        scans_percent: 10,
        writes_percent: 75,
    };

    /// The steps of the transaction number `number`.
    #[must_use]
    pub fn steps(&self, random: &mut Random, number: u64) -> Vec<Step> {
        let first = number / self.transactions_per_key;
        let count = 1 + random.below(self.steps_max);
        (0..count).map(|_| self.step(random, first)).collect()
    }

    fn step(&self, random: &mut Random, first: u64) -> Step {
        let key = first + random.below(self.keys);
        let kind = random.below(100);
        if kind < self.scans_percent {
            let other = first + random.below(self.keys);
            return Step::Scan {
                from: key.min(other),
                to: key.max(other) + random.below(3),
                backward: random.chance(0.5),
                limit: if random.chance(0.3) { 2 } else { usize::MAX },
            };
        }
        if kind >= self.scans_percent + self.writes_percent {
            return Step::Read(key);
        }
        match random.below(11) {
            0 | 1 => Step::Put(key),
            2 => Step::Update(key),
            3 => Step::UpdateMany {
                from: key,
                // Each absent key is a gap that was read, and few of many keys are there.
                count: if self.keys > 100 { 1 } else { 1 + key % 3 },
            },
            4 | 5 => Step::Insert(key),
            6 | 7 => Step::Delete(key),
            8 | 9 => Step::Add(key),
            _ => Step::WriteAndRollBack(key),
        }
    }
}
