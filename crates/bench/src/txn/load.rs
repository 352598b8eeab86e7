//! Loads the records before the clock starts.

use namiki::{Database, Key, RecordFormat, WorkerId};

use super::precomputed_keys::key_of;
use super::record_payload::Payload;
use super::workload::{Records, Workload, untag};
use crate::args::Switch;
use crate::error::BenchError;
use crate::interrupt;
use crate::key_encoding::Keys;
use crate::worker_threads::{join, share, spawn};

/// Upper bound for the records in one transaction of the load.
const BATCH_RECORDS_MAX: u64 = 1000;
/// Upper bound for the log bytes in one transaction of the load; half of the engine's log buffer.
const BATCH_LOG_BYTES_MAX: u64 = 128 << 10;

/// The values of the records before the first transaction.
#[derive(Clone, Debug)]
pub(crate) enum Baseline {
    /// The initial values of the workload.
    Loaded(Workload),
    /// Values left by an earlier run.
    Found(Vec<u64>),
}

impl Baseline {
    /// The tag of a record.
    pub(crate) fn tag(&self, key: u64) -> u64 {
        match self {
            Self::Loaded(workload) => workload.first_tag(key),
            Self::Found(tags) => tags[key as usize],
        }
    }

    /// One above the largest transaction number in the table's tags. It separates the tags of
    /// earlier runs from those of the next.
    pub(crate) fn next_number(&self) -> u64 {
        match self {
            Self::Loaded(_) => 0,
            Self::Found(tags) => {
                let numbers = tags.iter().filter_map(|tag| untag(*tag));
                numbers.map(|(_, number)| number + 1).max().unwrap_or(0)
            }
        }
    }
}

/// Parameters of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) workload: Workload,
    pub(crate) keys: Keys,
    pub(crate) value_bytes: u16,
    pub(crate) record_format: RecordFormat,
}

impl Load {
    /// Loads the missing records. `fresh` says that all are missing.
    pub(crate) fn run<K: Key + ?Sized>(
        &self,
        db: &Database,
        table: &Records<K>,
        fresh: bool,
    ) -> Result<Baseline, BenchError> {
        let threads = namiki_platform::threads::processors().get();
        let found = std::thread::scope(|scope| {
            let threads = spawn(scope, threads, Switch::Off, |thread| {
                let first: u64 = (0..thread)
                    .map(|t| share(self.keys.count, t, threads))
                    .sum();
                let count = share(self.keys.count, thread, threads);
                self.load_range(
                    db,
                    table,
                    fresh,
                    WorkerId(thread as u16),
                    first..first + count,
                )
            });
            join(threads)
        })?;
        if fresh {
            return Ok(Baseline::Loaded(self.workload));
        }
        Ok(Baseline::Found(found.concat()))
    }

    /// Loads a range of records, and returns their values unless all are new.
    fn load_range<K: Key + ?Sized>(
        &self,
        db: &Database,
        table: &Records<K>,
        fresh: bool,
        worker: WorkerId,
        numbers: std::ops::Range<u64>,
    ) -> Result<Vec<u64>, BenchError> {
        let mut session = db.session_on(worker)?;
        let mut tags = Vec::new();
        let mut last = None;
        let mut start = numbers.start;
        while start < numbers.end {
            interrupt::check()?;
            let end = numbers.end.min(start + self.batch_records());
            let (mut batch, ticket) = session.transact_async(|tx| {
                let mut batch = Vec::new();
                for number in start..end {
                    let key = key_of::<K>(&self.keys, number);
                    if !fresh && let Some(payload) = tx.get(table, &key)? {
                        batch.push(payload.tag);
                        continue;
                    }
                    let payload = Payload {
                        tag: self.workload.first_tag(number),
                        bytes: self.value_bytes,
                    };
                    tx.put(table, &key, &payload)?;
                    if !fresh {
                        batch.push(payload.tag);
                    }
                }
                Ok(batch)
            })?;
            tags.append(&mut batch);
            last = Some(ticket);
            start = end;
        }
        session.flush()?;
        if let Some(last) = last {
            session.wait(&last)?;
        }
        Ok(tags)
    }

    fn batch_records(&self) -> u64 {
        let change_bytes = u64::from(self.value_bytes) + self.keys.bytes as u64 + 8;
        let log_bytes = match self.record_format {
            RecordFormat::Compact => change_bytes,
            RecordFormat::Fixed(bytes) => (change_bytes + 8).next_multiple_of(bytes.get().into()),
        };
        (BATCH_LOG_BYTES_MAX / log_bytes).clamp(1, BATCH_RECORDS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::tag;
    use super::*;

    #[test]
    fn tags_that_were_found_are_not_given_again() {
        assert_eq!(Baseline::Loaded(Workload::Update(1)).next_number(), 0);
        assert_eq!(Baseline::Found(vec![0, 1, 2]).next_number(), 0);
        let found = Baseline::Found(vec![0, tag(0, 9), tag(3, 17), 3]);
        assert_eq!(found.next_number(), 18);
    }
}
