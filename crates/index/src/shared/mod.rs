//! Internals shared by the trees of this crate and of `namiki-trees`.
//!
//! It may change with any of them.
#![expect(
    clippy::new_without_default,
    reason = "parts of trees, not an interface"
)]

pub mod batch;
pub mod cache_line_search;
pub mod census;
pub mod counters;
pub mod defer;
pub mod id_pool;
pub mod leaf_table;
pub mod node_alloc;
pub mod range;
pub mod scan;
pub mod segmented_array;
mod tree_methods;
