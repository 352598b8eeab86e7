//! Memory: how much there is, how it is mapped and advised, and counted.

pub(crate) mod available_memory;
pub mod counting_allocator;
pub(crate) mod huge_pages;
pub(crate) mod memory_mapping;
pub(crate) mod prefetch;
