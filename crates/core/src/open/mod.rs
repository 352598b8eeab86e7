//! Opening a directory for writing, reading or copying: its lock, recovery, and the start of a new
//! log.

pub(crate) mod assemble_database;
mod check_directory;
mod closed_backup;
pub(crate) mod lock_directory;
mod log_settings;
mod open_database;
#[cfg(test)]
mod open_from_image_tests;
mod open_read_only;
