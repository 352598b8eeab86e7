//! ON CONFLICT: which rows a new one collides with, and what happens then.

use namiki::Transaction;
use namiki_data::columns::Datum;

use super::{Target, index_changes};
use crate::error::{SqlError, SqlResult};
use crate::program::Scalar;
use crate::sqlstate;
use crate::storage::{Storage, encode_key};

/// The unique constraint that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arbiter {
    /// Any of them.
    Any,
    /// The primary key.
    Key,
    /// An index, by its number among the table's.
    Index(usize),
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub(crate) struct OnConflict {
    pub(crate) arbiter: Arbiter,
    pub(crate) action: ConflictAction,
}

/// What happens to the new row.
#[derive(Clone, Debug)]
pub(crate) enum ConflictAction {
    /// It is passed over.
    Nothing,
    /// The old row is changed. The expressions see the old row's columns, then the new row's.
    Update {
        assignments: Vec<(usize, Scalar)>,
        condition: Option<Scalar>,
    },
}

impl Arbiter {
    /// The constraint over these columns, or of this name.
    ///
    /// # Errors
    /// 42P10 if there is none.
    pub(crate) fn over_columns(target: &Target, columns: &[usize]) -> SqlResult<Self> {
        let same =
            |of: &[usize]| of.len() == columns.len() && columns.iter().all(|it| of.contains(it));
        let row = &target.relation.row;
        if row.key.as_ref().is_some_and(|key| same(&key.columns)) {
            return Ok(Self::Key);
        }
        let found = row
            .indexes
            .iter()
            .position(|index| index.unique && same(&index.columns));
        found.map(Self::Index).ok_or_else(|| {
            SqlError::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            )
        })
    }

    /// The constraint of this name.
    ///
    /// # Errors
    /// 42704 if there is none.
    pub(crate) fn named(target: &Target, name: &str) -> SqlResult<Self> {
        let row = &target.relation.row;
        if row.key.as_ref().is_some_and(|key| key.name == name) {
            return Ok(Self::Key);
        }
        let found = row
            .indexes
            .iter()
            .position(|index| index.unique && index.name == name);
        found.map(Self::Index).ok_or_else(|| {
            SqlError::new(
                sqlstate::UNDEFINED_OBJECT,
                format!(
                    "constraint \"{name}\" for table \"{}\" does not exist",
                    row.name
                ),
            )
        })
    }

    /// The key of the row that a new row collides with.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(super) fn existing(
        &self,
        tx: &mut Transaction,
        storage: &Storage,
        target: &Target,
        row: &[Datum],
    ) -> SqlResult<Option<Vec<u8>>> {
        let relation = &target.relation;
        if matches!(self, Self::Any | Self::Key) && !relation.has_row_numbers() {
            let key = encode_key(&relation.layout, row)?;
            let table = storage.open(relation.row.storage)?;
            if tx.row(&table.table, &key)?.is_some() {
                return Ok(Some(key));
            }
        }
        for (at, index) in relation.row.indexes.iter().enumerate() {
            let decides = match self {
                Self::Any => index.unique,
                Self::Key => false,
                Self::Index(number) => at == *number,
            };
            if !decides {
                continue;
            }
            let found = index_changes::existing(tx, storage, relation, index, row)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
