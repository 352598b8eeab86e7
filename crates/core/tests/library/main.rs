//! The library as programs use it: tables and their types, tasks, replicas, trees; and what the compiler and README.md say.
//!
//! One program, for each links the whole engine. What counts allocations is a program of its own (`tree_leaks.rs`), and
//! so is what is about a build with fewer features (`without_all_indexes.rs`).
#![cfg(not(loom))]

mod btree_manners;
mod compiler_messages;
mod derived_types;
mod events;
mod read_only;
mod readme;
mod replica;
mod tasks;
mod trees;
