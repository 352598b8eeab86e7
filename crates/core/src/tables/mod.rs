//! Data definition: tables are created, loaded, taken into memory, renamed, cleared and dropped.

pub(crate) mod batch_load;
mod change_tables;
pub(crate) mod create_table;
mod keep_for_views;
pub(crate) mod load;
mod reserved_name;
mod take_into_memory;
mod types_of_columns;
pub(crate) mod untyped;
