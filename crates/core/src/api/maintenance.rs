//! Maintenance of an open database: checkpoints, backups, and the progress of loading its tables.

use std::path::Path;

use crate::api::database::Database;
use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupReport};
use crate::checkpoint::settings_and_reports::CheckpointReport;
use crate::commit::removed_keys::Taken;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;
use crate::recovery::LoadingProgress;
use crate::settings::absolute_path::absolute_path;

impl Database {
    /// Takes a checkpoint now: writes what has changed in the tables in memory since the last one,
    /// and frees the log before it. The database does so by itself when the log has become long,
    /// see [`Builder::checkpoint_log_bytes`](crate::Builder::checkpoint_log_bytes), and when it is
    /// closed. Transactions continue during the checkpoint; versions that they overwrite are kept
    /// in memory until the checkpoint has written them, at most one for each key.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let db = namiki::Database::open(dir.path().join("data"))?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// let report = db.checkpoint()?;
    /// assert_eq!((report.tables, report.rows), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A database without a log has nothing to free; its tables are in memory alone, and this does nothing.
    ///
    /// # Errors
    /// [`Error::CheckpointFailed`], [`Error::Manifest`], [`Error::AnotherWriter`]: the database
    /// continues as before. [`Error::DiskFull`], [`Error::LogFailed`], [`Error::ReadOnly`],
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        let shared = &*self.shared;
        shared.engine.check_open()?;
        if shared.engine.read_only {
            return Err(Error::ReadOnly);
        }
        match &shared.checkpointer {
            Some(checkpointer) => checkpointer.checkpoint(),
            None => Ok(CheckpointReport::default()),
        }
    }

    /// Online backup: copies the database into a directory while transactions run. The backup has
    /// every transaction that was acknowledged before this call, and none that began after it
    /// returns. The directory is a complete database; `namiki check` verifies it, and it can be
    /// opened, or restored elsewhere, like any other.
    ///
    /// A backup into the directory of an earlier backup is incremental: it copies only the files
    /// with rows that a checkpoint has written since, and the log. If it fails, or the process is
    /// killed, the earlier backup is unchanged, and the next call resumes from the files that were
    /// copied.
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

    /// The progress of loading the tables. An opening returns when the log was replayed; the tables
    /// are then loaded from the image in the background. Until a table is loaded,
    /// [views](Database::view) read it from the image, and transactions on it wait: such tables are
    /// loaded first.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("data");
    /// # let db = namiki::Database::open(&dir)?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// # db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// # db.checkpoint()?;
    /// # db.close()?;
    /// let db = namiki::Database::open(&dir)?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// // At once, whether the table is loaded or not.
    /// assert_eq!(db.read(|view| view.get(&accounts, &1))?, Some(100));
    /// // Waits for this table.
    /// db.transact(|tx| tx.put(&accounts, &1, &0))?;
    /// // Waits for all tables.
    /// db.wait_until_loaded()?;
    /// let loading = db.loading();
    /// assert_eq!((loading.tables, loading.rows), (loading.tables_total, loading.rows_total));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn loading(&self) -> LoadingProgress {
        let shared = &self.shared;
        // In a forked child, a lock that this needs may be held by a thread that does not exist
        // there.
        if shared.engine.is_own() {
            shared.loader.progress()
        } else {
            LoadingProgress::default()
        }
    }

    /// Returns when all tables are loaded, except those that are dropped during the call.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`] for the first one that cannot be loaded, once the others are; [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn wait_until_loaded(&self) -> Result<(), Error> {
        self.shared.engine.check_usable()?;
        self.shared.loader.wait()
    }

    /// Takes deleted keys out of the indexes now, so that their memory can be reused; returns how
    /// many remain: those that a view may still see, or that are locked; and all of them while a
    /// transaction is held ([`Session::begin`](crate::Session::begin),
    /// [`Database::begin`](crate::Database::begin)). The database does so by itself, with the next
    /// transactions or a moment later.
    ///
    /// # Errors
    /// As [`Database::view`](crate::Database::view).
    #[doc(hidden)]
    pub fn take_out_deleted_keys(&self) -> Result<usize, Error> {
        let engine = &self.shared.engine;
        if engine.installed.is_some() {
            return Err(Error::ReadOnly);
        }
        if engine.removed_keys.waiting(Taken::All) > 0 {
            // Closes the current epoch, and waits until it is durable.
            drop(OpenView::open::<NoFaults>(engine, false)?);
            engine.take_out_in_background(|| false);
        }
        Ok(engine.removed_keys.waiting(Taken::All))
    }
}
