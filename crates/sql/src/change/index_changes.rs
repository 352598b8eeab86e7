//! Entries of indexes, written with their rows.

use namiki::Transaction;
use namiki_data::columns::Datum;

use super::Target;
use crate::catalogue::{IndexRow, Relation};
use crate::error::SqlResult;
use crate::storage::{Storage, index_key, unique_key};

/// An entry: its key, and whether it may be a duplicate.
fn entry(relation: &Relation, index: &IndexRow, row: &[Datum], key: &[u8]) -> (Vec<u8>, bool) {
    let values = relation.index_values(&index.columns, row);
    if index.unique {
        unique_key(values, key)
    } else {
        (index_key(values, key), false)
    }
}

/// Adds a row's entries.
///
/// # Errors
/// 23505 if a unique index has one already.
pub(super) fn insert(
    tx: &mut Transaction,
    storage: &Storage,
    target: &Target,
    row: &[Datum],
    key: &[u8],
) -> SqlResult<()> {
    let indexes = &target.relation.row.indexes;
    indexes
        .iter()
        .try_for_each(|index| insert_entry(tx, storage, target, index, row, key))
}

/// Adds a row's entry in one index.
///
/// # Errors
/// As [`insert`].
pub(super) fn insert_entry(
    tx: &mut Transaction,
    storage: &Storage,
    target: &Target,
    index: &IndexRow,
    row: &[Datum],
    key: &[u8],
) -> SqlResult<()> {
    let (bytes, is_unique) = entry(&target.relation, index, row, key);
    let table = storage.open(index.storage)?;
    if !is_unique {
        tx.put_row(&table.table, &bytes, key)?;
    } else if !tx.insert_row(&table.table, &bytes, key)? {
        return Err(target.duplicate(&index.name, &index.columns, row));
    }
    Ok(())
}

/// Removes a row's entries.
pub(super) fn delete(
    tx: &mut Transaction,
    storage: &Storage,
    relation: &Relation,
    row: &[Datum],
    key: &[u8],
) -> SqlResult<()> {
    for index in &relation.row.indexes {
        let (bytes, _) = entry(relation, index, row, key);
        tx.delete_row(&storage.open(index.storage)?.table, &bytes)?;
    }
    Ok(())
}

/// Replaces the entries that a change of a row makes different.
///
/// # Errors
/// As [`insert`].
pub(super) fn update(
    tx: &mut Transaction,
    storage: &Storage,
    target: &Target,
    (old, old_key): (&[Datum], &[u8]),
    (new, new_key): (&[Datum], &[u8]),
) -> SqlResult<()> {
    for index in &target.relation.row.indexes {
        let (before, _) = entry(&target.relation, index, old, old_key);
        let (after, is_unique) = entry(&target.relation, index, new, new_key);
        let table = storage.open(index.storage)?;
        if before == after {
            if old_key != new_key {
                tx.put_row(&table.table, &after, new_key)?;
            }
            continue;
        }
        tx.delete_row(&table.table, &before)?;
        if !is_unique {
            tx.put_row(&table.table, &after, new_key)?;
        } else if !tx.insert_row(&table.table, &after, new_key)? {
            return Err(target.duplicate(&index.name, &index.columns, new));
        }
    }
    Ok(())
}

/// The key of the row that already has a new row's values in a unique index.
///
/// # Errors
/// Those of the transaction.
pub(super) fn existing(
    tx: &mut Transaction,
    storage: &Storage,
    relation: &Relation,
    index: &IndexRow,
    row: &[Datum],
) -> SqlResult<Option<Vec<u8>>> {
    let (bytes, is_unique) = entry(relation, index, row, &[]);
    if !is_unique {
        return Ok(None);
    }
    let table = storage.open(index.storage)?;
    Ok(tx.row(&table.table, &bytes)?.map(<[u8]>::to_vec))
}
