//! The outcome of blind writes: each record holds some thread's last write to it.
//!
//! A thread's transactions commit in order. The tag in a record is therefore that of the *last*
//! transaction of its thread that wrote the record. It is unknown which thread wrote last, but a
//! record that was written cannot hold anything older.
//!
//! Each thread's last round is scanned backwards, so the first occurrence of a key is its last
//! write. The time depends on the length of the rings and not on the number of transactions; the
//! memory is three bytes for each record.

use super::thread_commits::Done;
use super::workload::{Workload, tag};

/// The defect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Threads wrote the record, but it holds no thread's last write.
    NobodysLast,
    /// No thread wrote the record, but it changed.
    NeverWritten,
}

/// Finds the first record with a value that is not allowed. `found` has the values of the records,
/// and `first` their values before the run.
pub(crate) fn first_wrong(
    workload: Workload,
    threads: &[Done],
    found: &[u64],
    first: impl Fn(u64) -> u64,
) -> Option<(u64, Wrong)> {
    let mut writers = Writers {
        latest: vec![0; found.len()],
        explained: vec![false; found.len()],
    };
    for done in threads {
        writers.add(workload, done, found);
    }
    let records = writers.latest.iter().zip(writers.explained).zip(found);
    (0..)
        .zip(records)
        .find_map(|(key, ((latest, explained), holds))| {
            let wrong = match latest {
                0 if *holds != first(key) => Wrong::NeverWritten,
                1.. if !explained => Wrong::NobodysLast,
                _ => return None,
            };
            Some((key, wrong))
        })
}

/// What the threads examined so far say about each record.
struct Writers {
    /// The last examined thread that wrote the record, counted from 1. There are at most 1024
    /// threads.
    latest: Vec<u16>,
    /// Whether the record holds the last write of an examined thread.
    explained: Vec<bool>,
}

impl Writers {
    fn add(&mut self, workload: Workload, done: &Done, found: &[u64]) {
        let this = done.thread as u16 + 1;
        for number in done.last_round().rev() {
            let tag = tag(done.thread, number);
            for key in done.ring.writes(workload, number) {
                // Unless a later transaction of the same thread wrote the record.
                if self.latest[key] != this {
                    self.latest[key] = this;
                    self.explained[key] |= found[key] == tag;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::serial_test_history::History;
    use super::super::workload::Ycsb;
    use super::*;

    const WRITING: [Workload; 5] = [
        Workload::Update(1),
        Workload::Update(10),
        Workload::ReadsThenUpdates(5),
        Workload::Ycsb(Ycsb::A),
        Workload::Ycsb(Ycsb::B),
    ];

    fn wrong(history: &History, table: &[u64]) -> Option<Wrong> {
        let first = |key| history.workload.first_tag(key);
        let found = first_wrong(history.workload, &history.threads, table, first);
        found.map(|(_, wrong)| wrong)
    }

    #[test]
    fn honest_runs_pass() {
        for workload in WRITING.into_iter().chain([Workload::Read(10)]) {
            // Rings of 300 transactions: less than one round, and several.
            for commits in [0, 1, 20, 300, 1000] {
                for threads in [1, 4] {
                    let history = History::play(workload, threads, commits);
                    assert_eq!(wrong(&history, &history.table()), None, "{workload}");
                }
            }
        }
    }

    #[test]
    fn a_table_as_it_was_loaded_fails() {
        for workload in WRITING {
            let history = History::play(workload, 2, 100);
            let loaded = history.table_without(|_| true);
            assert_eq!(wrong(&history, &loaded), Some(Wrong::NobodysLast));
        }
    }

    #[test]
    fn the_last_write_of_the_only_thread_must_be_there() {
        for workload in &WRITING[..3] {
            let workload = *workload;
            for commits in [1, 20, 300, 1000] {
                let history = History::play(workload, 1, commits);
                let table = history.table_without(|step| step.number == commits - 1);
                assert_eq!(wrong(&history, &table), Some(Wrong::NobodysLast));
            }
        }
    }

    #[test]
    fn an_older_write_of_a_thread_fails() {
        let history = History::play(Workload::Update(1), 2, 1000);
        let mut table = history.table();
        let keys = |number| history.threads[1].ring.keys(number)[0];
        let older = (0..999).find(|number| (number + 1..1000).any(|n| keys(n) == keys(*number)));
        let older = older.expect("the ring repeats itself");
        table[keys(older) as usize] = tag(1, older);
        assert_eq!(wrong(&history, &table), Some(Wrong::NobodysLast));
    }

    #[test]
    fn unwritten_records_are_unchanged() {
        let history = History::play(Workload::Update(1), 2, 20);
        let written = |key: usize| {
            let mut writes = history.steps.iter().flat_map(|step| &step.writes);
            writes.any(|(at, _)| *at == key)
        };
        let untouched = (0..).find(|key| !written(*key)).unwrap();
        // Not even with the tag of an existing transaction.
        for value in [untouched as u64 + 1, tag(0, 3), tag(0, 19), tag(2, 0)] {
            let mut table = history.table();
            table[untouched] = value;
            assert_eq!(wrong(&history, &table), Some(Wrong::NeverWritten));
        }
    }

    /// A transaction's tag is wrong in a record that it only read, even if that read was the last.
    #[test]
    fn what_was_read_only_must_be_as_it_was() {
        let history = History::play(Workload::ReadsThenUpdates(5), 2, 20);
        let ring = &history.threads[0].ring;
        let writes = |key: u32, number| {
            let mut writes = ring.writes(history.workload, number);
            writes.any(|at| at == key as usize)
        };
        let mut reads = (0..20).flat_map(|number| {
            let reads = &ring.keys(number)[..5];
            reads.iter().map(move |key| (number, *key))
        });
        let (number, key) = reads.find(|(number, key)| !writes(*key, *number)).unwrap();
        let mut table = history.table();
        table[key as usize] = tag(0, number);
        assert!(wrong(&history, &table).is_some());
    }

    #[test]
    fn a_write_must_be_of_one_that_wrote_there() {
        let history = History::play(Workload::Update(1), 2, 20);
        let key = history.threads[0].ring.keys(19)[0] as usize;
        // A number that was not reached, a thread that does not exist, a transaction with other
        // keys.
        for value in [tag(0, 20), tag(2, 19), tag(0, 18), key as u64 + 1] {
            let mut table = history.table();
            table[key] = value;
            assert_eq!(wrong(&history, &table), Some(Wrong::NobodysLast));
        }
    }
}
