//! One backup, from the files to the manifest.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::disk::{Disk, ReadOnlyDisk, is_one_in_the_other, open_best};

use crate::backup::copy::backup_directory::Destination;
use crate::backup::copy::copy_log::copy_log;
use crate::backup::copy::copy_segments::copy_segments;
use crate::backup::copy::go_on::GoOn;
use crate::backup::copy::kept_files::check_kept;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::backup_mark::BackupMark;
use crate::catalogue::manifest::Manifest;
use crate::events;

/// Copies the files that the directory lacks, and installs the backup. `is_open` fails if the
/// source is about to close.
///
/// # Errors
/// [`BackupError`].
pub(crate) fn back_up(
    source: &Source<'_>,
    dir: &Path,
    options: &BackupOptions,
    is_open: &dyn Fn() -> Result<(), BackupError>,
) -> Result<BackupReport, BackupError> {
    copy(source, dir, options, is_open, Purpose::Backup)
}

/// Copies a database into a new or empty directory. The copy has its own history from then on.
///
/// # Errors
/// [`BackupError`].
pub(crate) fn restore(
    source: &Source<'_>,
    dir: &Path,
    options: &BackupOptions,
) -> Result<BackupReport, BackupError> {
    copy(source, dir, options, &|| Ok(()), Purpose::Restore)
}

/// The purpose of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Backup,
    Restore,
}

fn copy(
    source: &Source<'_>,
    dir: &Path,
    options: &BackupOptions,
    is_open: &dyn Fn() -> Result<(), BackupError>,
    purpose: Purpose,
) -> Result<BackupReport, BackupError> {
    check_elsewhere((&**source.disk, source.dir), &source.manifest, dir)?;
    let disk = disk_for(dir, options)?;
    let take = || match purpose {
        Purpose::Backup => Destination::take(&disk, dir, source, options.keep),
        Purpose::Restore => Destination::take_empty(&disk, dir, source),
    };
    let done = copy_into(source, take()?, options, is_open, purpose);
    match done {
        // Earlier backups that are older than requested are removed once the next backup exists;
        // before that, only if the disk is full.
        Err(BackupError::DiskFull { .. }) if take()?.make_room(source.taken_at_ms)? => {
            copy_into(source, take()?, options, is_open, purpose)
        }
        done => done,
    }
}

fn copy_into(
    source: &Source<'_>,
    destination: Destination<'_>,
    options: &BackupOptions,
    is_open: &dyn Fn() -> Result<(), BackupError>,
    purpose: Purpose,
) -> Result<BackupReport, BackupError> {
    let began = Instant::now();
    let mut go_on = GoOn::new(options, is_open);
    go_on.check()?;
    check_kept(source, &destination, options.verifies, &go_on)?;
    let files = copy_segments(source, &destination, &mut go_on)?;
    let log = copy_log(source, &destination, &mut go_on)?;
    let mut manifest = source.manifest.clone();
    manifest.closed = true;
    manifest.opening = Manifest::new_opening();
    match purpose {
        Purpose::Restore => manifest.leave(),
        Purpose::Backup => {
            manifest.backup = Some(BackupMark {
                stamp: source.stamp,
                taken_at_ms: source.taken_at_ms,
                log: log.last,
                ended: log.ended,
            });
        }
    }
    let clock_behind = destination.clock_behind(source.taken_at_ms);
    let earlier_kept = destination.switch(&manifest)?;
    if let Some(behind) = clock_behind {
        events::clock_behind_backup(behind.as_secs_f64());
    }
    Ok(BackupReport {
        stamp: source.stamp,
        files_copied: files.files,
        files_kept: files.kept,
        segment_bytes: go_on.progress.segment_bytes,
        log_bytes: go_on.progress.log_bytes,
        earlier_kept,
        clock_behind,
        took: began.elapsed(),
    })
}

/// Fails if a directory for a copy is that of the database with this manifest, lies in it, or has
/// it in it, whatever links lead there. A disk is not checked if its files are not the operating
/// system's.
///
/// # Errors
/// [`BackupError::OwnDirectory`]; [`BackupError::Device`].
fn check_elsewhere(
    (disk, database): (&dyn Disk, &Path),
    manifest: &Manifest,
    dir: &Path,
) -> Result<(), BackupError> {
    let is_there = |disk: &dyn Disk| {
        let found = Manifest::read_alone(disk, database).ok().flatten();
        found.is_some_and(|found| found.database == manifest.database)
    };
    // A directory of that name may exist without being one of this disk.
    if !is_there(&ReadOnlyDisk::new()) || !is_there(disk) {
        return Ok(());
    }
    let is_within = is_one_in_the_other(database, dir);
    if is_within.map_err(|error| BackupError::device(dir, error))? {
        Err(BackupError::OwnDirectory {
            dir: dir.to_owned(),
            database: database.to_owned(),
        })
    } else {
        Ok(())
    }
}

/// Whether there is a backup in a directory. If that is unknown, it is assumed.
pub(crate) fn is_backed_up(dir: &Path, options: &BackupOptions) -> bool {
    let path = Manifest::path(dir);
    match &options.disk {
        Some(disk) => {
            !matches!(disk.read(&path), Err(error) if error.kind() == io::ErrorKind::NotFound)
        }
        None => path.try_exists().unwrap_or(true),
    }
}

/// The disk that a new directory is on.
fn disk_for(dir: &Path, options: &BackupOptions) -> Result<Arc<dyn Disk>, BackupError> {
    if let Some(disk) = &options.disk {
        return Ok(Arc::clone(disk));
    }
    let device = |error| BackupError::device(dir, error);
    std::fs::create_dir_all(dir).map_err(device)?;
    let (disk, _) = open_best(dir).map_err(device)?;
    Ok(disk)
}
