//! ADD COLUMN: rows stay as they are, and say by their version that they do not have the column. Only a default that may be
//! another value in each row has all rows written anew.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::alteration::Alteration;
use super::constraints::{add_check, add_key};
use super::context::DdlContext;
use super::create_table::{check_column_count, column_row};
use super::row_steps::{NewNumbers, RowStep};
use crate::catalogue::{Relation, StoredColumn};
use crate::change::DefaultValue;
use crate::ddl_command::NewColumn;
use crate::error::{Notice, SqlError, SqlResult};
use crate::sqlstate;

/// Adds a column with its constraints.
pub(super) fn add_column(
    context: &mut DdlContext<'_>,
    alteration: &mut Alteration,
    new: NewColumn,
    if_not_exists: bool,
) -> SqlResult<()> {
    let NewColumn {
        column,
        keys,
        checks,
    } = new;
    if alteration.row.column(&column.name).is_some() {
        let message = format!(
            "column \"{}\" of relation \"{}\" already exists",
            column.name, alteration.row.name
        );
        if if_not_exists {
            let message = format!("{message}, skipping");
            context
                .notices
                .push(Notice::plain(sqlstate::DUPLICATE_COLUMN, message));
            return Ok(());
        }
        return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
    }
    let (defined, sequence) = column_row(context, &alteration.row, column)?;
    let (of, not_null) = (defined.sql_type, defined.not_null);
    let at = alteration.row.columns.len();
    alteration.row.columns.push(defined);
    check_column_count(alteration.row.columns.len())?;
    let probe = Arc::new(Relation::new(alteration.row.clone(), context.number()?)?);
    let rules = context.target(&probe)?.rules;
    let mut missing = Datum::Null;
    let step = match (rules.defaults.last(), sequence) {
        (_, Some(sequence)) => {
            alteration.rewrites = true;
            alteration.new_sequences.push(sequence.clone());
            let next = sequence.start;
            RowStep::AddNumbers(NewNumbers { sequence, next })
        }
        (Some(DefaultValue::Value(scalar)), None) if scalar.is_volatile() => {
            alteration.rewrites = true;
            RowStep::AddEvaluated(scalar.clone(), of)
        }
        (Some(DefaultValue::Value(scalar)), None) => {
            // The default of this moment, also for `now()`.
            missing = of.assign(scalar.constant(&context.environment())?)?;
            alteration.checks |= not_null && missing == Datum::Null;
            RowStep::Add(missing.clone())
        }
        (Some(DefaultValue::Sequence(_)) | None, None) => {
            return Err(SqlError::corrupted("a new column has no default"));
        }
    };
    alteration.steps.push(step);
    alteration.has_new_columns = true;
    alteration.stored.columns.push(StoredColumn {
        column: Some(at),
        sql_type: of,
        missing,
    });
    for key in keys {
        add_key(context, alteration, key)?;
    }
    for (name, expression) in checks {
        add_check(alteration, name, &expression)?;
    }
    Ok(())
}
