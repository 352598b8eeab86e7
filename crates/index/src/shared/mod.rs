//! What the trees have in common, inside: for those of this crate, and for those of `namiki-trees`.
//!
//! It may change with any of them.

pub mod batch;
pub mod census;
pub mod counters;
pub mod defer;
pub mod growing;
pub mod leaf_table;
pub mod lines;
pub mod memory;
pub mod numbers;
pub mod range;
pub mod scan;
pub mod sync;
