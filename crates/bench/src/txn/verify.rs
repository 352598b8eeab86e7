//! Does the database hold what the transactions left?
//!
//! - Blind updates: a record that somebody wrote holds the last write of one of those threads, and
//!   any other what it held at first ([`last_writer`](super::last_writer)).
//! - Reads with updates, payments: every record holds exactly what follows from all of them
//!   ([`tally`](super::tally)).
//! - After a recovery: every record holds what it held before. All commits were acknowledged and
//!   none came later, so nothing less will do.
//!
//! What the records hold is kept for the last of these: eight bytes for each.

use std::ops::Range;

use namiki::{Database, Error, IndexKind, Transaction};

use super::done::Done;
use super::last_writer::{Wrong, first_wrong};
use super::load::Baseline;
use super::payload::Payload;
use super::tally::tally;
use super::workload::{Records, Workload};
use crate::error::BenchError;

/// Records in one transaction of the check.
const BATCH_RECORDS: u64 = 10_000;

/// What the transactions of a run should have left.
pub(crate) struct Expected<'a> {
    pub(crate) workload: Workload,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    pub(crate) index: IndexKind,
    pub(crate) baseline: &'a Baseline,
    pub(crate) threads: &'a [Done],
}

/// The tag of each record, as it was found.
pub(crate) struct Found(Vec<u64>);

impl Expected<'_> {
    /// Reads the whole table, while nobody writes, and compares it with what the threads did.
    pub(crate) fn check(&self, db: &Database, table: &Records) -> Result<Found, BenchError> {
        let found = self.read(db, table)?;
        match self.workload {
            Workload::Update(_) | Workload::Read(_) | Workload::Ycsb(_) => {
                self.check_writers(&found)?;
            }
            Workload::ReadUpdate(_) | Workload::Payment => self.check_tally(&found)?,
        }
        Ok(Found(found))
    }

    /// Reads the whole table, while nobody writes, and compares it with what was there before the
    /// database was closed.
    pub(crate) fn check_recovered(
        &self,
        db: &Database,
        table: &Records,
        before: &Found,
    ) -> Result<(), BenchError> {
        let found = self.read(db, table)?;
        same(&before.0, &found, "was recovered as")
    }

    fn read(&self, db: &Database, table: &Records) -> Result<Vec<u64>, BenchError> {
        let mut tags = Vec::with_capacity(self.records as usize);
        let mut start = 0;
        while start < self.records {
            let end = self.records.min(start + BATCH_RECORDS);
            let batch = db.transact(|tx| self.batch(tx, table, start..end))?;
            if batch.len() as u64 != end - start {
                let count = batch.len();
                return failed(format!("{count} of the records {start} to {end} are there"));
            }
            for (key, payload) in batch {
                if payload.bytes != self.value_bytes {
                    let bytes = payload.bytes;
                    return failed(format!("the value of record {key} has {bytes} bytes"));
                }
                tags.push(payload.tag);
            }
            start = end;
        }
        Ok(tags)
    }

    /// The records of some keys, by a scan where the index has an order.
    fn batch(
        &self,
        tx: &mut Transaction,
        table: &Records,
        keys: Range<u64>,
    ) -> Result<Vec<(u64, Payload)>, Error> {
        if self.index.is_ordered() {
            return tx.scan(table, keys);
        }
        let mut found = Vec::with_capacity(BATCH_RECORDS as usize);
        for key in keys {
            if let Some(payload) = tx.get(table, &key)? {
                found.push((key, payload));
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
            Wrong::NobodyWrote => {
                format!("record {key} holds {holds:#x}: it held {held:#x}, and nobody wrote it")
            }
            Wrong::NobodysLast => format!(
                "record {key} holds {holds:#x}, which is not the last that any of those who wrote \
                 it put there"
            ),
        })
    }

    fn check_tally(&self, found: &[u64]) -> Result<(), BenchError> {
        let before = (0..self.records).map(|key| self.baseline.tag(key));
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

/// The engine's own count of commits must be that of the threads.
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
    use super::super::history::{History, RECORDS};
    use super::super::payload::Payload;
    use super::*;

    const ALL: [Workload; 3] = [
        Workload::Update(10),
        Workload::ReadUpdate(5),
        Workload::Payment,
    ];

    struct Stored {
        db: Database,
        records: Records,
        index: IndexKind,
        _dir: tempfile::TempDir,
    }

    impl Stored {
        fn new(table: &[u64]) -> Self {
            Self::with_index(table, IndexKind::default())
        }

        fn with_index(table: &[u64], index: IndexKind) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let spec = "TT(NLR)+NOLOG".parse().unwrap();
            let builder = Database::builder().spec(spec).index(index);
            let db = builder.open(dir.path()).unwrap();
            let records = db.table("records").unwrap();
            let stored = Self {
                db,
                records,
                index,
                _dir: dir,
            };
            for (key, tag) in (0..).zip(table) {
                stored.put(key, *tag, 8);
            }
            stored
        }

        fn put(&self, key: u64, tag: u64, bytes: u16) {
            let payload = Payload { tag, bytes };
            let put = self.db.transact(|tx| tx.put(&self.records, &key, &payload));
            put.unwrap();
        }

        /// What the check of it says.
        fn found(&self, history: &History) -> Result<Found, String> {
            with_expected(history, self.index, |expected| {
                explain(expected.check(&self.db, &self.records))
            })
        }

        fn recovers(&self, history: &History, before: &Found) -> Result<(), String> {
            with_expected(history, self.index, |expected| {
                explain(expected.check_recovered(&self.db, &self.records, before))
            })
        }
    }

    fn with_expected<T>(
        history: &History,
        index: IndexKind,
        run: impl FnOnce(Expected<'_>) -> T,
    ) -> T {
        run(Expected {
            workload: history.workload,
            records: RECORDS,
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
                let stored = Stored::with_index(&history.table(), index);
                let before = stored.found(&history).unwrap();
                stored.recovers(&history, &before).unwrap();
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

    /// Even if another thread's older write comes to light, which might have been the last.
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
        let last = RECORDS - 1;
        let delete = stored.db.transact(|tx| tx.delete(&stored.records, &last));
        delete.unwrap();
        let why = stored.found(&history).err().unwrap();
        assert!(why.contains("99 of the records 0 to 100"), "{why}");
    }

    #[test]
    fn counts_must_agree() {
        assert!(check_count(5, 5).is_ok());
        assert!(check_count(5, 4).is_err());
    }
}
