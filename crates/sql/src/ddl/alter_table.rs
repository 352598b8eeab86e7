//! ALTER TABLE.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::context::DdlContext;
use super::create_table::{add_check, add_key, column_row, put_sequence};
use super::rebuild::{Fill, rebuild};
use crate::catalogue::{DefaultRow, Named, Relation, TableRow};
use crate::change::{DefaultValue, Target};
use crate::ddl_command::{AlterOperation, ColumnDefinition, KeyDefinition, QualifiedName};
use crate::error::{Notice, SqlError, SqlResult};
use crate::program::{Environment, Guard};
use crate::sqlstate;
use crate::types::{TimeZone, now_micros};

/// Changes a table.
pub(super) fn alter_table(
    context: &mut DdlContext<'_>,
    name: &QualifiedName,
    if_exists: bool,
    operations: Vec<AlterOperation>,
) -> SqlResult<()> {
    let count = operations.len();
    let mut name = name.clone();
    for (at, operation) in operations.into_iter().enumerate() {
        let Some(old) = context.table(&name, if_exists)? else {
            return Ok(());
        };
        // Each rewrite commits a marker of its own, and the transaction begins again: only the first may do so.
        context.is_alone &= at == 0 && count == 1;
        if let AlterOperation::Rename(to) = &operation {
            rename(context, &old, to)?;
            name.name.clone_from(to);
        } else {
            alter(context, &old, operation)?;
        }
    }
    Ok(())
}

fn alter(
    context: &mut DdlContext<'_>,
    old: &Arc<Relation>,
    operation: AlterOperation,
) -> SqlResult<()> {
    let mut row = old.row.clone();
    match operation {
        AlterOperation::Nothing | AlterOperation::Rename(_) => return Ok(()),
        AlterOperation::AddKey(key) => return add_constraint(context, old, key),
        AlterOperation::AddColumn {
            column,
            if_not_exists,
        } => return add_column(context, old, column, if_not_exists),
        AlterOperation::AddCheck(name, expression) => {
            add_check(&mut row, name, expression);
            return check_rows(context, old, row);
        }
        AlterOperation::SetNotNull { column, not_null } => {
            let at = column_of(&row, &column)?;
            if !not_null && row.is_in_key(at) {
                return Err(SqlError::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!("column \"{column}\" is in a primary key"),
                ));
            }
            row.columns[at].not_null = not_null;
            if not_null {
                return check_rows(context, old, row);
            }
        }
        AlterOperation::SetDefault { column, default } => {
            let at = column_of(&row, &column)?;
            row.columns[at].default = default.map(DefaultRow::Expression);
        }
        AlterOperation::RenameColumn { from, to } => {
            let at = column_of(&row, &from)?;
            if row.column(&to).is_some() {
                return Err(SqlError::new(
                    sqlstate::DUPLICATE_COLUMN,
                    format!(
                        "column \"{to}\" of relation \"{}\" already exists",
                        row.name
                    ),
                ));
            }
            if !row.checks.is_empty() {
                return Err(SqlError::unsupported(
                    "RENAME COLUMN of a table with CHECK constraints",
                ));
            }
            row.columns[at].name = to;
        }
        AlterOperation::DropConstraint { name, if_exists } => {
            return drop_constraint(context, row, &name, if_exists);
        }
    }
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    context.target(&relation)?;
    context.put(&relation.row, version)
}

fn column_of(row: &TableRow, name: &str) -> SqlResult<usize> {
    row.column(name).ok_or_else(|| {
        SqlError::new(
            sqlstate::UNDEFINED_COLUMN,
            format!(
                "column \"{name}\" of relation \"{}\" does not exist",
                row.name
            ),
        )
    })
}

fn rename(context: &mut DdlContext<'_>, old: &Relation, to: &str) -> SqlResult<()> {
    let mut row = old.row.clone();
    context.free_name(&row.schema, &row.name)?;
    context.take_name(&row.schema, to, Named::Table(row.id))?;
    row.name = to.to_owned();
    let version = context.number()?;
    context.put(&row, version)
}

/// Gives the table new core tables, and fills them from the old ones.
fn rewrite(
    context: &mut DdlContext<'_>,
    old: &Relation,
    mut row: TableRow,
    map: &dyn Fn(Vec<Datum>) -> SqlResult<Vec<Datum>>,
) -> SqlResult<Target> {
    row.storage = context.number()?;
    for index in &mut row.indexes {
        index.storage = context.number()?;
    }
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    let target = context.target(&relation)?;
    context.create_storage(&relation)?;
    rebuild(context, old, &target, &Fill::Rows(map))?;
    context.abandon(&old.row);
    Ok(target)
}

/// ADD PRIMARY KEY re-keys the table; ADD UNIQUE makes an index.
fn add_constraint(
    context: &mut DdlContext<'_>,
    old: &Relation,
    key: KeyDefinition,
) -> SqlResult<()> {
    let mut row = old.row.clone();
    let is_primary = key.is_primary;
    add_key(context, &mut row, key)?;
    let named = Named::Index(row.id);
    if is_primary {
        let target = rewrite(context, old, row, &|values| Ok(values))?;
        let relation = &target.relation;
        if let Some(key) = &relation.row.key {
            context.take_name(&relation.row.schema, &key.name, named)?;
        }
        return context.put(&relation.row, relation.version);
    }
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    let target = context.target(&relation)?;
    let index = relation.row.indexes.len() - 1;
    context.create_one(relation.row.indexes[index].storage, false, 16)?;
    rebuild(context, old, &target, &Fill::Index(index))?;
    context.take_name(
        &relation.row.schema,
        &relation.row.indexes[index].name,
        named,
    )?;
    context.put(&relation.row, version)
}

fn add_column(
    context: &mut DdlContext<'_>,
    old: &Relation,
    column: ColumnDefinition,
    if_not_exists: bool,
) -> SqlResult<()> {
    let mut row = old.row.clone();
    if row.column(&column.name).is_some() {
        let message = format!(
            "column \"{}\" of relation \"{}\" already exists",
            column.name, row.name
        );
        if if_not_exists {
            let message = format!("{message}, skipping");
            context
                .notices
                .push(Notice::notice(sqlstate::DUPLICATE_COLUMN, message));
            return Ok(());
        }
        return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
    }
    let (defined, sequence) = column_row(context, &row, column)?;
    if sequence.is_some() {
        return Err(SqlError::unsupported(
            "ADD COLUMN with numbers of a sequence",
        ));
    }
    let of = defined.sql_type;
    row.columns.push(defined);
    // The default that the rows get is that of the moment.
    let probe = Arc::new(Relation::new(row.clone(), context.number()?)?);
    let rules = context.target(&probe)?.rules;
    let environment = Environment {
        parameters: Arc::new([]),
        now: now_micros(),
        zone: TimeZone::Utc,
        guard: Guard::none(),
    };
    let value = match rules.defaults.last() {
        Some(DefaultValue::Value(scalar)) => of.assign(scalar.constant(&environment)?)?,
        _ => Datum::Null,
    };
    let target = rewrite(context, old, row, &|mut values| {
        values.push(value.clone());
        Ok(values)
    })?;
    if let Some(sequence) = &sequence {
        put_sequence(context, sequence)?;
    }
    context.put(&target.relation.row, target.relation.version)
}

/// A constraint that all rows have to meet: they are read through the transaction, so a row that comes later is a conflict.
fn check_rows(context: &mut DdlContext<'_>, old: &Relation, row: TableRow) -> SqlResult<()> {
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    let target = context.target(&relation)?;
    let storage = Arc::clone(context.storage);
    let rows_max = context.rows_max;
    let table = storage.open(old.row.storage)?;
    context.effects.touch(&[(old.id(), old.version)]);
    let environment = Environment {
        parameters: Arc::new([]),
        now: now_micros(),
        zone: TimeZone::Utc,
        guard: Guard::none(),
    };
    context.statement(|tx| {
        let mut count = 0;
        let failed = tx.scan_rows(&table.table, namiki::ScanRange::all(), |key, bytes| {
            count += 1;
            let checked =
                crate::storage::decode_row(&old.layout, key, bytes).and_then(|mut values| {
                    values.truncate(old.columns().len());
                    target.check(&values, &environment)
                });
            match checked {
                Ok(()) if count <= rows_max => std::ops::ControlFlow::Continue(()),
                Ok(()) => std::ops::ControlFlow::Break(SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    format!("table \"{}\" has more than {rows_max} rows", old.row.name),
                )),
                Err(error) => std::ops::ControlFlow::Break(error),
            }
        })?;
        failed.map_or(Ok(()), Err)
    })?;
    context.put(&relation.row, version)
}

fn drop_constraint(
    context: &mut DdlContext<'_>,
    mut row: TableRow,
    name: &str,
    if_exists: bool,
) -> SqlResult<()> {
    let checks = row.checks.len();
    row.checks.retain(|check| check.name != name);
    if row.checks.len() == checks {
        let index = row
            .indexes
            .iter()
            .position(|index| index.constraint && index.name == name);
        match index {
            Some(at) => {
                let index = row.indexes.remove(at);
                context.effects.obsolete.push(index.storage);
                context.free_name(&row.schema, name)?;
            }
            None if row.key.as_ref().is_some_and(|key| key.name == name) => {
                return Err(SqlError::unsupported("DROP CONSTRAINT of a primary key"));
            }
            None if if_exists => return Ok(()),
            None => {
                return Err(SqlError::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist",
                        row.name
                    ),
                ));
            }
        }
    }
    let version = context.number()?;
    context.put(&row, version)
}
