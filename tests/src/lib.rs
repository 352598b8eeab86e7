//! The suites that need the whole engine.

pub mod block_on;
pub mod copy_dir;
pub mod crash;
pub mod fixture_contents;
pub mod forked_child;
pub mod full_disk;
pub mod hostile_bytes;
pub mod key_encoding;
pub mod kill;
pub mod loaded_table;
pub mod on_another_thread;
pub mod row_changes;
pub mod small_database;
pub mod small_file_system;
pub mod tested_specs;
pub mod transfers_under_views;
pub mod watchdog;
pub mod workload;

/// The serializability checker, which `namiki-bench` uses as well.
pub use namiki_history as history;
