//! TRUNCATE: a table gets new, empty core tables.

use std::sync::Arc;

use super::context::DdlContext;
use crate::catalogue::{DefaultRow, Relation};
use crate::ddl_command::QualifiedName;
use crate::error::SqlResult;

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
        let version = context.number()?;
        let emptied = Relation::new(row, version)?;
        context.create_storage(&emptied)?;
        context.put(&emptied.row, version)?;
        if restart_identity {
            restart(context, &emptied)?;
        }
    }
    Ok(())
}

fn restart(context: &mut DdlContext<'_>, relation: &Relation) -> SqlResult<()> {
    for column in relation.columns() {
        let Some(DefaultRow::Sequence(id)) = column.default else {
            continue;
        };
        let catalogue = Arc::clone(context.catalogue);
        context.statement(|tx| {
            let found = catalogue.sequence(&mut crate::storage::Reader::Transaction(tx), id)?;
            match found {
                Some(sequence) => catalogue.put_sequence_state(tx, id, sequence.start),
                None => Ok(()),
            }
        })?;
        context.effects.sequences.push(id);
    }
    Ok(())
}
