//! `namiki backup`: a closed database, into a directory that is a database.

use std::io::{LineWriter, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namiki::Database;
use namiki_terminal::time_of_day::parse_length;
use namiki_terminal::{interrupt, standard_output};

use super::copy_progress::{copy, said};
use crate::failure::Failure;
use crate::read_only_directory::check_directory;

const MIB: NonZeroU64 = NonZeroU64::new(1 << 20).unwrap();

const HELP: &str = "\
Nothing in DIR is changed. A database that is in use is backed up by its program, with Database::backup; here it is
refused. After a crash, its log is recovered first, in memory, to find out where it ends.

DEST is new, empty, or has an earlier backup of the same database: then only what has changed since is copied, and the
earlier backup is there until the new one is complete, whatever happens. What an interrupted backup has copied, the next
one uses. Every checksum is verified on the way; damage is named, and not copied. Files that DEST has already are looked
for, with their lengths, and --verify reads all of them: what is missing or damaged is named, and the backup is refused.

DIR has to be what the earlier backup is of, or what became of it. Where a copy was put back, or a backup restored, and
both went on, DEST takes the backups of one of them, and the other is asked for another directory.

With --keep, earlier backups stay in DEST for so long, beside the last one; files that they have in common are there once.
restore --list and --to then go back to all of them. The option is given each time, or DEST is refused; --keep 0s removes
them. A program can have its live database backed up so all the time (Builder::backup_to).

A backup is a database: check verifies it, tables, get, scan and export read it, and restore copies it to where it is
to be used. Opened to be written, it is no backup any more, and the next backup needs another directory.

Examples:
  namiki backup /data/shop /backup/shop
  namiki backup /data/shop /backup/shop --rate-mib 50 && namiki check /backup/shop
  namiki backup /data/shop /backup/shop --keep 7d
  namiki restore /backup/shop /data/shop-again";

/// What `namiki backup` is told.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct BackupArguments {
    /// The database's directory
    dir: PathBuf,
    /// The directory of the backup
    dest: PathBuf,
    /// Copy at most so many MiB in a second
    #[arg(long, value_name = "MIB")]
    rate_mib: Option<NonZeroU64>,
    /// Keep earlier backups for so long: a number with s, m, h or d, as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    keep: Option<Duration>,
    /// Read what DEST has already, and verify every checksum, before anything is copied
    #[arg(long)]
    verify: bool,
}

/// Takes a backup, and says what it copied.
pub(crate) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    interrupt::listen();
    let BackupArguments { dir, dest, .. } = arguments;
    check_directory(dir)?;
    let rate = arguments.rate_mib.map(|rate| rate.saturating_mul(MIB));
    let report = copy("backing up", rate, |options| {
        let recovery = Database::builder().interrupt(Arc::clone(interrupt::asked()));
        let options = options.clone().verify(arguments.verify);
        let options = match arguments.keep {
            Some(keep) => options.keep(keep),
            None => options,
        };
        recovery.backup_closed(dir, dest, &options)
    })?;
    let mut out = LineWriter::new(standard_output());
    writeln!(out, "{}", said("backed up", dir, dest, &report)).map_err(Failure::output)
}
