//! Tables in memory for queries: derives columns from keys and values by the names of their types.
//!
//! A program names the columns of its tables; here they have the names of CSV files, with
//! underscores: `key` and `value`, or `key_1`, `key_2` and so on for a tuple.
//!
//! | type | column |
//! |---|---|
//! | `u8` to `u64`, `i8` to `i64`, `bool`, `string`, `bytes` | as in queries |
//! | `option<T>` | of `T`, null for `none` |
//! | `[u8; N]`, a program's own | bytes |
//! | `char`, `uuid`, all others | text, as the command line has it: queries have no floats, and no larger integers |
//!
//! Keys with the same encoding as a query's keys are keys there, too, and are found by their
//! columns. The bytes of other keys form an additional column, `key_bytes`, and such tables are
//! always scanned.

use std::sync::Arc;

use namiki::Database;
use namiki::query::{self, Column, ColumnType, Plan, Query, Schema, encode_row};

use crate::failure::{Failure, usage};
use crate::tables::TypedTable;
use crate::typed::{Datum, TableTypes, Type, read_key, read_value};

/// The column with the bytes of a key that queries cannot decode.
const KEY_BYTES: &str = "key_bytes";

/// Describes to a query the tables in memory that a plan names. Tables with columns known to the
/// database are left to it.
pub(super) fn described(mut query: Query, db: &Database, plan: &Plan) -> Result<Query, Failure> {
    let loaded = db.loaded_tables();
    let infos = db.table_infos();
    for name in plan.tables() {
        let info = infos.iter().find(|info| info.name == name);
        let is_known = info.is_none_or(|info| info.columns().is_some());
        if is_known || loaded.iter().any(|table| table.name == name) {
            continue;
        }
        let table = TypedTable::find(db, name)?;
        let columns = Arc::new(Columns::of(&table.types)?);
        let schema = columns.schema.clone();
        let row_of = Arc::new(move |key: &[u8], value: &[u8]| columns.row(key, value));
        query = query
            .untyped_table(&table.table, schema, row_of)
            .map_err(Failure::Query)?;
    }
    Ok(query)
}

/// The columns of a table, and their types.
struct Columns {
    schema: Schema,
    types: TableTypes,
}

/// The parts that have a column each.
fn parts(of: &Type) -> &[Type] {
    match of {
        Type::Tuple(parts) if of.is_known() => parts,
        whole => std::slice::from_ref(whole),
    }
}

/// `key`, or `key_1`, `key_2`.
fn named_columns(what: &str, of: &Type) -> Vec<Column> {
    let column = |name: String, of: &Type| {
        let (column_type, nullable) = column_type(of);
        let column = Column::new(&name, column_type);
        if nullable { column.nullable() } else { column }
    };
    match parts(of) {
        [whole] => vec![column(what.to_owned(), whole)],
        parts => (1..)
            .zip(parts)
            .map(|(number, part)| column(format!("{what}_{number}"), part))
            .collect(),
    }
}

/// The type of the column of a part, and whether a value may be missing.
fn column_type(of: &Type) -> (ColumnType, bool) {
    match of {
        Type::Unsigned(..=64) => (ColumnType::U64, false),
        Type::Signed(..=64) => (ColumnType::I64, false),
        Type::Bool => (ColumnType::Bool, false),
        Type::Bytes | Type::ByteArray(_) | Type::Unknown(_) => (ColumnType::Bytes, false),
        Type::Nothing => (ColumnType::Text, true),
        Type::Option(inner) if of.is_known() => (column_type(inner).0, true),
        _ if !of.is_known() => (ColumnType::Bytes, false),
        _ => (ColumnType::Text, false),
    }
}

/// Whether queries can decode keys of this type.
fn is_key_of_queries(of: &Type) -> bool {
    let is_part = |part: &Type| {
        matches!(
            part,
            Type::Unsigned(64) | Type::Signed(64) | Type::Text | Type::Bytes | Type::Bool
        )
    };
    parts(of).iter().all(is_part)
}

impl Columns {
    fn of(types: &TableTypes) -> Result<Self, Failure> {
        let of_key = named_columns("key", &types.key);
        let key: Vec<String> = if is_key_of_queries(&types.key) {
            of_key.iter().map(|column| column.name.clone()).collect()
        } else {
            vec![KEY_BYTES.to_owned()]
        };
        let mut columns = of_key;
        columns.extend(named_columns("value", &types.value));
        if key == [KEY_BYTES] {
            columns.push(Column::new(KEY_BYTES, ColumnType::Bytes));
        }
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let schema = Schema::new(columns, &key).map_err(|error| {
            usage(format!(
                "a table that maps {} to {}: {error}",
                types.key, types.value
            ))
        })?;
        Ok(Self {
            schema,
            types: types.clone(),
        })
    }

    /// The row of a key and its value, encoded.
    fn row(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>, String> {
        let TableTypes {
            key: of_key,
            value: of_value,
        } = &self.types;
        let own_key = read_key(of_key, key);
        let shown = own_key.to_string();
        let no_value = |what: &str, of: &Type| {
            format!("the {what} of the row with the key {shown} is not of type {of}")
        };
        let mut row = Vec::with_capacity(self.schema.columns().len());
        add_cells(&mut row, of_key, own_key).ok_or_else(|| no_value("key", of_key))?;
        let own_value = read_value(of_value, value);
        add_cells(&mut row, of_value, own_value).ok_or_else(|| no_value("value", of_value))?;
        if row.len() < self.schema.columns().len() {
            row.push(query::Datum::Bytes(key.to_vec()));
        }
        encode_row(&self.schema, &row).map_err(|error| error.to_string())
    }
}

/// Adds a value for each column; `None` if it is not a value of its type.
fn add_cells(row: &mut Vec<query::Datum>, of: &Type, datum: Datum) -> Option<()> {
    match (of, datum) {
        (of, Datum::Raw(_)) if of.is_known() => None,
        (Type::Tuple(types), Datum::Tuple(parts)) => {
            let cells = types.iter().zip(parts);
            row.extend(cells.map(|(of, part)| cell(of, part)));
            Some(())
        }
        (of, datum) => {
            row.push(cell(of, datum));
            Some(())
        }
    }
}

fn cell(of: &Type, datum: Datum) -> query::Datum {
    match (of, datum) {
        (Type::Option(inner), Datum::Option(some)) => match some {
            Some(datum) => cell(inner, *datum),
            None => query::Datum::Null,
        },
        (_, Datum::Nothing) => query::Datum::Null,
        (Type::Unsigned(..=64), Datum::Unsigned(number)) => match u64::try_from(number) {
            Ok(number) => query::Datum::U64(number),
            Err(_) => query::Datum::Null,
        },
        (Type::Signed(..=64), Datum::Signed(number)) => match i64::try_from(number) {
            Ok(number) => query::Datum::I64(number),
            Err(_) => query::Datum::Null,
        },
        (_, Datum::Bool(value)) => query::Datum::Bool(value),
        (_, Datum::Text(text)) => query::Datum::Text(text),
        (_, Datum::Char(char)) => query::Datum::Text(char.to_string()),
        (_, Datum::Bytes(bytes) | Datum::Raw(bytes)) => query::Datum::Bytes(bytes),
        (_, other) => query::Datum::Text(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use namiki::query::decode_row;

    use super::*;
    use crate::typed::text::from_text;
    use crate::typed::{key_bytes, value_bytes};

    fn row(key: (&str, &str), value: (&str, &str)) -> (Vec<String>, Vec<String>) {
        let types = TableTypes::named(key.0, value.0);
        let columns = Columns::of(&types).unwrap();
        let of_key = from_text(&types.key, key.1).unwrap();
        let of_key = key_bytes(&types.key, &of_key).unwrap();
        let of_value = from_text(&types.value, value.1).unwrap();
        let of_value = value_bytes(&types.value, &of_value).unwrap();
        let row = columns.row(&of_key, &of_value).unwrap();
        let names = columns.schema.columns().iter();
        let names = names.map(|column| format!("{}: {}", column.name, column.column_type));
        let values = decode_row(&columns.schema, &of_key, &row).unwrap();
        (
            names.collect(),
            values.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn every_type_has_columns() {
        let (names, values) = row(
            ("(string, u64, bool)", "(\"alice\", 7, true)"),
            (
                "(u32, option<i8>, f64, option<nothing>)",
                "(3, some(-1), 1.5, none)",
            ),
        );
        let expected = [
            "key_1: text",
            "key_2: u64",
            "key_3: bool",
            "value_1: u64",
            "value_2: i64",
            "value_3: text",
            "value_4: text",
        ];
        assert_eq!(names, expected);
        assert_eq!(values, ["alice", "7", "true", "3", "-1", "1.5", "null"]);
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        let (names, values) = row(("uuid", uuid), ("list<u128>", "[1, 2]"));
        assert_eq!(names, ["key: text", "value: text", "key_bytes: bytes"]);
        assert_eq!(values, [uuid, "[1, 2]", "00112233445566778899aabbccddeeff"]);
        let (names, values) = row(("u32", "258"), ("Own#0123456789abcdef", "0x0a"));
        assert_eq!(names, ["key: u64", "value: bytes", "key_bytes: bytes"]);
        assert_eq!(values, ["258", "0a", "00000102"]);
    }

    #[test]
    fn what_is_no_value_of_its_type_is_an_error() {
        let columns = Columns::of(&TableTypes::named("u64", "bool")).unwrap();
        let error = columns.row(&7_u64.to_be_bytes(), &[2]).unwrap_err();
        assert_eq!(
            error,
            "the value of the row with the key 7 is not of type bool"
        );
    }
}
