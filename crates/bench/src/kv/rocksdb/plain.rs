//! The database without transactions.

use ::rocksdb::{DB, Transaction, WriteOptions};

use super::engine::{Engine, Failed, own_calls};
use crate::error::BenchError;

impl Engine for DB {
    type Db = Self;
    const ISOLATION: &'static str = "atomic batches, snapshot reads";

    own_calls!();

    fn read_update(
        &self,
        _: &WriteOptions,
        _: impl FnOnce(&Transaction<'_, Self>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let why = "rocksdb without transactions cannot read and update in one".to_owned();
        Err(Failed::Check(BenchError::Usage(why)))
    }
}
