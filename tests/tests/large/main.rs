//! Transactions whose log record is longer than a log buffer, a log file, or both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod round_trips;
