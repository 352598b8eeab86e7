//! Sinks: groups, sorts, hash tables. Each thread has its own part; the parts are merged once all
//! rows have arrived.

mod aggregate;
mod group_table;
mod hash_table;
mod materialized_rows;
mod query_memory;
mod sort;
mod wide_sum;

pub(crate) use aggregate::Groups;
pub(crate) use hash_table::{BuildRows, HashTable};
pub(crate) use materialized_rows::MaterializedRows;
pub(crate) use query_memory::{MergeControl, QueryMemory};
pub(crate) use sort::SortRows;

use crate::error::ExecError;

/// Rows of text beyond 4 GiB, which no row store can keep. (A slot also refuses a value of another
/// type; what comes here has the type that the plan was compiled with.)
pub(crate) const TOO_MUCH_TEXT: ExecError = ExecError::MemoryExceeded {
    operator: "table of rows with text",
    limit_bytes: u32::MAX as usize,
};
