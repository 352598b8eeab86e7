//! Inserting, replacing and deleting rows, with their index entries.

use std::collections::HashMap;
use std::sync::Arc;

use namiki::Transaction;
use namiki_data::columns::Datum;

use super::{Arbiter, Target, index_changes};
use crate::error::{SqlError, SqlResult};
use crate::program::Environment;
use crate::storage::{OpenTable, Storage, encode_key};

/// The row numbers that a connection has taken, by core table.
#[derive(Debug, Default)]
pub(crate) struct RowNumbers(HashMap<u64, (i64, i64)>);

impl RowNumbers {
    /// A number that no row of the table has.
    pub(crate) fn next(&mut self, table: &OpenTable) -> i64 {
        let block = self.0.entry(table.number).or_default();
        if block.1 == 0 {
            *block = table.take_row_numbers();
        }
        block.0 += 1;
        block.1 -= 1;
        block.0 - 1
    }
}

/// What became of a new row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It was written.
    Done,
    /// There is a row with its key or unique values: that row's key.
    Collision(Vec<u8>),
}

/// Changes in a transaction.
pub(crate) struct Changes<'a> {
    pub(crate) tx: &'a mut Transaction,
    pub(crate) storage: &'a Storage,
    pub(crate) environment: &'a Environment,
    pub(crate) numbers: &'a mut RowNumbers,
}

impl Changes<'_> {
    fn table(&self, target: &Target) -> SqlResult<Arc<OpenTable>> {
        self.storage.open(target.relation.row.storage)
    }

    /// Inserts a row of SQL's columns. With an arbiter, a collision is no error.
    ///
    /// # Errors
    /// Those of the constraints, and of the transaction.
    pub(crate) fn insert(
        &mut self,
        target: &Target,
        row: &mut Vec<Datum>,
        arbiter: Option<&Arbiter>,
    ) -> SqlResult<Inserted> {
        self.environment.guard.change(self.tx)?;
        let relation = &target.relation;
        target.check(row, self.environment)?;
        let table = self.table(target)?;
        if relation.has_row_numbers() {
            row.push(Datum::I64(self.numbers.next(&table)));
        }
        if let Some(arbiter) = arbiter
            && let Some(existing) = arbiter.existing(self.tx, self.storage, target, row)?
        {
            row.truncate(relation.columns().len());
            return Ok(Inserted::Collision(existing));
        }
        let key = encode_key(&relation.layout, row)?;
        let mut bytes = Vec::new();
        relation.format.encode(row, &mut bytes)?;
        if relation.has_row_numbers() {
            // No other row has the number.
            self.tx.put_row(&table.table, &key, &bytes)?;
        } else if !self.tx.insert_row(&table.table, &key, &bytes)? {
            let Some(constraint) = &relation.row.key else {
                return Err(SqlError::corrupted("a row number was given twice"));
            };
            return Err(target.duplicate(&constraint.name, &constraint.columns, row));
        }
        index_changes::insert(self.tx, self.storage, target, row, &key)?;
        row.truncate(relation.columns().len());
        Ok(Inserted::Done)
    }

    /// Adds a row's entry in one index, by the index's number.
    ///
    /// # Errors
    /// 23505 for a duplicate; those of the transaction.
    pub(crate) fn insert_entry(
        &mut self,
        target: &Target,
        index: usize,
        row: &[Datum],
        key: &[u8],
    ) -> SqlResult<()> {
        let index = &target.relation.row.indexes[index];
        index_changes::insert_entry(self.tx, self.storage, target, index, row, key)
    }

    /// The row of a key: the values of SQL's columns.
    ///
    /// # Errors
    /// XX001 if it is not there.
    pub(crate) fn row(&mut self, target: &Target, key: &[u8]) -> SqlResult<Vec<Datum>> {
        let table = self.table(target)?;
        let relation = &target.relation;
        let row = self.tx.row_for_update(&table.table, key)?;
        let row = row.ok_or_else(|| SqlError::corrupted("an index entry has no row"))?;
        let mut values = relation.format.decode(key, row)?;
        values.truncate(relation.columns().len());
        Ok(values)
    }

    /// Replaces a row by another one; `old` are the values of SQL's columns.
    ///
    /// # Errors
    /// Those of the constraints, and of the transaction.
    pub(crate) fn update(
        &mut self,
        target: &Target,
        old_key: &[u8],
        old: &[Datum],
        new: &[Datum],
    ) -> SqlResult<()> {
        self.environment.guard.change(self.tx)?;
        let relation = &target.relation;
        target.check(new, self.environment)?;
        let table = self.table(target)?;
        let mut bytes = Vec::new();
        if relation.has_row_numbers() {
            // The number is in the key alone; the layout asks for a value.
            let numbered: Vec<Datum> = new.iter().cloned().chain([Datum::I64(0)]).collect();
            relation.format.encode(&numbered, &mut bytes)?;
            self.tx.put_row(&table.table, old_key, &bytes)?;
            return index_changes::update(
                self.tx,
                self.storage,
                target,
                (old, old_key),
                (new, old_key),
            );
        }
        relation.format.encode(new, &mut bytes)?;
        let new_key = encode_key(&relation.layout, new)?;
        if new_key == old_key {
            self.tx.put_row(&table.table, old_key, &bytes)?;
        } else {
            self.tx.delete_row(&table.table, old_key)?;
            if !self.tx.insert_row(&table.table, &new_key, &bytes)? {
                let Some(constraint) = &relation.row.key else {
                    return Err(SqlError::corrupted(
                        "a table with a key has no constraint for it",
                    ));
                };
                return Err(target.duplicate(&constraint.name, &constraint.columns, new));
            }
        }
        index_changes::update(
            self.tx,
            self.storage,
            target,
            (old, old_key),
            (new, &new_key),
        )
    }

    /// Deletes a row; returns whether it was there.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn delete(&mut self, target: &Target, key: &[u8], old: &[Datum]) -> SqlResult<bool> {
        self.environment.guard.change(self.tx)?;
        let table = self.table(target)?;
        if !self.tx.delete_row(&table.table, key)? {
            return Ok(false);
        }
        index_changes::delete(self.tx, self.storage, &target.relation, old, key)?;
        Ok(true)
    }
}
