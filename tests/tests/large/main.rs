//! Transactions with a log record longer than a log buffer, a log file, or both; and loads in batches.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch_loads;
mod beside_small_ones;
mod limits_and_failures;
mod round_trips;
