//! The database without transactions.

use ::rocksdb::{DB, Error, SnapshotWithThreadMode, Transaction, WriteOptions};

use super::engine::{Engine, Failed, batch};
use crate::error::BenchError;

impl Engine for DB {
    type Db = Self;
    const ISOLATION: &'static str = "atomic batches, snapshot reads";

    fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        Self::snapshot(self)
    }

    fn put_all<'a>(
        &self,
        pairs: impl Iterator<Item = (u64, &'a [u8])>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.write_opt(batch(pairs), options)
    }

    fn read_update(
        &self,
        _: &WriteOptions,
        _: impl FnOnce(&Transaction<'_, Self>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let why = "rocksdb without transactions cannot read and update in one".to_owned();
        Err(Failed::Check(BenchError::Usage(why)))
    }

    fn flush(&self) -> Result<(), Error> {
        Self::flush(self)
    }
}
