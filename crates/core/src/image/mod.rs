//! The image: the tables in memory as of one stamp, written by a checkpoint.

pub(crate) mod image_error;
pub(crate) mod leftovers;
pub(crate) mod new_files;
pub(crate) mod pace;
pub(crate) mod read;
pub(crate) mod write;
