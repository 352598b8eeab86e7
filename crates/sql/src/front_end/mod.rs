//! The front end: DataFusion parses, binds, types and optimizes every statement, and runs what is no row program.
//!
//! Only this folder names DataFusion.
//!
//! ```text
//!  text ─ parse ─ rewrite ─ bind (Binder) ─ prepare ─ optimize ┬─ compile ── row program
//!                                                              └─ Plan ───── run: a physical plan, made anew each time
//! ```

mod arrow_values;
mod average;
mod batch_builder;
mod bound_expressions;
mod change_statements;
mod checked;
mod compile;
mod context;
mod create_table_as;
mod ddl;
mod ddl_alter;
mod ddl_types;
mod decimals;
mod errors;
mod expression_parts;
mod expression_text;
mod expressions;
mod float_extremes;
mod foreign;
mod functions;
mod insert_statement;
mod mixed_types;
mod names;
mod output_columns;
mod parameter_types;
mod parse;
mod paths;
mod plan_expressions;
mod planned;
mod planner;
mod prepare;
mod regclass;
mod rewrite;
mod rewrite_catalogue;
mod rewrite_shape;
mod rules;
mod run;
mod run_context;
mod scan;
mod sql_casts;
mod system_definition;
mod system_rows;
mod system_tables;
mod tables;
mod typed_numbers;
mod watched;

pub(crate) use expression_text::{condition, with_renamed_column};
pub(crate) use output_columns::OutputColumn;
pub(crate) use planned::{Body, Plan, Planned};
pub(crate) use planner::{FrontEnd, Request};
pub(crate) use prepare::SessionInfo;
pub(crate) use run::{Batch, RunSettings};
