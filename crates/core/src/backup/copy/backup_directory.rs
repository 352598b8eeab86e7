//! The directory of a backup: its permitted contents, and the replacement of the previous backup.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_log::{remove_superfluous, remove_unannounced, remove_unnumbered};
use namiki_platform::Generation;
use namiki_platform::disk::{DirLock, Disk, PROBE_FILES, PROFILE_FILES};

use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::retention::{
    EarlierBackup, NeededFiles, covers, earlier_backups, keep_as_earlier, kept_log, remove_older,
};
use crate::catalogue::backup_mark::BackupMark;
use crate::catalogue::image_files::{FileNumber, ImageFileName, image_dir};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::catalogue::opened_backup::was_opened;
use crate::catalogue::relation::Relation;
use crate::error::OpenError;
use crate::events;
use crate::image::leftovers::read_image;

/// Marks a first backup of a directory that is running or was interrupted; contains the identity of
/// its database.
const BEGUN: &str = "BACKUP";

/// The present backup.
pub(super) struct BackupBefore {
    pub(super) manifest: Manifest,
    pub(super) mark: BackupMark,
    pub(super) list: Option<ImageList>,
}

/// The destination of a backup. Other processes are locked out.
pub(super) struct Destination<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) before: Option<BackupBefore>,
    earlier: Vec<EarlierBackup>,
    /// How long earlier backups are kept; `None`: none are.
    keep: Option<Duration>,
    _lock: DirLock,
}

impl<'a> Destination<'a> {
    /// Opens a directory for a backup of this source, and creates it if it does not exist. `keep`:
    /// for how long earlier ones are kept.
    ///
    /// # Errors
    /// [`BackupError`], if it holds anything else than earlier backups.
    pub(super) fn take(
        disk: &'a Arc<dyn Disk>,
        dir: &'a Path,
        source: &Source<'_>,
        keep: Option<Duration>,
    ) -> Result<Self, BackupError> {
        let lock = lock(disk, dir)?;
        let (before, earlier) = match Manifest::read(&**disk, dir)? {
            Some(manifest) => (
                Some(backup_before(disk, dir, source, manifest)?),
                earlier_backups(&**disk, dir)?,
            ),
            None => {
                begin(&**disk, dir, source)?;
                (None, Vec::new())
            }
        };
        if keep.is_none() && !earlier.is_empty() {
            let dir = dir.to_owned();
            return Err(BackupError::KeepsEarlier { dir });
        }
        Ok(Self {
            disk,
            dir,
            before,
            earlier,
            keep,
            _lock: lock,
        })
    }

    /// Whether the present backup, and earlier ones, are kept with the new one.
    pub(super) fn keeps_before(&self) -> bool {
        self.keep.is_some_and(|longest| !longest.is_zero())
    }

    /// The present earlier backups, oldest first.
    pub(super) fn earlier(&self) -> &[EarlierBackup] {
        &self.earlier
    }

    /// Opens a new or empty directory for a restore from this source, or one in which that was
    /// interrupted.
    ///
    /// # Errors
    /// [`BackupError`], if it holds anything else.
    pub(super) fn take_empty(
        disk: &'a Arc<dyn Disk>,
        dir: &'a Path,
        source: &Source<'_>,
    ) -> Result<Self, BackupError> {
        let lock = lock(disk, dir)?;
        if Manifest::read_alone(&**disk, dir)?.is_some() {
            let dir = dir.to_owned();
            return Err(BackupError::NotEmpty { dir });
        }
        begin(&**disk, dir, source)?;
        Ok(Self {
            disk,
            dir,
            before: None,
            earlier: Vec::new(),
            keep: None,
            _lock: lock,
        })
    }

    /// By how much this time is before that of a backup that is there.
    pub(super) fn clock_behind(&self, now_ms: u64) -> Option<Duration> {
        let before = self.before.as_ref().map(|before| before.mark.taken_at_ms);
        let earlier = self.earlier.iter().map(EarlierBackup::taken_at_ms);
        let latest_ms = earlier.chain(before).max()?;
        (latest_ms > now_ms).then(|| Duration::from_millis(latest_ms - now_ms))
    }

    /// Installs the copy as the backup, once all of it is durable. The previous one becomes an
    /// earlier one, if such are kept and the new one does not cover it. Returns how many are kept.
    ///
    /// # Errors
    /// [`BackupError::Device`], [`BackupError::DiskFull`]: if the very last step has failed, either backup may be there.
    pub(super) fn switch(mut self, manifest: &Manifest) -> Result<u64, BackupError> {
        let (disk, dir) = (&**self.disk, self.dir);
        let is_covered = |before: &BackupBefore| covers(manifest, &before.manifest);
        let is_other_image = !self.before.as_ref().is_some_and(is_covered);
        if let Some(before) = &self.before
            && self.keep.is_some()
            && is_other_image
        {
            keep_as_earlier(disk, dir, &mut self.earlier, &before.manifest)?;
        }
        self.step_back(manifest)?;
        let written = manifest.write(disk, dir);
        written.map_err(|error| BackupError::device(&Manifest::path(dir), error))?;
        // From here on the backup is the new one, even if removals fail. Files that cannot be
        // removed stay, and the next backup retries.
        let taken_at_ms = manifest.backup.as_ref().map_or(0, |mark| mark.taken_at_ms);
        if let Ok(is_any_removed) = self.remove_older(taken_at_ms) {
            self.clean_up(manifest, is_other_image || is_any_removed)?;
        }
        let _ = disk.remove(&dir.join(BEGUN));
        Ok(self.earlier.len() as u64)
    }

    /// Removes earlier backups that are not to be kept any more at this time, with what they alone need: for a backup that finds no
    /// room. The last one stays. Returns whether there were any.
    ///
    /// # Errors
    /// [`BackupError`].
    pub(super) fn make_room(mut self, now_ms: u64) -> Result<bool, BackupError> {
        let Some(before) = self.before.take() else {
            return Ok(false);
        };
        let is_any_removed = self.remove_older(now_ms)?;
        if is_any_removed {
            self.clean_up(&before.manifest, true)?;
        }
        Ok(is_any_removed)
    }

    /// Removes earlier backups that are not to be kept any more at this time.
    fn remove_older(&mut self, now_ms: u64) -> Result<bool, BackupError> {
        let (disk, dir) = (&**self.disk, self.dir);
        let keep = self.keep;
        keep.map_or(Ok(false), |keep| {
            remove_older(disk, dir, &mut self.earlier, now_ms, keep)
        })
    }

    /// Gives files their lasting names, and removes those that no backup names. Where earlier ones are kept, their image lists are
    /// read for that, so it is done only if anything can have become superfluous.
    fn clean_up(&self, manifest: &Manifest, is_any_superfluous: bool) -> Result<(), BackupError> {
        let (disk, dir) = (&**self.disk, self.dir);
        let (_, mut survey) = read_image(disk, dir, manifest)?;
        if is_any_superfluous || self.earlier.is_empty() {
            let needed = NeededFiles::of(disk, dir, &self.earlier)?;
            survey.spare(|name| needed.has(name));
        } else {
            survey.spare(|_| true);
        }
        survey.clean_up(disk, dir);
        let (generations, oldest) = kept_log(&self.earlier, manifest);
        let wal = dir.join("wal");
        let removed = remove_superfluous(disk, &wal, &generations, oldest);
        events::superfluous_removed(&removed);
        let streams = generations.iter().map(|info| info.streams).max();
        remove_unnumbered(disk, &wal, streams.unwrap_or(0));
        Ok(())
    }

    /// Gives files that only the previous backup names their first names, durably.
    fn step_back(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        let mut names = Vec::new();
        let list = |manifest: &Manifest| manifest.image_list.as_ref().map(|list| list.file);
        if let Some(file) = list(&before.manifest)
            && list(manifest) != Some(file)
        {
            names.push((ImageFileName::List(file), ImageFileName::NewList(file)));
        }
        let has = |file: FileNumber| manifest.loaded_tables.segments().any(|it| it.file == file);
        let segments = before
            .manifest
            .loaded_tables
            .segments()
            .map(|segment| segment.file);
        for file in segments.filter(|file| !has(*file)) {
            names.push((
                ImageFileName::Segment(file),
                ImageFileName::NewSegment(file),
            ));
        }
        if names.is_empty() {
            return Ok(());
        }
        for (lasting, first) in names {
            let lasting = lasting.path(self.dir);
            match self.disk.rename(&lasting, &first.path(self.dir)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(BackupError::device(&lasting, error));
                }
                _ => {}
            }
        }
        let image_dir = image_dir(self.dir);
        let synced = self.disk.sync_dir(&image_dir);
        synced.map_err(|error| BackupError::device(&image_dir, error))
    }
}

/// Creates the directory if it does not exist, and locks other processes out.
fn lock(disk: &Arc<dyn Disk>, dir: &Path) -> Result<DirLock, BackupError> {
    let device = |error| BackupError::device(dir, error);
    disk.create_dir_all(dir).map_err(device)?;
    disk.lock_dir(dir).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => OpenError::InUse {
            dir: dir.to_owned(),
        }
        .into(),
        _ => device(error),
    })
}

/// The backup in a directory, if that of the source can take its place.
fn backup_before(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    source: &Source<'_>,
    manifest: Manifest,
) -> Result<BackupBefore, BackupError> {
    let here = || dir.to_owned();
    let was_opened = was_opened(&**disk, dir)?;
    if manifest.database != source.manifest.database {
        return Err(BackupError::OtherDatabase { dir: here() });
    }
    let mark = manifest.backup.clone();
    let Some(mark) = mark.filter(|_| !was_opened) else {
        return Err(BackupError::WasOpened { dir: here() });
    };
    match source.manifest.relation_to(&manifest) {
        Relation::Continues => {}
        Relation::Differs => return Err(BackupError::OtherHistory { dir: here() }),
        Relation::Unknown => return Err(BackupError::UnknownHistory { dir: here() }),
    }
    remove_log_from(&**disk, dir, manifest.next_generation)?;
    let (list, _) = read_image(&**disk, dir, &manifest)?;
    Ok(BackupBefore {
        manifest,
        mark,
        list,
    })
}

/// Removes the log that an interrupted copy has left: of this generation and later ones. It is not used, and may be of another history,
/// or of a later moment.
fn remove_log_from(disk: &dyn Disk, dir: &Path, from: Generation) -> Result<(), BackupError> {
    remove_unannounced(disk, &dir.join("wal"), from)
        .map_err(|(path, error)| BackupError::device(&path, error))
}

/// Begins the first backup in a directory, which holds nothing, or what an interrupted one has left.
fn begin(disk: &dyn Disk, dir: &Path, source: &Source<'_>) -> Result<(), BackupError> {
    let path = dir.join(BEGUN);
    let identity = source.manifest.database.as_bytes();
    match disk.read(&path) {
        Ok(found) if found == identity => return remove_log_from(disk, dir, Generation(0)),
        Ok(_) => {
            let dir = dir.to_owned();
            return Err(BackupError::NotEmpty { dir });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(BackupError::device(&path, error)),
    }
    let found = disk.list(dir);
    let found = found.map_err(|error| BackupError::device(dir, error))?;
    if found.iter().any(|file| !is_of_the_disk(&file.path)) {
        let dir = dir.to_owned();
        return Err(BackupError::NotEmpty { dir });
    }
    let written = disk.replace(&path, identity);
    written.map_err(|error| BackupError::device(&path, error))
}

/// Whether a file is one that a disk makes to lock a directory or to be tried.
fn is_of_the_disk(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    ["LOCK", PROBE_FILES, PROFILE_FILES]
        .iter()
        .any(|it| name.starts_with(it))
}
