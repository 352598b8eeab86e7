//! ALTER TABLE.

use super::add_column::add_column;
use super::alteration::Alteration;
use super::constraints::{add_check, add_key, drop_constraint, rename_constraint};
use super::context::DdlContext;
use super::drop_column::drop_column;
use super::row_steps::{Conversion, RowStep};
use crate::catalogue::DefaultRow;
use crate::ddl_command::{AlterOperation, QualifiedName};
use crate::error::{SqlError, SqlResult};
use crate::front_end::with_renamed_column;
use crate::sqlstate;
use crate::types::SqlType;

/// Changes a table.
pub(super) fn alter_table(
    context: &mut DdlContext<'_>,
    name: &QualifiedName,
    if_exists: bool,
    operations: Vec<AlterOperation>,
) -> SqlResult<()> {
    let Some(old) = context.table(name, if_exists)? else {
        return Ok(());
    };
    let mut alteration = Alteration::of(&old);
    for operation in operations {
        alter(context, &mut alteration, operation)?;
    }
    if !alteration.changes_anything() {
        return Ok(());
    }
    alteration.finish(context)
}

fn alter(
    context: &mut DdlContext<'_>,
    alteration: &mut Alteration,
    operation: AlterOperation,
) -> SqlResult<()> {
    match operation {
        AlterOperation::Nothing => Ok(()),
        AlterOperation::Rename(to) => {
            alteration.row.name = to;
            Ok(())
        }
        AlterOperation::AddKey(key) => add_key(context, alteration, key),
        AlterOperation::AddColumn { new, if_not_exists } => {
            add_column(context, alteration, *new, if_not_exists)
        }
        AlterOperation::DropColumn { name, if_exists } => {
            drop_column(context, alteration, &name, if_exists)
        }
        AlterOperation::AddCheck(name, expression) => add_check(alteration, name, &expression),
        AlterOperation::SetNotNull { column, not_null } => {
            set_not_null(alteration, &column, not_null)
        }
        AlterOperation::SetDefault { column, default } => set_default(alteration, &column, default),
        AlterOperation::SetType { column, sql_type } => set_type(alteration, &column, sql_type),
        AlterOperation::RenameColumn { from, to } => rename_column(alteration, &from, to),
        AlterOperation::RenameConstraint { from, to } => rename_constraint(alteration, &from, to),
        AlterOperation::DropConstraint { name, if_exists } => {
            drop_constraint(context, alteration, &name, if_exists)
        }
    }
}

fn set_not_null(alteration: &mut Alteration, name: &str, not_null: bool) -> SqlResult<()> {
    let at = alteration.column(name)?;
    let row = &mut alteration.row;
    if !not_null && row.is_in_key(at) {
        return Err(SqlError::new(
            sqlstate::INVALID_TABLE_DEFINITION,
            format!("column \"{name}\" is in a primary key"),
        ));
    }
    if !not_null && row.columns[at].identity.is_some() {
        return Err(is_identity(alteration, name));
    }
    alteration.checks |= not_null && row.is_nullable(at);
    row.columns[at].not_null = not_null;
    Ok(())
}

fn set_default(alteration: &mut Alteration, name: &str, default: Option<String>) -> SqlResult<()> {
    let at = alteration.column(name)?;
    if alteration.row.columns[at].identity.is_some() {
        return Err(is_identity(alteration, name));
    }
    alteration.row.columns[at].default = default.map(DefaultRow::Expression);
    Ok(())
}

fn is_identity(alteration: &Alteration, name: &str) -> SqlError {
    SqlError::syntax(format!(
        "column \"{name}\" of relation \"{}\" is an identity column",
        alteration.row.name
    ))
}

/// Gives a column another type. Rows are written anew unless they already are as the new type has them.
fn set_type(alteration: &mut Alteration, name: &str, to: SqlType) -> SqlResult<()> {
    let at = alteration.column(name)?;
    let column = &mut alteration.row.columns[at];
    let conversion = Conversion {
        from: column.sql_type,
        to,
    };
    if column.identity.is_some() && !to.is_integer() {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            "identity column type must be smallint, integer, or bigint",
        ));
    }
    if !conversion.is_known() {
        return Err(SqlError::unsupported(format!(
            "ALTER COLUMN TYPE from {} to {to}",
            conversion.from
        )));
    }
    column.sql_type = to;
    if conversion.keeps_bytes() {
        let stored = &mut alteration.stored.columns;
        if let Some(stored) = stored.iter_mut().find(|stored| stored.column == Some(at)) {
            stored.sql_type = to;
        }
    } else {
        alteration.rewrites = true;
        alteration.steps.push(RowStep::Convert(at, conversion));
    }
    Ok(())
}

fn rename_column(alteration: &mut Alteration, from: &str, to: String) -> SqlResult<()> {
    let at = alteration.column(from)?;
    let row = &mut alteration.row;
    if row.column(&to).is_some() {
        return Err(SqlError::new(
            sqlstate::DUPLICATE_COLUMN,
            format!(
                "column \"{to}\" of relation \"{}\" already exists",
                row.name
            ),
        ));
    }
    for check in &mut row.checks {
        check.expression = with_renamed_column(&check.expression, from, &to)?;
    }
    row.columns[at].name = to;
    Ok(())
}
