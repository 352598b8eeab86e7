//! Backing up a database that no process has open, and restoring a backup: copies of a directory.

use std::path::Path;
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, ReadOnlyDisk};

use crate::backup::copy::copy_database::{back_up, restore};
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::commit::restore_points::now_ms;
use crate::error::OpenError;
use crate::image::leftovers::read_image;
use crate::recovery::{self, ImageToLoad, RecoverySettings};
use crate::settings::absolute_path::absolute_path;
use crate::settings::builder::Builder;
use crate::table::raw_table::Owner;
use crate::wal_format::restore_point::RestorePoint;

impl Builder {
    /// Backs up the database in `dir`, which no process has open, into the directory `to`, as
    /// [`Database::backup`](crate::Database::backup) does for an open one. **Nothing in `dir` is
    /// changed.**
    ///
    /// If the database was not closed in order, its log is first recovered in memory to find its
    /// end: as an opening does, and with the settings of this builder for recoveries and indexes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, copy, again) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("again"));
    /// use namiki::{BackupOptions, Database};
    ///
    /// # let db = Database::open(&data)?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// # db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// # db.close()?;
    /// Database::builder().backup_closed(&data, &copy, &BackupOptions::default())?;
    /// Database::builder().restore(&copy, &again, &BackupOptions::default())?;
    ///
    /// let db = Database::open(&again)?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// assert_eq!(db.transact(|tx| tx.get(&accounts, &1))?, Some(100));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn backup_closed(
        self,
        dir: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        let to = absolute_path(to.as_ref())?;
        self.of_closed(dir.as_ref(), |source| {
            back_up(&source, &to, options, &|| Ok(()))
        })
    }

    /// Restores a backup, or copies any other database that no process has open, into a new or
    /// empty directory. Every checksum is verified on the way. The restored database has its own
    /// history from then on: it is an ordinary database, and its backups go into directories of
    /// their own.
    ///
    /// # Errors
    /// [`BackupError`]; [`BackupError::NotEmpty`] if there is anything in `to` but what an interrupted restore has left.
    pub fn restore(
        self,
        backup: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        let to = absolute_path(to.as_ref())?;
        self.of_closed(backup.as_ref(), |source| restore(&source, &to, options))
    }

    /// The moments to which a backup can be restored, oldest first: those of the [restore
    /// points](Builder::restore_points) in its log, after its image and after the last time that a
    /// table in memory was dropped or cleared; and those of the [earlier
    /// backups](BackupOptions::keep) that are kept with it, with the moments at which these end.
    /// Reads the log.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn restore_points_of(
        self,
        backup: impl AsRef<Path>,
    ) -> Result<Vec<RestorePoint>, BackupError> {
        self.of_closed(backup.as_ref(), |source| source.restore_points())
    }

    /// Point-in-time recovery: [`Builder::restore`] as of a restore point, with exactly the commits
    /// up to its stamp. The tables and their names are those of the backup; tables in segments have
    /// all their rows.
    ///
    /// # Errors
    /// [`BackupError::NoSuchPoint`]; as [`Builder::restore`].
    pub fn restore_to(
        self,
        backup: impl AsRef<Path>,
        to: impl AsRef<Path>,
        point: Stamp,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        let to = absolute_path(to.as_ref())?;
        self.of_closed(backup.as_ref(), |source| {
            restore(&source.ended_at(point)?, &to, options)
        })
    }

    /// Calls `body` with the database in a directory, which no other process can open during the
    /// call.
    fn of_closed<T>(
        mut self,
        dir: &Path,
        body: impl FnOnce(Source<'_>) -> Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        let dir = &*absolute_path(dir)?;
        self.create = false;
        self.check()?;
        let disk = self.testing.disk.clone();
        let disk: Arc<dyn Disk> = disk.unwrap_or_else(|| Arc::new(ReadOnlyDisk::new()));
        let _lock = self.wait_for_lock(&*disk, dir)?;
        let Some(mut manifest) = Manifest::read(&*disk, dir)? else {
            self.may_create(&*disk, dir)?;
            let dir = dir.to_owned();
            return Err(OpenError::Missing { dir }.into());
        };
        let (list, _) = read_image(&*disk, dir, &manifest)?;
        if manifest.generations.iter().any(|info| info.seal.is_none()) {
            self.seal(&disk, dir, &mut manifest, list.as_ref())?;
        }
        body(Source::new(&disk, dir, manifest, list, now_ms())?)
    }

    /// Finds the end of a log that was not closed in order.
    fn seal(
        &self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        manifest: &mut Manifest,
        list: Option<&ImageList>,
    ) -> Result<(), BackupError> {
        let raw_tables = self.raw_tables(manifest, Owner::new())?;
        let settings = RecoverySettings {
            hardens: false,
            ..self.tuning.recovery_settings(&self.testing)
        };
        let found = recovery::recover(
            disk,
            dir,
            manifest,
            list.map(|list| ImageToLoad { dir, list }),
            &raw_tables,
            manifest.spec.concurrency,
            &settings,
        )?;
        for (generation, seal) in found.seals {
            let mut generations = manifest.generations.iter_mut();
            if let Some(info) = generations.find(|info| info.generation == generation) {
                info.seal = Some(seal);
            }
        }
        Ok(())
    }
}
