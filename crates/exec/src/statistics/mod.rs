//! Statistics of a table's values: their number, the number of different ones, their distribution.
//!
//! A load makes them once ([`StatisticsBuilder`]), and they are stored with the table's
//! description. A plan's price is estimated from it; an answer never depends on it.

mod builder;
mod distinct;
mod histogram;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use namiki_data::columns::Schema;

pub use builder::StatisticsBuilder;
pub use histogram::Histogram;

/// Statistics of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatistics {
    /// Rows.
    pub rows: u64,
    /// The statistics of each column, by name.
    pub columns: BTreeMap<String, ColumnStatistics>,
}

impl TableStatistics {
    /// Why these cannot be the statistics of a table with `rows` rows; `None` if they can.
    #[must_use]
    pub fn contradiction(&self, schema: &Schema, rows: u64) -> Option<String> {
        if self.rows != rows {
            return Some(format!(
                "has statistics of {} rows for {rows} rows",
                self.rows
            ));
        }
        self.columns.iter().find_map(|(name, column)| {
            let why = if schema.column(name).is_none() {
                "a column that is none of the table's"
            } else if column.nulls > rows || column.distinct > rows {
                "more values than rows"
            } else if !column.histogram.is_sound() {
                "a histogram with bounds that are too many or do not ascend"
            } else {
                return None;
            };
            Some(format!(
                "has statistics of column {name:?} that cannot be: {why}"
            ))
        })
    }
}

/// Statistics of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Estimated number of different values.
    pub distinct: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// Distribution of the values of a sample.
    pub histogram: Histogram,
}
