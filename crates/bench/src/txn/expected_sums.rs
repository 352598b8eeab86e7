//! The exact value of each record after transactions that add and subtract.
//!
//! Sums do not depend on the order of commits. A thread knows which of its payments were refused
//! because they would have overdrawn, and counts the amounts that it did not move.
//!
//! The memory is eight bytes for each record. The time depends on the length of the rings. For
//! payments it also depends on their number, at a few nanoseconds each, because every round has its
//! own amounts.

use super::thread_commits::Done;
use super::workload::Workload;

/// The values that the records of an adding workload must hold, given their values before.
pub(crate) fn tally(workload: Workload, threads: &[Done], before: Vec<u64>) -> Vec<u64> {
    let mut records = before;
    for done in threads {
        for number in done.last_round() {
            let keys = done.ring.keys(number);
            match workload {
                Workload::ReadUpdate(_) => count_up(&mut records, keys, done.times(number)),
                Workload::Payment => transfer(&mut records, keys, done.moved(number)),
                Workload::Update(_)
                | Workload::Read(_)
                | Workload::ReadsThenUpdates(_)
                | Workload::Ycsb(_) => {}
            }
        }
    }
    records
}

fn count_up(records: &mut [u64], keys: &[u32], times: u64) {
    for key in keys {
        let record = &mut records[*key as usize];
        *record = record.wrapping_add(times);
    }
}

/// Not in the order of the payments, so a balance may be temporarily negative (wrapped around).
fn transfer(records: &mut [u64], keys: &[u32], amount: u64) {
    let (from, to) = (keys[0] as usize, keys[1] as usize);
    records[from] = records[from].wrapping_sub(amount);
    records[to] = records[to].wrapping_add(amount);
}

#[cfg(test)]
mod tests {
    use super::super::serial_test_history::{History, RECORDS};
    use super::*;

    const ADDING: [Workload; 2] = [Workload::ReadUpdate(5), Workload::Payment];

    fn expected(history: &History) -> Vec<u64> {
        let before = (0..RECORDS).map(|key| history.workload.first_tag(key));
        tally(history.workload, &history.threads, before.collect())
    }

    #[test]
    fn honest_runs_leave_the_tally() {
        for workload in ADDING {
            // Rings of 300 transactions: less than one round, and several.
            for commits in [0, 1, 20, 300, 5000] {
                for threads in [1, 4] {
                    let history = History::play(workload, threads, commits);
                    assert_eq!(history.table(), expected(&history), "{workload}");
                }
            }
        }
    }

    #[test]
    fn payments_that_would_overdraw_are_among_them() {
        let history = History::play(Workload::Payment, 4, 5000);
        assert!(history.steps.iter().any(|step| step.writes.is_empty()));
    }

    #[test]
    fn a_table_as_it_was_loaded_fails() {
        for workload in ADDING {
            let history = History::play(workload, 2, 100);
            assert_ne!(history.table_without(|_| true), expected(&history));
        }
    }

    #[test]
    fn the_last_transaction_must_be_there() {
        for workload in ADDING {
            for threads in [1, 4] {
                let history = History::play(workload, threads, 100);
                let mut steps = history.steps.iter().rev();
                let last = steps.find(|step| !step.writes.is_empty()).unwrap();
                let table = history.table_without(|step| step.is(last));
                assert_ne!(table, expected(&history), "{workload}");
            }
        }
    }

    /// The sum over all records is right, but money went to the wrong account.
    #[test]
    fn a_sum_that_is_right_is_not_enough() {
        let history = History::play(Workload::Payment, 2, 100);
        let mut table = history.table();
        table.swap(1, 2);
        assert_ne!(table, expected(&history));
    }
}
