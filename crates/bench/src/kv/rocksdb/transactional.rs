//! The databases with transactions.

use ::rocksdb::{
    Error, OptimisticTransactionDB, OptimisticTransactionOptions, SnapshotWithThreadMode,
    Transaction, TransactionDB, TransactionOptions, WriteOptions,
};

use super::engine::{Engine, Failed, batch};

impl Engine for TransactionDB {
    type Db = Self;
    const ISOLATION: &'static str = "serializable: locks on records";

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
        options: &WriteOptions,
        body: impl FnOnce(&Transaction<'_, Self>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let mut with = TransactionOptions::default();
        // Keys are locked in the order in which they are drawn.
        with.set_deadlock_detect(true);
        let tx = self.transaction_opt(options, &with);
        body(&tx)?;
        Ok(tx.commit()?)
    }

    fn flush(&self) -> Result<(), Error> {
        Self::flush(self)
    }
}

impl Engine for OptimisticTransactionDB {
    type Db = Self;
    const ISOLATION: &'static str = "serializable, optimistic, on records";

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
        options: &WriteOptions,
        body: impl FnOnce(&Transaction<'_, Self>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let tx = self.transaction_opt(options, &OptimisticTransactionOptions::default());
        body(&tx)?;
        Ok(tx.commit()?)
    }

    fn flush(&self) -> Result<(), Error> {
        Self::flush(self)
    }
}
