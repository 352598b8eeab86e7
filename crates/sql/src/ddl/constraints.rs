//! Adding, dropping and renaming PRIMARY KEY, UNIQUE and CHECK.

use super::alteration::Alteration;
use super::context::{DdlContext, exists};
use super::object_names::{column_numbers, first_free, free_relation_name, has_constraint};
use crate::catalogue::{CheckRow, IndexRow, KeyRow, TableRow};
use crate::ddl_command::{KeyDefinition, QualifiedName};
use crate::error::{Notice, SqlError, SqlResult};
use crate::front_end::condition;
use crate::sqlstate;

/// Adds PRIMARY KEY, which gives all rows new keys, or UNIQUE, which makes an index.
pub(super) fn add_key(
    context: &mut DdlContext<'_>,
    alteration: &mut Alteration,
    key: KeyDefinition,
) -> SqlResult<()> {
    let is_primary = key.is_primary;
    let name = define_key(context, &mut alteration.row, key)?;
    if is_primary {
        alteration.rewrites = true;
    } else if let Some(index) = alteration.row.indexes.last() {
        alteration.new_indexes.push(index.id);
    }
    alteration.taken.push(name);
    Ok(())
}

/// Adds PRIMARY KEY or UNIQUE to a table's row; returns its name.
pub(super) fn define_key(
    context: &mut DdlContext<'_>,
    row: &mut TableRow,
    key: KeyDefinition,
) -> SqlResult<String> {
    let columns = column_numbers(row, &key.columns)?;
    if key.is_primary && row.key.is_some() {
        return Err(SqlError::new(
            sqlstate::INVALID_TABLE_DEFINITION,
            format!(
                "multiple primary keys for table \"{}\" are not allowed",
                row.name
            ),
        ));
    }
    let names: Vec<&str> = key.columns.iter().map(String::as_str).collect();
    let name = match key.name {
        Some(name) => {
            let qualified = QualifiedName {
                schema: Some(row.schema.clone()),
                name: name.clone(),
            };
            if context.named(&qualified)?.is_some() || has_constraint(row, &name) {
                return Err(exists(&name));
            }
            name
        }
        None if key.is_primary => free_relation_name(context, row, &[], "pkey")?,
        None => free_relation_name(context, row, &names, "key")?,
    };
    let id = context.id()?;
    if key.is_primary {
        row.key = Some(KeyRow {
            id,
            name: name.clone(),
            columns,
        });
    } else {
        row.indexes.push(IndexRow {
            id,
            name: name.clone(),
            columns,
            unique: true,
            constraint: true,
            storage: context.number()?,
        });
    }
    Ok(name)
}

/// Adds CHECK, which all rows have to meet.
pub(super) fn add_check(
    alteration: &mut Alteration,
    name: Option<String>,
    expression: &str,
) -> SqlResult<()> {
    define_check(&mut alteration.row, name, expression)?;
    alteration.checks = true;
    Ok(())
}

/// Adds CHECK to a table's row. Without a name it is called after the column, if it names one alone.
pub(super) fn define_check(
    row: &mut TableRow,
    name: Option<String>,
    expression: &str,
) -> SqlResult<()> {
    let condition = condition(expression)?;
    let name = match name {
        Some(name) if has_constraint(row, &name) => {
            return Err(SqlError::new(
                sqlstate::DUPLICATE_OBJECT,
                format!(
                    "constraint \"{name}\" for relation \"{}\" already exists",
                    row.name
                ),
            ));
        }
        Some(name) => name,
        None => {
            let is_column = |name: &&String| row.column(name).is_some();
            let columns: Vec<&String> = condition.columns.iter().filter(is_column).collect();
            let columns: &[&str] = match columns.as_slice() {
                [column] => &[column.as_str()],
                _ => &[],
            };
            first_free(&row.name, columns, "check", |name| {
                Ok(has_constraint(row, name))
            })?
        }
    };
    row.checks.push(CheckRow {
        name,
        expression: condition.text,
    });
    Ok(())
}

/// Drops a constraint.
pub(super) fn drop_constraint(
    context: &mut DdlContext<'_>,
    alteration: &mut Alteration,
    name: &str,
    if_exists: bool,
) -> SqlResult<()> {
    let row = &mut alteration.row;
    let checks = row.checks.len();
    row.checks.retain(|check| check.name != name);
    if row.checks.len() < checks {
        return Ok(());
    }
    let index = row
        .indexes
        .iter()
        .position(|index| index.constraint && index.name == name);
    if let Some(at) = index {
        alteration.drop_index(at);
        return Ok(());
    }
    if row.key.as_ref().is_some_and(|key| key.name == name) {
        alteration.drop_key();
        return Ok(());
    }
    let message = format!(
        "constraint \"{name}\" of relation \"{}\" does not exist",
        row.name
    );
    if if_exists {
        let message = format!("{message}, skipping");
        context
            .notices
            .push(Notice::plain(sqlstate::SUCCESSFUL_COMPLETION, message));
        return Ok(());
    }
    Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message))
}

/// Gives a constraint another name.
pub(super) fn rename_constraint(
    alteration: &mut Alteration,
    from: &str,
    to: String,
) -> SqlResult<()> {
    let row = &mut alteration.row;
    if has_constraint(row, &to) {
        return Err(SqlError::new(
            sqlstate::DUPLICATE_OBJECT,
            format!(
                "constraint \"{to}\" for relation \"{}\" already exists",
                row.name
            ),
        ));
    }
    if let Some(check) = row.checks.iter_mut().find(|check| check.name == from) {
        check.name = to;
        return Ok(());
    }
    let index = row
        .indexes
        .iter_mut()
        .find(|index| index.constraint && index.name == from);
    let key = row.key.as_mut().filter(|key| key.name == from);
    match (key, index) {
        (Some(key), _) => key.name.clone_from(&to),
        (None, Some(index)) => index.name.clone_from(&to),
        (None, None) => {
            return Err(SqlError::new(
                sqlstate::UNDEFINED_OBJECT,
                format!(
                    "constraint \"{from}\" for table \"{}\" does not exist",
                    row.name
                ),
            ));
        }
    }
    alteration.freed.push(from.to_owned());
    alteration.taken.push(to);
    Ok(())
}
