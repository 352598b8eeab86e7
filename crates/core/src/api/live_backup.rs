//! Backing up a database while transactions run.

use std::path::Path;

use crate::api::database::Database;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::error::Error;
use crate::settings::absolute_path::absolute_path;

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
    /// No checkpoint is taken until the backup is done, so the log grows. On a disk that is full, a commit that only a checkpoint
    /// could make room for is refused with [`Error::DiskFull`] as long as the backup takes: it does not wait for it. (A backup that
    /// [follows](crate::Builder::backup_to) the database gives way to such commits.)
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
        let Some(checkpointer) = &shared.checkpointer else {
            return Err(BackupError::NoLog);
        };
        checkpointer.back_up(&absolute_path(dir.as_ref())?, options)
    }
}
