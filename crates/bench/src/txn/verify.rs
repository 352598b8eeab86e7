//! Does the database hold what the transactions left?
//!
//! - Blind updates: every record holds what it held at first, or the tag of a transaction that did
//!   commit and that did choose this record.
//! - Reads with updates: the records were counted up as often, all together, as commits say.
//! - Payments: no account was made or lost, and their sum is what it was.

use namiki::Database;

use super::load::Baseline;
use super::workload::{Records, Ring, Workload, untag};
use crate::error::BenchError;

/// Records in one transaction of the check.
const BATCH_RECORDS: u64 = 10_000;

/// What the transactions of a run should have left.
pub(crate) struct Expected<'a> {
    pub(crate) workload: Workload,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    pub(crate) baseline: &'a Baseline,
    /// The keys of each thread, and how many transactions of it committed.
    pub(crate) threads: &'a [(Ring, u64)],
}

impl Expected<'_> {
    /// Reads the whole table, while nobody writes, and compares.
    pub(crate) fn check(&self, db: &Database, table: &Records) -> Result<(), BenchError> {
        let mut grown = 0_u64;
        let mut wrong = None;
        let mut start = 0;
        while start < self.records {
            let end = self.records.min(start + BATCH_RECORDS);
            let batch = db.transact(|tx| tx.scan(table, start..end))?;
            if batch.len() as u64 != end - start {
                return Err(BenchError::Check(format!(
                    "{} of the records {start} to {end} are there",
                    batch.len()
                )));
            }
            for (key, payload) in batch {
                let first = self.baseline.tag(key);
                grown = grown.wrapping_add(payload.tag.wrapping_sub(first));
                let fits = payload.bytes == self.value_bytes
                    || matches!(self.baseline, Baseline::Found(_));
                if !fits || !self.may_be(key, payload.tag, first) {
                    wrong.get_or_insert((key, payload.tag));
                }
            }
            start = end;
        }
        if let Some((key, tag)) = wrong {
            return Err(BenchError::Check(format!(
                "record {key} holds {tag:#x}, which no committed transaction put there"
            )));
        }
        let expected = self.growth();
        if expected.is_some_and(|expected| expected != grown) {
            return Err(BenchError::Check(format!(
                "the sum of all records grew by {grown} where commits account for {}",
                expected.unwrap_or_default()
            )));
        }
        Ok(())
    }

    fn may_be(&self, key: u64, tag: u64, first: u64) -> bool {
        match self.workload {
            Workload::Update(_) | Workload::Ycsb(_) => {
                tag == first
                    || untag(tag).is_some_and(|(thread, number)| {
                        self.threads.get(thread).is_some_and(|(ring, committed)| {
                            number < *committed && ring.updates(self.workload, number, key)
                        })
                    })
            }
            Workload::Read(_) => tag == first,
            Workload::ReadUpdate(_) | Workload::Payment => true,
        }
    }

    /// By how much all records together must have grown, if that can be told.
    fn growth(&self) -> Option<u64> {
        match self.workload {
            Workload::ReadUpdate(n) => {
                let committed: u64 = self.threads.iter().map(|(_, committed)| committed).sum();
                Some(committed * u64::from(n))
            }
            Workload::Payment | Workload::Read(_) => Some(0),
            Workload::Update(_) | Workload::Ycsb(_) => None,
        }
    }
}

/// The engine's own count of commits must be that of the threads.
pub(crate) fn check_count(counted: u64, committed: u64) -> Result<(), BenchError> {
    if counted == committed {
        return Ok(());
    }
    Err(BenchError::Check(format!(
        "threads saw {committed} commits and the database counted {counted}"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::payload::Payload;
    use super::super::workload::{Choice, HotKeys, tag};
    use super::*;

    const RECORDS: u64 = 100;

    /// Whether the check of one thread's ten commits lets pass what `tamper` leaves of a table that
    /// is as loaded otherwise.
    fn passes(workload: Workload, tamper: impl Fn(&Ring) -> Vec<(u64, Option<u64>)>) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let spec = "TT(NLR)+NOLOG".parse().unwrap();
        let db = Database::builder().spec(spec).open(dir.path()).unwrap();
        let table: Records = db.table(workload.table()).unwrap();
        let choice = Choice {
            records: RECORDS,
            skew: 0.0,
            hot_keys: HotKeys::Scattered,
            seed: 1,
        };
        let ring = Ring::new(workload, choice, (0, 1), 10);
        let put = |key, tag| {
            let payload = Payload { tag, bytes: 8 };
            db.transact(|tx| tx.put(&table, &key, &payload)).unwrap();
        };
        for key in 0..RECORDS {
            put(key, workload.first_tag(key));
        }
        for (key, tag) in tamper(&ring) {
            match tag {
                Some(tag) => put(key, tag),
                None => db.transact(|tx| tx.delete(&table, &key)).map(drop).unwrap(),
            }
        }
        let expected = Expected {
            workload,
            records: RECORDS,
            value_bytes: 8,
            baseline: &Baseline::Loaded(workload),
            threads: &[(ring, 10)],
        };
        match expected.check(&db, &table) {
            Ok(()) => true,
            Err(BenchError::Check(_)) => false,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_blind_update_must_be_of_a_commit_that_chose_the_record() {
        let workload = Workload::Update(1);
        let chosen = |ring: &Ring, number| u64::from(ring.keys(number)[0]);
        assert!(passes(workload, |_| vec![]));
        assert!(passes(workload, |ring| vec![(
            chosen(ring, 3),
            Some(tag(0, 3))
        )]));
        // A record that transaction 3 did not choose, a transaction that did not commit, a thread
        // that there was not, and a value of nobody's.
        let other = |ring: &Ring| (0..RECORDS).find(|key| *key != chosen(ring, 3)).unwrap();
        assert!(!passes(workload, |ring| vec![(
            other(ring),
            Some(tag(0, 3))
        )]));
        assert!(!passes(workload, |ring| vec![(
            chosen(ring, 3),
            Some(tag(0, 13))
        )]));
        assert!(!passes(workload, |ring| vec![(
            chosen(ring, 3),
            Some(tag(1, 3))
        )]));
        assert!(!passes(workload, |_| vec![(7, Some(8))]));
    }

    #[test]
    fn counts_sums_and_untouched_records_must_be_exact() {
        let counted = |by: u64| move |_: &Ring| vec![(7, Some(7 + by))];
        assert!(passes(Workload::ReadUpdate(5), counted(50)));
        assert!(!passes(Workload::ReadUpdate(5), counted(49)));
        assert!(!passes(Workload::Read(10), counted(1)));
        let moved = |to: u64| move |_: &Ring| vec![(1, Some(990)), (2, Some(to))];
        assert!(passes(Workload::Payment, moved(1010)));
        assert!(!passes(Workload::Payment, moved(1009)));
    }

    #[test]
    fn no_record_may_be_missing() {
        assert!(!passes(Workload::Update(1), |_| vec![(RECORDS - 1, None)]));
    }
}
