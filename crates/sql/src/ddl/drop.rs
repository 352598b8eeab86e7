//! DROP TABLE, INDEX, SEQUENCE and VIEW.

use std::sync::Arc;

use super::context::{DdlContext, no_relation};
use crate::catalogue::{DefaultRow, Named, PUBLIC, Relation};
use crate::ddl_command::{ObjectKind, QualifiedName};
use crate::error::{Notice, SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::Reader;
use crate::syntax::TokenReader;

/// Drops objects.
pub(super) fn drop_objects(
    context: &mut DdlContext<'_>,
    kind: ObjectKind,
    names: &[QualifiedName],
    if_exists: bool,
) -> SqlResult<()> {
    for name in names {
        match (kind, context.named(name)?) {
            (_, None) if if_exists => {
                let what = what(kind);
                context.notices.push(Notice::plain(
                    sqlstate::SUCCESSFUL_COMPLETION,
                    format!("{what} \"{}\" does not exist, skipping", name.name),
                ));
            }
            (_, None) => {
                let state = match kind {
                    ObjectKind::Index => sqlstate::UNDEFINED_OBJECT,
                    _ => sqlstate::UNDEFINED_TABLE,
                };
                return Err(SqlError::new(
                    state,
                    format!("{} \"{}\" does not exist", what(kind), name.name),
                ));
            }
            (ObjectKind::Table, Some(Named::Table(_))) => {
                if let Some(relation) = context.table(name, false)? {
                    drop_table(context, &relation)?;
                }
            }
            (ObjectKind::Index, Some(Named::Index(table))) => {
                drop_index(context, table, &name.name)?;
            }
            (ObjectKind::Sequence, Some(Named::Sequence(id))) => drop_sequence(context, id)?,
            (kind, Some(_)) => {
                return Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not {} {}", name.name, article(kind), what(kind)),
                ));
            }
        }
    }
    Ok(())
}

fn what(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::Index => "index",
        ObjectKind::Sequence => "sequence",
        ObjectKind::View => "view",
        ObjectKind::MaterializedView => "materialized view",
    }
}

fn article(kind: ObjectKind) -> &'static str {
    if kind == ObjectKind::Index { "an" } else { "a" }
}

fn drop_table(context: &mut DdlContext<'_>, relation: &Relation) -> SqlResult<()> {
    let row = &relation.row;
    context.free_name(&row.schema, &row.name)?;
    if let Some(key) = &row.key {
        context.free_name(&row.schema, &key.name)?;
    }
    for index in &row.indexes {
        context.free_name(&row.schema, &index.name)?;
    }
    for column in &row.columns {
        if let Some(DefaultRow::Sequence(id)) = column.default {
            drop_owned_sequence(context, id, row.id)?;
        }
    }
    let (catalogue, id) = (Arc::clone(context.catalogue), row.id);
    context.statement(|tx| catalogue.remove_relation(tx, id))?;
    context.effects.versions.push((id, None));
    context.abandon(row);
    Ok(())
}

/// Drops the sequence of a column, if it is the column's own.
fn drop_owned_sequence(context: &mut DdlContext<'_>, id: u32, table: u32) -> SqlResult<()> {
    let catalogue = Arc::clone(context.catalogue);
    let found = context.statement(|tx| catalogue.sequence(&mut Reader::Transaction(tx), id))?;
    match found {
        Some(sequence) if sequence.owner.is_some_and(|(owner, _)| owner == table) => {
            remove_sequence(context, id, &sequence.schema, &sequence.name)
        }
        _ => Ok(()),
    }
}

/// Drops a sequence and its name.
pub(super) fn remove_sequence(
    context: &mut DdlContext<'_>,
    id: u32,
    schema: &str,
    name: &str,
) -> SqlResult<()> {
    context.free_name(schema, name)?;
    let catalogue = Arc::clone(context.catalogue);
    context.statement(|tx| catalogue.remove_sequence(tx, id))?;
    context.effects.sequences.push(id);
    context.effects.versions.push((id, None));
    Ok(())
}

fn drop_sequence(context: &mut DdlContext<'_>, id: u32) -> SqlResult<()> {
    let catalogue = Arc::clone(context.catalogue);
    let found = context.statement(|tx| catalogue.sequence(&mut Reader::Transaction(tx), id))?;
    let sequence = found.ok_or_else(|| no_relation("sequence"))?;
    let catalogue = Arc::clone(context.catalogue);
    let relations = context.statement(|tx| catalogue.relations(&mut Reader::Transaction(tx)))?;
    let is_user = |default: &DefaultRow| match default {
        DefaultRow::Sequence(used) => *used == id,
        DefaultRow::Expression(text) => takes_number(text, &sequence.schema, &sequence.name),
    };
    for relation in relations {
        let mut columns = relation.columns().iter();
        if let Some(column) = columns.find(|it| it.default.as_ref().is_some_and(is_user)) {
            return Err(SqlError::new(
                sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop sequence {} because other objects depend on it",
                    sequence.name
                ),
            )
            .with_detail(format!(
                "The default of column {} of table {} takes its numbers from it.",
                column.name, relation.row.name
            ))
            .with_hint("Drop the table, or the column's default."));
        }
    }
    remove_sequence(context, id, &sequence.schema, &sequence.name)
}

/// Whether a default calls `nextval` with this sequence's name.
fn takes_number(expression: &str, schema: &str, name: &str) -> bool {
    const CALL: &str = "nextval";
    let lower = expression.to_ascii_lowercase();
    lower.match_indices(CALL).any(|(at, _)| {
        let arguments = expression[at + CALL.len()..].trim_start();
        let literal = arguments
            .strip_prefix('(')
            .and_then(|it| it.trim_start().strip_prefix('\''))
            .and_then(|it| it.split_once('\''));
        let named = literal
            .and_then(|(text, _)| TokenReader::new(text).ok())
            .and_then(|mut reader| reader.qualified_name().ok());
        named
            .is_some_and(|(of, called)| called == name && of.as_deref().unwrap_or(PUBLIC) == schema)
    })
}

fn drop_index(context: &mut DdlContext<'_>, table: u32, name: &str) -> SqlResult<()> {
    let catalogue = Arc::clone(context.catalogue);
    let found = context.statement(|tx| catalogue.relation(&mut Reader::Transaction(tx), table))?;
    let relation = found.ok_or_else(|| no_relation(name))?;
    if relation.row.marker.is_some() {
        return Err(super::context::busy(&relation));
    }
    let mut row = relation.row.clone();
    let at = row.indexes.iter().position(|index| index.name == name);
    let constraint = match at {
        Some(at) => row.indexes[at].constraint,
        None => true,
    };
    let (Some(at), false) = (at, constraint) else {
        return Err(SqlError::new(
            sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop index {name} because a constraint on table {} requires it",
                row.name
            ),
        )
        .with_hint(format!(
            "Use ALTER TABLE {} DROP CONSTRAINT {name}.",
            row.name
        )));
    };
    let index = row.indexes.remove(at);
    context.effects.obsolete.push(index.storage);
    context.free_name(&row.schema, name)?;
    let version = context.number()?;
    context.put(&row, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_takes_a_number_is_found() {
        for text in [
            "nextval('s')",
            "1 + NEXTVAL ( 'public.s'::regclass)",
            "nextval('S')",
        ] {
            assert!(takes_number(text, "public", "s"), "{text}");
        }
        for text in [
            "nextval('t')",
            "'nextval'",
            "nextval('\"S\"')",
            "length('s')",
        ] {
            assert!(!takes_number(text, "public", "s"), "{text}");
        }
    }
}
