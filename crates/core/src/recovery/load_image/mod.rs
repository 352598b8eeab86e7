//! Loading the image under the log's winners, and reading tables that are not loaded yet.

pub(super) mod image_loader;
mod image_records;
pub(super) mod unloaded_table;
