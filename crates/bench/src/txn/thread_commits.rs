//! The transactions of one thread of a run, in enough detail to derive the final values of the
//! records.

use std::ops::Range;

use super::body::amount;
use super::workload::{Ring, Workload, tag};

/// A thread's transactions.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) thread: usize,
    /// The keys of the transactions.
    pub(crate) ring: Ring,
    /// The numbers of the transactions. Each has committed, in this order: a failed transaction is
    /// retried under the same number, and the next one has the next number.
    numbers: Range<u64>,
    /// Sums of the refused amounts, for each position in the ring: eight bytes for two keys.
    refused: Vec<u64>,
}

impl Done {
    /// Creates an empty history. The first transaction has number `first`.
    pub(crate) fn new(workload: Workload, thread: usize, ring: Ring, first: u64) -> Self {
        let places = match workload {
            Workload::Payment => ring.transactions(),
            _ => 0,
        };
        Self {
            thread,
            ring,
            numbers: first..first,
            refused: vec![0; places as usize],
        }
    }

    /// The number of the next transaction.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.end
    }

    /// Records that the next transaction has committed.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.numbers.end += 1;
    }

    /// Records that the next transaction is a payment that moves nothing.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        let number = self.numbers.end;
        let place = number % self.ring.transactions();
        self.refused[place as usize] += self.amount(number);
    }

    /// The number of committed transactions.
    pub(crate) fn committed(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    /// The numbers of the last round through the ring, which contains every key that the thread
    /// ever used.
    pub(crate) fn last_round(&self) -> Range<u64> {
        let first = self.numbers.end.saturating_sub(self.ring.transactions());
        first.max(self.numbers.start)..self.numbers.end
    }

    /// The number of transactions with the keys of transaction `number`, which is in the last
    /// round.
    pub(crate) fn times(&self, number: u64) -> u64 {
        (number - self.numbers.start) / self.ring.transactions() + 1
    }

    /// The total amount moved by all payments with the keys of transaction `number`, which is in
    /// the last round.
    pub(crate) fn moved(&self, number: u64) -> u64 {
        let round = self.ring.transactions();
        let before = (0..self.times(number)).map(|rounds| number - rounds * round);
        let asked: u64 = before.map(|number| self.amount(number)).sum();
        asked - self.refused[(number % round) as usize]
    }

    fn amount(&self, number: u64) -> u64 {
        amount(tag(self.thread, number), self.ring.keys(number)[0])
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Choice, HotKeys};
    use super::*;

    #[test]
    fn rounds_begin_where_the_numbers_do() {
        let choice = Choice {
            records: 100,
            skew: 0.0,
            hot_keys: HotKeys::Scattered,
            seed: 1,
        };
        let workload = Workload::Payment;
        let ring = Ring::new(workload, choice, 0, 10);
        let mut done = Done::new(workload, 0, ring, 7);
        assert_eq!(done.last_round(), 7..7);
        for _ in 0..4 {
            done.commit();
        }
        assert_eq!((done.committed(), done.last_round()), (4, 7..11));
        assert_eq!(done.times(9), 1);
        for _ in 0..21 {
            done.commit();
        }
        // Numbers 7 to 31: 7, 17 and 27 have the same keys, and so do 12 and 22.
        assert_eq!((done.last_round(), done.times(27)), (22..32, 3));
        assert_eq!(done.times(22), 2);
        let amounts = done.amount(7) + done.amount(17) + done.amount(27);
        assert_eq!(done.moved(27), amounts);
    }
}
