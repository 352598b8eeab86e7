//! The workloads, and the keys of their transactions.
//!
//! Each thread has a ring of keys that were drawn before the clock started; a transaction takes the
//! next few. This is the paper's transaction queue: one per worker, filled with all transactions at
//! the start, so that no transaction is dispatched during the run. It is a ring because the same
//! keys repeat in a run by time, or in one that is too long for memory ([`ring_transactions`]). A
//! blind write writes its *tag*, the thread and number of the transaction. Afterwards every value
//! can be traced to a commit that chose its key.
//!
//! Paper: tictoc-pwal §4 (U-1, U-10, R-10, U-5/R-5); pwal §6.3.1 (READ 10, READ 5 & UPDATE 5, UPDATE 10)
//! Paper: pwal §5.2 (the transaction queue)

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use namiki::Table;
use namiki_platform::seeded_random::Random;
use namiki_platform::zipf::{Scatter, Zipf};

use super::record_payload::Payload;
use crate::key_encoding::{CORE_BYTES, KeySpace, Keys};

/// The table of a workload.
pub(crate) type Records<K> = Table<K, Payload>;

/// The initial balance of an account.
pub(crate) const BALANCE: u64 = 1000;
/// The flag bit of a key in the ring that marks a YCSB update.
pub(crate) const UPDATES: u32 = 1 << 31;
/// Upper bound for records: larger numbers have no keys in the ring.
pub(crate) const RECORDS_MAX: u64 = UPDATES as u64;
/// Keys of a thread before they repeat, in a run that the clock ends.
const RING_KEYS: usize = 1 << 20;
/// Keys of all threads together in such a run: many threads draw fewer each.
const RINGS_KEYS: usize = 16 * RING_KEYS;
/// Keys of all threads together in a run with a known number of transactions: 256 MiB.
const RUN_KEYS: usize = 1 << 26;
/// Number of a tag's lower bits, which hold the transaction's number; the bits above hold its
/// thread, counted from 1.
const NUMBER_BITS: u32 = 48;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// U-n: n blind updates of random records.
    Update(u8),
    /// R-n: n reads of random records.
    Read(u8),
    /// U-n/R-n: n random records are read and then updated.
    ReadUpdate(u8),
    /// READ n & UPDATE n: n random records are read, then n more are updated blindly. All are drawn
    /// independently, so one record may be both read and updated. Under locked reads, the first n
    /// are locked for reading and the others for writing: in the order in which they were drawn, or
    /// at commit in one global order.
    ReadsThenUpdates(u8),
    /// YCSB A, B, C: one operation a transaction, a read or a blind update of a random record.
    Ycsb(Ycsb),
    /// A random amount is moved between two random accounts, unless it would overdraw the first.
    Payment,
}

/// The mixes of YCSB without inserts and scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ycsb {
    /// Half reads, half updates.
    A,
    /// 95 % reads.
    B,
    /// Reads only.
    C,
}

const NAMES: &[(&str, Workload)] = &[
    ("u1", Workload::Update(1)),
    ("u10", Workload::Update(10)),
    ("r10", Workload::Read(10)),
    ("u5r5", Workload::ReadUpdate(5)),
    ("r5u5", Workload::ReadsThenUpdates(5)),
    ("ycsb-a", Workload::Ycsb(Ycsb::A)),
    ("ycsb-b", Workload::Ycsb(Ycsb::B)),
    ("ycsb-c", Workload::Ycsb(Ycsb::C)),
    ("payment", Workload::Payment),
];

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, workload)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*workload);
        }
        if matches!(text, "tpcb" | "tpcc") {
            return Err(format!("{text} is not part of this release"));
        }
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        Err(format!("workloads are {}", names.join(", ")))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, workload)| workload == self);
        f.write_str(name.map_or("?", |(name, _)| name))
    }
}

impl Workload {
    /// Number of keys that a transaction takes from the ring.
    pub(crate) fn keys(self) -> usize {
        match self {
            Self::Update(n) | Self::Read(n) | Self::ReadUpdate(n) => usize::from(n),
            Self::ReadsThenUpdates(n) => 2 * usize::from(n),
            Self::Ycsb(_) => 1,
            Self::Payment => 2,
        }
    }

    /// The table's name. Balances and tags have separate tables, and so have keys of different
    /// shapes.
    pub(crate) fn table(self, keys: &Keys) -> String {
        let name = match self {
            Self::Payment => "accounts",
            _ => "records",
        };
        match (keys.bytes, keys.space) {
            (CORE_BYTES, KeySpace::Dense) => name.to_owned(),
            (CORE_BYTES, space) => format!("{name} {}", space.name()),
            (bytes, space) => format!("{name} {} {bytes} {}", space.name(), keys.layout.name()),
        }
    }

    /// The initial tag of a record.
    pub(crate) fn first_tag(self, key: u64) -> u64 {
        match self {
            Self::Payment => BALANCE,
            _ => key,
        }
    }

    /// The smallest sensible number of records.
    pub(crate) fn records_min(self) -> u64 {
        match self {
            Self::Payment => 2,
            _ => 1,
        }
    }
}

/// The assignment of Zipf's popular ranks to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotKeys {
    /// Keys scattered over the table, which share neither pages nor cache lines.
    Scattered,
    /// The first keys of the table: rank r is key r - 1, as in the papers' testbed.
    Adjacent,
}

impl HotKeys {
    /// The flag's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scattered => "scattered",
            Self::Adjacent => "adjacent",
        }
    }
}

/// The distribution of random records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Keys range from 0 to `records - 1`.
    pub(crate) records: u64,
    /// The exponent s of Zipf's law.
    pub(crate) skew: f64,
    pub(crate) hot_keys: HotKeys,
    pub(crate) seed: u64,
}

/// The number of transactions for which each of `threads` threads has its own keys. In a run with a
/// given number of operations of all threads together, keys repeat only where they are drawn
/// repeatedly, as long as all keys fit in memory. Beyond that, and in a run that the clock ends,
/// the keys of a thread repeat in the same order.
pub(crate) fn ring_transactions(
    workload: Workload,
    threads: usize,
    operations: Option<u64>,
) -> u64 {
    let keys = match operations {
        Some(_) => RUN_KEYS / threads,
        None => RING_KEYS.min(RINGS_KEYS / threads),
    };
    let room = (keys / workload.keys()) as u64;
    // The largest number of transactions that any thread runs.
    let wanted = operations.map_or(room, |all| all.div_ceil(threads as u64));
    room.min(wanted).max(1)
}

/// The keys that one thread uses, transaction after transaction, repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    keys: Vec<u32>,
    per_transaction: usize,
}

impl Ring {
    /// The keys of a thread for `transactions` transactions, at least one. [`ring_transactions`]
    /// returns a sensible number.
    pub(crate) fn new(
        workload: Workload,
        choice: Choice,
        thread: usize,
        transactions: u64,
    ) -> Self {
        let Choice {
            records,
            skew,
            hot_keys,
            seed,
        } = choice;
        let per_transaction = workload.keys();
        let transactions = transactions.max(1) as usize;
        let zipf = Zipf::new(records, skew);
        let scatter = Scatter::new(records, seed);
        let mut random = Random::stream(seed, thread as u64);
        let mut keys = Vec::with_capacity(transactions * per_transaction);
        for _ in 0..transactions * per_transaction {
            let index = zipf.rank(&mut random) - 1;
            let mut key = match hot_keys {
                HotKeys::Scattered => scatter.key(index),
                HotKeys::Adjacent => index,
            } as u32;
            match workload {
                Workload::Ycsb(mix) => {
                    let updates = match mix {
                        Ycsb::A => 50,
                        Ycsb::B => 5,
                        Ycsb::C => 0,
                    };
                    if random.below(100) < updates {
                        key |= UPDATES;
                    }
                }
                Workload::Payment if keys.len() % 2 == 1 => {
                    let from = keys[keys.len() - 1];
                    while key == from {
                        // No second skewed draw, which may hardly ever give a different key.
                        key = random.below(records) as u32;
                    }
                }
                _ => {}
            }
            keys.push(key);
        }
        Self {
            keys,
            per_transaction,
        }
    }

    /// The number of transactions before the keys repeat.
    #[inline]
    pub(crate) fn transactions(&self) -> u64 {
        (self.keys.len() / self.per_transaction) as u64
    }

    /// The keys of transaction `number`.
    #[inline]
    pub(crate) fn keys(&self, number: u64) -> &[u32] {
        self.at(number).0
    }

    /// The keys of transaction `number`, and the position of the first.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> (&[u32], usize) {
        let at = (number % self.transactions()) as usize * self.per_transaction;
        (&self.keys[at..at + self.per_transaction], at)
    }

    /// All keys, in order of position.
    pub(crate) fn all(&self) -> &[u32] {
        &self.keys
    }

    /// The keys that transaction `number` writes blindly.
    pub(crate) fn writes(&self, workload: Workload, number: u64) -> impl Iterator<Item = usize> {
        let keys = self.keys(number);
        let keys = match workload {
            Workload::ReadsThenUpdates(n) => &keys[usize::from(n)..],
            _ => keys,
        };
        let written = move |key: &u32| match workload {
            Workload::Update(_) | Workload::ReadsThenUpdates(_) => Some(*key as usize),
            Workload::Ycsb(_) if key & UPDATES != 0 => Some(record_of(*key) as usize),
            _ => None,
        };
        keys.iter().filter_map(written)
    }
}

/// The record of a key in a ring.
#[inline]
pub(crate) const fn record_of(key: u32) -> u32 {
    key & !UPDATES
}

/// The tag of a blind update.
pub(crate) fn tag(thread: usize, number: u64) -> u64 {
    (thread as u64 + 1) << NUMBER_BITS | number
}

/// The thread and the number of a tag; `None` if it is not the tag of a transaction.
pub(crate) fn untag(tag: u64) -> Option<(usize, u64)> {
    let thread = (tag >> NUMBER_BITS).checked_sub(1)?;
    Some((thread as usize, tag & ((1 << NUMBER_BITS) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_encoding::KeyLayout;

    #[test]
    fn workloads_are_printed_as_they_are_parsed() {
        for (name, workload) in NAMES {
            assert_eq!(name.parse(), Ok(*workload));
            assert_eq!(workload.to_string(), *name);
        }
        assert!("tpcc".parse::<Workload>().unwrap_err().contains("tpcc"));
        assert!("u99".parse::<Workload>().unwrap_err().contains("u10"));
    }

    /// A folder holds them next to each other, and the name of the default is as old as the
    /// folders.
    #[test]
    fn keys_of_different_looks_have_tables_of_their_own() {
        let table = |bytes, space, layout| {
            let keys = Keys {
                count: 10,
                bytes,
                space,
                layout,
            };
            Workload::Read(10).table(&keys)
        };
        let (head, prefix) = (KeyLayout::RandomHead, KeyLayout::SharedPrefix);
        assert_eq!(table(8, KeySpace::Dense, prefix), "records");
        let names = [
            table(8, KeySpace::Dense, head),
            table(8, KeySpace::Sparse, head),
            table(16, KeySpace::Dense, head),
            table(16, KeySpace::Sparse, head),
            table(16, KeySpace::Sparse, prefix),
            table(32, KeySpace::Sparse, prefix),
        ];
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn tags_come_apart_as_they_were_put_together() {
        assert_eq!(untag(tag(0, 0)), Some((0, 0)));
        assert_eq!(untag(tag(31, 123_456)), Some((31, 123_456)));
        assert_eq!(untag(999_999), None);
    }

    const CHOICE: Choice = Choice {
        records: 1000,
        skew: 0.9,
        hot_keys: HotKeys::Scattered,
        seed: 7,
    };

    #[test]
    fn a_ring_is_repeatable_in_range_and_differs_by_thread() {
        let workload = Workload::Update(10);
        let new = |thread, threads| {
            let transactions = ring_transactions(workload, threads, None);
            Ring::new(workload, CHOICE, thread, transactions)
        };
        let ring = |thread| new(thread, 2);
        let (one, other) = (ring(0), ring(1));
        assert_eq!(one.keys, ring(0).keys);
        assert_ne!(one.keys, other.keys);
        assert!(one.keys.iter().all(|key| *key < 1000));
        let transactions = (one.keys.len() / 10) as u64;
        assert_eq!(one.keys(3), one.keys(3 + transactions));
        let many = new(0, 1024);
        assert!(many.keys.len() * 1024 <= RINGS_KEYS, "{}", many.keys.len());
        assert_eq!(one.keys(5), many.keys(5));
    }

    /// The number is that of the thread that runs the most transactions.
    #[test]
    fn a_counted_run_has_keys_for_all_transactions() {
        let u10 = Workload::Update(10);
        for (threads, operations, transactions) in [
            (1, 0, 1),
            (1, 2_000_000, 2_000_000),
            (16, 100_000, 6_250),
            (3, 100, 34),
            (1024, 5, 1),
            (2, u64::MAX, RUN_KEYS as u64 / 20),
            (1024, u64::MAX, RUN_KEYS as u64 / 10_240),
        ] {
            let found = ring_transactions(u10, threads, Some(operations));
            assert_eq!(found, transactions, "{operations} by {threads}");
        }
        let (one, timed) = (Workload::Update(1), |threads| {
            ring_transactions(Workload::Update(1), threads, None)
        });
        assert_eq!((timed(1), timed(16)), (1 << 20, 1 << 20));
        assert_eq!(timed(32), 1 << 19);
        let ring = Ring::new(one, CHOICE, 0, ring_transactions(one, 2, Some(7)));
        assert_eq!(ring.transactions(), 4);
        // A longer ring begins with the same keys.
        let longer = Ring::new(one, CHOICE, 0, 100);
        assert_eq!(longer.keys[..4], ring.keys);
    }

    /// Both settings draw the same ranks; only adjacent keys equal their ranks.
    #[test]
    fn hot_keys_are_the_first_ones_or_anywhere() {
        let count = |hot_keys, skew| {
            let choice = Choice {
                skew,
                hot_keys,
                ..CHOICE
            };
            let ring = Ring::new(Workload::Read(10), choice, 0, 10_000);
            let mut counts = vec![0_u32; 1000];
            for key in ring.keys {
                counts[key as usize] += 1;
            }
            counts
        };
        for skew in [0.0, 0.9] {
            let adjacent = count(HotKeys::Adjacent, skew);
            let scattered = count(HotKeys::Scattered, skew);
            assert_ne!(adjacent, scattered);
            let sorted = |counts: &[u32]| {
                let mut counts = counts.to_vec();
                counts.sort_unstable();
                counts
            };
            assert_eq!(sorted(&adjacent), sorted(&scattered), "--skew {skew}");
        }
        // At s = 0.9, 60 % of the draws are among the first tenth of 1000 ranks.
        let first = |counts: Vec<u32>| counts[..100].iter().sum::<u32>();
        assert!(first(count(HotKeys::Adjacent, 0.9)) > 55_000);
        assert!(first(count(HotKeys::Scattered, 0.9)) < 40_000);
    }

    #[test]
    fn a_payment_is_between_two_accounts() {
        let choice = Choice {
            records: 2,
            skew: 3.0,
            ..CHOICE
        };
        let ring = Ring::new(Workload::Payment, choice, 0, 1000);
        assert!((0..1000).all(|number| ring.keys(number)[0] != ring.keys(number)[1]));
    }

    #[test]
    fn the_first_keys_are_read_and_the_others_written() {
        let workload = Workload::ReadsThenUpdates(5);
        assert_eq!(
            (workload.keys(), workload.to_string().as_str()),
            (10, "r5u5")
        );
        let ring = Ring::new(workload, CHOICE, 0, 1000);
        let mut alike = 0;
        for number in 0..1000 {
            let (reads, updates) = ring.keys(number).split_at(5);
            let written: Vec<usize> = ring.writes(workload, number).collect();
            let expected: Vec<usize> = updates.iter().map(|key| *key as usize).collect();
            assert_eq!(written, expected);
            alike += usize::from(reads == updates);
        }
        assert_eq!(alike, 0, "what is updated is drawn for itself");
    }

    #[test]
    fn ycsb_mixes_are_as_said() {
        for (mix, percent) in [(Ycsb::A, 50.0), (Ycsb::B, 5.0), (Ycsb::C, 0.0)] {
            let ring = Ring::new(Workload::Ycsb(mix), CHOICE, 0, 100_000);
            let writes = |number| ring.writes(Workload::Ycsb(mix), number);
            let updates = (0..100_000).flat_map(writes).count();
            assert!(
                (updates as f64 / 1000.0 - percent).abs() < 1.0,
                "{mix:?}: {updates}"
            );
        }
    }
}
