//! Opening a database for writing.
//!
//! ```text
//!   1. take the directory      its lock; a directory that is no database, and may not become one, is refused
//!   2. read the catalogue      the manifest, its table journal and the image list; their names are made durable
//!   3. resolve the settings    what the program leaves to be chosen, by the device; a new database gets its identity
//!   4. recover                 replay the log into the tables; seal in memory what was read
//!   5. clean up                files of interrupted loads and checkpoints, log files that an image made superfluous
//!   6. start the log           the next generation, which no manifest names yet
//!   7. announce                one replacement of the manifest: seals, the new generation, the journal's tables;
//!                              the journal, which no longer counts, is removed
//!   8. assemble the database   threads start: checkpoints, the backup that follows, loading the tables of the image
//! ```
//! A crash, or a log that cannot be started, before step 7 leaves everything as it was. Nothing commits before it, so a
//! generation that was started and not announced is empty, and the next opening starts it again. An announced generation
//! has all its streams: one that is missing was lost.
//!
//! The manifest of step 2 was renamed into its place, but the process that did so may have been
//! killed, or have failed, before the directory was synced; a power cut then takes the rename back.
//! A log that was begun under the lost manifest would contradict the older one: a shared device
//! would have heads of a later generation than expected, or the identity of a database that was
//! never created. So the directory is synced before a log is begun. (Treating every head without
//! frames as unused would solve only the first problem. It would also hide a device that is ahead
//! of a manifest which was restored from a copy.)
//!
//! Another program may have opened the directory despite the lock (on a network file system without
//! locks). This is detected before the first change, before the manifest is replaced, and once more
//! after that.
//!
//! Paper: pwal §5.1 (the master record and its clean-exit mark)

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_log::{GenerationEnd, GenerationInfo, Log, remove_superfluous, remove_unannounced};
use namiki_platform::disk::{DirLock, Disk, guarded};
use namiki_platform::{Generation, Lsn};

use crate::api::database::Database;
use crate::backup::retention::keeps_earlier_backups;
use crate::catalogue::catalogue_files::CatalogueFiles;
use crate::catalogue::image_list::ImageList;
use crate::catalogue::kept_room;
use crate::catalogue::manifest::{Manifest, Written};
use crate::catalogue::opened_backup::mark_opened;
use crate::catalogue::random_number::random_number;
use crate::commit::engine::GroupLocks;
use crate::commit::epoch::Epochs;
use crate::error::OpenError;
use crate::events;
use crate::image::leftovers::{ImageSurvey, read_image};
use crate::image::write::image_writer::PresentImage;
use crate::open::assemble_database::{Opened, epochs_after};
use crate::open::check_directory::remove_left;
use crate::open::log_settings::ResolvedConfig;
use crate::recovery::{self, ImageToLoad};
use crate::settings::absolute_path::absolute_path;
use crate::settings::builder::Builder;
use crate::table::raw_table::Owner;

/// With this number of log generations, an opening loads the image at once, so that it can take a
/// checkpoint.
const GENERATIONS_UNLOADED_MAX: usize = 32;

impl Builder {
    /// Opens the database in `dir`, and recovers it.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing that the database holds is changed then.
    pub fn open(mut self, dir: impl AsRef<Path>) -> Result<Database, OpenError> {
        let dir = &*absolute_path(dir.as_ref())?;
        self.make_paths_absolute()?;
        self.check()?;
        let (disk, lock) = self.take_directory(dir)?;
        let (present, list, left) = self.read_catalogue(&*disk, dir)?;
        let device = |source| device(dir, source);
        remove_left(&*disk, dir).map_err(device)?;
        let resolved_config = self.resolved_config(&*disk, dir, &left).map_err(device)?;
        let spec = resolved_config.spec;
        let mut manifest = match present {
            Some(manifest) => manifest,
            None => {
                let manifest = Manifest::new(new_identity(), spec);
                // The identity is determined before any file contains it.
                write(&manifest, &*disk, dir)?;
                manifest
            }
        };

        let owner = Owner::new();
        let raw_tables = self.raw_tables(&manifest, owner)?;
        let mut settings = self.tuning.recovery_settings(&self.testing);
        // Openings that are closed before all tables are loaded take no checkpoint, and leave a generation each.
        settings.loads_image |= manifest.generations.len() >= GENERATIONS_UNLOADED_MAX;
        let mut found = recovery::recover(
            &disk,
            dir,
            &manifest,
            list.as_ref().map(|list| ImageToLoad { dir, list }),
            &raw_tables,
            spec.concurrency,
            &settings,
        )?;
        let end_of_last_opening = seal_generations(&mut manifest, found.seals);
        let found_manifest = manifest.clone();
        check_writer(&found_manifest, &*disk, dir)?;
        found.report.removed_files = clean_up(&mut manifest, &left, &*disk, dir)?;

        let epochs = epochs_after(&found.report, resolved_config.epoch_length);
        let next_lsn = found.next_lsn;
        let log = self.start_log(
            &resolved_config,
            &mut manifest,
            next_lsn,
            &epochs,
            (&disk, dir),
        )?;
        manifest.leave_backup();
        manifest.begin_opening(end_of_last_opening, log.is_some());
        manifest.opening = Manifest::new_opening();
        manifest.spec = spec;
        manifest.closed = false;
        let files = announce(&manifest, &found_manifest, &*disk, dir)?;

        let report = &found.report;
        events::opened(dir, spec, report.closed, report.replayed, report.undone);
        // A replica's catalogue in memory is ahead of that of its image.
        let read_only = self.is_replica;
        Ok(self.database(Opened {
            spec,
            read_only,
            tuned_config: resolved_config.tuned_config,
            owner,
            raw_tables,
            epochs,
            log,
            disk,
            dir: dir.to_owned(),
            lock,
            recovery: found.report,
            manifest,
            files,
            image: list.map(|list| PresentImage {
                list,
                // The loader detects them.
                shrunk_files: BTreeSet::new(),
            }),
            loader: found.loader,
        }))
    }

    /// Step 1: locks the directory, which is created if it does not exist. From then on, a
    /// directory that is moved away is detected before a name in it is changed.
    fn take_directory(&self, dir: &Path) -> Result<(Arc<dyn Disk>, DirLock), OpenError> {
        let disk = self.disk_for(dir)?;
        if self.create {
            disk.create_dir_all(dir)
                .map_err(|source| device(dir, source))?;
        }
        if Manifest::read_alone(&*disk, dir)?.is_none()
            && let Err(refused) = self.may_create(&*disk, dir)
            && Manifest::read_alone(&*disk, dir)?.is_none()
        {
            // Checked without the lock, which would leave a file behind. So the result is valid
            // only if no other process was creating a database at the same time: its files may have
            // been seen.
            return Err(refused);
        }
        let lock = self.wait_for_lock(&*disk, dir)?;
        if let (Some(follow), None) = (&self.tuning.follow, &self.testing.disk) {
            follow.check_elsewhere(dir)?;
        }
        Ok((guarded(disk, &lock), lock))
    }

    /// Step 2: the manifest, the list of its image, and the files of images that neither of them
    /// names; no manifest if the database is to be created.
    fn read_catalogue(
        &self,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<(Option<Manifest>, Option<ImageList>, ImageSurvey), OpenError> {
        let Some(manifest) = Manifest::read(disk, dir)? else {
            self.may_create(disk, dir)?;
            return Ok((None, None, ImageSurvey::default()));
        };
        if manifest.backup.is_some() && keeps_earlier_backups(disk, dir)? {
            let dir = dir.to_owned();
            return Err(OpenError::KeepsEarlierBackups { dir });
        }
        if !self.is_replica && manifest.is_of_a_node() {
            let dir = dir.to_owned();
            return Err(OpenError::OfANode { dir });
        }
        let (list, left) = read_image(disk, dir, &manifest)?;
        disk.sync_dir(dir).map_err(|source| device(dir, source))?;
        Ok((Some(manifest), list, left))
    }

    /// Step 6: creates the next generation of the log, and adds it to the manifest in memory.
    fn start_log(
        &self,
        resolved_config: &ResolvedConfig,
        manifest: &mut Manifest,
        next_lsn: Lsn,
        epochs: &Arc<Epochs>,
        (disk, dir): (&Arc<dyn Disk>, &Path),
    ) -> Result<Option<Arc<Log<GroupLocks>>>, OpenError> {
        let of_directory = (&**disk, dir);
        let config = self.log_config(resolved_config, manifest, next_lsn, epochs, of_directory)?;
        let Some((config, mut info)) = config else {
            return Ok(None);
        };
        manifest.next_generation = config.generation.next();
        let wal_dir = dir.join("wal");
        let create = || Log::create(Arc::clone(disk), &wal_dir, config.clone());
        let started = match create() {
            // The directory of a stream takes some bytes, too.
            Err(full) if full.is_for_want_of_room() && kept_room::give_up(&**disk, dir) => create(),
            started => started,
        };
        let started = started.map_err(|source| OpenError::StartLog {
            dir: wal_dir,
            source,
        })?;
        // In the rings of a shared device, each stream begins where the previous generation's ends.
        info.begin_at(&started.beginning());
        manifest.generations.push(info);
        Ok(Some(started))
    }
}

/// Enters the ends that recovery has found into the manifest in memory, and drops generations
/// without frames. Returns the end of the last opening's history, for which those count, too.
fn seal_generations(manifest: &mut Manifest, seals: Vec<(Generation, GenerationEnd)>) -> u64 {
    for (generation, seal) in seals {
        let mut generations = manifest.generations.iter_mut();
        if let Some(unsealed) = generations.find(|info| info.generation == generation) {
            unsealed.seal = Some(seal);
        }
    }
    let end_of_last_opening = manifest.position();
    let generations = &mut manifest.generations;
    generations.retain(|generation| !holds_nothing(generation));
    end_of_last_opening
}

/// Step 5: removes the files that neither the manifest nor its image names. Returns how many log files were removed.
fn clean_up(
    manifest: &mut Manifest,
    left: &ImageSurvey,
    disk: &dyn Disk,
    dir: &Path,
) -> Result<u64, OpenError> {
    let free = left.clean_up(disk, dir);
    manifest.number_files_from(free);
    let wal_dir = dir.join("wal");
    let (generations, oldest) = (&manifest.generations, manifest.oldest_generation);
    let removed = remove_superfluous(disk, &wal_dir, generations, oldest);
    events::superfluous_removed(&removed);
    if manifest.backup.is_some() {
        remove_unannounced(disk, &wal_dir, manifest.next_generation)
            .map_err(|(path, source)| OpenError::Device { path, source })?;
        mark_opened(disk, dir, manifest)?;
    }
    Ok(removed.files)
}

/// Step 7: replaces the present manifest.
fn announce(
    manifest: &Manifest,
    found: &Manifest,
    disk: &dyn Disk,
    dir: &Path,
) -> Result<CatalogueFiles, OpenError> {
    check_writer(found, disk, dir)?;
    let written = write(manifest, disk, dir)?;
    // Another program may have checked and written at the same time: one of the two detects that.
    check_writer(manifest, disk, dir)?;
    Ok(CatalogueFiles::announced(written, manifest, disk, dir))
}

/// Whether a generation is known to have no frames at all.
fn holds_nothing(generation: &GenerationInfo) -> bool {
    let seal = generation.seal.as_ref();
    seal.is_some_and(|seal| seal.last_sequences.iter().all(|last| *last == 0))
}

fn write(manifest: &Manifest, disk: &dyn Disk, dir: &Path) -> Result<Written, OpenError> {
    manifest
        .write(disk, dir)
        .map_err(|source| OpenError::Device {
            path: Manifest::path(dir),
            source,
        })
}

/// Fails if another program has opened the database since this manifest was read or written.
fn check_writer(manifest: &Manifest, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let path = Manifest::path(dir);
    match manifest.is_still_ours(disk, dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::AnotherWriter { path }),
        Err(source) => Err(OpenError::Device { path, source }),
    }
}

/// A number that no other database has.
fn new_identity() -> u128 {
    u128::from(random_number()) << 64 | u128::from(random_number())
}

/// The device has failed at this path.
fn device(path: &Path, source: io::Error) -> OpenError {
    OpenError::Device {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use namiki_platform::Stamp;
    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::error::Error;

    #[test]
    fn a_database_without_stamps_can_still_be_read() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let dir = Path::new("/db");
        let open = || {
            let builder = Database::builder().disk(Arc::clone(&disk));
            let db = builder.epoch_length(Duration::MAX).open(dir).unwrap();
            let table = db.table::<u64, u64>("numbers").unwrap();
            (db, table)
        };
        let (db, table) = open();
        db.transact(|tx| tx.put(&table, &1, &0)).unwrap();
        db.close().unwrap();
        let mut manifest = Manifest::read(&sim, dir).unwrap().unwrap();
        let seal = manifest.generations[0].seal.as_mut().unwrap();
        seal.max_stamp = Stamp(Stamp::MAX.0 - 3);
        manifest.write(&sim, dir).unwrap();

        let (db, table) = open();
        let mut value = 0;
        let error = loop {
            match db.transact(|tx| tx.put(&table, &1, &(value + 1))) {
                Ok(()) => value += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::StampsExhausted), "{error:?}");
        // At the floor, one above the last that was seen, and up to the largest.
        assert_eq!(value, 3);
        let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(found, Some(value));
        db.close().unwrap();
        // And so it is found again.
        let (db, table) = open();
        let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
        assert_eq!(found, Some(value));
    }
}
