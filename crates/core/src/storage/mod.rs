//! Records, their memory and indexes: the storage that all other parts read and write.

pub(crate) mod arena;
pub(crate) mod free_large_buffers;
pub mod index;
pub(crate) mod record;
