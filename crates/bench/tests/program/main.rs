//! The commands of the program, each run small.

mod commands;
mod compare_kv;
mod device;
mod figure;
mod index;
mod query;
mod support;
mod txn;
