//! The image: tables in segment files, written by a load, and tables in memory as of one stamp, written by a checkpoint.

pub(crate) mod external_sort;
pub(crate) mod image_error;
pub(crate) mod image_writer;
pub(crate) mod index_digests;
pub(crate) mod leftovers;
pub(crate) mod load_error;
pub(crate) mod loaded_runs;
#[cfg(test)]
pub(crate) mod model_table;
pub(crate) mod new_files;
pub(crate) mod new_image;
pub(crate) mod pace;
pub(crate) mod row_buffer;
pub(crate) mod rows_at_stamp;
pub(crate) mod run_lookup;
pub(crate) mod run_plan;
pub(crate) mod run_reader;
pub(crate) mod run_writer;
pub(crate) mod sorted_keys;
pub(crate) mod stored_keys;
pub(crate) mod table_writer;
