//! The interface of a measured store.
//!
//! A [`Store`] is opened in its own folder, loaded, and used through one [`Handle`] per thread.
//! Each call of a handle is one transaction: it is atomic, and isolated as well as the store
//! supports. In a durable run, it returns when the transaction is durable on the device.

use std::path::Path;

use namiki::{Value, ValueBytes};

use crate::error::BenchError;
use crate::txn::record_payload::Payload;

/// Number of records in one step of a check.
const BATCH_RECORDS: usize = 10_000;

/// The settings with which all stores of a run are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// A folder of this store alone.
    pub(crate) dir: &'a Path,
    /// Whether a transaction that returned survives a power cut.
    pub(crate) durable: bool,
    /// The number of records after the load, with keys from 0.
    pub(crate) records: u64,
    /// The length of each value.
    pub(crate) value_bytes: u16,
}

impl Setting<'_> {
    /// The initial values of these keys: each record holds its own number.
    #[cfg(any(test, feature = "compare"))]
    pub(crate) fn loaded(
        &self,
        keys: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, Payload)> {
        let bytes = self.value_bytes;
        keys.map(move |key| (key, Payload { tag: key, bytes }))
    }
}

/// The guarantees of a store under a setting, in a few words.
#[derive(Clone, Debug)]
pub(crate) struct Promises {
    pub(crate) isolation: &'static str,
    pub(crate) durability: String,
}

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Number of failed attempts before it.
    pub(crate) aborted: u64,
}

impl Committed {
    /// Committed at the first attempt.
    pub(crate) const AT_ONCE: Self = Self { aborted: 0 };
}

/// An open store.
pub(crate) trait Store: Sync {
    /// Its guarantees.
    fn promises(&self) -> Promises;

    /// Loads all records into an empty store, and makes them durable.
    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError>;

    /// Creates the handle of one thread.
    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError>;

    /// Whether it overwrites old data: [`Store::contents`] may then lack some records.
    fn forgets(&self) -> bool {
        false
    }

    /// The content of each record, while no thread writes: the value of every key below `records`,
    /// or `None` if it is absent.
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

    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// One thread's access to a store. Every call is one transaction.
pub(crate) trait Handle {
    /// Puts the same value to all these keys, whatever they hold (a blind write).
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError>;

    /// Reads all these keys into `values`, in their order.
    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError>;

    /// Reads each of these keys, and writes the value incremented by [`counted_up`].
    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError>;

    /// Reads the first `count` records from key `first` on, in key order; fewer at the end.
    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError>;

    /// Counts all records in one consistent state of the store, while others write, and adds up
    /// their tags, wrapping. Stores with consistent scans keep the default implementation.
    fn sum_all(&mut self) -> Result<(u64, u64), BenchError> {
        let mut all = Vec::new();
        self.scan(0, usize::MAX, &mut all)?;
        let sum = |sum: u64, (_, payload): &(u64, Payload)| sum.wrapping_add(payload.tag);
        Ok((all.len() as u64, all.iter().fold(0, sum)))
    }
}

/// The value of a record after a transaction that has read it: incremented by one.
pub(crate) fn counted_up(payload: Payload) -> Payload {
    Payload {
        tag: payload.tag.wrapping_add(1),
        ..payload
    }
}

/// Encodes a value into `buffer`, which is reused.
pub(crate) fn encoded(payload: Payload, buffer: &mut ValueBytes) -> &[u8] {
    buffer.clear();
    payload.encode(buffer);
    buffer
}

/// Decodes the value with these bytes.
pub(crate) fn decoded(key: u64, bytes: &[u8]) -> Result<Payload, BenchError> {
    Payload::decode(bytes)
        .ok_or_else(|| BenchError::Check(format!("the value of record {key} is not one piece")))
}

/// The error for a required record that is absent.
pub(crate) fn missing(key: u64) -> BenchError {
    BenchError::Check(format!("record {key} is missing"))
}

/// Adds the store's name to its error.
#[cfg(feature = "compare")]
pub(crate) fn of<E: std::error::Error + Send + Sync + 'static>(
    store: &'static str,
) -> impl Fn(E) -> BenchError + Copy {
    move |source| BenchError::Store {
        store,
        source: Box::new(source),
    }
}
