//! Retention of backups: the earlier ones that a directory keeps in addition to its last one. They
//! determine how far back a restore can go.
//!
//! ```text
//!   MANIFEST                      the last backup
//!   earlier/00000001.manifest     what MANIFEST was before another image took the place of its own
//!   earlier/00000002.manifest     and so on
//!   image/  wal/                  the files of all of them; one that several name is there once
//! ```
//! A backup that covers the previous one replaces it. Any other keeps the previous one as an
//! earlier backup. The database is backed up once more before each checkpoint
//! (`backup/followed_backup.rs`), so each earlier backup reaches at least the moment of the next
//! one's image: together they have every restore point. An earlier backup is removed if a newer one
//! is older than `BackupOptions::keep`, too.
//!
//! # Invariants
//! - B1. An earlier manifest is durable before `MANIFEST` is replaced, and the files that it names
//!   exist until it is removed.
//! - B2. It is removed, durably, before any file that only it and earlier ones name.
//! - B3. Files that only earlier ones name have their first names, as those have that a load or a checkpoint leaves
//!   (`catalogue/image_files.rs`). So a directory that keeps earlier backups is never opened to be written, and a survey of
//!   `MANIFEST` alone never decides what goes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use namiki_log::GenerationInfo;
use namiki_platform::Generation;
use namiki_platform::disk::Disk;

use crate::backup::error::BackupError;
use crate::catalogue::image_files::{FileNumber, ImageFileName};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::leftovers::read_list;

const ENDING: &str = ".manifest";

/// An earlier backup in the directory of another one.
#[derive(Clone, Debug)]
pub struct EarlierBackup {
    /// Where its manifest is.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    number: u32,
}

impl EarlierBackup {
    /// The image list that it names, if it names one.
    ///
    /// # Errors
    /// [`OpenError::DamagedImageList`], [`OpenError::OtherFormat`], [`OpenError::Device`].
    pub fn list(&self, disk: &dyn Disk, dir: &Path) -> Result<Option<ImageList>, OpenError> {
        read_list(disk, dir, &self.manifest)
    }

    /// When it was taken: milliseconds since 1970 began.
    pub(super) fn taken_at_ms(&self) -> u64 {
        self.manifest
            .backup
            .as_ref()
            .map_or(0, |mark| mark.taken_at_ms)
    }
}

/// The directory of their manifests.
pub(super) fn home(dir: &Path) -> PathBuf {
    dir.join("earlier")
}

/// The earlier backups that a directory keeps, oldest first.
///
/// # Errors
/// [`OpenError::DamagedManifest`], [`OpenError::OtherFormat`]; [`OpenError::Device`].
pub fn earlier_backups(disk: &dyn Disk, dir: &Path) -> Result<Vec<EarlierBackup>, OpenError> {
    let last = Manifest::read_file(disk, &Manifest::path(dir))?;
    let mut earlier = Vec::new();
    for (number, path) in files(disk, dir)? {
        let Some(manifest) = Manifest::read_file(disk, &path)? else {
            continue;
        };
        let is_of_it =
            |last: &Manifest| last.database == manifest.database && last.branch == manifest.branch;
        if manifest.backup.is_none() || !last.as_ref().is_some_and(is_of_it) {
            let why = "it is of no earlier backup of the database that MANIFEST is of".to_owned();
            return Err(OpenError::DamagedManifest { path, why });
        }
        earlier.push(EarlierBackup {
            path,
            manifest,
            number,
        });
    }
    Ok(earlier)
}

/// Whether a directory keeps earlier backups.
///
/// # Errors
/// [`OpenError::Device`].
pub(crate) fn keeps_earlier_backups(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
    Ok(!files(disk, dir)?.is_empty())
}

/// Their numbers and manifests, oldest first.
fn files(disk: &dyn Disk, dir: &Path) -> Result<BTreeMap<u32, PathBuf>, OpenError> {
    let home = home(dir);
    let found = match disk.list(&home) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(OpenError::Device { path: home, source }),
    };
    let numbered = found.into_iter().filter_map(|file| {
        let name = file.path.file_name()?.to_str()?;
        let number = name.strip_suffix(ENDING)?.parse().ok()?;
        Some((number, file.path))
    });
    Ok(numbered.collect())
}

/// Whether the later backup has all that the earlier one has, and can be restored to each of its
/// points. If the log continues without points, only the earlier backup can be restored to its own
/// end.
pub(super) fn covers(later: &Manifest, earlier: &Manifest) -> bool {
    let end = |manifest: &Manifest| manifest.backup.as_ref().map(|mark| mark.stamp);
    let has_frames = |info: &&GenerationInfo| {
        let seal = info.seal.as_ref();
        seal.is_none_or(|seal| seal.last_sequences.iter().any(|last| *last > 0))
    };
    let generations = &earlier.generations;
    let last_log = generations.iter().rfind(has_frames).or(generations.last());
    let goes_on_with_points = last_log.is_some_and(|info| info.restore_points);
    let has_segment = |file| {
        later
            .loaded_tables
            .segments()
            .any(|segment| segment.file == file)
    };
    let mut segments = earlier.loaded_tables.segments().map(|segment| segment.file);
    let mut tables = earlier.tables.iter();
    later.image_list == earlier.image_list
        && later.points_from == earlier.points_from
        && segments.all(has_segment)
        && tables.all(|table| later.table(table.id).is_some())
        && (goes_on_with_points || end(later) == end(earlier))
}

/// Makes a manifest that of an earlier backup, the next after these.
pub(super) fn keep_as_earlier(
    disk: &dyn Disk,
    dir: &Path,
    earlier: &mut Vec<EarlierBackup>,
    manifest: &Manifest,
) -> Result<(), BackupError> {
    // A crash may have come between this and the replacement of MANIFEST.
    if earlier
        .last()
        .is_some_and(|last| last.manifest == *manifest)
    {
        return Ok(());
    }
    let home = home(dir);
    let number = earlier.last().map_or(1, |last| last.number + 1);
    let path = home.join(format!("{number:08}{ENDING}"));
    let made = disk
        .create_dir_all(&home)
        .and_then(|()| disk.sync_dir(dir))
        .and_then(|()| manifest.write_file(disk, &path));
    made.map_err(|error| BackupError::device(&path, error))?;
    earlier.push(EarlierBackup {
        path,
        manifest: manifest.clone(),
        number,
    });
    Ok(())
}

/// Removes the backups that no moment within `keep` needs: all before the newest one that is older
/// than that. Returns whether any was removed, durably.
pub(super) fn remove_older(
    disk: &dyn Disk,
    dir: &Path,
    earlier: &mut Vec<EarlierBackup>,
    last_taken_at_ms: u64,
    keep: Duration,
) -> Result<bool, BackupError> {
    let removable = if keep.is_zero() {
        earlier.len()
    } else {
        count_removable(
            earlier.iter().map(EarlierBackup::taken_at_ms),
            last_taken_at_ms,
            keep,
        )
    };
    if removable == 0 {
        return Ok(false);
    }
    for backup in &earlier[..removable] {
        let removed = disk.remove(&backup.path);
        removed.map_err(|error| BackupError::device(&backup.path, error))?;
    }
    let home = home(dir);
    let synced = disk.sync_dir(&home);
    synced.map_err(|error| BackupError::device(&home, error))?;
    earlier.drain(..removable);
    Ok(true)
}

/// The number of removable backups, of those taken at these times in milliseconds, oldest first. A
/// time before that of an earlier one, or after that of the last one, is from a wrong clock: it is
/// ignored, so that no backup is removed because of it.
fn count_removable(
    taken_at_ms: impl Iterator<Item = u64>,
    last_taken_at_ms: u64,
    keep: Duration,
) -> usize {
    let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    let since_ms = last_taken_at_ms.saturating_sub(keep_ms);
    let (mut removable, mut newest_ms) = (0, 0);
    for (before, taken_at_ms) in taken_at_ms.enumerate() {
        if !(newest_ms..=last_taken_at_ms).contains(&taken_at_ms) {
            continue;
        }
        if taken_at_ms > since_ms {
            break;
        }
        (removable, newest_ms) = (before, taken_at_ms);
    }
    removable
}

/// The files that earlier backups name, by their first names.
pub(super) struct NeededFiles(BTreeSet<ImageFileName>);

impl NeededFiles {
    pub(super) fn of(
        disk: &dyn Disk,
        dir: &Path,
        earlier: &[EarlierBackup],
    ) -> Result<Self, BackupError> {
        let (mut needed, mut lists) = (BTreeSet::new(), BTreeSet::new());
        for backup in earlier {
            let segments = backup.manifest.loaded_tables.segments();
            needed.extend(segments.map(|segment| ImageFileName::NewSegment(segment.file)));
            let Some(named) = &backup.manifest.image_list else {
                continue;
            };
            // Without points, many backups have one image.
            if !lists.insert(named.file) {
                continue;
            }
            needed.insert(ImageFileName::NewList(named.file));
            let Some(list) = backup.list(disk, dir)? else {
                continue;
            };
            let rows = |file: FileNumber| ImageFileName::Rows(file);
            needed.extend(list.runs().map(|run| rows(run.segment.file)));
        }
        Ok(Self(needed))
    }

    pub(super) fn has(&self, name: ImageFileName) -> bool {
        self.0.contains(&name)
    }
}

/// The kept part of the log: the generations of all these backups, each from where the oldest one
/// has it, and the number of the oldest generation.
pub(super) fn kept_log(
    earlier: &[EarlierBackup],
    last: &Manifest,
) -> (Vec<GenerationInfo>, Generation) {
    let manifests = || earlier.iter().map(|it| &it.manifest).chain([last]);
    let mut kept = BTreeMap::<Generation, &GenerationInfo>::new();
    for info in manifests().flat_map(|manifest| &manifest.generations) {
        kept.entry(info.generation).or_insert(info);
    }
    let oldest = manifests().map(|manifest| manifest.oldest_generation).min();
    (
        kept.into_values().cloned().collect(),
        oldest.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_makes_no_backup_superfluous() {
        const HOUR: u64 = 3_600_000;
        let now = 500_000 * HOUR;
        let ago = |hours: u64| now - hours * HOUR;
        let of = |times: &[u64], last, hours| {
            let keep = Duration::from_hours(hours);
            count_removable(times.iter().copied(), last, keep)
        };
        assert_eq!(of(&[], now, 2), 0);
        assert_eq!(of(&[ago(5), ago(4), ago(3), ago(1)], now, 2), 2);
        assert_eq!(of(&[ago(5), ago(4), ago(3)], now, 2), 2);
        assert_eq!(of(&[ago(1), 1000], now, 2), 0);
        assert_eq!(of(&[ago(3), 0, ago(1)], now, 2), 0);
        assert_eq!(of(&[ago(4), 0, ago(3), ago(1)], now, 2), 2);
        assert_eq!(of(&[ago(4), now + HOUR, ago(1)], now, 2), 0);
        assert_eq!(of(&[ago(4), ago(3)], 0, 2), 0);
        assert_eq!(of(&[ago(4), ago(3)], 1000, 2), 0);
    }
}
