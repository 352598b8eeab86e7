//! CREATE TABLE and CREATE SEQUENCE.

use std::sync::Arc;

use super::constraints::{define_check, define_key};
use super::context::{DdlContext, exists};
use super::object_names::free_relation_name;
use crate::catalogue::{
    COLUMNS_MAX, ColumnRow, DefaultRow, Named, PUBLIC, Relation, SequenceRow, TableRow,
};
use crate::ddl_command::{
    ColumnDefinition, CreateTable, DefaultDefinition, QualifiedName, SequenceDefinition,
};
use crate::error::{Notice, SqlError, SqlResult};
use crate::sqlstate;
use crate::types::SqlType;

/// Whether a table may have so many columns.
pub(super) fn check_column_count(columns: usize) -> SqlResult<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        sqlstate::PROGRAM_LIMIT_EXCEEDED,
        format!("tables can have at most {COLUMNS_MAX} columns"),
    ))
}

/// Makes a table.
pub(super) fn create_table(context: &mut DdlContext<'_>, create: CreateTable) -> SqlResult<()> {
    check_schema(&create.name)?;
    if context.named(&create.name)?.is_some() {
        return already(context, &create.name, create.if_not_exists);
    }
    check_column_count(create.columns.len())?;
    let mut row = TableRow {
        id: context.id()?,
        schema: create.name.schema().to_owned(),
        name: create.name.name.clone(),
        columns: Vec::new(),
        key: None,
        indexes: Vec::new(),
        checks: Vec::new(),
        storage: context.number()?,
        stored: None,
        marker: None,
    };
    let mut sequences = Vec::new();
    for column in create.columns {
        if row.column(&column.name).is_some() {
            return Err(SqlError::new(
                sqlstate::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", column.name),
            ));
        }
        let (column, sequence) = column_row(context, &row, column)?;
        sequences.extend(sequence);
        row.columns.push(column);
    }
    for key in create.keys {
        define_key(context, &mut row, key)?;
    }
    for (name, expression) in create.checks {
        define_check(&mut row, name, &expression)?;
    }
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    // Bound before anything is made: an expression may be wrong.
    context.target(&relation)?;
    context.create_storage(&relation)?;
    let row = &relation.row;
    context.take_name(&row.schema, &row.name, Named::Table(row.id))?;
    if let Some(key) = &row.key {
        context.take_name(&row.schema, &key.name, Named::Index(row.id))?;
    }
    for index in &row.indexes {
        context.take_name(&row.schema, &index.name, Named::Index(row.id))?;
    }
    for sequence in &sequences {
        context.put_sequence(sequence)?;
    }
    context.put(row, version)
}

/// Makes a sequence.
pub(super) fn create_sequence(
    context: &mut DdlContext<'_>,
    definition: SequenceDefinition,
    name: &QualifiedName,
    if_not_exists: bool,
) -> SqlResult<()> {
    check_schema(name)?;
    if context.named(name)?.is_some() {
        return already(context, name, if_not_exists);
    }
    let row = sequence_row(context.id()?, name, definition, SqlType::Int8, None)?;
    context.put_sequence(&row)
}

fn check_schema(name: &QualifiedName) -> SqlResult<()> {
    if name.schema() == PUBLIC {
        return Ok(());
    }
    Err(SqlError::new(
        sqlstate::INVALID_SCHEMA_NAME,
        format!("schema \"{}\" does not exist", name.schema()),
    )
    .with_hint("There is one schema for tables: public."))
}

/// An object of this name is there.
pub(super) fn already(
    context: &mut DdlContext<'_>,
    name: &QualifiedName,
    is_fine: bool,
) -> SqlResult<()> {
    if !is_fine {
        return Err(exists(&name.name));
    }
    context.notices.push(Notice::plain(
        sqlstate::DUPLICATE_TABLE,
        format!("relation \"{}\" already exists, skipping", name.name),
    ));
    Ok(())
}

/// The row of a column, which is the table's next one, and the sequence that it needs.
pub(super) fn column_row(
    context: &mut DdlContext<'_>,
    table: &TableRow,
    column: ColumnDefinition,
) -> SqlResult<(ColumnRow, Option<SequenceRow>)> {
    let mut sequence = None;
    let default = match column.default {
        None => None,
        Some(DefaultDefinition::Expression(text)) => Some(DefaultRow::Expression(text)),
        Some(DefaultDefinition::Sequence(definition)) => {
            let name = QualifiedName {
                schema: Some(table.schema.clone()),
                name: free_relation_name(context, table, &[&column.name], "seq")?,
            };
            let owner = Some((table.id, table.columns.len()));
            let row = sequence_row(context.id()?, &name, definition, column.sql_type, owner)?;
            let id = row.id;
            sequence = Some(row);
            Some(DefaultRow::Sequence(id))
        }
    };
    let row = ColumnRow {
        name: column.name,
        sql_type: column.sql_type,
        not_null: column.not_null,
        default,
        identity: column.identity,
    };
    Ok((row, sequence))
}

fn sequence_row(
    id: u32,
    name: &QualifiedName,
    definition: SequenceDefinition,
    of: SqlType,
    owner: Option<(u32, usize)>,
) -> SqlResult<SequenceRow> {
    let (type_least, type_greatest) = of.integer_range();
    let rises = definition.increment > 0;
    let least = definition
        .least
        .unwrap_or(if rises { 1 } else { type_least });
    let greatest = definition
        .greatest
        .unwrap_or(if rises { type_greatest } else { -1 });
    let start = definition
        .start
        .unwrap_or(if rises { least } else { greatest });
    if least >= greatest || !(least..=greatest).contains(&start) {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!(
                "sequence \"{}\" cannot start at {start} between {least} and {greatest}",
                name.name
            ),
        ));
    }
    Ok(SequenceRow {
        id,
        schema: name.schema().to_owned(),
        name: name.name.clone(),
        start,
        increment: definition.increment,
        least,
        greatest,
        cycle: definition.cycle,
        owner,
    })
}
