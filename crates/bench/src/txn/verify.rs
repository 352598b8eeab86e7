//! Checks the database against the transactions of a run.
//!
//! - Blind updates: a written record holds the last write of one of its writers, and any other
//!   record its initial value ([`last_writes`](super::last_writes)).
//! - Reads with updates, payments: every record holds the exact value that results from all of them
//!   ([`tally`](super::expected_sums)).
//! - After a recovery: every record holds its value from before. All commits were acknowledged and
//!   none came later, so nothing less is correct.
//!
//! The last check needs the values of the records: eight bytes for each.

use std::ops::Bound;

use namiki::{Database, Error, IndexKind, Key, Transaction};

use super::expected_sums::tally;
use super::last_writes::{Wrong, first_wrong};
use super::load::Baseline;
use super::precomputed_keys::{key_of, number_of};
use super::record_payload::Payload;
use super::thread_commits::Done;
use super::workload::{Records, Workload};
use crate::error::BenchError;
use crate::key_encoding::Keys;

/// Records in one transaction of the check.
const BATCH_RECORDS: usize = 10_000;

/// The transactions of a run, which determine the expected values.
pub(crate) struct Expected<'a> {
    pub(crate) workload: Workload,
    pub(crate) keys: Keys,
    pub(crate) value_bytes: u16,
    pub(crate) index: IndexKind,
    pub(crate) baseline: &'a Baseline,
    pub(crate) threads: &'a [Done],
}

/// The tag found in each record.
pub(crate) struct Found(Vec<u64>);

impl Expected<'_> {
    /// Reads the whole table, while no thread writes, and compares it with the threads'
    /// transactions.
    pub(crate) fn check<K: Key + ?Sized>(
        &self,
        db: &Database,
        table: &Records<K>,
    ) -> Result<Found, BenchError> {
        let found = self.read(db, table)?;
        match self.workload {
            Workload::Update(_)
            | Workload::Read(_)
            | Workload::ReadsThenUpdates(_)
            | Workload::Ycsb(_) => {
                self.check_writers(&found)?;
            }
            Workload::ReadUpdate(_) | Workload::Payment => self.check_tally(&found)?,
        }
        Ok(Found(found))
    }

    /// Reads the whole table, while no thread writes, and compares it with the values before the
    /// database was closed.
    pub(crate) fn check_recovered<K: Key + ?Sized>(
        &self,
        db: &Database,
        table: &Records<K>,
        before: &Found,
    ) -> Result<(), BenchError> {
        let found = self.read(db, table)?;
        same(&before.0, &found, "was recovered as")
    }

    /// The tag of each record. A scan also verifies that the table has no other keys; in an index
    /// without an order, only the keys of records are looked up.
    fn read<K: Key + ?Sized>(
        &self,
        db: &Database,
        table: &Records<K>,
    ) -> Result<Vec<u64>, BenchError> {
        let ascending = self.keys.ascending();
        let mut tags = vec![0; ascending.len()];
        let mut start = 0;
        while start < ascending.len() {
            let end = ascending.len().min(start + BATCH_RECORDS);
            let numbers = &ascending[start..end];
            // From its first key to the next batch's. The first and the last batch extend to the
            // ends of the table.
            let first = numbers.first().filter(|_| start > 0);
            let range = [first, ascending.get(end)];
            let batch = db.transact(|tx| self.batch(tx, table, numbers, range))?;
            if batch.len() != numbers.len() {
                let count = batch.len();
                return failed(format!(
                    "{count} of the records {start} to {end}, in the order of keys, are there"
                ));
            }
            for ((found, payload), number) in batch.into_iter().zip(numbers) {
                if found != Some(*number) {
                    return failed(format!("there is a key of no record beside {number}"));
                }
                if payload.bytes != self.value_bytes {
                    let bytes = payload.bytes;
                    return failed(format!("the value of record {number} has {bytes} bytes"));
                }
                tags[*number as usize] = payload.tag;
            }
            start = end;
        }
        Ok(tags)
    }

    /// Reads some records, by a scan if the index has an order.
    fn batch<K: Key + ?Sized>(
        &self,
        tx: &mut Transaction,
        table: &Records<K>,
        numbers: &[u64],
        range: [Option<&u64>; 2],
    ) -> Result<Vec<(Option<u64>, Payload)>, Error> {
        let keys = &self.keys;
        if self.index.is_ordered() {
            let [first, end] = range.map(|number| number.map(|it| key_of::<K>(keys, *it)));
            let first = first.map_or(Bound::Unbounded, Bound::Included);
            let end = end.map_or(Bound::Unbounded, Bound::Excluded);
            let found = tx.scan(table, (first, end))?.into_iter();
            let found = found.map(|(key, payload)| (number_of::<K>(keys, &key), payload));
            return Ok(found.collect());
        }
        let mut found = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(payload) = tx.get(table, &key_of::<K>(keys, *number))? {
                found.push((Some(*number), payload));
            }
        }
        Ok(found)
    }

    fn check_writers(&self, found: &[u64]) -> Result<(), BenchError> {
        let first = |key| self.baseline.tag(key);
        let Some((key, wrong)) = first_wrong(self.workload, self.threads, found, first) else {
            return Ok(());
        };
        let (holds, held) = (found[key as usize], first(key));
        failed(match wrong {
            Wrong::NeverWritten => {
                format!(
                    "record {key} holds {holds:#x}: it held {held:#x}, and it was never written"
                )
            }
            Wrong::NobodysLast => format!(
                "record {key} holds {holds:#x}, which is not the last of any of those that wrote \
                 it put there"
            ),
        })
    }

    fn check_tally(&self, found: &[u64]) -> Result<(), BenchError> {
        let before = (0..self.keys.count).map(|key| self.baseline.tag(key));
        let expected = tally(self.workload, self.threads, before.collect());
        same(&expected, found, "should be, by what was committed, and is")
    }
}

fn same(expected: &[u64], found: &[u64], relation: &str) -> Result<(), BenchError> {
    let mut records = (0..).zip(expected.iter().zip(found));
    match records.find(|(_, (expected, found))| expected != found) {
        None => Ok(()),
        Some((key, (expected, found))) => {
            failed(format!("record {key}: {expected:#x} {relation} {found:#x}"))
        }
    }
}

fn failed<T>(why: String) -> Result<T, BenchError> {
    Err(BenchError::Check(why))
}

/// Checks the engine's own count of commits against the threads'.
pub(crate) fn check_count(counted: u64, committed: u64) -> Result<(), BenchError> {
    if counted == committed {
        return Ok(());
    }
    failed(format!(
        "threads saw {committed} commits and the database counted {counted}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::record_payload::Payload;
    use super::super::serial_test_history::{History, RECORDS};
    use super::*;
    use crate::key_encoding::{CORE_BYTES, KeyLayout, KeySpace};

    const ALL: [Workload; 4] = [
        Workload::Update(10),
        Workload::ReadUpdate(5),
        Workload::ReadsThenUpdates(5),
        Workload::Payment,
    ];

    struct Stored<K: ?Sized = u64> {
        db: Database,
        records: Records<K>,
        index: IndexKind,
        keys: Keys,
        _dir: tempfile::TempDir,
    }

    const DENSE: Keys = Keys {
        count: RECORDS,
        bytes: CORE_BYTES,
        space: KeySpace::Dense,
        layout: KeyLayout::SharedPrefix,
    };
    const SPARSE: Keys = Keys {
        space: KeySpace::Sparse,
        ..DENSE
    };
    const LONG: Keys = Keys {
        bytes: 20,
        ..SPARSE
    };

    impl Stored {
        fn new(table: &[u64]) -> Self {
            Self::with_index(table, IndexKind::default(), DENSE)
        }
    }

    impl<K: Key + ?Sized> Stored<K> {
        fn with_index(table: &[u64], index: IndexKind, keys: Keys) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let spec = "TT(NLR)+NOLOG".parse().unwrap();
            let builder = Database::builder().spec(spec).index(index);
            let db = builder.open(dir.path()).unwrap();
            let records = db.table("records").unwrap();
            let stored = Self {
                db,
                records,
                index,
                keys,
                _dir: dir,
            };
            for (key, tag) in (0..).zip(table) {
                stored.put(key, *tag, 8);
            }
            stored
        }

        fn put(&self, number: u64, tag: u64, bytes: u16) {
            let payload = Payload { tag, bytes };
            let key = key_of::<K>(&self.keys, number);
            let put = |tx: &mut Transaction| tx.put(&self.records, &key, &payload);
            self.db.transact(put).unwrap();
        }

        fn delete(&self, number: u64) {
            let key = key_of::<K>(&self.keys, number);
            let delete = |tx: &mut Transaction| tx.delete(&self.records, &key);
            self.db.transact(delete).unwrap();
        }

        /// The result of the check.
        fn found(&self, history: &History) -> Result<Found, String> {
            with_expected(history, self.index, self.keys, |expected| {
                explain(expected.check(&self.db, &self.records))
            })
        }

        fn recovers(&self, history: &History, before: &Found) -> Result<(), String> {
            with_expected(history, self.index, self.keys, |expected| {
                explain(expected.check_recovered(&self.db, &self.records, before))
            })
        }
    }

    fn with_expected<T>(
        history: &History,
        index: IndexKind,
        keys: Keys,
        run: impl FnOnce(Expected<'_>) -> T,
    ) -> T {
        run(Expected {
            workload: history.workload,
            keys,
            value_bytes: 8,
            index,
            baseline: &Baseline::Loaded(history.workload),
            threads: &history.threads,
        })
    }

    fn explain<T>(result: Result<T, BenchError>) -> Result<T, String> {
        result.map_err(|error| match error {
            BenchError::Check(why) => why,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn an_honest_run_passes_before_and_after_recovery() {
        for workload in ALL {
            let history = History::play(workload, 2, 50);
            for index in [IndexKind::default(), IndexKind::Hash] {
                honest::<u64>(&history, index, DENSE);
                honest::<u64>(&history, index, SPARSE);
                honest::<[u8]>(&history, index, LONG);
            }
        }
    }

    fn honest<K: Key + ?Sized>(history: &History, index: IndexKind, keys: Keys) {
        let stored = Stored::<K>::with_index(&history.table(), index, keys);
        let before = stored.found(history).unwrap();
        stored.recovers(history, &before).unwrap();
    }

    /// An additional or a missing key is found wherever it is in the key order.
    #[test]
    fn exactly_the_records_are_there() {
        let history = History::play(Workload::Update(1), 1, 10);
        for number in [0, 17, 50, RECORDS - 1] {
            for beside in [RECORDS, RECORDS + 1, RECORDS + 2, RECORDS + 3] {
                let stored =
                    Stored::<[u8]>::with_index(&history.table(), IndexKind::default(), LONG);
                stored.delete(number);
                let why = stored.found(&history).err().unwrap();
                assert!(why.contains("99 of the records 0 to 100"), "{why}");
                stored.put(beside, 1, 8);
                let why = stored.found(&history).err().unwrap();
                assert!(why.contains("a key of no record"), "{why}");
            }
        }
    }

    #[test]
    fn a_run_that_left_nothing_fails() {
        for workload in ALL {
            let history = History::play(workload, 2, 50);
            let stored = Stored::new(&history.table_without(|_| true));
            assert!(stored.found(&history).is_err(), "{workload}");
        }
    }

    /// This holds even where another thread's older write reappears, which might have been the
    /// last.
    #[test]
    fn recovery_may_drop_no_threads_last_transaction() {
        for workload in ALL {
            let history = History::play(workload, 2, 50);
            let before = Stored::new(&history.table()).found(&history).unwrap();
            let last = history.steps.last().unwrap();
            assert!(!last.writes.is_empty());
            let recovered = Stored::new(&history.table_without(|step| step.is(last)));
            let why = recovered.recovers(&history, &before).unwrap_err();
            assert!(why.contains("was recovered as"), "{why}");
        }
    }

    #[test]
    fn records_are_all_there_and_of_the_right_length() {
        let history = History::play(Workload::Update(1), 1, 10);
        let stored = Stored::new(&history.table());
        stored.put(7, history.table()[7], 9);
        let why = stored.found(&history).err().unwrap();
        assert!(why.contains("record 7 has 9 bytes"), "{why}");
        stored.delete(RECORDS - 1);
        let why = stored.found(&history).err().unwrap();
        assert!(why.contains("99 of the records 0 to 100"), "{why}");
    }

    #[test]
    fn counts_must_agree() {
        assert!(check_count(5, 5).is_ok());
        assert!(check_count(5, 4).is_err());
    }
}
