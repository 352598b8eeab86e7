//! Recycling: parts of the log that an image makes superfluous are removed, in log files and in
//! rings.

mod dropping_generations;
mod growing_files;
mod recycled_files;
mod rings;
