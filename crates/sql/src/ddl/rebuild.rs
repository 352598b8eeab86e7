//! Filling new core tables from the rows of an old one: an index, or a table with another key or another column.
//!
//! A command that is alone in its transaction commits a *marker* first: other statements on the table wait, and the rows are
//! read from a view and written in batches outside of the transaction. Inside a transaction block the rows are read and
//! written through the transaction, unless it has made the table and not used it: no other one can use it then.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki::{RowScan, ScanRange, View};
use namiki_data::columns::Datum;

use super::BulkLoad;
use super::context::DdlContext;
use crate::catalogue::Relation;
use crate::change::{Changes, RowNumbers, Target};
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, Guard};
use crate::sqlstate;
use crate::storage::{Reader, decode_row};
use crate::types::{TimeZone, now_micros};

/// Rows that are read from the view at once.
const ROWS_AT_ONCE: usize = 4096;

/// The core tables that are filled.
pub(super) enum Fill<'m> {
    /// An index of the new state of the table, by its number.
    Index(usize),
    /// The rows and all indexes: a row's values in the old state become those in the new one.
    Rows(&'m dyn Fn(Vec<Datum>) -> SqlResult<Vec<Datum>>),
}

/// Fills the core tables that `target` names and that were made for it.
///
/// # Errors
/// Those of the constraints of the new state; 40001 if the table has changed; 53200 inside a block beyond the limit of rows.
pub(super) fn rebuild(
    context: &mut DdlContext<'_>,
    old: &Relation,
    target: &Target,
    fill: &Fill<'_>,
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
    let environment = environment();
    let storage = Arc::clone(context.storage);
    let rows_max = context.rows_max;
    let table = storage.open(old.row.storage)?;
    context.statement(|tx| {
        let mut rows = Vec::new();
        let stopped = tx.scan_rows(&table.table, ScanRange::all(), |key, row| {
            if rows.len() == rows_max {
                return ControlFlow::Break(());
            }
            rows.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        if stopped.is_some() {
            return Err(SqlError::new(
                sqlstate::OUT_OF_MEMORY,
                format!("table \"{}\" has more than {rows_max} rows", old.row.name),
            )
            .with_hint("Run the command outside of a transaction block."));
        }
        let mut changes = Changes {
            tx,
            storage: &storage,
            environment: &environment,
            numbers: &mut RowNumbers::default(),
        };
        for (key, row) in rows {
            let mut values = decode_row(&old.layout, &key, &row)?;
            match fill {
                Fill::Index(index) => changes.insert_entry(target, *index, &values, &key)?,
                Fill::Rows(map) => {
                    values.truncate(old.columns().len());
                    changes.insert(target, &mut map(values)?, None)?;
                }
            }
        }
        Ok(())
    })
}

fn environment() -> Environment {
    Environment {
        parameters: Arc::new([]),
        now: now_micros(),
        zone: TimeZone::Utc,
        guard: Guard::none(),
    }
}

/// Fills the tables while others wait, and begins the transaction again that names them.
fn with_marker(
    context: &mut DdlContext<'_>,
    old: &Relation,
    target: &Target,
    fill: &Fill<'_>,
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
    fill: &Fill<'_>,
) -> SqlResult<()> {
    let environment = environment();
    let mut load = match fill {
        Fill::Index(index) => {
            BulkLoad::of_index(context.db, context.storage, target.clone(), *index)?
        }
        Fill::Rows(_) => BulkLoad::new(context.db, context.storage, target.clone())?,
    };
    let table = context.storage.open(old.row.storage)?;
    let mut scan = RowScan::new(ScanRange::all());
    loop {
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
            let mut values = decode_row(&old.layout, &key, &row)?;
            let is_full = match fill {
                Fill::Index(_) => load.push_stored(key, &values)?,
                Fill::Rows(map) => {
                    values.truncate(old.columns().len());
                    let values = map(values)?;
                    target.check(&values, &environment)?;
                    load.push(values)?
                }
            };
            if is_full {
                load.flush()?;
            }
        }
        if stopped.is_none() {
            return load.finish();
        }
    }
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
