//! Streams of a log: appended, flushed, crashed, damaged, read back and merged.

mod common;
mod reading;
mod recycling;
mod writing;
