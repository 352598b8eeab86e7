//! Stores with one write transaction at a time: a write transaction as data, and the group of them
//! that one transaction of the store executes.
//!
//! The transactions that callers send as data are executed by [`execute`], alone or in a group
//! ([`super::batched`]). A store implements reads and writes of one record ([`WriteTx`]), and the
//! begin and the commit around them ([`GroupWriter`]), which makes it a [`Handle`].

use namiki::ValueBytes;

use super::store::{Committed, Handle, Store, counted_up, encoded};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

/// A caller's write transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write<'a> {
    /// Puts this value to all these keys, whatever they hold.
    Put(&'a [u64], Payload),
    /// Reads each of these keys, and writes the value incremented by [`counted_up`].
    CountUp(&'a [u64]),
}

/// An open write transaction of a store.
pub(crate) trait WriteTx {
    /// The value of a record, which is required to exist.
    fn required(&self, key: u64) -> Result<Payload, BenchError>;

    /// Puts an encoded value.
    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError>;
}

/// The reason why a group failed. None of it is written, unless its commit failed.
#[derive(Debug)]
pub(crate) enum GroupError {
    /// The transaction at this position failed before the commit, and the group was rolled back.
    Member(usize, BenchError),
    /// The group failed as a whole. If its commit failed, its outcome is unknown.
    Whole(BenchError),
}

impl From<BenchError> for GroupError {
    fn from(error: BenchError) -> Self {
        Self::Whole(error)
    }
}

impl From<GroupError> for BenchError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Member(_, error) | GroupError::Whole(error) => error,
        }
    }
}

/// One thread's access to a store with one writer. Every call is one transaction, which commits at the
/// first attempt: the store has no conflicts.
pub(crate) trait GroupWriter {
    /// Executes all of them in order, or none. In a durable run, it returns when they are durable.
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError>;

    /// As [`Handle::read`].
    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError>;

    /// As [`Handle::scan`].
    fn scan_records(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<(), BenchError>;
}

/// Without a batching writer, a write transaction is a group of its own.
impl<W: GroupWriter> Handle for W {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        self.write(&[Write::Put(keys, payload)])?;
        Ok(Committed::AT_ONCE)
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        self.read_records(keys, values)?;
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        self.write(&[Write::CountUp(keys)])?;
        Ok(Committed::AT_ONCE)
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        self.scan_records(first, count, into)?;
        Ok(Committed::AT_ONCE)
    }
}

/// A store with one write transaction at a time.
pub(crate) trait OneWriter: Store + Send + 'static {
    /// The store's name with a batching writer.
    const BATCHED_NAME: &'static str;

    /// Creates a handle that writes groups.
    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError>;
}

/// Executes a group in an open transaction. `buffer` is reused.
pub(crate) fn execute(
    tx: &mut impl WriteTx,
    group: &[Write<'_>],
    buffer: &mut ValueBytes,
) -> Result<(), GroupError> {
    for (at, write) in group.iter().enumerate() {
        execute_one(tx, write, buffer).map_err(|error| GroupError::Member(at, error))?;
    }
    Ok(())
}

fn execute_one(
    tx: &mut impl WriteTx,
    write: &Write<'_>,
    buffer: &mut ValueBytes,
) -> Result<(), BenchError> {
    match write {
        Write::Put(keys, payload) => {
            let value = encoded(*payload, buffer);
            keys.iter().try_for_each(|key| tx.put(*key, value))
        }
        Write::CountUp(keys) => keys.iter().try_for_each(|key| {
            let payload = counted_up(tx.required(*key)?);
            tx.put(*key, encoded(payload, buffer))
        }),
    }
}
