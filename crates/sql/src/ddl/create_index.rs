//! CREATE INDEX.

use std::sync::Arc;

use super::context::DdlContext;
use super::create_table::already;
use super::object_names::{column_numbers, free_relation_name};
use super::rebuild::{Fill, rebuild};
use crate::catalogue::{IndexRow, Named, Relation};
use crate::ddl_command::{CreateIndex, QualifiedName};
use crate::error::SqlResult;

/// Makes an index.
pub(super) fn create_index(context: &mut DdlContext<'_>, create: CreateIndex) -> SqlResult<()> {
    let Some(old) = context.table(&create.table, false)? else {
        return Ok(());
    };
    let columns = column_numbers(&old.row, &create.columns)?;
    let schema = old.row.schema.clone();
    let name = match create.name {
        Some(name) => name,
        None => {
            let names: Vec<&str> = create.columns.iter().map(String::as_str).collect();
            free_relation_name(context, &old.row, &names, "idx")?
        }
    };
    let qualified = QualifiedName {
        schema: Some(schema.clone()),
        name: name.clone(),
    };
    if context.named(&qualified)?.is_some() {
        return already(context, &qualified, create.if_not_exists);
    }
    let mut row = old.row.clone();
    row.indexes.push(IndexRow {
        id: context.id()?,
        name: name.clone(),
        columns,
        unique: create.unique,
        constraint: false,
        storage: context.number()?,
    });
    let version = context.number()?;
    let relation = Arc::new(Relation::new(row, version)?);
    let target = context.target(&relation)?;
    let index = relation.row.indexes.len() - 1;
    context.create_index_storage(relation.row.indexes[index].storage)?;
    let mut fill = Fill {
        indexes: Some(&[index]),
        steps: &mut [],
        checks: false,
    };
    rebuild(context, &old, &target, &mut fill)?;
    context.take_name(&schema, &name, Named::Index(relation.id()))?;
    context.put(&relation.row, version)
}
