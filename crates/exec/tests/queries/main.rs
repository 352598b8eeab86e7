//! Queries end to end: their answers, their resource limits, and their failures.

mod aggregates;
mod deep_plans;
mod failures;
mod keys;
mod limits;
mod long_rows;
mod many_queries;
mod papers_query;
mod planner;
mod random_plans;
mod rejected_rows;
mod scans_and_chains;
mod sql_oracle;
#[path = "../support/mod.rs"]
mod support;
mod tables_in_memory;
