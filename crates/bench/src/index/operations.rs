//! The operations of one thread, drawn before the clock starts.
//!
//! Each is a word and a key, in the order in which they come: what is read to know the next operation
//! lies ahead in memory, where the processor fetches it by itself. Operations of which there is no end,
//! or more than memory should be spent on, come again from the first on.
//!
//! Ranks are drawn by formula (1), and scattered over the keys so that popular ones do not lie side by
//! side. Which keys are there at first is scattered otherwise: popular keys are no more likely to be.
//!
//! Paper: bwtree §5.1

use namiki_platform::random::Random;
use namiki_platform::zipf::{Scatter, Zipf};

use super::keys::Keys;
use super::mix::{Mix, Operation};
use crate::run::share;

/// Bits of a word that hold the number of a key; above is the operation.
const KEY_BITS: u32 = 29;
/// More keys have no place in a word.
pub(crate) const KEYS_MAX: u64 = 1 << KEY_BITS;
/// Streams of random numbers: of operations, one for each thread, and before them the others.
const HOT_STREAM: u64 = 0;
const INITIAL_STREAM: u64 = 1;
const THREAD_STREAMS: u64 = 2;
/// Memory for the operations of all threads.
const BYTES_MAX: u64 = 1 << 30;
/// As many operations, at least, for each thread of a run whose length is a time.
const OPERATIONS_MIN: u64 = 1 << 21;

/// What operations are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) keys: Keys,
    /// How many keys are there at first.
    pub(crate) initial: u64,
    pub(crate) mix: Mix,
    pub(crate) skew: f64,
    /// Reads at a time.
    pub(crate) batch: u64,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

impl Choice {
    /// The keys that are there at first, as indexes from 0 to `initial - 1` in no visible order.
    pub(crate) fn initial_keys(&self) -> Scatter {
        let seed = Random::stream(self.seed, INITIAL_STREAM).next_u64();
        Scatter::new(self.keys.count, seed)
    }

    /// How many operations of a thread to draw, if it is to do `wanted`: all, or as many as show the
    /// same and take no more memory than they should.
    pub(crate) fn drawn(&self, wanted: Option<u64>) -> u64 {
        let threads = self.threads as u64;
        let for_a_time = OPERATIONS_MIN.max(4 * self.keys.count / threads);
        let bytes = (size_of::<u32>() + self.keys.bytes) as u64;
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
    /// ascending, each thread a stretch of its own.
    pub(crate) fn load(choice: &Choice, thread: usize, sorted: bool) -> Self {
        let initial = choice.initial_keys();
        let numbers = (0..choice.initial).map(|index| initial.key(index));
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

    /// How many there are, before they come again.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Where operation `number` stands.
    pub(crate) fn place(&self, number: u64) -> usize {
        (number % self.words.len() as u64) as usize
    }

    /// The operation at a place.
    #[inline]
    pub(crate) fn operation(&self, place: usize) -> Operation {
        // The order of the enumeration; nothing beyond the last is ever stored.
        match self.words[place] >> KEY_BITS {
            0 => Operation::Read,
            1 => Operation::Scan,
            2 => Operation::Write,
            3 => Operation::Insert,
            4 => Operation::Update,
            _ => Operation::Delete,
        }
    }

    /// The number of its key.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> u64 {
        u64::from(self.words[place] & ((1 << KEY_BITS) - 1))
    }

    /// The bytes of its key.
    #[inline]
    pub(crate) fn key(&self, place: usize) -> &[u8] {
        &self.keys[place * self.key_bytes..][..self.key_bytes]
    }
}
