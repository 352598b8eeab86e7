//! Opening a database: settings, recovery, and the start of a new log.
//!
//! ```text
//!   lock the directory → read the manifest and its table journal, and make their names durable → replay the log → remove
//!   what interrupted loads have left, and rename what announced ones have; remove files of the log that an image has made
//!   superfluous → start the next generation of the log →
//!   seal what was read, announce the new generation and take in the journal's tables (one replacement of the
//!   manifest) → remove the journal, which no longer counts → begin to load the tables from the image
//! ```
//! A crash, or a log that cannot be started, before the manifest is replaced leaves everything as it
//! was. Nothing commits before it is, so a generation that was started and not announced is empty,
//! and the next opening starts it again. One that is announced has all its streams: if one of them
//! is missing, it was lost.
//!
//! The manifest that is read was renamed into its place, but the process that did so may have been killed, or
//! have failed, before the directory was synced; a power cut then takes it back. What is begun by it would
//! contradict the older one: a device elsewhere would have the heads of a generation later than the one that is
//! asked for, or the identity of a database that was never created. So the directory is synced before anything
//! is begun. (To take a head without frames for unused, whatever its generation, would help against the first
//! and not against the second; and where an older manifest is restored from a copy, a device that is ahead of
//! it would no longer be noticed.)
//!
//! Paper: pwal §5.1 (the master record and its clean-exit mark)

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::{Duration, Instant};

use namiki_log::{
    CutRule, GenerationInfo, Log, LogConfig, LogError, Placement, Records, Retain, SequencerKind,
    remove_superfluous, remove_unannounced, stream_dirs,
};
use namiki_platform::disk::{
    DeviceProfile, DirLock, Disk, FileKind, PROBE_FILES, PROFILE_FILES, guarded, is_full, open_best,
};
use namiki_platform::{Generation, Stamp};
use parking_lot::Mutex;

use crate::api::database::{Database, Shared};
use crate::backup::earlier_backups::keeps_earlier_backups;
use crate::catalogue::catalogue_files::CatalogueFiles;
use crate::catalogue::image_files::{ImageFileName, image_dir};
use crate::catalogue::image_list::LOADED;
use crate::catalogue::kept_room;
use crate::catalogue::manifest::{Manifest, Written};
use crate::catalogue::opened_backup::mark_opened;
use crate::catalogue::random_number::random_number;
use crate::catalogue::table_ids_by_name::TableIds;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::take_checkpoint::Parts;
use crate::commit::engine::{Engine, GroupLocks, Settings};
use crate::commit::epoch::Epochs;
use crate::error::OpenError;
use crate::events;
use crate::image::leftovers::{ImageSurvey, read_image};
use crate::image::write::image_writer::PresentImage;
use crate::live::catalogue::{Catalogue, Loading};
use crate::live::catalogue_view::CatalogueViews;
use crate::live::opened_tables::OpenedTables;
use crate::live::tables_in_segments::TablesInSegments;
use crate::open::lock_directory::failed;
use crate::protocol_spec::{Layout, LockRelease, LogStyle, Logging, ProtocolSpec};
use crate::recovery::{self, ImageLoader, ImageToLoad, RecoveryReport};
use crate::settings::absolute_path::absolute_path;
use crate::settings::autotune::{ProtocolChoice, TunedConfig};
use crate::settings::builder::Builder;
use crate::table::raw_table::{Owner, RawTable, TableId};
use crate::wal_format::encoding_primitives::RecordFormat;

/// How the names of files begin that may lie in a directory of an interrupted creation: the lock, the first
/// manifest while it is written, the room that is kept for it, and the files with which a disk tries direct I/O and is
/// measured.
const LEFT_BY_INTERRUPTED_CREATION: [&str; 5] = [
    "LOCK",
    "MANIFEST",
    kept_room::NAME,
    PROBE_FILES,
    PROFILE_FILES,
];

/// Unless something else is set or chosen.
const EPOCH_LENGTH: Duration = Duration::from_millis(1);

/// With so many generations of the log, the next checkpoint is not put off any more.
const GENERATIONS_UNLOADED_MAX: usize = 32;

/// The log of a stream has room for so many files at least, or each file is as short as can be.
const SEGMENTS_OF_STREAM_MIN: u64 = 64;

/// What the lengths of log files are multiples of.
const BLOCK_BYTES: u64 = 4096;

/// What a database is opened with, some of it perhaps chosen.
struct ResolvedConfig {
    spec: ProtocolSpec,
    streams: NonZeroU16,
    epoch_length: Duration,
    tuned_config: Option<TunedConfig>,
}

/// A directory that was opened, to read it alone or to write it, and recovered.
pub(crate) struct Opened {
    pub(crate) spec: ProtocolSpec,
    pub(crate) read_only: bool,
    pub(crate) tuned_config: Option<TunedConfig>,
    pub(crate) owner: Owner,
    pub(crate) raw_tables: BTreeMap<TableId, Arc<RawTable>>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<Arc<Log<GroupLocks>>>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) lock: DirLock,
    pub(crate) recovery: RecoveryReport,
    pub(crate) manifest: Manifest,
    pub(crate) files: CatalogueFiles,
    /// The image of the tables in memory.
    pub(crate) image: Option<PresentImage>,
    /// What loads it.
    pub(crate) loader: Arc<ImageLoader>,
}

/// Epochs with stamps above all that were recovered, and above that of rows that were loaded or will be.
pub(crate) fn epochs_after(recovered: &RecoveryReport, length_min: Duration) -> Arc<Epochs> {
    let floor = Stamp(recovered.max_stamp.max(LOADED).0 + 1).min(Stamp::MAX);
    Arc::new(Epochs::new(floor, length_min))
}

impl Builder {
    /// Opens the database in `dir`, and recovers it.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing that the database holds is changed then.
    pub fn open(mut self, dir: impl AsRef<Path>) -> Result<Database, OpenError> {
        let dir = &*absolute_path(dir.as_ref())?;
        self.make_paths_absolute()?;
        self.check()?;
        let disk = self.disk_for(dir)?;
        let device = |source| OpenError::Device {
            path: dir.to_owned(),
            source,
        };
        if self.create {
            disk.create_dir_all(dir).map_err(device)?;
        }
        if Manifest::read_alone(&*disk, dir)?.is_none()
            && let Err(refused) = self.may_create(&*disk, dir)
            && Manifest::read_alone(&*disk, dir)?.is_none()
        {
            // Without the lock, which would leave a file behind; so it counts only if no other process was
            // creating a database meanwhile, of which we saw the files.
            return Err(refused);
        }
        let lock = self.wait_for_lock(&*disk, dir)?;
        if let (Some(follow), None) = (&self.tuning.follow, &self.testing.disk) {
            follow.check_elsewhere(dir)?;
        }
        // From here on, a directory that is moved away is noticed before a name in it is changed.
        let disk = guarded(disk, &lock);
        let present = Manifest::read(&*disk, dir)?;
        let (list, left) = match &present {
            Some(manifest) => {
                if manifest.backup.is_some() && keeps_earlier_backups(&*disk, dir)? {
                    let dir = dir.to_owned();
                    return Err(OpenError::KeepsEarlierBackups { dir });
                }
                let read = read_image(&*disk, dir, manifest)?;
                disk.sync_dir(dir).map_err(device)?;
                read
            }
            None => {
                self.may_create(&*disk, dir)?;
                (None, ImageSurvey::default())
            }
        };
        remove_left(&*disk, dir).map_err(device)?;
        let resolved_config = self.resolved_config(&*disk, dir, &left).map_err(device)?;
        let spec = resolved_config.spec;
        let mut manifest = match present {
            Some(manifest) => manifest,
            None => {
                let manifest = Manifest::new(new_identity(), spec);
                // The identity is known before anything carries it.
                write(&manifest, &*disk, dir)?;
                manifest
            }
        };

        let owner = Owner::new();
        let raw_tables = self.raw_tables(&manifest, owner)?;
        let wal_dir = dir.join("wal");
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

        let image = list.map(|list| PresentImage {
            list,
            // The loader finds them.
            shrunk_files: BTreeSet::new(),
        });
        for (generation, seal) in found.seals {
            let unsealed = manifest
                .generations
                .iter_mut()
                .find(|g| g.generation == generation);
            if let Some(unsealed) = unsealed {
                unsealed.seal = Some(seal);
            }
        }
        // Those that hold nothing count for it, too.
        let end_of_last_opening = manifest.position();
        manifest
            .generations
            .retain(|generation| !holds_nothing(generation));
        let found_manifest = manifest.clone();
        check_writer(&found_manifest, &*disk, dir)?;
        let free = left.clean_up(&*disk, dir);
        manifest.number_files_from(free);
        let (generations, oldest) = (&manifest.generations, manifest.oldest_generation);
        let removed = remove_superfluous(&*disk, &wal_dir, generations, oldest);
        events::superfluous_removed(&removed);
        if manifest.backup.is_some() {
            remove_unannounced(&*disk, &wal_dir, manifest.next_generation)
                .map_err(|(path, source)| OpenError::Device { path, source })?;
            mark_opened(&*disk, dir, &manifest)?;
        }
        found.report.removed_files = removed.files;
        let epochs = epochs_after(&found.report, resolved_config.epoch_length);
        let mut log = None;
        let next_lsn = found.next_lsn;
        if let Some((config, mut info)) = self.log_config(
            &resolved_config,
            &manifest,
            next_lsn,
            &epochs,
            (&*disk, dir),
        )? {
            manifest.next_generation = config.generation.next();
            let create = || Log::create(Arc::clone(&disk), &wal_dir, config.clone());
            let started = match create() {
                // The directory of a stream takes some bytes, too.
                Err(full) if full.is_for_want_of_room() && kept_room::give_up(&*disk, dir) => {
                    create()
                }
                started => started,
            };
            let started = started.map_err(|source| OpenError::StartLog {
                dir: wal_dir,
                source,
            })?;
            // In the rings of a shared device, where those of the generation before end.
            info.begin_at(&started.beginning());
            manifest.generations.push(info);
            log = Some(started);
        }
        manifest.leave_backup();
        manifest.begin_opening(end_of_last_opening, log.is_some());
        manifest.opening = Manifest::new_opening();
        manifest.spec = spec;
        manifest.closed = false;
        check_writer(&found_manifest, &*disk, dir)?;
        let written = write(&manifest, &*disk, dir)?;
        // Another program may have checked and written at the same time: one of the two finds that.
        check_writer(&manifest, &*disk, dir)?;
        let files = CatalogueFiles::announced(written, &manifest, &*disk, dir);

        let report = &found.report;
        events::opened(dir, spec, report.closed, report.replayed, report.undone);
        Ok(self.database(Opened {
            spec,
            read_only: false,
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
            image,
            loader: found.loader,
        }))
    }

    /// Those that are kept for as long as the database is open.
    fn make_paths_absolute(&mut self) -> Result<(), OpenError> {
        if let Some((device, _)) = &mut self.format.shared_device {
            *device = absolute_path(device)?;
        }
        if let Some(follow) = &mut self.tuning.follow {
            follow.dir = absolute_path(&follow.dir)?;
        }
        Ok(())
    }

    /// The tables that the manifest has in memory, empty.
    pub(crate) fn raw_tables(
        &self,
        manifest: &Manifest,
        owner: Owner,
    ) -> Result<BTreeMap<TableId, Arc<RawTable>>, OpenError> {
        let mut raw_tables = BTreeMap::new();
        for info in &manifest.tables {
            let index = self.tuning.indexes.of(&info.name);
            let raw_table = RawTable::new(info.clone(), index, owner)?;
            raw_tables.insert(info.id, Arc::new(raw_table));
        }
        Ok(raw_tables)
    }

    /// The database of what was opened.
    pub(crate) fn database(self, opened: Opened) -> Database {
        let settings = Settings {
            spec: opened.spec,
            format: self.format.record_format,
            attempts_max: self.tuning.attempts_max,
            waits: self.tuning.waits,
            read_only: opened.read_only,
            view_bytes_max: self.tuning.view_bytes_max,
        };
        let Opened {
            owner,
            epochs,
            log,
            raw_tables,
            manifest,
            ..
        } = opened;
        let engine = Engine::new(settings, owner, epochs, log, raw_tables);
        let engine = Arc::new(engine);
        let catalogue = Arc::new(Mutex::new(Catalogue {
            ids: TableIds::of(&manifest.tables),
            manifest,
            files: opened.files,
            closed: None,
            loading: Loading::default(),
            last_point: opened.recovery.max_stamp,
            views: CatalogueViews::default(),
        }));
        let parts = Parts {
            engine: Arc::clone(&engine),
            disk: Arc::clone(&opened.disk),
            dir: opened.dir.clone(),
            catalogue: Arc::clone(&catalogue),
            loader: Arc::clone(&opened.loader),
        };
        opened.loader.start(self.tuning.recovery.threads);
        let log_bytes = opened.recovery.bytes;
        let (settings, follow) = (self.tuning.checkpoint, self.tuning.follow);
        let in_segments = TablesInSegments::new(
            self.tuning.loaded_tables_bytes_max,
            &catalogue.lock().manifest,
            opened.image.as_ref().map(|image| &image.list),
        );
        let checkpointer = engine.log.as_ref().map(|log| {
            let log = Arc::clone(log);
            Checkpointer::start(parts, log, settings, follow, opened.image, log_bytes)
        });
        Database::from_shared(Shared {
            engine,
            checkpointer,
            disk: opened.disk,
            dir: opened.dir,
            indexes: self.tuning.indexes,
            tuned_config: opened.tuned_config,
            recovery: opened.recovery,
            catalogue,
            loader: opened.loader,
            closing: Mutex::default(),
            dir_lock: Mutex::new(Some(opened.lock)),
            pools: Default::default(),
            next_worker: AtomicU16::new(0),
            opened_at: Instant::now(),
            opened: OpenedTables::new(self.tuning.page_cache_bytes),
            in_segments,
            loading_threads: self.tuning.recovery.threads,
        })
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |why: String| Err(OpenError::Settings(why));
        if let RecordFormat::Fixed(bytes) = self.format.record_format
            && bytes.get() < RecordFormat::FIXED_BYTES_MIN
        {
            return refuse(format!(
                "log records of {bytes} bytes are too short: at least {}",
                RecordFormat::FIXED_BYTES_MIN
            ));
        }
        if let ProtocolChoice::Fixed(spec) = self.tuning.protocol
            && let Some(why) = spec.contradiction()
        {
            return refuse(format!("{spec} makes no sense: {why}"));
        }
        self.tuning.indexes.check()?;
        if self.testing.sequencer == SequencerKind::None {
            return refuse(
                "a log in the order of its sequence numbers has to draw them".to_owned(),
            );
        }
        // Before anything is created. (With whichever streams and group: those are right by their types.)
        let placement = match &self.format.shared_device {
            Some((path, region_bytes)) => Placement::Shared {
                path: path.clone(),
                region_bytes: *region_bytes,
            },
            None => Placement::Segments {
                segment_bytes: self.format.segment_bytes,
            },
        };
        let log = LogConfig {
            streams: self.tuning.streams.unwrap_or(NonZeroU16::MIN),
            buffer_bytes: self.tuning.buffer_bytes,
            placement,
            ..LogConfig::new(0, Generation(1))
        };
        match log.check() {
            Err(LogError::InvalidConfig { reason }) => refuse(reason),
            _ => Ok(()),
        }
    }

    fn disk_for(&self, dir: &Path) -> Result<Arc<dyn Disk>, OpenError> {
        if let Some(disk) = &self.testing.disk {
            return Ok(Arc::clone(disk));
        }
        // The directory need not exist yet; its file system is that of what it will lie in.
        let existing = dir
            .ancestors()
            .find(|dir| dir.is_dir())
            .unwrap_or(Path::new("."));
        let (disk, _) = open_best(existing).map_err(|source| OpenError::Device {
            path: existing.to_owned(),
            source,
        })?;
        Ok(disk)
    }

    /// Whether a database may be created in a directory that has no manifest.
    pub(crate) fn may_create(&self, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
        let files = disk.list(dir).map_err(|source| failed(dir, source))?;
        let journal = Manifest::table_journal_path(dir);
        if files.iter().any(|file| file.path == journal) {
            return Err(OpenError::DamagedManifest {
                path: Manifest::path(dir),
                why: "it is missing, although there is a table journal".to_owned(),
            });
        }
        let foreign = files.iter().any(|file| {
            if file.kind == FileKind::Directory {
                return false;
            }
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            !LEFT_BY_INTERRUPTED_CREATION
                .iter()
                .any(|left| name.starts_with(left))
        });
        if foreign {
            return Err(OpenError::NotADatabase {
                dir: dir.to_owned(),
            });
        }
        // A manifest is there before the first file of an image.
        let image = disk.list(&image_dir(dir)).unwrap_or_default();
        if image
            .iter()
            .any(|file| ImageFileName::of(&file.path).is_some())
        {
            return Err(OpenError::DamagedManifest {
                path: Manifest::path(dir),
                why: "it is missing, although there is an image".to_owned(),
            });
        }
        // A manifest is there before the first log file.
        let wal = dir.join("wal");
        let streams = stream_dirs(disk, &wal, 0).map_err(|source| failed(&wal, source))?;
        for (_, stream) in streams {
            let files = disk.list(&stream);
            if !files.map_err(|source| failed(&stream, source))?.is_empty() {
                return Err(OpenError::DamagedManifest {
                    path: Manifest::path(dir),
                    why: "it is missing, although there is a log".to_owned(),
                });
            }
        }
        if !self.create {
            return Err(OpenError::Missing {
                dir: dir.to_owned(),
            });
        }
        Ok(())
    }

    /// What is not left open.
    fn resolved_config(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        left: &ImageSurvey,
    ) -> io::Result<ResolvedConfig> {
        let cores = TunedConfig::cores();
        let tuned_config = match self.tuning.protocol {
            ProtocolChoice::Fixed(_) => None,
            ProtocolChoice::Auto(isolation) => {
                let measure = || DeviceProfile::measure(disk, dir, TunedConfig::writers(cores));
                let device = match measure() {
                    // What an interrupted load has left may be what fills the disk: it cannot wait for the recovery then.
                    Err(error) if is_full(&error) => {
                        left.clean_up(disk, dir);
                        measure()
                    }
                    measured => measured,
                };
                match device {
                    Ok(device) => Some(TunedConfig::of(isolation, device, cores)),
                    // Reading needs no choice, and what is set for all is right for any device.
                    Err(error) if is_full(&error) => None,
                    Err(error) => return Err(error),
                }
            }
        };
        let spec = match (self.tuning.protocol, tuned_config) {
            (ProtocolChoice::Fixed(spec), _) => spec,
            (ProtocolChoice::Auto(_), tuned_config) => {
                tuned_config.map_or(ProtocolSpec::DEFAULT, |tuned_config| tuned_config.spec)
            }
        };
        let streams = tuned_config.map_or(cores, |tuned_config| tuned_config.streams);
        let epochs = tuned_config.map_or(EPOCH_LENGTH, |tuned_config| tuned_config.epoch_length);
        Ok(ResolvedConfig {
            spec,
            streams: self.tuning.streams.unwrap_or(streams),
            epoch_length: self.tuning.epoch_length.unwrap_or(epochs),
            tuned_config,
        })
    }

    /// How long log files are: as long as was asked for, or shorter on a small disk. There, each stream's file is held to a
    /// small part of it, for what is in a file that is written cannot be freed.
    fn segment_bytes_on(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        layout: Layout,
        streams: NonZeroU16,
    ) -> u64 {
        let asked = self.format.segment_bytes;
        let room = disk.preallocation(dir).ok().flatten();
        let Some(space) = room.and_then(|room| room.space().ok()).flatten() else {
            return asked;
        };
        let streams = match layout {
            Layout::PerWorker => u64::from(streams.get()),
            Layout::Single => 1,
        };
        let part = space.total_bytes / SEGMENTS_OF_STREAM_MIN / streams;
        // The header's block, the longest frame of a buffer, and an epoch marker.
        let buffer = (self.tuning.buffer_bytes.max(1) as u64).next_multiple_of(BLOCK_BYTES);
        let least = buffer + 2 * BLOCK_BYTES;
        (part - part % BLOCK_BYTES).max(least).min(asked)
    }

    fn log_config(
        &self,
        resolved_config: &ResolvedConfig,
        manifest: &Manifest,
        next_lsn: namiki_platform::Lsn,
        epochs: &Arc<Epochs>,
        (disk, dir): (&dyn Disk, &Path),
    ) -> Result<Option<(LogConfig, GenerationInfo)>, OpenError> {
        let Logging::Log {
            layout,
            group,
            style,
        } = resolved_config.spec.logging
        else {
            return Ok(None);
        };
        let cut = match (resolved_config.spec.release, layout) {
            (LockRelease::Normal, Layout::PerWorker) => CutRule::Stamp,
            (LockRelease::EpochEarly, Layout::PerWorker) => CutRule::Epoch,
            _ => CutRule::Lsn,
        };
        let sequencer = match (cut, style) {
            (CutRule::Stamp | CutRule::Epoch, LogStyle::Redo) => SequencerKind::None,
            (CutRule::Lsn, _) | (_, LogStyle::Operations) => self.testing.sequencer,
        };
        let records = match style {
            LogStyle::Redo => Records::Commits,
            LogStyle::Operations => Records::Operations,
        };
        let config = LogConfig {
            layout,
            streams: resolved_config.streams,
            group,
            group_wait_max: self.tuning.group_wait_max,
            async_flush_min_commits: self.tuning.async_flush_min_commits,
            sequencer,
            epochs: match cut {
                CutRule::Epoch => Some(Arc::clone(epochs) as _),
                CutRule::Stamp | CutRule::Lsn => None,
            },
            buffer_bytes: self.tuning.buffer_bytes,
            payload_bytes_max: Some(self.tuning.transaction_bytes_max),
            placement: match &self.format.shared_device {
                Some((path, region_bytes)) => Placement::Shared {
                    // The manifest must name the same file wherever it is read from.
                    path: absolute_path(path)?,
                    region_bytes: *region_bytes,
                },
                None => Placement::Segments {
                    segment_bytes: self.segment_bytes_on(
                        disk,
                        dir,
                        layout,
                        resolved_config.streams,
                    ),
                },
            },
            retain: Retain::UntilRecycled,
            kept: Some(manifest.generations.clone()),
            prepare: self.testing.prepare,
            generation: manifest.next_generation,
            first_lsn: next_lsn,
            identity: manifest.identity(),
        };
        let info = GenerationInfo {
            records,
            restore_points: self.tuning.checkpoint.restore_points.is_some(),
            ..config.generation_info(cut)
        };
        Ok(Some((config, info)))
    }
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

/// Removes probe files left behind by a killed process.
fn remove_left(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for file in disk.list(dir)? {
        let name = file.path.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        if name.starts_with(PROBE_FILES) || name.starts_with(PROFILE_FILES) {
            disk.remove(&file.path)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use namiki_platform::disk::{SimDisk, SyncedDisk};

    /// Neither all of it, nor what is left when directories of streams were lost.
    #[test]
    fn no_database_is_made_over_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let stream = dir.path().join("wal/0003");
        std::fs::create_dir_all(&stream).unwrap();
        let may_create = || Builder::default().may_create(&SyncedDisk::new(), dir.path());
        may_create().unwrap();
        std::fs::write(stream.join("000001-00000001.seg"), "").unwrap();
        let refused = may_create();
        assert!(
            matches!(refused, Err(OpenError::DamagedManifest { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn only_leftovers_of_an_interrupted_creation_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        for left in ["LOCK", "MANIFEST.tmp", "direct-io-probe-1"] {
            std::fs::write(dir.path().join(left), "").unwrap();
        }
        Database::open(dir.path()).unwrap().close().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("holiday.jpg"), "").unwrap();
        let refused = Database::open(dir.path());
        assert!(matches!(refused, Err(OpenError::NotADatabase { .. })));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A new manifest in the place of a lost one would make a log unreadable that a copy of the
    /// old one makes readable again.
    #[test]
    fn a_log_without_a_manifest_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        db.transact(|tx| tx.put(&table, &1, &2)).unwrap();
        db.close().unwrap();
        let path = Manifest::path(dir.path());
        let manifest = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let refused = Database::open(dir.path());
        assert!(matches!(refused, Err(OpenError::DamagedManifest { .. })));
        assert!(!path.exists());
        std::fs::write(&path, manifest).unwrap();
        let db = Database::open(dir.path()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(2));
    }

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
