//! How far the tables are loaded after an opening.

use crate::api::database::Database;
use crate::error::Error;
use crate::recovery::LoadingProgress;

impl Database {
    /// How far the loading of the tables is. An opening returns when the log was read; the tables are then loaded from the
    /// image in the background. Until a table is loaded, [views](Database::view) read it where it lies, and transactions on it
    /// wait: those tables are loaded first.
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
        // In a forked child, what it asks may be locked by a thread that is not there.
        if shared.engine.is_own() {
            shared.loader.progress()
        } else {
            LoadingProgress::default()
        }
    }

    /// Returns when all tables are loaded, those left out that were dropped meanwhile.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`] for the first one that cannot be loaded, once the others are; [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn wait_until_loaded(&self) -> Result<(), Error> {
        self.shared.engine.check_usable()?;
        self.shared.loader.wait()
    }
}
