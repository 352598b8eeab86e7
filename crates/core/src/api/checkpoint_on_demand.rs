//! Taking a checkpoint now.

use crate::api::database::Database;
use crate::checkpoint::settings_and_reports::CheckpointReport;
use crate::error::Error;

impl Database {
    /// Takes a checkpoint now: writes what has changed in the tables in memory since the last one, and frees the log before
    /// it. The database does so by itself when the log has become long, see
    /// [`Builder::checkpoint_log_bytes`](crate::Builder::checkpoint_log_bytes), and when it is closed. Transactions go on
    /// meanwhile; what they overwrite is kept in memory until the checkpoint has written it, each key once at most.
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
    /// [`Error::CheckpointFailed`], [`Error::Manifest`], [`Error::AnotherWriter`]: the database goes on as before.
    /// [`Error::DiskFull`], [`Error::LogFailed`], [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`].
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
}
