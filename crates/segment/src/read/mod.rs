//! Reads of an open segment: look-ups, cursors, long values, and pages that are kept in memory.

pub(crate) mod cursor;
pub(crate) mod long_reader;
pub(crate) mod lookup;
pub(crate) mod memory_pages;
