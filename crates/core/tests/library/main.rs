//! The library as programs use it: tables and their types, tasks, replicas, trees; and what the compiler and README.md say.
//!
//! One program, for each links the whole engine. Programs of their own: what counts allocations (`tree_leaks.rs`), what listens to
//! events, of which a process decides once whether they are told (`events.rs`), and what is about a build with fewer features
//! (`without_all_indexes.rs`).
#![cfg(not(loom))]

mod btree_manners;
mod compiler_messages;
mod derived_types;
mod read_only;
mod readme;
mod replica;
mod tasks;
mod trees;
