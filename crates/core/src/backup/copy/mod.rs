//! Copying a database into the directory of a backup, and a backup into a new directory.

mod backup_directory;
pub(crate) mod copy_database;
mod copy_log;
mod copy_segments;
mod go_on;
mod kept_files;
pub(crate) mod source;
