//! The library as programs use it: tables and their types, tasks, replicas, trees; and what the compiler and README.md say.
//!
//! One program, for each links the whole engine. Separate programs: the test that counts
//! allocations (`tree_leaks.rs`), the test that listens to events, because a process enables them
//! once (`events.rs`), and the test for a build with fewer features (`without_all_indexes.rs`).
#![cfg(not(loom))]

mod btree_manners;
mod compiler_messages;
mod derived_types;
mod read_only;
mod readme;
mod replica;
mod tasks;
mod trees;
