//! What a store has to offer to be measured.
//!
//! A [`Store`] is opened in a folder of its own, loaded, and used through one [`Handle`] for each thread.
//! Each call of a handle is one transaction: atomic, isolated as well as the store can, and where the run
//! is durable it returns when the device has it.

use std::path::Path;

use namiki::{Value, ValueBytes};

use crate::error::BenchError;
use crate::txn::record_payload::Payload;

/// Records in one step of a check.
const BATCH_RECORDS: usize = 10_000;

/// What all stores of a run are opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// A folder that is the store's alone.
    pub(crate) dir: &'a Path,
    /// Whether a transaction that returned survives a power cut.
    pub(crate) durable: bool,
    /// How many records there will be, with keys from 0 on.
    pub(crate) records: u64,
    /// The length of each value.
    pub(crate) value_bytes: u16,
}

impl Setting<'_> {
    /// What the records of these keys hold at first: each its own number.
    #[cfg(any(test, feature = "compare"))]
    pub(crate) fn loaded(
        &self,
        keys: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, Payload)> {
        let bytes = self.value_bytes;
        keys.map(move |key| (key, Payload { tag: key, bytes }))
    }
}

/// What a store promises under a setting, in a few words.
#[derive(Clone, Debug)]
pub(crate) struct Promises {
    pub(crate) isolation: &'static str,
    pub(crate) durability: String,
}

/// A transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// After so many attempts that came to nothing.
    pub(crate) aborted: u64,
}

impl Committed {
    /// At the first attempt.
    pub(crate) const AT_ONCE: Self = Self { aborted: 0 };
}

/// A store that is open.
pub(crate) trait Store: Sync {
    /// What it promises.
    fn promises(&self) -> Promises;

    /// Puts all records there, into a store that is empty, and leaves them durable.
    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError>;

    /// What one thread works with.
    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError>;

    /// Whether it writes over what is old: [`Store::contents`] then has nothing of some records.
    fn forgets(&self) -> bool {
        false
    }

    /// What each record holds, while no thread writes: the value of every key below `records`, none where
    /// there is none.
    fn contents(&self, records: u64) -> Result<Vec<Option<Payload>>, BenchError> {
        let mut handle = self.handle()?;
        let mut found = vec![None; records as usize];
        let mut batch = Vec::with_capacity(BATCH_RECORDS);
        for first in (0..records).step_by(BATCH_RECORDS) {
            batch.clear();
            handle.scan(first, BATCH_RECORDS, &mut batch)?;
            for (key, payload) in &batch {
                match found.get_mut(*key as usize) {
                    Some(at) => *at = Some(*payload),
                    None => {
                        let what = format!("there is a key that was never written: {key}");
                        return Err(BenchError::Check(what));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Closes it in order.
    fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// One thread's access to a store. Every call is one transaction.
pub(crate) trait Handle {
    /// Puts the same value to all these keys, whatever they hold.
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError>;

    /// Reads all these keys into `values`, in their order.
    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError>;

    /// Reads each of these keys and puts what [`counted_up`] makes of it.
    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError>;

    /// Reads the first `count` records from key `first` on, in order of their keys; fewer at the end.
    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError>;

    /// Counts all records in one state of the store, while others write, and adds up their tags, wrapping. Stores whose
    /// scans are of one state already have nothing of their own to say.
    fn sum_all(&mut self) -> Result<(u64, u64), BenchError> {
        let mut all = Vec::new();
        self.scan(0, usize::MAX, &mut all)?;
        let sum = |sum: u64, (_, payload): &(u64, Payload)| sum.wrapping_add(payload.tag);
        Ok((all.len() as u64, all.iter().fold(0, sum)))
    }
}

/// What a record holds after a transaction that has read it: one more.
pub(crate) fn counted_up(payload: Payload) -> Payload {
    Payload {
        tag: payload.tag.wrapping_add(1),
        ..payload
    }
}

/// A value's bytes, in `buffer`, which is reused.
pub(crate) fn encoded(payload: Payload, buffer: &mut ValueBytes) -> &[u8] {
    buffer.clear();
    payload.encode(buffer);
    buffer
}

/// The value that has these bytes.
pub(crate) fn decoded(key: u64, bytes: &[u8]) -> Result<Payload, BenchError> {
    Payload::decode(bytes)
        .ok_or_else(|| BenchError::Check(format!("the value of record {key} is not one piece")))
}

/// A record that must be there is not.
pub(crate) fn missing(key: u64) -> BenchError {
    BenchError::Check(format!("record {key} is missing"))
}

/// Names the store in an error of it.
#[cfg(feature = "compare")]
pub(crate) fn of<E: std::error::Error + Send + Sync + 'static>(
    store: &'static str,
) -> impl Fn(E) -> BenchError + Copy {
    move |source| BenchError::Store {
        store,
        source: Box::new(source),
    }
}
