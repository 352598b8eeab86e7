//! The commands of the program, each run small.

mod commands;
mod compare_kv;
mod device;
mod figure;
mod index;
mod query;
mod restart;
mod support;
mod txn;
