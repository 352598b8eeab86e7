//! Backing up a database while transactions run.

use std::path::Path;

use namiki_log::Log;

use crate::api::checkpoint::checkpointer::Checkpointer;
use crate::api::database::{Database, Shared};
use crate::backup::copy_database::back_up;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::backup::source::Source;
use crate::catalogue::image_list::ImageList;
use crate::commit::engine::GroupLocks;
use crate::commit::restore_points::now_ms;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;

impl Database {
    /// Backs the database up into a directory, while transactions go on: what every transaction has left that was
    /// acknowledged before this call, and nothing of any that began after it returns. The directory is a database by
    /// itself; `namiki check` verifies it, and it is opened, or restored elsewhere, as any other.
    ///
    /// Into the directory of an earlier backup only what has changed since is copied: files with rows that a checkpoint has
    /// written, and the log. If that fails, or the process is killed, the earlier backup is there as before, and the next
    /// call goes on from what was copied.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// use namiki::Database;
    ///
    /// let db = Database::open(&data)?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// db.backup(&copy)?;
    /// db.transact(|tx| tx.put(&accounts, &1, &0))?;
    ///
    /// let copied = Database::builder().open_read_only(&copy)?;
    /// let accounts = copied.table::<u64, i64>("accounts")?;
    /// assert_eq!(copied.transact(|tx| tx.get(&accounts, &1))?, Some(100));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// No checkpoint is taken meanwhile, so the log grows until the backup is done.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport, BackupError> {
        self.backup_with(dir, &BackupOptions::default())
    }

    /// [`Database::backup`] with settings.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport, BackupError> {
        let shared = &*self.shared;
        shared.engine.check_open()?;
        if shared.engine.read_only {
            return Err(Error::ReadOnly.into());
        }
        let (Some(checkpointer), Some(log)) = (&shared.checkpointer, &shared.engine.log) else {
            return Err(BackupError::NoLog);
        };
        checkpointer.hold(|image| {
            let is_open = || is_open(shared, checkpointer);
            is_open()?;
            let source = shared.source(log, image.cloned())?;
            back_up(&source, dir.as_ref(), options, &is_open)
        })
    }
}

fn is_open(shared: &Shared, checkpointer: &Checkpointer) -> Result<(), BackupError> {
    shared.engine.check_process()?;
    match checkpointer.is_over() {
        true => Err(shared
            .engine
            .check_poison()
            .err()
            .unwrap_or(Error::Closed)
            .into()),
        false => Ok(()),
    }
}

impl Shared {
    /// The database as it is now. Of its log, what is hardened counts up to the stamp of a view.
    fn source(
        &self,
        log: &Log<GroupLocks>,
        list: Option<ImageList>,
    ) -> Result<Source<'_>, BackupError> {
        // As long as it is locked, no table is created, dropped or loaded.
        let catalogue = self.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed.into());
        }
        let taken_at_ms = now_ms();
        let stamp = OpenView::open::<NoFaults>(&self.engine, false)?.stamp;
        let mut manifest = catalogue.manifest.clone();
        // After the view: everything up to its stamp is hardened.
        let end = log.hardened_end().map_err(Error::LogFailed)?;
        if let Some(written) = manifest.generations.last_mut() {
            written.seal = Some(end);
            written.last_stamp = Some(stamp);
        }
        Source::new(&self.disk, &self.dir, manifest, list, taken_at_ms)
    }
}
