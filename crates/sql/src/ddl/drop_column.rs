//! DROP COLUMN: the column stays in the stored rows, and nothing shows it.

use super::alteration::Alteration;
use super::context::DdlContext;
use super::row_steps::RowStep;
use crate::catalogue::DefaultRow;
use crate::error::{Notice, SqlError, SqlResult};
use crate::front_end::condition;
use crate::sqlstate;

/// Drops a column, and the key, indexes and constraints that it is in.
pub(super) fn drop_column(
    context: &mut DdlContext<'_>,
    alteration: &mut Alteration,
    name: &str,
    if_exists: bool,
) -> SqlResult<()> {
    if alteration.row.column(name).is_none() && if_exists {
        let message = format!(
            "column \"{name}\" of relation \"{}\" does not exist, skipping",
            alteration.row.name
        );
        context
            .notices
            .push(Notice::plain(sqlstate::SUCCESSFUL_COMPLETION, message));
        return Ok(());
    }
    let dropped = alteration.column(name)?;
    if alteration.row.columns.len() == 1 {
        return Err(SqlError::unsupported("DROP COLUMN of the only column"));
    }
    if alteration.row.is_in_key(dropped) {
        alteration.drop_key();
    }
    while let Some(at) = index_with(alteration, dropped) {
        alteration.drop_index(at);
    }
    let mut failed = None;
    alteration.row.checks.retain(|check| {
        let named = condition(&check.expression);
        match named {
            Ok(condition) => !condition.columns.iter().any(|column| column == name),
            Err(error) => {
                failed = Some(error);
                true
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let removed = alteration.row.columns.remove(dropped);
    if let Some(DefaultRow::Sequence(id)) = removed.default {
        let new = alteration
            .new_sequences
            .iter()
            .position(|sequence| sequence.id == id);
        match new {
            Some(at) => {
                return Err(SqlError::unsupported(format!(
                    "DROP COLUMN of the new sequence {}",
                    alteration.new_sequences[at].name
                )));
            }
            None => alteration.dropped_sequences.push(id),
        }
    }
    renumber(alteration, dropped);
    alteration.stored.drop_column(dropped);
    alteration.steps.push(RowStep::Remove(dropped));
    Ok(())
}

fn index_with(alteration: &Alteration, column: usize) -> Option<usize> {
    let indexes = &alteration.row.indexes;
    indexes
        .iter()
        .position(|index| index.columns.contains(&column))
}

/// The columns behind the dropped one count one less.
fn renumber(alteration: &mut Alteration, dropped: usize) {
    let row = &mut alteration.row;
    let key = row.key.iter_mut().map(|key| &mut key.columns);
    let indexes = row.indexes.iter_mut().map(|index| &mut index.columns);
    for at in key.chain(indexes).flatten() {
        if *at > dropped {
            *at -= 1;
        }
    }
}
