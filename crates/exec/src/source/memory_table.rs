//! A sorted table in memory that never changes.

use std::ops::{Bound, RangeBounds};

use namiki_data::columns::key_codec::{self, EncodeError};
use namiki_data::columns::{Datum, Schema, row_codec};

use super::{RowBatch, Source, SourceError};

/// A table or an index, sorted once. For tests and small tables; the tables of the database
/// implement [`Source`] themselves.
#[derive(Clone, Debug)]
pub struct MemoryTable {
    schema: Schema,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl MemoryTable {
    /// A table of these rows, each with a value for every column. The last of several rows with
    /// equal keys counts.
    ///
    /// # Errors
    /// [`EncodeError`] for a value that does not fit its column.
    pub fn new(
        schema: Schema,
        rows: impl IntoIterator<Item = Vec<Datum>>,
    ) -> Result<Self, EncodeError> {
        let mut encoded = Vec::new();
        for row in rows {
            let key = key_codec::encode(&schema, &row)?;
            encoded.push((key, row_codec::encode(&schema, &row)?));
        }
        encoded.sort_by(|a, b| a.0.cmp(&b.0));
        encoded.reverse();
        encoded.dedup_by(|a, b| a.0 == b.0);
        encoded.reverse();
        Ok(Self {
            schema,
            rows: encoded,
        })
    }

    /// The index of this table over these columns.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn index(&self, on: &[&str]) -> Result<Self, namiki_data::columns::SchemaError> {
        let schema = self.schema.index(on)?;
        let columns: Vec<usize> = schema
            .columns()
            .iter()
            .filter_map(|column| self.schema.column(&column.name))
            .collect();
        let entry = |(key, row): &(Vec<u8>, Vec<u8>)| {
            let row = row_codec::decode(&self.schema, key, row)?;
            let entry: Vec<Datum> = columns.iter().map(|at| row[*at].clone()).collect();
            key_codec::encode(&schema, &entry).ok()
        };
        let keys = self.rows.iter().filter_map(entry);
        let mut rows: Vec<_> = keys.map(|key| (key, Vec::new())).collect();
        rows.sort();
        Ok(Self { schema, rows })
    }

    /// The rows with keys between the bounds.
    fn rows_between(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> &[(Vec<u8>, Vec<u8>)] {
        let is_within = |bounds: (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]| bounds.contains(key);
        let is_before = |(key, _): &(Vec<u8>, Vec<u8>)| !is_within((from, Bound::Unbounded), key);
        let rows = &self.rows[self.rows.partition_point(is_before)..];
        let end = rows.partition_point(|(key, _)| is_within((Bound::Unbounded, to), key));
        &rows[..end]
    }

    /// All rows in the order of their keys: key bytes and row bytes.
    #[must_use]
    pub fn encoded_rows(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.rows
    }
}

impl Source for MemoryTable {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        for (key, row) in self.rows_between(from, to).iter().take(rows_max) {
            into.push(key, row);
            if into.is_full() {
                break;
            }
        }
        Ok(())
    }

    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let rows = self.rows_between(from, to);
        let middle = rows.get(rows.len() / 2).filter(|_| rows.len() > 1);
        Ok(middle.map(|(key, _)| key.clone()))
    }

    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        for key in keys {
            if into.is_full() {
                break;
            }
            match self
                .rows
                .binary_search_by(|(own, _)| own.as_slice().cmp(key))
            {
                Ok(at) => into.push(&self.rows[at].0, &self.rows[at].1),
                Err(_) => into.push_absent(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::{Column, ColumnType};

    use super::*;

    fn table() -> MemoryTable {
        let columns = vec![
            Column::new("id", ColumnType::I64),
            Column::new("name", ColumnType::Text),
        ];
        let schema = Schema::new(columns, &["id"]).unwrap();
        let row = |id: i64, name: &str| vec![Datum::I64(id), name.into()];
        let rows = [row(3, "c"), row(-1, "x"), row(2, "b"), row(-1, "a")];
        MemoryTable::new(schema, rows).unwrap()
    }

    fn keys(batch: &RowBatch, schema: &Schema) -> Vec<Option<Datum>> {
        let key = |at| {
            batch
                .get(at)
                .map(|(key, _)| key_codec::decode(schema, key).unwrap())
        };
        (0..batch.len())
            .map(|at| key(at).map(|mut key| key.remove(0)))
            .collect()
    }

    #[test]
    fn ranges_and_keys_find_their_rows() {
        let table = table();
        let key = |id: i64| key_codec::encode_prefix(table.schema(), &[id.into()]).unwrap();
        let (one, two) = (key(-1), key(2));
        let mut batch = RowBatch::new();
        table
            .scan(Bound::Excluded(&one), Bound::Included(&two), 9, &mut batch)
            .unwrap();
        assert_eq!(keys(&batch, table.schema()), [Some(Datum::I64(2))]);
        batch.clear();
        table
            .scan(Bound::Unbounded, Bound::Unbounded, 2, &mut batch)
            .unwrap();
        assert_eq!(batch.len(), 2);
        batch.clear();
        table.get_many(&[&two, &key(5), &one], &mut batch).unwrap();
        let found = [Some(Datum::I64(2)), None, Some(Datum::I64(-1))];
        assert_eq!(keys(&batch, table.schema()), found);
    }

    #[test]
    fn of_equal_keys_the_last_counts_in_an_index_too() {
        let table = table();
        assert_eq!(table.rows(), 3);
        let index = table.index(&["name"]).unwrap();
        let names: Vec<_> = index
            .encoded_rows()
            .iter()
            .map(|(key, _)| key_codec::decode(index.schema(), key).unwrap()[0].to_string())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
