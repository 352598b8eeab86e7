//! The operations of one thread, drawn before the clock starts.
//!
//! Each operation is a word and a key, stored in the order of execution: the next operation lies
//! ahead in memory, where the hardware prefetcher finds it. If the number of operations is
//! unlimited, or too large for the memory budget, they repeat from the first.
//!
//! Ranks are drawn by formula (1) and scattered over the keys, so that popular keys are not
//! adjacent. The initial keys are scattered independently: popular keys are no more likely to be
//! among them.
//!
//! Paper: bwtree §5.1

use namiki_platform::seeded_random::Random;
use namiki_platform::zipf::{Scatter, Zipf};

use super::operation_mix::{Mix, Operation};
use crate::key_encoding::Keys;
use crate::worker_threads::share;

/// Number of a word's bits that hold the key's number; the bits above hold the operation.
const KEY_BITS: u32 = 29;
/// Upper bound for keys: larger numbers do not fit into a word.
pub(crate) const KEYS_MAX: u64 = 1 << KEY_BITS;
/// Streams of random numbers: the first ones are shared, then one for each thread's operations.
const HOT_STREAM: u64 = 0;
const INITIAL_STREAM: u64 = 1;
const THREAD_STREAMS: u64 = 2;
/// Memory budget for the operations of all threads.
const BYTES_MAX: u64 = 1 << 30;
/// Minimal number of operations for each thread of a run that ends by time.
const OPERATIONS_MIN: u64 = 1 << 21;

/// The parameters from which operations are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) keys: Keys,
    /// Number of initial keys.
    pub(crate) initial: u64,
    pub(crate) mix: Mix,
    pub(crate) skew: f64,
    /// Reads per batch.
    pub(crate) batch: u64,
    /// Entries that a scan visits.
    pub(crate) scan_length: u64,
    /// Whether a write returns the payload that it replaces.
    pub(crate) returning: bool,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

impl Choice {
    /// Whether the mix contains scans.
    pub(crate) const fn scans(&self) -> bool {
        self.mix.has(Operation::Scan)
    }

    /// The initial keys, in no visible order.
    ///
    /// They are scattered twice. Another seed only starts the same permutation elsewhere, and the
    /// popular ranks would be all among these keys or none.
    pub(crate) fn initial_keys(&self) -> impl Iterator<Item = u64> {
        let mut random = Random::stream(self.seed, INITIAL_STREAM);
        let [first, second] = [(); 2].map(|()| Scatter::new(self.keys.count, random.next_u64()));
        (0..self.initial).map(move |index| second.key(first.key(index)))
    }

    /// The number of operations to draw for a thread that executes `wanted`: all, or as many as are
    /// representative and fit into the memory budget.
    pub(crate) fn drawn(&self, wanted: Option<u64>) -> u64 {
        let threads = self.threads as u64;
        let for_a_time = OPERATIONS_MIN.max(4 * self.keys.count / threads);
        let bytes = Operations::bytes(self.keys.bytes, 1);
        let room = (BYTES_MAX / threads / bytes).max(1 << 10);
        wanted.unwrap_or(for_a_time).clamp(1, room)
    }
}

/// The operations of one thread.
#[derive(Debug)]
pub(crate) struct Operations {
    words: Vec<u32>,
    keys: Vec<u8>,
    key_bytes: usize,
}

impl Operations {
    /// Draws at least `count` operations for a thread.
    pub(crate) fn draw(choice: &Choice, thread: usize, count: u64) -> Self {
        let mut random = Random::stream(choice.seed, THREAD_STREAMS + thread as u64);
        let hot_seed = Random::stream(choice.seed, HOT_STREAM).next_u64();
        let scatter = Scatter::new(choice.keys.count, hot_seed);
        let zipf = Zipf::new(choice.keys.count, choice.skew);
        let draws = choice.mix.draws(choice.batch);
        let (count, key_bytes) = (count as usize, choice.keys.bytes);
        let mut operations = Self::with_capacity(count + choice.batch as usize, key_bytes);
        while operations.words.len() < count {
            let operation = draws.draw(&mut random);
            let times = match operation {
                Operation::Read => choice.batch,
                _ => 1,
            };
            for _ in 0..times {
                let number = scatter.key(zipf.rank(&mut random) - 1);
                operations.push(operation, number, &choice.keys);
            }
        }
        operations
    }

    /// The insertions with which a thread loads its share of the initial keys: in random order, or
    /// ascending, each thread with a contiguous range.
    pub(crate) fn load(choice: &Choice, thread: usize, sorted: bool) -> Self {
        let numbers = choice.initial_keys();
        let first: u64 = (0..thread)
            .map(|before| share(choice.initial, before, choice.threads))
            .sum();
        let count = share(choice.initial, thread, choice.threads);
        let mut operations = Self::with_capacity(count as usize, choice.keys.bytes);
        if sorted {
            let mut all: Vec<u64> = numbers.collect();
            all.sort_unstable_by_key(|number| choice.keys.core(*number));
            let mine = &all[first as usize..][..count as usize];
            for number in mine {
                operations.push(Operation::Insert, *number, &choice.keys);
            }
        } else {
            for number in numbers.skip(first as usize).take(count as usize) {
                operations.push(Operation::Insert, number, &choice.keys);
            }
        }
        operations
    }

    fn with_capacity(count: usize, key_bytes: usize) -> Self {
        Self {
            words: Vec::with_capacity(count),
            keys: Vec::with_capacity(count * key_bytes),
            key_bytes,
        }
    }

    fn push(&mut self, operation: Operation, number: u64, keys: &Keys) {
        self.words
            .push((operation as u32) << KEY_BITS | number as u32);
        keys.append(number, &mut self.keys);
    }

    /// Memory for this number of operations.
    pub(crate) const fn bytes(key_bytes: usize, count: u64) -> u64 {
        count.saturating_mul((size_of::<u32>() + key_bytes) as u64)
    }

    /// The number of operations before they repeat.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The position of operation `number`.
    pub(crate) fn place(&self, number: u64) -> usize {
        (number % self.words.len() as u64) as usize
    }

    /// The operation at a position.
    #[inline]
    pub(crate) fn operation(&self, place: usize) -> Operation {
        // The order of the enumeration; no larger value is ever stored.
        match self.words[place] >> KEY_BITS {
            0 => Operation::Read,
            1 => Operation::Scan,
            2 => Operation::Write,
            3 => Operation::Insert,
            4 => Operation::Update,
            _ => Operation::Delete,
        }
    }

    /// The number of the operation's key.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> u64 {
        u64::from(self.words[place] & ((1 << KEY_BITS) - 1))
    }

    /// The bytes of the operation's key.
    #[inline]
    pub(crate) fn key(&self, place: usize) -> &[u8] {
        &self.keys[place * self.key_bytes..][..self.key_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_encoding::{KeyLayout, KeySpace};

    fn choice(count: u64, skew: f64) -> Choice {
        Choice {
            keys: Keys {
                count,
                bytes: 16,
                space: KeySpace::Sparse,
                layout: KeyLayout::SharedPrefix,
            },
            initial: count,
            mix: "read=60,scan=5,write=10,insert=10,update=10,delete=5"
                .parse()
                .unwrap(),
            skew,
            batch: 1,
            scan_length: 1,
            returning: false,
            seed: 3,
            threads: 3,
        }
    }

    fn numbers(operations: &Operations) -> Vec<u64> {
        let places = 0..operations.len();
        places.map(|place| operations.number(place)).collect()
    }

    /// A chi-square test against formula (1), over ranks that are expected at least 20 times, with
    /// the rest as one class. With d classes, the statistic is about d ± sqrt(2 d); six of these
    /// deviations are allowed.
    ///
    /// Paper: bwtree §5.1, formula (1)
    #[test]
    fn keys_are_drawn_by_the_papers_formula_and_scattered() {
        const DRAWS: u64 = 200_000;
        for skew in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let choice = choice(1000, skew);
            let operations = Operations::draw(&choice, 0, DRAWS);
            let mut counts = vec![0.0; 1000];
            for number in numbers(&operations) {
                counts[number as usize] += 1.0;
            }
            let hot = Scatter::new(1000, Random::stream(3, HOT_STREAM).next_u64());
            let sum: f64 = (1..=1000).map(|k| f64::from(k).powf(-skew)).sum();
            let (mut chi, mut classes) = (0.0, 0.0_f64);
            let (mut rest, mut rest_expected) = (0.0, 0.0);
            for rank in 1..=1000_u32 {
                let expected = f64::from(rank).powf(-skew) / sum * DRAWS as f64;
                let seen: f64 = counts[hot.key(u64::from(rank) - 1) as usize];
                if expected < 20.0 {
                    rest += seen;
                    rest_expected += expected;
                    continue;
                }
                chi += (seen - expected).powi(2) / expected;
                classes += 1.0;
            }
            if rest_expected >= 20.0 {
                chi += (rest - rest_expected).powi(2) / rest_expected;
                classes += 1.0;
            }
            let limit = classes + 6.0 * (2.0 * classes).sqrt();
            assert!(chi < limit, "s = {skew}: {chi} of {limit}");
        }
    }

    #[test]
    fn each_operation_has_its_key_beside_it() {
        let choice = choice(500, 0.9);
        let operations = Operations::draw(&choice, 1, 5000);
        assert_eq!(operations.len(), 5000);
        for place in 0..operations.len() {
            let number = choice.keys.number(operations.key(place));
            assert_eq!(number, Some(operations.number(place)));
        }
        for operation in Operation::ALL {
            let places = 0..operations.len();
            let count = places
                .filter(|at| operations.operation(*at) == operation)
                .count();
            let percent = count as f64 / 50.0;
            let expected = f64::from(choice.mix.percent(operation));
            assert!((percent - expected).abs() < 3.0, "{percent} {operation:?}");
        }
        assert_eq!(operations.place(5000), 0);
        assert_eq!(operations.place(12_345), 2345);
    }

    #[test]
    fn a_seed_makes_operations_repeatable_and_threads_differ() {
        let choice = choice(1000, 0.5);
        let drawn = |thread| numbers(&Operations::draw(&choice, thread, 1000));
        assert_eq!(drawn(0), drawn(0));
        assert_ne!(drawn(0), drawn(1));
        let other = Choice { seed: 4, ..choice };
        assert_ne!(numbers(&Operations::draw(&other, 0, 1000)), drawn(0));
    }

    #[test]
    fn reads_come_by_batches() {
        let choice = Choice {
            batch: 7,
            ..choice(100, 0.0)
        };
        let operations = Operations::draw(&choice, 0, 10_000);
        let mut reads = 0;
        for place in 0..operations.len() {
            if operations.operation(place) == Operation::Read {
                reads += 1;
                continue;
            }
            assert_eq!(reads % 7, 0);
        }
    }

    #[test]
    fn threads_load_every_initial_key_once() {
        for initial in [0, 1, 2, 600, 1000] {
            for sorted in [false, true] {
                let choice = Choice {
                    initial,
                    ..choice(1000, 0.0)
                };
                let shares = (0..3).map(|thread| Operations::load(&choice, thread, sorted));
                let shares: Vec<Vec<u64>> = shares.map(|share| numbers(&share)).collect();
                let all: Vec<u64> = shares.concat();
                let distinct: std::collections::BTreeSet<&u64> = all.iter().collect();
                assert_eq!(all.len() as u64, initial);
                assert_eq!(distinct.len(), all.len());
                let cores = all.iter().map(|number| choice.keys.core(*number));
                assert_eq!(cores.is_sorted(), sorted || initial < 2);
            }
        }
    }

    /// Otherwise the popular keys would be the initial ones.
    #[test]
    fn which_keys_are_loaded_says_nothing_of_which_are_popular() {
        let choice = Choice {
            initial: 100,
            ..choice(1000, 0.0)
        };
        let hot = Scatter::new(1000, Random::stream(3, HOT_STREAM).next_u64());
        let popular: Vec<u64> = (0..100).map(|index| hot.key(index)).collect();
        let initial = choice.initial_keys();
        let both = initial.filter(|number| popular.contains(number)).count();
        assert!((2..20).contains(&both), "{both}");
    }

    #[test]
    fn operations_take_no_more_memory_than_they_should() {
        let choice = choice(1_000_000, 0.0);
        assert_eq!(choice.drawn(Some(10)), 10);
        assert_eq!(choice.drawn(Some(0)), 1);
        assert!(choice.drawn(None) >= 1_000_000);
        assert!(choice.drawn(Some(u64::MAX)) * 3 * 20 <= BYTES_MAX);
    }
}
