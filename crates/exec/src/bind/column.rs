//! Columns of a bound plan: their numbers, their types, their names.

use std::collections::{HashMap, HashSet};

use namiki_data::columns::ColumnType;

use crate::error::{Names, PlanError};

/// A column's number in the plan.
pub(crate) type ColumnId = usize;

/// A column of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnInfo {
    pub(crate) column_type: ColumnType,
    pub(crate) nullable: bool,
}

/// A column by its names, as an operator gives it to the one above.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The table or its alias; empty for what was calculated.
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) id: ColumnId,
}

/// The column of this name among those an operator gives: `column`, or `table.column`.
pub(crate) fn resolve(name: &str, fields: &[Field]) -> Result<ColumnId, PlanError> {
    let matches = |field: &&Field| {
        field.name == name
            || name
                .split_once('.')
                .is_some_and(|(table, column)| field.table == table && field.name == column)
    };
    let mut found = fields.iter().filter(matches);
    match (found.next(), found.next()) {
        (Some(field), None) => Ok(field.id),
        (Some(_), Some(_)) => Err(PlanError::AmbiguousColumn {
            column: name.to_owned(),
        }),
        (None, _) => Err(PlanError::UnknownColumn {
            column: name.to_owned(),
            known: Names::of(fields.iter().map(|field| field.name.as_str())),
        }),
    }
}

/// Unique names for the columns of an answer: the column's own name if no other column has it,
/// otherwise with its table's, as in plans, and with a number if that is not enough.
pub(crate) fn names_of_answer(fields: &[Field]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for field in fields {
        *counts.entry(&field.name).or_default() += 1;
    }
    let is_alone = |name: &str| counts.get(name) == Some(&1);
    let alone = fields.iter().map(|field| &field.name);
    let mut taken: HashSet<String> = alone.filter(|name| is_alone(name)).cloned().collect();
    let name = |field: &Field| {
        if is_alone(&field.name) {
            return field.name.clone();
        }
        let full = match field.table.as_str() {
            "" => field.name.clone(),
            table => format!("{table}.{}", field.name),
        };
        let mut own = full.clone();
        let mut number = 1_u64;
        while !taken.insert(own.clone()) {
            number += 1;
            own = format!("{full}_{number}");
        }
        own
    };
    fields.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_an_answer_have_names_of_their_own() {
        let fields = [
            ("a", "id"),
            ("b", "id"),
            ("", "total"),
            ("a", "x"),
            ("a", "id"),
            ("", "k"),
            ("", "k"),
            ("", "k_2"),
            ("", "a.id_2"),
        ];
        let fields = fields.map(|(table, name)| Field {
            table: table.to_owned(),
            name: name.to_owned(),
            id: 0,
        });
        let expected = [
            "a.id", "b.id", "total", "x", "a.id_3", "k", "k_3", "k_2", "a.id_2",
        ];
        assert_eq!(names_of_answer(&fields), expected);
    }
}
