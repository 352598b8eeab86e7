//! Records and the memory they are in: what everything above reads and writes.

pub(crate) mod arena;
pub(crate) mod free_large_buffers;
pub mod index;
pub(crate) mod record;
