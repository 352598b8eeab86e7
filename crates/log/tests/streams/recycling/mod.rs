//! Recycling: what an image makes superfluous goes, in log files and in rings.

mod dropping_generations;
mod recycled_files;
mod rings;
