//! Opening a database read-only: recovery into memory, without writing any file.
//!
//! The log is read as the next ordinary opening would read it, with one difference: the last frame
//! of a log that was not closed may be readable but not durable, and a read-only opening does not
//! make it durable. A power cut could still remove it, so its changes are ones that the database
//! *may* have.
//!
//! No log is sealed, and no generation of the log is begun. Transactions run as usual; those that
//! write fail when they commit ([`Error::ReadOnly`](crate::Error::ReadOnly)).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::disk::{Disk, ReadOnlyDisk};

use crate::api::database::Database;
use crate::catalogue::catalogue_files::CatalogueFiles;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::leftovers::read_image;
use crate::open::assemble_database::{Opened, epochs_after};
use crate::protocol_spec::{LockRelease, Logging, ProtocolSpec};
use crate::recovery::{self, ImageToLoad, RecoverySettings};
use crate::settings::absolute_path::absolute_path;
use crate::settings::builder::Builder;
use crate::table::raw_table::Owner;

/// How it runs its transactions: without a log.
const SPEC: ProtocolSpec = ProtocolSpec {
    release: LockRelease::Normal,
    logging: Logging::None,
    ..ProtocolSpec::DEFAULT
};

impl Builder {
    /// Opens the database in `dir` to read it. **Nothing in the directory is changed**, and it may
    /// lie on a read-only file system; for as long as it is open, no other process can open it. It
    /// returns when all tables are loaded. Only the settings of the recovery, of indexes and of the
    /// page cache apply.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("data");
    /// use namiki::{Database, Error};
    ///
    /// # let db = Database::open(&dir)?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// # db.transact(|tx| tx.put(&ages, "alice", &30))?;
    /// # db.close()?;
    /// let db = Database::builder().open_read_only(&dir)?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// assert_eq!(db.transact(|tx| tx.get(&ages, "alice"))?, Some(30));
    /// let refused = db.transact(|tx| tx.put(&ages, "alice", &31));
    /// assert!(matches!(refused, Err(Error::ReadOnly)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`OpenError`]; [`OpenError::Missing`] if there is no database.
    pub fn open_read_only(mut self, dir: impl AsRef<Path>) -> Result<Database, OpenError> {
        let dir = &*absolute_path(dir.as_ref())?;
        self.create = false;
        self.check()?;
        let disk = self.testing.disk.clone();
        let disk: Arc<dyn Disk> = disk.unwrap_or_else(|| Arc::new(ReadOnlyDisk::new()));
        let lock = self.wait_for_lock(&*disk, dir)?;
        let Some(manifest) = Manifest::read(&*disk, dir)? else {
            self.may_create(&*disk, dir)?;
            return Err(OpenError::Missing {
                dir: dir.to_owned(),
            });
        };
        let (list, _) = read_image(&*disk, dir, &manifest)?;
        let owner = Owner::new();
        let raw_tables = self.raw_tables(&manifest, owner)?;
        let settings = RecoverySettings {
            hardens: false,
            loads_image: true,
            ..self.tuning.recovery_settings(&self.testing)
        };
        let found = recovery::recover(
            &disk,
            dir,
            &manifest,
            list.as_ref().map(|list| ImageToLoad { dir, list }),
            &raw_tables,
            SPEC.concurrency,
            &settings,
        )?;
        Ok(self.database(Opened {
            spec: SPEC,
            read_only: true,
            tuned_config: None,
            owner,
            raw_tables,
            epochs: epochs_after(&found.report, Duration::MAX),
            log: None,
            disk,
            dir: dir.to_owned(),
            lock,
            recovery: found.report,
            manifest,
            files: CatalogueFiles::none(),
            image: None,
            loader: found.loader,
        }))
    }
}
