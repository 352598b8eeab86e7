//! Recycling: parts of the log that an image makes superfluous are removed, in log files and in
//! rings.

mod dropping_generations;
mod recycled_files;
mod rings;
