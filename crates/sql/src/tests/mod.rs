//! Statements against an engine in this process, on a disk in memory.
//!
//! One test program for all of them: linking DataFusion is slow.

mod added_columns_beside_writers;
mod building;
mod cancelling;
mod catalogue;
mod changes;
mod columns;
mod constraints;
mod copying;
mod gone_clients;
mod harness;
mod indexed_parameters;
mod join_order;
mod limits;
mod numbers;
mod pgbench;
mod programs_and_plans;
mod queries;
mod reopening;
mod savepoints;
mod sequences;
mod tables;
mod transactions;
