//! Access of an operator to a table: by its key or by an index.

use std::sync::Arc;

use namiki_data::columns::Schema;

use super::column::ColumnId;
use crate::error::{Names, PlanError};
use crate::source::{Source, Tables};

/// A table of a plan.
#[derive(Clone)]
pub(crate) struct Access {
    /// Its name, for messages.
    pub(crate) table: String,
    pub(crate) source: Arc<dyn Source>,
    /// The number in the plan of each of its columns.
    pub(crate) columns: Vec<ColumnId>,
    /// The index that it is reached by, unless that is its key.
    pub(crate) index: Option<IndexAccess>,
}

/// An index of a table of a plan.
#[derive(Clone)]
pub(crate) struct IndexAccess {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
    /// The number in the plan of each of its columns: those of the table's.
    pub(crate) columns: Vec<ColumnId>,
}

impl Access {
    /// The key or the index that the table is reached by.
    pub(crate) fn path(&self) -> (&Arc<dyn Source>, &[ColumnId]) {
        match &self.index {
            Some(index) => (&index.source, &index.columns),
            None => (&self.source, &self.columns),
        }
    }

    /// Finds the sources; `columns` are the numbers of the table's columns, made by `number_of`.
    pub(crate) fn find(
        tables: &Tables,
        table: &str,
        index: Option<&str>,
        number_of: impl FnOnce(&Schema) -> Vec<ColumnId>,
    ) -> Result<Self, PlanError> {
        let found = tables.get(table).ok_or_else(|| PlanError::UnknownTable {
            table: table.to_owned(),
            known: Names::of(tables.iter().map(|(name, _)| name)),
        })?;
        let source = Arc::clone(&found.source);
        let columns = number_of(source.schema());
        let index = match index {
            None => None,
            Some(name) => {
                let own = found
                    .indexes
                    .get(name)
                    .ok_or_else(|| PlanError::UnknownIndex {
                        table: table.to_owned(),
                        index: name.to_owned(),
                        known: Names::of(found.indexes.keys().map(String::as_str)),
                    })?;
                let none = |why| PlanError::NotAnIndex {
                    table: table.to_owned(),
                    index: name.to_owned(),
                    why,
                };
                Some(IndexAccess {
                    name: name.to_owned(),
                    source: Arc::clone(own),
                    columns: index_columns(source.schema(), own.schema(), &columns)
                        .map_err(none)?,
                })
            }
        };
        Ok(Self {
            table: table.to_owned(),
            source,
            columns,
            index,
        })
    }
}

/// The numbers of an index's columns. Those of the table's key must be among them, to find the row.
fn index_columns(
    table: &Schema,
    index: &Schema,
    columns: &[ColumnId],
) -> Result<Vec<ColumnId>, &'static str> {
    let mut numbers = Vec::with_capacity(index.columns().len());
    for column in index.columns() {
        let at = table
            .column(&column.name)
            .ok_or("it has a column that the table has not")?;
        let own = &table.columns()[at];
        if own.column_type != column.column_type || own.nullable != column.nullable {
            return Err("one of its columns has another type than the table's");
        }
        numbers.push(columns[at]);
    }
    if !index.is_all_key() {
        return Err("it has columns that are not in its key");
    }
    if table
        .key()
        .iter()
        .any(|at| !numbers.contains(&columns[*at]))
    {
        return Err("it lacks a column of the table's key");
    }
    Ok(numbers)
}
