//! What there is in a tree, counted in one walk over its nodes.

use crate::Statistics;

/// All counts of a tree. Exact when no thread is writing.
pub struct Census {
    pub statistics: Statistics,
    /// What nodes and tables take.
    pub bytes: usize,
}
