//! CREATE INDEX.

use std::sync::Arc;

use super::context::DdlContext;
use super::create_table::{already, column_numbers, object_name};
use super::rebuild::{Fill, rebuild};
use crate::catalogue::{IndexRow, Named, Relation};
use crate::ddl_command::{CreateIndex, QualifiedName};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

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
            let parts = [&[old.row.name.as_str()], names.as_slice(), &["idx"]].concat();
            free_name(context, &schema, &object_name(&parts))?
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
    context.create_one(relation.row.indexes[index].storage, false, 16)?;
    rebuild(context, &old, &target, &Fill::Index(index))?;
    context.take_name(&schema, &name, Named::Index(relation.id()))?;
    context.put(&relation.row, version)
}

/// The name, or the first one with a number behind that is free.
fn free_name(context: &mut DdlContext<'_>, schema: &str, name: &str) -> SqlResult<String> {
    for number in 0..1000 {
        let numbered = if number == 0 {
            name.to_owned()
        } else {
            format!("{name}{number}")
        };
        let qualified = QualifiedName {
            schema: Some(schema.to_owned()),
            name: numbered,
        };
        if context.named(&qualified)?.is_none() {
            return Ok(qualified.name);
        }
    }
    Err(SqlError::new(
        sqlstate::DUPLICATE_OBJECT,
        format!("no name like \"{name}\" is free; give the index one"),
    ))
}
