//! What a program uses: a database, its sessions, typed tables, and the settings to open it with.

mod absolute_path;
pub(crate) mod autotune;
#[cfg(test)]
mod backup_tests;
pub(crate) mod batch_load;
pub(crate) mod builder;
mod catalogue_view;
mod change_tables;
pub(crate) mod checkpoint;
mod checkpoint_on_demand;
mod closed_backup;
mod config;
pub(crate) mod counters;
pub(crate) mod database;
mod deleted_keys;
pub(crate) mod horizon_stats;
mod keep_for_views;
mod live_backup;
pub(crate) mod load;
mod loading;
mod lock_directory;
mod map;
pub(crate) mod open;
pub(crate) mod open_catalogue;
#[cfg(test)]
mod open_from_image_tests;
mod open_read_only;
pub(crate) mod opened_tables;
pub(crate) mod query;
pub(crate) mod query_error;
mod read_view;
#[cfg(test)]
mod recycled_log_tests;
mod reserved_name;
pub(crate) mod rows;
mod running_body;
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod tables_in_segments;
mod take_into_memory;
mod transact_in_task;
mod transaction;
#[cfg(test)]
mod transaction_cleanup_tests;
mod types_of_columns;
pub(crate) mod untyped;
pub(crate) mod view;
