//! `namiki restore`: a backup, into a directory that is new.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use namiki::Database;

use super::copy_progress::{copy, said};
use crate::failure::Failure;
use crate::interrupt;
use crate::read_only_directory::check_directory;

const HELP: &str = "\
Every checksum is verified on the way, and nothing in BACKUP is changed. DIR is new or empty: what is in the way of a
restored database is moved away by hand. If the restore is interrupted, the same command goes on with it.

What is restored goes its own way from there on. Its backups go to a directory of their own: the one that it came from
may have later commits than it has.

Examples:
  namiki restore /backup/shop /data/shop-again
  namiki check /backup/shop && namiki restore /backup/shop /data/shop-again";

/// What `namiki restore` is told.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct RestoreArguments {
    /// The directory of the backup
    backup: PathBuf,
    /// The directory of the database to be made
    dir: PathBuf,
}

/// Restores a backup, and says what it copied.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    interrupt::listen();
    let RestoreArguments { backup, dir } = arguments;
    check_directory(backup)?;
    let report = copy("restoring", None, |options| {
        let recovery = Database::builder().interrupt(Arc::clone(interrupt::asked()));
        recovery.restore(backup, dir, options)
    })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", said("restored", backup, dir, &report)).map_err(Failure::output)
}
