//! Filling new core tables from the rows of an old one, and checking all rows: an index, a new constraint, or a table with
//! another key or other columns.
//!
//! A command that is alone in its transaction commits a *marker* first: other statements on the table wait, and the rows are
//! read from a view and written in batches outside of the transaction. Inside a transaction block the rows are read and
//! written through the transaction, unless it has made the table and not used it: no other one can use it then.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki::{RowScan, ScanRange, View};
use namiki_data::columns::Datum;

use super::bulk::{BulkLoad, write_beside};
use super::context::DdlContext;
use super::row_steps::{RowStep, apply};
use crate::catalogue::Relation;
use crate::change::{Changes, RowNumbers, Target};
use crate::error::{SqlError, SqlResult};
use crate::program::Environment;
use crate::sqlstate;
use crate::storage::Reader;

/// Rows that are read from the view at once.
const ROWS_AT_ONCE: usize = 4096;

/// What happens to the rows.
pub(super) struct Fill<'m> {
    /// The indexes of the new state that are filled, by their numbers; `None`: the rows are written anew, and all indexes.
    pub(super) indexes: Option<&'m [usize]>,
    /// How a row's values in the old state become those in the new one.
    pub(super) steps: &'m mut [RowStep],
    /// Whether the constraints of the new state are checked.
    pub(super) checks: bool,
}

impl Fill<'_> {
    /// The values of a row in the new state.
    fn values(
        &mut self,
        old: &Relation,
        target: &Target,
        key: &[u8],
        row: &[u8],
        environment: &Environment,
    ) -> SqlResult<Vec<Datum>> {
        let mut values = old.format.decode(key, row)?;
        values.truncate(old.columns().len());
        apply(self.steps, &mut values, environment)?;
        if self.checks {
            let checked = target.check(&values, environment);
            checked.map_err(|error| of_old_row(error, target))?;
        }
        Ok(values)
    }
}

/// The error of a constraint that a row does not meet which is there already.
fn of_old_row(error: SqlError, target: &Target) -> SqlError {
    let table = &target.relation.row.name;
    let message = match (error.sqlstate(), error.column(), error.constraint()) {
        (sqlstate::NOT_NULL_VIOLATION, Some(column), _) => {
            format!("column \"{column}\" of relation \"{table}\" contains null values")
        }
        (sqlstate::CHECK_VIOLATION, _, Some(constraint)) => {
            format!(
                "check constraint \"{constraint}\" of relation \"{table}\" is violated by some row"
            )
        }
        _ => return error,
    };
    let mut told = SqlError::new(error.sqlstate(), message).with_table(table);
    if let Some(column) = error.column() {
        told = told.with_column(column);
    }
    if let Some(constraint) = error.constraint() {
        told = told.with_constraint(constraint);
    }
    told
}

/// Passes over the rows of the old state once. The core tables that are filled were made for it.
///
/// # Errors
/// Those of the constraints of the new state; 40001 if the table has changed; 53200 inside a block beyond the limit of rows;
/// 57014 after a cancellation.
pub(super) fn rebuild(
    context: &mut DdlContext<'_>,
    old: &Relation,
    target: &Target,
    fill: &mut Fill<'_>,
) -> SqlResult<()> {
    if context.is_alone {
        return with_marker(context, old, target, fill);
    }
    if context.effects.untouched.contains_key(&old.row.storage) {
        // No other transaction knows the table, and this one has written none of its rows: a view has them all.
        let view = context.db.view()?;
        return fill_from_view(context, &view, old, target, fill);
    }
    context.effects.touch(&[(old.id(), old.version)]);
    let environment = context.environment();
    let storage = Arc::clone(context.storage);
    let rows_max = context.rows_max;
    let table = storage.open(old.row.storage)?;
    let guard = &environment.guard;
    let found = context.statement(|tx| {
        let mut rows = Vec::new();
        let stopped = tx.scan_rows(&table.table, ScanRange::all(), |key, row| {
            if rows.len() == rows_max {
                return ControlFlow::Break(Ok(()));
            }
            if let Err(error) = guard.visit(rows.len()) {
                return ControlFlow::Break(Err(error));
            }
            rows.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        if let Some(stopped) = stopped {
            stopped?;
            return Err(SqlError::new(
                sqlstate::OUT_OF_MEMORY,
                format!("table \"{}\" has more than {rows_max} rows", old.row.name),
            )
            .with_hint("Run the command outside of a transaction block."));
        }
        Ok(rows)
    })?;
    // Not in the transaction's body: an expression may take the number of a sequence.
    let mut rows = Vec::with_capacity(found.len());
    for (key, row) in found {
        guard.cancelled.check()?;
        let values = fill.values(old, target, &key, &row, &environment)?;
        rows.push((key, values));
    }
    let indexes = fill.indexes;
    context.statement(|tx| {
        let mut changes = Changes {
            tx,
            storage: &storage,
            environment: &environment,
            numbers: &mut RowNumbers::default(),
        };
        for (key, mut values) in rows {
            match indexes {
                None => {
                    changes.insert(target, &mut values, None)?;
                }
                Some(indexes) => {
                    guard.change(changes.tx)?;
                    for index in indexes {
                        changes.insert_entry(target, *index, &values, &key)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// Fills the tables while others wait, and begins the transaction again that names them.
fn with_marker(
    context: &mut DdlContext<'_>,
    old: &Relation,
    target: &Target,
    fill: &mut Fill<'_>,
) -> SqlResult<()> {
    // What it has read of the catalogue changes by the marker.
    context.session.rollback();
    let marker = context.number()?;
    let (catalogue, id) = (Arc::clone(context.catalogue), old.id());
    context.db.transact_with(|tx| {
        let found = catalogue.relation(&mut Reader::Transaction(tx), id)?;
        let Some(found) = found.filter(|found| found.version == old.version) else {
            return Err(SqlError::new(
                sqlstate::SERIALIZATION_FAILURE,
                "could not serialize access due to a concurrent change of the table",
            )
            .with_hint("The transaction might succeed if retried."));
        };
        let mut row = found.row.clone();
        row.marker = Some(marker);
        catalogue.put_relation(tx, &row, marker)
    })?;
    context.effects.marked.push(id);
    let view = context.db.view()?;
    fill_from_view(context, &view, old, target, fill)?;
    context.session.begin()?;
    Ok(())
}

fn fill_from_view(
    context: &DdlContext<'_>,
    view: &View,
    old: &Relation,
    target: &Target,
    fill: &mut Fill<'_>,
) -> SqlResult<()> {
    let environment = context.environment();
    let (mut load, writer) = match fill.indexes {
        Some(indexes) => {
            BulkLoad::of_indexes(context.db, context.storage, target.clone(), indexes)?
        }
        None => BulkLoad::new(context.db, context.storage, target.clone())?,
    };
    let table = context.storage.open(old.row.storage)?;
    write_beside(writer, |write| {
        let mut scan = RowScan::new(ScanRange::all());
        loop {
            context.cancelled.check()?;
            let mut rows = Vec::with_capacity(ROWS_AT_ONCE);
            let stopped = view.resume_scan(&table.table, &mut scan, |key, row| {
                rows.push((key.to_vec(), row.to_vec()));
                if rows.len() < ROWS_AT_ONCE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            for (key, row) in rows {
                let values = fill.values(old, target, &key, &row, &environment)?;
                let is_full = match fill.indexes {
                    Some(_) => load.push_stored(key, &values)?,
                    None => load.push(values)?,
                };
                if is_full {
                    write(load.take_batch())?;
                }
            }
            if stopped.is_none() {
                return write(load.take_batch());
            }
        }
    })
}

/// Takes a marker away after a failure, so that statements on the table go on.
///
/// # Errors
/// Those of the transaction.
pub(crate) fn remove_marker(
    db: &namiki::Database,
    catalogue: &crate::catalogue::Catalogue,
    id: u32,
) -> SqlResult<()> {
    let version = catalogue.numbers.next()?;
    db.transact_with(|tx| {
        let found = catalogue.relation(&mut Reader::Transaction(tx), id)?;
        match found {
            Some(found) if found.row.marker.is_some() => {
                let mut row = found.row.clone();
                row.marker = None;
                catalogue.put_relation(tx, &row, version)
            }
            _ => Ok(()),
        }
    })
}
