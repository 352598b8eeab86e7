//! TRUNCATE: a table gets new, empty core tables.

use std::sync::Arc;

use super::context::DdlContext;
use super::drop::remove_sequence;
use crate::catalogue::{DefaultRow, Relation, TableRow};
use crate::ddl_command::QualifiedName;
use crate::error::SqlResult;
use crate::storage::Reader;

/// Empties tables.
pub(super) fn truncate(
    context: &mut DdlContext<'_>,
    names: &[QualifiedName],
    restart_identity: bool,
) -> SqlResult<()> {
    for name in names {
        let Some(relation) = context.table(name, false)? else {
            continue;
        };
        let mut row = relation.row.clone();
        context.abandon(&row);
        row.storage = context.number()?;
        row.stored = None;
        for index in &mut row.indexes {
            index.storage = context.number()?;
        }
        if restart_identity {
            restart(context, &mut row)?;
        }
        let version = context.number()?;
        let emptied = Relation::new(row, version)?;
        context.create_storage(&emptied)?;
        context.put(&emptied.row, version)?;
    }
    Ok(())
}

/// The table's columns get new sequences of the same names. Other transactions take numbers of the old ones until this one
/// has committed.
fn restart(context: &mut DdlContext<'_>, row: &mut TableRow) -> SqlResult<()> {
    for column in &mut row.columns {
        let Some(DefaultRow::Sequence(old)) = column.default else {
            continue;
        };
        let catalogue = Arc::clone(context.catalogue);
        let found =
            context.statement(|tx| catalogue.sequence(&mut Reader::Transaction(tx), old))?;
        let Some(mut sequence) = found else {
            continue;
        };
        sequence.id = context.id()?;
        remove_sequence(context, old, &sequence.schema, &sequence.name)?;
        context.put_sequence(&sequence)?;
        column.default = Some(DefaultRow::Sequence(sequence.id));
    }
    Ok(())
}
