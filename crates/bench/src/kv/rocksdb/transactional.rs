//! The databases with transactions.

use ::rocksdb::{
    OptimisticTransactionDB, OptimisticTransactionOptions, Transaction, TransactionDB,
    TransactionOptions, WriteOptions,
};

use super::engine::{Engine, Failed, own_calls};

impl Engine for TransactionDB {
    type Db = Self;
    const ISOLATION: &'static str = "serializable: locks on records";

    own_calls!();

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
}

impl Engine for OptimisticTransactionDB {
    type Db = Self;
    const ISOLATION: &'static str = "serializable, optimistic, on records";

    own_calls!();

    fn read_update(
        &self,
        options: &WriteOptions,
        body: impl FnOnce(&Transaction<'_, Self>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let tx = self.transaction_opt(options, &OptimisticTransactionOptions::default());
        body(&tx)?;
        Ok(tx.commit()?)
    }
}
