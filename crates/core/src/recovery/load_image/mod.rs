//! Loading the image under what the log has, and reading tables that are not loaded yet.

pub(super) mod image_loader;
mod image_records;
pub(super) mod unloaded_table;
