//! What one thread of a run did: enough to work out afterwards what the records must hold.

use std::ops::Range;

use super::body::amount;
use super::workload::{Ring, Workload, tag};

/// A thread's transactions.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) thread: usize,
    /// Their keys.
    pub(crate) ring: Ring,
    /// Their numbers. Each of them has committed, in this order: one that did not is tried again
    /// under its number, and the next has the next.
    numbers: Range<u64>,
    /// Sums of the amounts that were refused, for each place in the ring: eight bytes for two keys.
    refused: Vec<u64>,
}

impl Done {
    /// Nothing yet. The first transaction will have number `first`.
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

    /// The next transaction has committed.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.numbers.end += 1;
    }

    /// The next transaction is a payment that will not move anything.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        let number = self.numbers.end;
        let place = number % self.ring.transactions();
        self.refused[place as usize] += self.amount(number);
    }

    /// How many transactions there were.
    pub(crate) fn committed(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    /// The numbers of the last round through the ring: every key that the thread ever used is in it.
    pub(crate) fn last_round(&self) -> Range<u64> {
        let first = self.numbers.end.saturating_sub(self.ring.transactions());
        first.max(self.numbers.start)..self.numbers.end
    }

    /// How many transactions had the keys of number `number`, which is one of the last round.
    pub(crate) fn times(&self, number: u64) -> u64 {
        (number - self.numbers.start) / self.ring.transactions() + 1
    }

    /// How much all the payments with the keys of number `number` moved, which is one of the last
    /// round.
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
        // Numbers 7 to 31, of which 7, 17 and 27 have the same keys, and 12 and 22.
        assert_eq!((done.last_round(), done.times(27)), (22..32, 3));
        assert_eq!(done.times(22), 2);
        let amounts = done.amount(7) + done.amount(17) + done.amount(27);
        assert_eq!(done.moved(27), amounts);
    }
}
