//! Counts of a tree's contents, from one walk over its nodes.

use crate::Statistics;

/// All counts of a tree. Exact when no thread is writing.
pub struct Census {
    pub statistics: Statistics,
    /// Memory of nodes and tables.
    pub bytes: usize,
}
