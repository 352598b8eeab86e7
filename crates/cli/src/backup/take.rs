//! `namiki backup`: copies a closed database into a directory that is a database itself.

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
Nothing in DIR is changed. A database that is in use is refused: its program backs it up, with
Database::backup. After a crash, the log is first recovered in memory, to find its end.

DEST is new, empty, or has an earlier backup of the same database. In that case only changes are copied,
and the earlier backup stays valid until the new one is complete. The next backup reuses the files that
an interrupted one has copied. Every checksum is verified during the copy; damage is reported, and not
copied. Files that DEST has already are checked by their lengths, and --verify reads all of them: a
missing or damaged file is reported, and the backup is refused.

DIR must be the database of the earlier backup, or its continuation. If a copy was put back, or a backup
restored, and both continued, DEST accepts backups of only one of them; the other needs its own directory.

With --keep, earlier backups stay in DEST for this time, in addition to the last one; they share common
files. restore --list and --to can then restore all of them. Pass the option every time, or DEST is
refused; --keep 0s removes them. A program can back its live database up continuously in this way
(Builder::backup_to).

A backup is a database: check verifies it, tables, get, scan and export read it, and restore copies it to
the place of its use. Once opened for writing, it is no longer a backup, and the next backup needs another
directory.

Examples:
  namiki backup /data/shop /backup/shop
  namiki backup /data/shop /backup/shop --rate-mib 50 && namiki check /backup/shop
  namiki backup /data/shop /backup/shop --keep 7d
  namiki restore /backup/shop /data/shop-again";

/// Arguments of `namiki backup`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct BackupArguments {
    /// The database's directory
    dir: PathBuf,
    /// The directory of the backup
    dest: PathBuf,
    /// Copy at most this many MiB per second
    #[arg(long, value_name = "MIB")]
    rate_mib: Option<NonZeroU64>,
    /// Keep earlier backups for this time: a number with s, m, h or d, such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    keep: Option<Duration>,
    /// Read the files that DEST has already, and verify every checksum, before anything is copied
    #[arg(long)]
    verify: bool,
}

/// Takes a backup, and prints a summary.
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
