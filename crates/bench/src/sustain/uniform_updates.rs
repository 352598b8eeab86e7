//! Updates of random records, and the check that none is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namiki::{Database, Error, Table, View};
use namiki_platform::seeded_random::Random;

use crate::error::BenchError;

const TABLE: &str = "records";
/// Number of rows in one transaction of the load, and in one scan of the check.
const BATCH: u64 = 1000;

/// The parameters of the updates.
pub(super) struct Updates {
    pub(super) records: u64,
    pub(super) value_bytes: usize,
    /// Updates per transaction.
    pub(super) updates: u64,
    pub(super) seed: u64,
}

/// The progress of the threads.
pub(super) struct Progress {
    pub(super) stop: AtomicBool,
    /// Number of committed updates of each record.
    updated: Vec<AtomicU64>,
}

impl Progress {
    pub(super) fn new(records: u64) -> Self {
        Self {
            stop: AtomicBool::new(false),
            updated: (0..records).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Updates {
    /// The table.
    pub(super) fn table(&self, db: &Database) -> Result<Table<u64, [u8]>, Error> {
        db.table(TABLE)
    }

    /// Inserts all records with an update count of 0.
    pub(super) fn load(&self, db: &Database) -> Result<Table<u64, [u8]>, Error> {
        let table = self.table(db)?;
        let mut value = Vec::new();
        let mut start = 0;
        while start < self.records {
            let end = self.records.min(start + BATCH);
            db.transact(|tx| {
                for key in start..end {
                    self.value_into(&mut value, key, 0);
                    tx.put(&table, &key, &value[..])?;
                }
                Ok(())
            })?;
            start = end;
        }
        Ok(table)
    }

    /// The value of a record after this number of updates.
    fn value_into(&self, value: &mut Vec<u8>, key: u64, updated: u64) {
        value.clear();
        value.extend(key.to_le_bytes());
        value.extend(updated.to_le_bytes());
        value.resize(self.value_bytes, (key ^ updated) as u8);
    }

    /// Updates until told to stop.
    pub(super) fn run(
        &self,
        db: &Database,
        table: &Table<u64, [u8]>,
        number: u16,
        progress: &Progress,
    ) -> Result<(), Error> {
        let mut random = Random::stream(self.seed, number.into());
        let mut session = db.session()?;
        let (mut value, mut keys) = (Vec::new(), Vec::new());
        while !progress.stop.load(Ordering::Relaxed) {
            keys.clear();
            keys.extend((0..self.updates).map(|_| random.below(self.records)));
            session.transact(|tx| {
                for key in &keys {
                    let found = tx.get(table, key)?;
                    let updated = found.as_deref().and_then(times_updated).unwrap_or(0);
                    self.value_into(&mut value, *key, updated + 1);
                    tx.put(table, key, &value[..])?;
                }
                Ok(())
            })?;
            for key in &keys {
                progress.updated[*key as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Compares every record with the committed updates.
    pub(super) fn check(
        &self,
        db: &Database,
        table: &Table<u64, [u8]>,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        let view: View = db.view()?;
        let mut expected = Vec::new();
        let mut start = 0;
        while start < self.records {
            let end = self.records.min(start + BATCH);
            let rows = view.scan(table, start..end)?;
            if rows.len() as u64 != end - start {
                let why = format!("{} of records {start} to {end} are there", rows.len());
                return Err(BenchError::Check(why));
            }
            for (key, value) in rows {
                let updated = progress.updated[key as usize].load(Ordering::Relaxed);
                self.value_into(&mut expected, key, updated);
                if value[..] != expected[..] {
                    let why = format!(
                        "record {key} was updated {updated} times, and holds what update {:?} left",
                        times_updated(&value)
                    );
                    return Err(BenchError::Check(why));
                }
            }
            start = end;
        }
        Ok(())
    }
}

/// The update count in a value.
fn times_updated(value: &[u8]) -> Option<u64> {
    let bytes = value.get(8..16)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_is_noticed() {
        let updates = Updates {
            records: 20,
            value_bytes: 40,
            updates: 3,
            seed: 1,
        };
        let db = Database::in_memory().unwrap();
        let table = updates.load(&db).unwrap();
        let progress = Progress::new(20);
        updates.check(&db, &table, &progress).unwrap();
        std::thread::scope(|scope| {
            let threads = [1, 2].map(|number| {
                let (updates, db, table, progress) = (&updates, &db, &table, &progress);
                scope.spawn(move || updates.run(db, table, number, progress))
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            progress.stop.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
        updates.check(&db, &table, &progress).unwrap();
        progress.updated[7].fetch_add(1, Ordering::Relaxed);
        let noticed = updates.check(&db, &table, &progress);
        assert!(matches!(noticed, Err(BenchError::Check(_))));
    }
}
