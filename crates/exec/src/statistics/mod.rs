//! What is known of a table's values without reading it: how many, how many different ones, how they are spread.
//!
//! Made once, by what loads the table ([`StatisticsBuilder`]), and kept with its description. A plan's price is
//! estimated from it; an answer never depends on it.

mod builder;
mod distinct;
mod histogram;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use builder::StatisticsBuilder;
pub use histogram::Histogram;

/// What is known of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableStatistics {
    /// Rows.
    pub rows: u64,
    /// By name.
    pub columns: BTreeMap<String, ColumnStatistics>,
}

/// What is known of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// About how many different values there are.
    pub distinct: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// How values are spread; of a sample.
    pub histogram: Histogram,
}
