//! Type names of a table with columns: its keys are those of a query, its values are rows.
//!
//! Columns and typed keys have one encoding (`namiki_data::columns::key_codec`), so a loaded table
//! opens with a tuple of its key's columns. Where no typed key has the bytes, it opens with the
//! bytes.

use namiki_data::RowLayout;
use namiki_data::columns::{Column, ColumnType, Schema};

use crate::catalogue::loaded_tables::LoadedTable;
use crate::table::raw_table::{TableId, TableInfo};

/// The most parts of a typed key, which is a tuple.
const KEY_PARTS_MAX: usize = 6;

/// The name of the type of rows.
const ROWS: &str = "bytes";

/// The manifest's entry of a loaded table, once it takes part in transactions under this id.
pub(crate) fn table_info(table: &LoadedTable, id: TableId, inline_bytes: usize) -> TableInfo {
    let key_type = key_type(&table.schema);
    TableInfo {
        id,
        name: table.name.clone(),
        fixed_keys: matches!(&*key_type, "u64" | "i64"),
        key_type,
        value_type: ROWS.to_owned(),
        inline_bytes,
        layout: Some(Box::new(RowLayout::Columns(table.schema.clone()))),
    }
}

/// The name of the type of the keys.
fn key_type(schema: &Schema) -> String {
    let parts = schema.key().iter().map(|place| &schema.columns()[*place]);
    let parts: Option<Vec<_>> = parts.map(part_type).collect();
    match parts.as_deref() {
        Some([part]) => (*part).to_owned(),
        Some(parts) if parts.len() <= KEY_PARTS_MAX => format!("({})", parts.join(", ")),
        _ => ROWS.to_owned(),
    }
}

/// The name of the type of a part of a key; `None` if no typed key has its bytes.
fn part_type(column: &Column) -> Option<&'static str> {
    let part = match column.column_type {
        ColumnType::Bool => "bool",
        ColumnType::U64 => "u64",
        // The digits without the point.
        ColumnType::I64 | ColumnType::Decimal { .. } => "i64",
        ColumnType::LongDecimal { .. } => "i128",
        ColumnType::F64 => return None,
        // Days since 1970-01-01.
        ColumnType::Date => "i32",
        ColumnType::Text => "string",
        ColumnType::Bytes => "bytes",
    };
    (!column.nullable).then_some(part)
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::{Datum, key_codec};
    use namiki_data::{AsKey, Key, encoded};

    use super::*;

    fn of(types: &[ColumnType]) -> Schema {
        let columns = (b'a'..).zip(types).map(|(name, column_type)| {
            let name = char::from(name).to_string();
            Column::new(&name, *column_type)
        });
        let columns: Vec<_> = columns.collect();
        let key: Vec<_> = columns.iter().map(|column| &*column.name).collect();
        Schema::new(columns.clone(), &key).unwrap()
    }

    /// The type is that of `K`, and so are the bytes.
    fn same<K: Key + AsKey<K>>(types: &[ColumnType], row: &[Datum], key: &K) {
        let schema = of(types);
        assert_eq!(key_type(&schema), K::type_name());
        let bytes = key_codec::encode(&schema, row).unwrap();
        assert_eq!(bytes, encoded::<K, K>(key).to_vec(), "{types:?}");
    }

    #[test]
    fn keys_have_the_bytes_of_the_type_they_open_with() {
        let decimal = ColumnType::Decimal { scale: 2 };
        let unscaled = Datum::Decimal {
            unscaled: -7,
            scale: 2,
        };
        let text = || Datum::Text("a\0b".to_owned());
        same(&[ColumnType::U64], &[Datum::U64(9)], &9_u64);
        same(&[ColumnType::I64], &[Datum::I64(-9)], &-9_i64);
        same(&[decimal], std::slice::from_ref(&unscaled), &-7_i64);
        let long = Datum::Decimal {
            unscaled: -(1 << 70),
            scale: 2,
        };
        same(
            &[ColumnType::LongDecimal { scale: 2 }],
            &[long],
            &-(1_i128 << 70),
        );
        same(&[ColumnType::Date], &[Datum::Date(-3)], &-3_i32);
        same(&[ColumnType::Bool], &[Datum::Bool(true)], &true);
        same(&[ColumnType::Text], &[text()], &"a\0b".to_owned());
        same(
            &[ColumnType::Bytes],
            &[Datum::Bytes(vec![0, 1])],
            &vec![0_u8, 1],
        );
        let all = [
            ColumnType::Text,
            ColumnType::Bool,
            decimal,
            ColumnType::Date,
            ColumnType::Bytes,
        ];
        let row = [
            text(),
            Datum::Bool(false),
            unscaled,
            Datum::Date(5),
            Datum::Bytes(vec![0]),
        ];
        let key = ("a\0b".to_owned(), false, -7_i64, 5_i32, vec![0_u8]);
        same(&all, &row, &key);
    }

    #[test]
    fn keys_without_a_typed_form_are_bytes() {
        let nullable = Column::new("a", ColumnType::U64).nullable();
        assert_eq!(
            key_type(&Schema::new(vec![nullable], &["a"]).unwrap()),
            ROWS
        );
        assert_eq!(key_type(&of(&[ColumnType::U64; KEY_PARTS_MAX + 1])), ROWS);
        assert_eq!(key_type(&of(&[ColumnType::U64, ColumnType::F64])), ROWS);
    }
}
