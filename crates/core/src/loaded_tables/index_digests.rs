//! Digests that verify that the indexes of a loaded table have exactly the keys of its rows.
//!
//! The rows come in one order and the entries of an index in another. So the hashes of all keys are
//! added up for both, which gives the same sum in any order. The hashes have a random key:
//! different keys have equal sums with a probability of 2⁻⁶⁴, whatever was done to the files.

use std::hash::{BuildHasher, RandomState};

use namiki_data::columns::{Datum, Schema, SchemaError, Value, key_codec, row_codec};

use crate::catalogue::loaded_tables::LoadedTable;

/// The sums of one table.
pub struct IndexDigests {
    hashes: RandomState,
    of_table: Schema,
    indexes: Vec<IndexDigest>,
}

struct IndexDigest {
    schema: Schema,
    /// For each of its columns, that of the table.
    column_numbers: Vec<usize>,
    /// The sum of the keys that follow from rows, minus that of the stored ones.
    difference: u64,
}

impl IndexDigests {
    /// The sums of a table without rows.
    ///
    /// # Errors
    /// [`SchemaError`] if an index is over columns that the table does not have: a manifest that was read has none such.
    pub fn new(table: &LoadedTable) -> Result<Self, SchemaError> {
        let digest = |schema: Schema| {
            let columns = schema.columns().iter();
            let column_numbers = columns.filter_map(|column| table.schema.column(&column.name));
            IndexDigest {
                column_numbers: column_numbers.collect(),
                difference: 0,
                schema,
            }
        };
        let indexes = table.indexes.iter();
        let indexes = indexes.map(|index| index.schema(&table.schema).map(digest));
        Ok(Self {
            hashes: RandomState::new(),
            of_table: table.schema.clone(),
            indexes: indexes.collect::<Result<_, _>>()?,
        })
    }

    /// Adds a row as it is stored in the table's segment. Returns false if it does not fit the
    /// table's columns.
    #[must_use]
    pub fn add_row(&mut self, key: &[u8], value: &[u8]) -> bool {
        for index in &mut self.indexes {
            let column = |number: &usize| -> Option<Datum> {
                let mut scratch = Vec::new();
                let column = row_codec::column(&self.of_table, *number, key, value, &mut scratch);
                column.map(Value::to_datum)
            };
            let values: Option<Vec<Datum>> = index.column_numbers.iter().map(column).collect();
            let key = values.and_then(|values| key_codec::encode(&index.schema, &values).ok());
            let Some(key) = key else { return false };
            let hash = self.hashes.hash_one(&key[..]);
            index.difference = index.difference.wrapping_add(hash);
        }
        true
    }

    /// Adds an entry as it lies in the segment of the table's index of this number.
    ///
    /// # Panics
    /// If the table has no index with this number.
    pub fn add_entry(&mut self, index: usize, key: &[u8]) {
        let difference = &mut self.indexes[index].difference;
        *difference = difference.wrapping_sub(self.hashes.hash_one(key));
    }

    /// Whether an index has the keys of the rows, once all rows and all entries were added.
    ///
    /// # Panics
    /// If the table has no index with this number.
    #[must_use]
    pub fn agrees(&self, index: usize) -> bool {
        self.indexes[index].difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::loaded_tables::tests::loaded_tables;

    #[test]
    fn entries_agree_with_rows_in_any_order_and_once() {
        let table = &loaded_tables().tables[0];
        let index = table.indexes[0].schema(&table.schema).unwrap();
        let row = |n: i64| {
            let price = Datum::Decimal {
                unscaled: (n % 3).into(),
                scale: 2,
            };
            vec![Datum::I64(n), price]
        };
        let entry = |n: i64| {
            let mut values = row(n);
            values.reverse();
            key_codec::encode(&index, &values).unwrap()
        };
        let of_rows = || {
            let mut digests = IndexDigests::new(table).unwrap();
            for n in 0..5 {
                let (key, value) = (
                    key_codec::encode(&table.schema, &row(n)).unwrap(),
                    row_codec::encode(&table.schema, &row(n)).unwrap(),
                );
                assert!(digests.add_row(&key, &value));
            }
            digests
        };
        let agrees = |entries: &[i64]| {
            let mut digests = of_rows();
            for n in entries {
                digests.add_entry(0, &entry(*n));
            }
            digests.agrees(0)
        };
        assert!(agrees(&[4, 2, 0, 1, 3]));
        for wrong in [
            &[4, 2, 0, 1][..],
            &[4, 2, 0, 1, 1],
            &[4, 2, 0, 1, 5],
            &[0, 1, 2, 3, 4, 4],
        ] {
            assert!(!agrees(wrong), "{wrong:?}");
        }
        assert!(!of_rows().add_row(b"", b""));
    }
}
