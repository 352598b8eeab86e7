//! The image: tables in segment files, written by a load.

pub(crate) mod external_sort;
pub(crate) mod index_digests;
pub(crate) mod leftovers;
pub(crate) mod load_error;
pub(crate) mod table_writer;
