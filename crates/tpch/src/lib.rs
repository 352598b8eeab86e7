//! TPC-H's tables: their columns, keys and indexes, and their rows at any scale.
//!
//! `namiki load` fills directories with them, and `namiki-bench` makes small ones of its own.

mod rows;
mod tables;

pub use rows::Rows;
pub use tables::TpchTable;
