//! Loaded tables: writing them into data segments with their indexes, and their way into memory.

pub(crate) mod external_sort;
pub(crate) mod index_digests;
pub(crate) mod load_error;
pub(crate) mod loaded_runs;
pub(crate) mod table_writer;
