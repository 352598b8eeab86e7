//! Records and the memory they are in: what everything above reads and writes.

pub(crate) mod arena;
pub mod index;
pub(crate) mod record;
pub(crate) mod scratch;
