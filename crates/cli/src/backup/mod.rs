//! `namiki backup` and `namiki restore`: copies of a database that no process has open.

mod copy_progress;
mod restore;
mod take;

pub(crate) use restore::{RestoreArguments, run as run_restore};
pub(crate) use take::{BackupArguments, run as run_backup};
