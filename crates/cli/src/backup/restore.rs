//! `namiki restore`: restores a backup into a new directory.

use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use namiki::{Builder, Database, RestorePoint, Stamp};
use namiki_terminal::time_of_day::{parse_utc, utc};
use namiki_terminal::{interrupt, standard_output};

use super::copy_progress::{copy, said};
use crate::failure::{Failure, usage};
use crate::read_only_directory::check_directory;

const HELP: &str = "\
Every checksum is verified during the copy, and nothing in BACKUP is changed. DIR is new or empty: move
existing files away by hand. If the restore is interrupted, the same command continues it.

A program that opens its database with Builder::restore_points writes restore points to the log. --list
shows those of a backup, and --to restores the state of one: by its number, or by a time in UTC, which
selects the last point at or before it. Points reach back to the last checkpoint before the backup or, if
earlier backups are kept (backup --keep), to the oldest of them; the end of each of these is a point, too.

A restored database has its own history. Back it up to a directory of its own: the backup that it was
restored from may have later commits.

Examples:
  namiki restore /backup/shop /data/shop-again
  namiki restore /backup/shop --list
  namiki restore /backup/shop /data/shop-at-noon --to 2026-11-26T12:00";

/// Arguments of `namiki restore`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct RestoreArguments {
    /// The directory of the backup
    backup: PathBuf,
    /// The directory of the restored database
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,
    /// Show the restore points of the backup, one a line, and restore nothing
    #[arg(long, conflicts_with_all = ["dir", "to"])]
    list: bool,
    /// Restore the state of a restore point: its number, or a time such as 2026-11-26T12:00:00 (UTC)
    #[arg(long, value_name = "POINT|TIME")]
    to: Option<String>,
}

/// Restores a backup, and prints a summary.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    interrupt::listen();
    let backup = &arguments.backup;
    check_directory(backup)?;
    let Some(dir) = &arguments.dir else {
        return list(backup);
    };
    let point = match &arguments.to {
        Some(to) => Some(point(backup, to)?),
        None => None,
    };
    let report = copy("restoring", None, |options| match point {
        Some(point) => settings().restore_to(backup, dir, point, options),
        None => settings().restore(backup, dir, options),
    })?;
    let mut out = LineWriter::new(standard_output());
    writeln!(out, "{}", said("restored", backup, dir, &report)).map_err(Failure::output)
}

fn settings() -> Builder {
    Database::builder().interrupt(Arc::clone(interrupt::asked()))
}

fn list(backup: &Path) -> Result<(), Failure> {
    let mut out = LineWriter::new(standard_output());
    let mut latest_ms = 0;
    for RestorePoint { stamp, time_ms, .. } in settings().restore_points_of(backup)? {
        let told = if time_ms < latest_ms {
            "  (the clock had been set back)"
        } else {
            ""
        };
        latest_ms = latest_ms.max(time_ms);
        writeln!(out, "{:>12}  {}{told}", stamp.0, utc(time_ms)).map_err(Failure::output)?;
    }
    Ok(())
}

/// The restore point of this number, or the last one at or before this time.
fn point(backup: &Path, to: &str) -> Result<Stamp, Failure> {
    if let Ok(number) = to.parse() {
        return Ok(Stamp(number));
    }
    let Some(time) = parse_utc(to) else {
        let why = format!(
            "--to {to} is neither a restore point's number nor a time such as 2026-11-26T12:00:00"
        );
        return Err(usage(why));
    };
    point_at(backup, &settings().restore_points_of(backup)?, time)
}

/// The one state that the backup had at this time.
fn point_at(backup: &Path, points: &[RestorePoint], time: u64) -> Result<Stamp, Failure> {
    match &RestorePoint::at_time(points, time)[..] {
        [point] => Ok(point.stamp),
        [] => {
            let first = points.first();
            let first = first.map_or("it has none".to_owned(), |first| {
                format!("its first one is of {}", utc(first.time_ms))
            });
            Err(Failure::NoRestorePoint {
                backup: backup.to_owned(),
                time: utc(time),
                first,
            })
        }
        several => {
            let named = several
                .iter()
                .map(|point| format!("{} ({})", point.stamp.0, utc(point.time_ms)));
            Err(Failure::AmbiguousTime {
                backup: backup.to_owned(),
                time: utc(time),
                points: named.collect::<Vec<_>>().join(", "),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki::Epoch;

    use super::*;

    #[test]
    fn a_time_that_was_twice_is_asked_for_by_number() {
        let point = |(stamp, time_ms)| RestorePoint {
            stamp: Stamp(stamp),
            time_ms,
            epoch: Epoch(0),
        };
        let points = [(7, 10_000), (8, 30_000), (9, 20_000), (10, 40_000)].map(point);
        let found = |time| point_at(Path::new("/copy"), &points, time);
        assert!(matches!(found(15_000), Ok(Stamp(7))));
        assert!(matches!(found(40_000), Ok(Stamp(10))));
        assert!(matches!(found(9), Err(Failure::NoRestorePoint { .. })));
        let told = found(25_000).map_err(|error| error.to_string());
        let told = told.unwrap_err();
        for named in ["set back", "7 (1970", "9 (1970", "--list"] {
            assert!(told.contains(named), "{told}");
        }
    }
}
