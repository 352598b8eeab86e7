//! Rows of all versions of random tables: decoded, and upgraded from their bytes alone.

use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema, key_codec};

use super::{FormatColumn, NotUpgraded, RowFormat, recipes, upgrade};

/// A generator of numbers that is the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    fn value(&mut self, of: ColumnType) -> Datum {
        if self.below(4) == 0 {
            return Datum::Null;
        }
        let number = self.below(1000) as i64 - 500;
        match of {
            ColumnType::Bool => Datum::Bool(number > 0),
            ColumnType::I64 => Datum::I64(number),
            ColumnType::LongDecimal { scale } => Datum::Decimal {
                unscaled: number.into(),
                scale,
            },
            _ => {
                let length = [0, 3, 200, 300, 70_000][self.below(5)];
                Datum::Text("x".repeat(length))
            }
        }
    }
}

const TYPES: [ColumnType; 4] = [
    ColumnType::Bool,
    ColumnType::I64,
    ColumnType::LongDecimal { scale: 2 },
    ColumnType::Text,
];

/// The columns of SQL's among the stored ones; the first one is the key, unless rows are numbered.
fn layout_of(stored: &[FormatColumn], is_keyed: bool) -> Arc<Schema> {
    let mut columns: Vec<Column> = Vec::new();
    for it in stored.iter().filter(|it| it.column.is_some()) {
        let column = Column::new(&format!("c{}", columns.len()), it.column_type);
        let is_key = is_keyed && columns.is_empty();
        columns.push(if is_key { column } else { column.nullable() });
    }
    let key = if is_keyed { "c0" } else { "number" };
    if !is_keyed {
        columns.push(Column::new("number", ColumnType::I64));
    }
    Arc::new(Schema::new(columns, &[key]).unwrap())
}

fn renumber(stored: &mut [FormatColumn]) {
    let live = stored.iter_mut().filter(|it| it.column.is_some());
    for (at, it) in live.enumerate() {
        it.column = Some(at);
    }
}

/// The format of a table, and a row that was written then: its key, its bytes, and the values of the stored columns.
struct Written {
    key: Vec<u8>,
    bytes: Vec<u8>,
    stored: Vec<Datum>,
}

#[test]
fn rows_of_every_version_are_read_and_upgraded() {
    let mut numbers = Numbers(7);
    for round in 0..300 {
        let is_keyed = round % 2 == 0;
        let mut stored = vec![FormatColumn {
            column: Some(0),
            column_type: ColumnType::I64,
            missing: Datum::Null,
        }];
        let mut versions: Vec<(u8, usize)> = Vec::new();
        let mut written: Vec<Written> = Vec::new();
        for step in 0..6 {
            // The first version may have the key alone.
            for _ in 0..numbers.below(4) {
                let column_type = TYPES[numbers.below(4)];
                let missing = match step {
                    0 => Datum::Null,
                    _ => numbers.value(column_type),
                };
                stored.push(FormatColumn {
                    column: Some(0),
                    column_type,
                    missing,
                });
            }
            if step > 0 && stored.len() > 2 && numbers.below(2) == 0 {
                let dropped = 1 + numbers.below(stored.len() - 1);
                stored[dropped].column = None;
            }
            renumber(&mut stored);
            let number = versions
                .last()
                .map_or(0, |last| last.0 + 1 + numbers.below(9) as u8);
            versions.push((number, stored.len()));
            let layout = layout_of(&stored, is_keyed);
            let format = RowFormat::new(&layout, stored.clone(), &versions).unwrap();
            check(&format, &layout, &stored, &written);
            let mut row: Vec<Datum> = Vec::new();
            let mut values: Vec<Datum> = Vec::new();
            for (at, it) in stored.iter().enumerate() {
                let value = match at {
                    0 => Datum::I64(step),
                    _ if it.column.is_none() => Datum::Null,
                    _ => numbers.value(it.column_type),
                };
                if it.column.is_some() {
                    row.push(value.clone());
                }
                values.push(value);
            }
            if !is_keyed {
                row.push(Datum::I64(step + 100));
            }
            let mut bytes = Vec::new();
            format.encode(&row, &mut bytes).unwrap();
            let key = key_codec::encode(&layout, &row).unwrap();
            assert_eq!(format.decode(&key, &bytes).unwrap(), row);
            written.push(Written {
                key,
                bytes,
                stored: values,
            });
        }
    }
}

fn check(format: &RowFormat, layout: &Schema, stored: &[FormatColumn], written: &[Written]) {
    let recipes = [recipes(format).unwrap(), b"rest".to_vec()].concat();
    for row in written {
        let decoded = format.decode(&row.key, &row.bytes).unwrap();
        for (at, it) in stored.iter().enumerate() {
            if let Some(column) = it.column {
                let expected = row.stored.get(at).unwrap_or(&it.missing);
                assert_eq!(decoded[column], *expected);
            }
        }
        assert_eq!(decoded.len(), layout.columns().len());
        let mut upgraded = Vec::new();
        let rest = upgrade(&recipes, &row.bytes, &mut upgraded).unwrap();
        assert_eq!(rest, b"rest");
        assert_eq!(format.decode(&row.key, &upgraded).unwrap(), decoded);
        // As a writer writes it, unless it still has values of dropped columns, or none outside of the key.
        let mut encoded = Vec::new();
        format.encode(&decoded, &mut encoded).unwrap();
        if stored.iter().all(|it| it.column.is_some()) && !encoded.is_empty() {
            assert_eq!(upgraded, encoded);
        }
        let mut again = Vec::new();
        upgrade(&recipes, &upgraded, &mut again).unwrap();
        assert_eq!(again, upgraded);
    }
}

#[test]
fn other_versions_and_damaged_rows_are_refused() {
    let column = |at| FormatColumn {
        column: Some(at),
        column_type: ColumnType::I64,
        missing: Datum::I64(9),
    };
    let stored = vec![column(0), column(1), column(2)];
    let layout = layout_of(&stored, true);
    let format = RowFormat::new(&layout, stored.clone(), &[(0, 2), (3, 3)]).unwrap();
    let recipes = recipes(&format).unwrap();
    let mut row = Vec::new();
    let key = key_codec::encode(&layout, &[Datum::I64(1), Datum::Null, Datum::Null]).unwrap();
    format
        .encode(&[Datum::I64(1), Datum::I64(2), Datum::I64(3)], &mut row)
        .unwrap();
    namiki_data::columns::row_codec::set_version(&mut row, 5);
    let error = format.decode(&key, &row).unwrap_err();
    assert_eq!(error.sqlstate(), crate::sqlstate::SERIALIZATION_FAILURE);
    let refused = |row: &[u8]| upgrade(&recipes, row, &mut Vec::new()).map(<[u8]>::len);
    assert_eq!(refused(&row), Err(NotUpgraded::OtherVersion));
    assert_eq!(refused(&[0, 0, 1, 2]), Err(NotUpgraded::Damaged));
    for (columns, versions) in [
        (stored.clone(), vec![(0, 2)]),
        (stored.clone(), vec![(4, 2), (3, 3)]),
        (stored.clone(), vec![(64, 3)]),
        (stored, vec![]),
        (vec![column(0), column(0), column(1)], vec![(0, 3)]),
    ] {
        assert!(RowFormat::new(&layout, columns, &versions).is_err());
    }
}
