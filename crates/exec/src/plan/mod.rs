//! Plans: trees of operators that name tables, indexes and columns.
//!
//! A plan is data: it is built by the functions of [`Plan`], or read from JSON
//! (`docs/plan-files.md`). Nothing in it depends on whether a table is in memory or in pages, on
//! the number of threads, or on the order of execution.

mod builders;
mod calculated;
mod comparison;
mod expression;
mod expression_json;
mod expression_text;
mod json_text;
mod limits;
mod operators;
mod plan_json;
pub mod stored;
mod tree;
mod value_list;
mod walk;

pub use calculated::{AggregateCall, AggregateFunction, Named, SortKey};
pub use comparison::Comparison;
pub use expression::{Expr, ExprNode, column, literal};
pub(crate) use expression_text::Literals;
pub use json_text::{PlanTextError, TextProblem};
pub use operators::{
    Aggregate, Filter, Find, HashJoin, IndexScan, Input, Join, KeyRange, Limit, NestedLoopJoin,
    Plan, Project, Scan, Sort,
};
pub use value_list::ValueList;
