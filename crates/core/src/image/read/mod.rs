//! Reading the runs of an image: whole, to load a table, or by key, for views of a table that is not loaded.

pub(crate) mod row_buffer;
pub(crate) mod run_lookup;
pub(crate) mod run_reader;
pub(crate) mod stored_keys;
