//! Segments: contents, bytes, damage, crashes, and the cache of their pages.

mod against_a_map;
mod common;
mod damaged_segments;
mod golden_bytes;
mod interrupted_writes;
mod page_cache;
