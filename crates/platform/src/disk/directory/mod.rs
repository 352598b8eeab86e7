//! Directories: locked by one process, identified after a move, nested in each other.

pub(super) mod directory_lock;
pub(super) mod moved_dir;
pub(super) mod nested_dirs;
