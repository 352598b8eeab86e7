//! Names that PostgreSQL gives to what a statement does not name.

use super::context::DdlContext;
use crate::catalogue::TableRow;
use crate::ddl_command::QualifiedName;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// The most bytes of a name.
const NAME_BYTES: usize = 63;
/// How many numbers are tried behind a name.
const TRIES: usize = 1000;

/// A table's name, those of columns, and a word for the kind of the object, with underscores between. The longer one of
/// the first two is cut until it fits.
pub(super) fn object_name(table: &str, columns: &[&str], label: &str) -> String {
    let (mut table, mut columns) = (table.to_owned(), columns.join("_"));
    let between = if columns.is_empty() { 1 } else { 2 };
    let room = NAME_BYTES.saturating_sub(label.len() + between);
    while table.len() + columns.len() > room {
        let longer = if table.len() > columns.len() {
            &mut table
        } else {
            &mut columns
        };
        if longer.pop().is_none() {
            break;
        }
    }
    if columns.is_empty() {
        format!("{table}_{label}")
    } else {
        format!("{table}_{columns}_{label}")
    }
}

/// The first of these names, without a number or with one, that is free.
pub(super) fn first_free(
    table: &str,
    columns: &[&str],
    label: &str,
    mut is_taken: impl FnMut(&str) -> SqlResult<bool>,
) -> SqlResult<String> {
    for number in 0..TRIES {
        let name = match number {
            0 => object_name(table, columns, label),
            _ => object_name(table, columns, &format!("{label}{number}")),
        };
        if !is_taken(&name)? {
            return Ok(name);
        }
    }
    let name = object_name(table, columns, label);
    Err(SqlError::new(
        sqlstate::DUPLICATE_OBJECT,
        format!("no name like \"{name}\" is free; give the object one"),
    ))
}

/// A name for a relation that belongs to this table: an index, a key or a sequence.
pub(super) fn free_relation_name(
    context: &mut DdlContext<'_>,
    row: &TableRow,
    columns: &[&str],
    label: &str,
) -> SqlResult<String> {
    first_free(&row.name, columns, label, |name| {
        let qualified = QualifiedName {
            schema: Some(row.schema.clone()),
            name: name.to_owned(),
        };
        Ok(row.name == name || has_constraint(row, name) || context.named(&qualified)?.is_some())
    })
}

/// Whether a key, an index or a CHECK of the table has this name.
pub(super) fn has_constraint(row: &TableRow, name: &str) -> bool {
    row.key.as_ref().is_some_and(|key| key.name == name)
        || row.indexes.iter().any(|index| index.name == name)
        || row.checks.iter().any(|check| check.name == name)
}

/// The numbers of columns by their names.
pub(super) fn column_numbers(row: &TableRow, names: &[String]) -> SqlResult<Vec<usize>> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let number = row.column(name).ok_or_else(|| {
            SqlError::new(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{name}\" named in key does not exist"),
            )
        })?;
        if numbers.contains(&number) {
            return Err(SqlError::new(
                sqlstate::DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in the key"),
            ));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_kind() {
        assert_eq!(object_name("t", &["a", "b"], "idx"), "t_a_b_idx");
        assert_eq!(object_name("t", &[], "check"), "t_check");
        let long = "x".repeat(80);
        let name = object_name(&long, &["column"], "key");
        assert_eq!(name, format!("{}_column_key", "x".repeat(52)));
        let name = object_name(&long, &["é".repeat(40).as_str()], "key12");
        assert!(
            name.len() <= NAME_BYTES && name.ends_with("é_key12"),
            "{name}"
        );
    }

    #[test]
    fn taken_names_get_numbers() {
        let taken = ["t_a_key", "t_a_key1"];
        let name = first_free("t", &["a"], "key", |name| Ok(taken.contains(&name)));
        assert_eq!(name.unwrap(), "t_a_key2");
        assert!(first_free("t", &[], "key", |_| Ok(true)).is_err());
    }
}
