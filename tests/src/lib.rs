//! The suites that need the whole engine.

pub mod crash;
pub mod forked;
pub mod history;
pub mod hooked_disk;
pub mod kill;
pub mod numbers;
pub mod old_directory;
pub mod specs;
pub mod spelling;
pub mod watchdog;
pub mod workload;
