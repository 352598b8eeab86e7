//! What a query does, as a tree of operators that names tables, indexes and columns.
//!
//! A plan is data: it is built by the functions of [`Plan`], or read from JSON (`docs/plan-files.md`). Nothing
//! in it depends on whether a table is in memory or in pages, on the number of threads, or on the order of
//! execution.

mod expression;
mod expression_json;
mod operators;
pub mod stored;

pub use expression::{Comparison, Expr, column, literal};
pub use operators::{
    Aggregate, AggregateCall, AggregateFunction, Filter, Find, HashJoin, IndexScan, Join, KeyRange,
    Limit, Named, NestedLoopJoin, Plan, Project, Scan, Sort, SortKey,
};
