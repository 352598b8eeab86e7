//! Queries end to end: their answers, what they may hold, and what ends them.

mod aggregates;
mod deep_plans;
mod failures;
mod in_lists;
mod key_edges;
mod limits;
mod long_rows;
mod many_queries;
mod nullable_keys;
mod papers_query;
mod planner;
mod random_plans;
mod rejected_rows;
mod scans_and_chains;
mod sql_oracle;
#[path = "../support/mod.rs"]
mod support;
mod tables_in_memory;
