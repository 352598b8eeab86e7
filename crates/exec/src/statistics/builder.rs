//! Builds statistics from a stream of rows, in fixed memory.

use std::collections::BTreeMap;

use namiki_data::columns::{Datum, Float, Schema, Value};
use namiki_platform::seeded_random::Random;

use super::distinct::DistinctCounter;
use super::histogram::{BUCKETS_MAX, Histogram};
use super::{ColumnStatistics, TableStatistics};

/// Rows of the sample that histograms are made of.
const SAMPLE_ROWS: usize = 8_192;

/// Length limit of text in histograms, in bytes.
const TEXT_BYTES: usize = 16;

/// Counts the rows of a table, and keeps a sample. Equal rows in equal order give equal statistics.
#[derive(Debug)]
pub struct StatisticsBuilder {
    names: Vec<String>,
    rows: u64,
    nulls: Vec<u64>,
    distinct: Vec<DistinctCounter>,
    sample: Vec<Vec<Datum>>,
    random: Random,
    bytes: Vec<u8>,
}

impl StatisticsBuilder {
    /// A builder for a table with these columns.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let columns = schema.columns();
        Self {
            names: columns.iter().map(|column| column.name.clone()).collect(),
            rows: 0,
            nulls: vec![0; columns.len()],
            distinct: vec![DistinctCounter::new(); columns.len()],
            sample: Vec::new(),
            random: Random::seeded(0x7e57),
            bytes: Vec::new(),
        }
    }

    /// Adds a row: a value for each column.
    pub fn add(&mut self, row: &[Datum]) {
        self.rows += 1;
        for (at, value) in row.iter().enumerate().take(self.names.len()) {
            if *value == Datum::Null {
                self.nulls[at] += 1;
                continue;
            }
            self.bytes.clear();
            distinct_bytes(value.value(), &mut self.bytes);
            self.distinct[at].add(&self.bytes);
        }
        // Reservoir sampling: each row is in the sample with the same probability.
        if self.sample.len() < SAMPLE_ROWS {
            self.sample.push(shortened(row));
        } else {
            let at = self.random.below(self.rows);
            if let Some(place) = self
                .sample
                .get_mut(usize::try_from(at).unwrap_or(usize::MAX))
            {
                *place = shortened(row);
            }
        }
    }

    /// The statistics of these rows.
    #[must_use]
    pub fn finish(self) -> TableStatistics {
        let mut columns = BTreeMap::new();
        for (at, name) in self.names.iter().enumerate() {
            let values = self.sample.iter().filter_map(|row| row.get(at));
            let mut values: Vec<Datum> = values.filter(|it| **it != Datum::Null).cloned().collect();
            values.sort();
            let column = ColumnStatistics {
                distinct: self.distinct[at].count().min(self.rows),
                nulls: self.nulls[at],
                histogram: Histogram::of_sorted(&values, BUCKETS_MAX),
            };
            columns.insert(name.clone(), column);
        }
        TableStatistics {
            rows: self.rows,
            columns,
        }
    }
}

fn distinct_bytes(value: Value<'_>, into: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => into.push(u8::from(value)),
        Value::I64(value) => into.extend_from_slice(&value.to_le_bytes()),
        Value::U64(value) => into.extend_from_slice(&value.to_le_bytes()),
        Value::Decimal { unscaled, .. } => into.extend_from_slice(&unscaled.to_le_bytes()),
        Value::F64(number) => {
            into.extend_from_slice(&Float(number).to_ordered_bits().to_le_bytes());
        }
        Value::Date(days) => into.extend_from_slice(&days.to_le_bytes()),
        Value::Text(bytes) | Value::Bytes(bytes) => into.extend_from_slice(bytes),
    }
}

fn shortened(row: &[Datum]) -> Vec<Datum> {
    let short = |value: &Datum| match value {
        Datum::Text(text) if text.len() > TEXT_BYTES => {
            let end = (0..=TEXT_BYTES)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            Datum::Text(text[..end].to_owned())
        }
        Datum::Bytes(bytes) if bytes.len() > TEXT_BYTES => {
            Datum::Bytes(bytes[..TEXT_BYTES].to_vec())
        }
        other => other.clone(),
    };
    row.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::{Column, ColumnType};

    use super::*;

    #[test]
    fn statistics_tell_about_how_values_are_spread() {
        let columns = vec![
            Column::new("id", ColumnType::I64),
            Column::new("segment", ColumnType::Text),
            Column::new("maybe", ColumnType::I64).nullable(),
        ];
        let schema = Schema::new(columns, &["id"]).unwrap();
        let mut builder = StatisticsBuilder::new(&schema);
        for id in 0..40_000_i64 {
            let maybe = if id % 4 == 0 {
                Datum::Null
            } else {
                Datum::I64(id % 10)
            };
            builder.add(&[id.into(), format!("segment {}", id % 5).into(), maybe]);
        }
        let statistics = builder.finish();
        assert_eq!(statistics.rows, 40_000);
        let column = |name: &str| &statistics.columns[name];
        assert!(column("id").distinct.abs_diff(40_000) < 3_000);
        assert_eq!(
            (column("segment").distinct, column("maybe").nulls),
            (5, 10_000)
        );
        let below = column("id")
            .histogram
            .share_below(&Datum::I64(10_000), false)
            .unwrap();
        assert!((below - 0.25).abs() < 0.03, "{below}");
        let share = column("segment")
            .histogram
            .share_of_frequent(&"segment 3".into())
            .unwrap();
        assert!((share - 0.2).abs() < 0.03, "{share}");
        let text = serde_json::to_string(&statistics).unwrap();
        assert_eq!(
            serde_json::from_str::<TableStatistics>(&text).unwrap(),
            statistics
        );
    }
}
