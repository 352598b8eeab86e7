//! The suites that need the whole engine.

pub mod history;
pub mod workload;
