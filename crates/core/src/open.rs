//! Opening a database: settings, recovery, and the start of a new log.
//!
//! ```text
//!   lock the directory → read the manifest, and make it durable → recover → start the next generation of the log →
//!   seal what was read and announce the new generation (one replacement of the manifest)
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

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::time::Duration;

use namiki_log::{
    CutRule, GenerationInfo, Log, LogConfig, Placement, Prepare, Records, Retain, SequencerKind,
};
use namiki_platform::Stamp;
use namiki_platform::disk::{
    DeviceProfile, DirLock, Disk, FileKind, PROBE_FILES, PROFILE_FILES, open_best,
};
use parking_lot::Mutex;

use crate::choose::{Choice, Protocol};
use crate::db::{Catalogue, Database, Indexes, Shared};
use crate::engine::{Engine, Settings, Waits};
use crate::epoch::Epochs;
use crate::error::OpenError;
use crate::format::RecordFormat;
use crate::index::IndexKind;
use crate::manifest::Manifest;
use crate::recovery::{self, OnProgress, RecoverySettings, ReplayOrder};
use crate::space::{Owner, Space};
use crate::spec::{Layout, LockRelease, LogStyle, Logging, Spec, WaitPolicy};

/// How the names of files begin that may lie in a directory of an interrupted creation: the lock, the first
/// manifest while it is written, and the files with which a disk tries direct I/O and is measured.
const LEFT_BY_INTERRUPTED_CREATION: [&str; 4] = ["LOCK", "MANIFEST", PROBE_FILES, PROFILE_FILES];

/// Unless something else is set or chosen.
const EPOCH_LENGTH: Duration = Duration::from_millis(1);

/// What a database is opened with, some of it perhaps chosen.
struct Chosen {
    spec: Spec,
    streams: NonZeroU16,
    epoch_length: Duration,
    choice: Option<Choice>,
}

/// How a database is to be opened. The defaults suit an embedded program.
#[derive(Clone)]
pub struct Builder {
    protocol: Protocol,
    disk: Option<Arc<dyn Disk>>,
    create: bool,
    indexes: Indexes,
    streams: Option<NonZeroU16>,
    group_wait_max: Duration,
    launch_from: Option<NonZeroU32>,
    sequencer: SequencerKind,
    record_format: RecordFormat,
    buffer_bytes: usize,
    segment_bytes: u64,
    shared_device: Option<(PathBuf, u64)>,
    prepare: Prepare,
    attempts_max: u32,
    waits: Waits,
    /// Default: 1 ms, or what was chosen.
    epoch_length: Option<Duration>,
    recovery: RecoverySettings,
}

impl Database {
    /// Opens the database in a directory, created if there is none, and recovers it.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing that the database holds is changed then.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(dir)
    }

    /// Settings to open a database with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            protocol: Protocol::Spec(Spec::DEFAULT),
            disk: None,
            create: true,
            indexes: Indexes::default(),
            streams: None,
            group_wait_max: Duration::from_millis(1),
            launch_from: None,
            sequencer: SequencerKind::FetchAdd,
            record_format: RecordFormat::Compact,
            buffer_bytes: 256 << 10,
            segment_bytes: 16 << 20,
            shared_device: None,
            prepare: Prepare::Background,
            attempts_max: 10_000,
            waits: Waits {
                policy: WaitPolicy::WoundWait,
                longest: Duration::from_secs(10),
            },
            epoch_length: None,
            recovery: RecoverySettings {
                threads: cores,
                order: ReplayOrder::HighestStamp,
                on_progress: None,
                interrupt: None,
            },
        }
    }
}

impl Builder {
    /// The protocol. Default: [`Spec::DEFAULT`]. It may differ from one opening to the next.
    #[must_use]
    pub fn spec(self, spec: Spec) -> Self {
        self.protocol(spec)
    }

    /// The protocol, or that it is to be chosen: by a short measurement of the device at every opening, for which
    /// a few small files are written and removed. [`Database::choice`] tells what was chosen. Log streams and epochs
    /// are chosen too, unless they are set here.
    ///
    /// ```
    /// use namiki::{Database, Isolation, Protocol};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let auto = Protocol::Auto(Isolation::StrictlySerializable);
    /// let db = Database::builder().protocol(auto).open(dir.path().join("data"))?;
    /// assert!(db.spec().concurrency.is_strict());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<Protocol>) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// The disk. Default: direct writes where the file system of the directory allows them,
    /// buffered ones with a sync otherwise.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Whether a database is created where there is none. Default: yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The index of all tables that [`Builder::table_index`] does not name. Default: the default ordered
    /// tree. Indexes are built when a database is opened, and may differ from one opening to the next. Trees
    /// other than ART need the feature `all-indexes` ([`OpenError::IndexNotInBuild`]).
    #[must_use]
    pub fn index(mut self, index: impl Into<IndexKind>) -> Self {
        self.indexes.others = index.into();
        self
    }

    /// The index of one table, whether it exists or is created later. A table with a hash index cannot be
    /// scanned ([`Error::Unordered`](crate::Error::Unordered)).
    #[must_use]
    pub fn table_index(mut self, table: impl Into<String>, index: impl Into<IndexKind>) -> Self {
        self.indexes.by_name.insert(table.into(), index.into());
        self
    }

    /// The number of log streams under `PWAL`. Default: one for each processor. It may differ from
    /// one opening to the next.
    #[must_use]
    pub fn streams(mut self, streams: NonZeroU16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// The longest that a commit waits for its group. Default: 1 ms. `Duration::MAX` waits until the group is
    /// full, or a caller needs it flushed. A thread of the log's own flushes groups without waiters; where the
    /// system allows no such thread (`pids.max`, `RLIMIT_NPROC`), such a group stays until a later call flushes
    /// it.
    #[must_use]
    pub fn group_wait_max(mut self, wait: Duration) -> Self {
        self.group_wait_max = wait;
        self
    }

    /// Groups of so many commits and more are flushed asynchronously, while their session goes on with the next
    /// one, where the disk can write on its own (through io_uring). Default: 32, where there are at most two
    /// streams for each processor, and never otherwise. The group is then acknowledged, and under normal lock
    /// release its records unlocked, when a thread commits on the same stream, waits, asks for an
    /// acknowledgement or wants one of the records, and in any case after [`Builder::group_wait_max`].
    ///
    /// The kernel reports the end of such a write to the thread that began it, which may be one of
    /// the program's: a call in which it sleeps then, like `epoll_wait`, may return `EINTR`, and while
    /// it is in a call that cannot be interrupted the group is not seen to have ended.
    /// `NonZeroU32::MAX` lets every thread wait for what it writes.
    #[must_use]
    pub fn launch_from(mut self, commits: NonZeroU32) -> Self {
        self.launch_from = Some(commits);
        self
    }

    /// How long an epoch lasts at least, while transactions end. Default: 1 ms. For tests: with
    /// `Duration::ZERO` nearly every transaction that ends closes one, and with `Duration::MAX` none does; so
    /// on one thread nothing depends on the clock. Under [`LockRelease::EpochEarly`], a waiter for an epoch
    /// closes it whatever this says, and so does every frame with commits that wait for theirs: under load, an
    /// epoch lasts about as long as a device write.
    #[must_use]
    pub fn epoch_length(mut self, length: Duration) -> Self {
        self.epoch_length = Some(length);
        self
    }

    /// How log sequence numbers are drawn where they are needed. Default: by fetch-and-add.
    #[must_use]
    pub fn sequencer(mut self, sequencer: SequencerKind) -> Self {
        self.sequencer = sequencer;
        self
    }

    /// How many bytes commits take in the log. Default: as few as possible.
    #[must_use]
    pub fn record_format(mut self, format: RecordFormat) -> Self {
        self.record_format = format;
        self
    }

    /// The length of a stream's log buffer, which bounds what one transaction can write; where operations are
    /// logged ([`LogStyle::Operations`]), what one change can. Default: 256 KiB.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The length of a log file. Default: 16 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Puts all streams onto one device or preallocated file, at fixed offsets of `region_bytes`
    /// (`pwal` §5.7), instead of into files of their own.
    #[must_use]
    pub fn shared_device(mut self, path: impl Into<PathBuf>, region_bytes: u64) -> Self {
        self.shared_device = Some((path.into(), region_bytes));
        self
    }

    /// The thread that makes the next log file ready: one of its own (the default), or that of the commit that
    /// needs it. The commit also does where the system allows no such thread.
    #[must_use]
    pub fn prepare(mut self, prepare: Prepare) -> Self {
        self.prepare = prepare;
        self
    }

    /// How often a transaction is run before its conflicts are reported. Default: 10,000.
    #[must_use]
    pub fn attempts_max(mut self, attempts: NonZeroU32) -> Self {
        self.attempts_max = attempts.get();
        self
    }

    /// What a transaction does when it wants a lock that another one has, under strict two-phase locking
    /// (`S2PL`). Default: it waits, and deadlocks are ruled out by age.
    #[must_use]
    pub fn wait_policy(mut self, policy: WaitPolicy) -> Self {
        self.waits.policy = policy;
        self
    }

    /// The longest that a transaction waits for one lock, under strict two-phase locking (`S2PL`), before it
    /// fails with [`Error::LockTimeout`](crate::Error::LockTimeout): the program may have forgotten about the
    /// transaction that has the lock. Default: 10 s.
    #[must_use]
    pub fn lock_wait_max(mut self, wait: Duration) -> Self {
        self.waits.longest = wait;
        self
    }

    /// How many threads recover. Default: one for each processor. Fewer where the system allows no more.
    #[must_use]
    pub fn recovery_threads(mut self, threads: NonZeroU16) -> Self {
        self.recovery.threads = usize::from(threads.get());
        self
    }

    /// In which order logs are replayed.
    #[must_use]
    pub fn replay_order(mut self, order: ReplayOrder) -> Self {
        self.recovery.order = order;
        self
    }

    /// Called now and then while the database recovers.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnProgress) -> Self {
        self.recovery.on_progress = Some(on_progress);
        self
    }

    /// Recovery ends with [`OpenError::Interrupted`] soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.recovery.interrupt = Some(asked);
        self
    }

    /// Opens the database in `dir`, and recovers it.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing that the database holds is changed then.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Database, OpenError> {
        let dir = dir.as_ref();
        self.check()?;
        let disk = self.disk_for(dir)?;
        let device = |source| OpenError::Device {
            path: dir.to_owned(),
            source,
        };
        if self.create {
            disk.create_dir_all(dir).map_err(device)?;
        }
        if Manifest::read(&*disk, dir)?.is_none()
            && let Err(refused) = self.may_create(&*disk, dir)
            && Manifest::read(&*disk, dir)?.is_none()
        {
            // Without the lock, which would leave a file behind; so it counts only if no other process was
            // creating a database meanwhile, of which we saw the files.
            return Err(refused);
        }
        let lock = lock(&*disk, dir)?;
        let present = Manifest::read(&*disk, dir)?;
        match present {
            Some(_) => disk.sync_dir(dir).map_err(device)?,
            None => self.may_create(&*disk, dir)?,
        }
        remove_left(&*disk, dir).map_err(device)?;
        let chosen = self.chosen(&*disk, dir).map_err(device)?;
        let spec = chosen.spec;
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
        let spaces: Vec<_> = manifest
            .tables
            .iter()
            .map(|info| Space::new(info.clone(), self.indexes.of(&info.name), owner).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let wal_dir = dir.join("wal");
        let found = recovery::recover(
            &disk,
            &wal_dir,
            &manifest,
            &spaces,
            spec.concurrency,
            &self.recovery,
        )?;

        for (generation, seal) in found.seals {
            let unsealed = manifest
                .generations
                .iter_mut()
                .find(|g| g.generation == generation);
            if let Some(unsealed) = unsealed {
                unsealed.seal = Some(seal);
            }
        }
        manifest
            .generations
            .retain(|generation| !holds_nothing(generation));
        let found_manifest = manifest.clone();
        check_writer(&found_manifest, &*disk, dir)?;
        let floor = Stamp(found.report.max_stamp.0 + 1).min(Stamp::MAX);
        let epochs = Arc::new(Epochs::new(floor, chosen.epoch_length));
        let mut log = None;
        let next_lsn = found.next_lsn;
        if let Some((config, info)) = self.log_config(&chosen, &manifest, next_lsn, &epochs)? {
            manifest.generations.push(info);
            manifest.next_generation = config.generation.next();
            let started = Log::create(Arc::clone(&disk), &wal_dir, config);
            log = Some(started.map_err(|source| OpenError::StartLog {
                dir: wal_dir,
                source,
            })?);
        }
        manifest.spec = spec;
        manifest.closed = false;
        check_writer(&found_manifest, &*disk, dir)?;
        write(&manifest, &*disk, dir)?;

        let settings = Settings {
            spec,
            format: self.record_format,
            attempts_max: self.attempts_max,
            waits: self.waits,
        };
        let engine = Engine::new(settings, owner, epochs, log, spaces);
        Ok(Database::from_shared(Shared {
            engine: Arc::new(engine),
            disk,
            dir: dir.to_owned(),
            indexes: self.indexes,
            choice: chosen.choice,
            recovery: found.report,
            catalogue: Mutex::new(Catalogue {
                manifest,
                lock: Some(lock),
                closed: Ok(()),
            }),
            pools: Default::default(),
            next_worker: AtomicU16::new(0),
        }))
    }

    fn check(&self) -> Result<(), OpenError> {
        let refuse = |why: String| Err(OpenError::Settings(why));
        if let RecordFormat::Fixed(bytes) = self.record_format
            && bytes.get() < RecordFormat::FIXED_BYTES_MIN
        {
            return refuse(format!(
                "log records of {bytes} bytes are too short: at least {}",
                RecordFormat::FIXED_BYTES_MIN
            ));
        }
        if let Protocol::Spec(spec) = self.protocol
            && let Some(why) = spec.contradiction()
        {
            return refuse(format!("{spec} makes no sense: {why}"));
        }
        self.indexes.check()?;
        if self.sequencer == SequencerKind::None {
            return refuse(
                "a log whose order is that of its sequence numbers has to draw them".to_owned(),
            );
        }
        Ok(())
    }

    fn disk_for(&self, dir: &Path) -> Result<Arc<dyn Disk>, OpenError> {
        if let Some(disk) = &self.disk {
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
    fn may_create(&self, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
        let files = disk.list(dir).map_err(|source| failed(dir, source))?;
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
        // A manifest is there before the first log file.
        let streams = (0_u16..).map(|worker| dir.join("wal").join(format!("{worker:04}")));
        let mut streams = streams.map_while(|stream| disk.list(&stream).ok());
        if streams.any(|files| !files.is_empty()) {
            return Err(OpenError::DamagedManifest {
                path: Manifest::path(dir),
                why: "it is missing, although there is a log".to_owned(),
            });
        }
        if !self.create {
            return Err(OpenError::Missing {
                dir: dir.to_owned(),
            });
        }
        Ok(())
    }

    /// What is not left open.
    fn chosen(&self, disk: &dyn Disk, dir: &Path) -> io::Result<Chosen> {
        let cores = Choice::cores();
        let choice = match self.protocol {
            Protocol::Spec(_) => None,
            Protocol::Auto(isolation) => {
                let device = DeviceProfile::measure(disk, dir, Choice::writers(cores))?;
                Some(Choice::of(isolation, device, cores))
            }
        };
        let spec = match (self.protocol, choice) {
            (Protocol::Spec(spec), _) => spec,
            (Protocol::Auto(_), choice) => choice.map_or(Spec::DEFAULT, |choice| choice.spec),
        };
        let streams = choice.map_or(cores, |choice| choice.streams);
        let epochs = choice.map_or(EPOCH_LENGTH, |choice| choice.epoch_length);
        Ok(Chosen {
            spec,
            streams: self.streams.unwrap_or(streams),
            epoch_length: self.epoch_length.unwrap_or(epochs),
            choice,
        })
    }

    fn log_config(
        &self,
        chosen: &Chosen,
        manifest: &Manifest,
        next_lsn: namiki_platform::Lsn,
        epochs: &Arc<Epochs>,
    ) -> Result<Option<(LogConfig, GenerationInfo)>, OpenError> {
        let Logging::Log {
            layout,
            group,
            style,
        } = chosen.spec.logging
        else {
            return Ok(None);
        };
        let cut = match (chosen.spec.release, layout) {
            (LockRelease::Normal, Layout::PerWorker) => CutRule::Stamp,
            (LockRelease::EpochEarly, Layout::PerWorker) => CutRule::Epoch,
            _ => CutRule::Lsn,
        };
        let sequencer = match (cut, style) {
            (CutRule::Stamp | CutRule::Epoch, LogStyle::Redo) => SequencerKind::None,
            (CutRule::Lsn, _) | (_, LogStyle::Operations) => self.sequencer,
        };
        let records = match style {
            LogStyle::Redo => Records::Commits,
            LogStyle::Operations => Records::Operations,
        };
        let config = LogConfig {
            layout,
            streams: chosen.streams,
            group,
            group_wait_max: self.group_wait_max,
            launch_from: self.launch_from,
            sequencer,
            epochs: match cut {
                CutRule::Epoch => Some(Arc::clone(epochs) as _),
                CutRule::Stamp | CutRule::Lsn => None,
            },
            buffer_bytes: self.buffer_bytes,
            placement: match &self.shared_device {
                Some((path, region_bytes)) => Placement::Shared {
                    // The manifest must name the same file wherever it is read from.
                    path: std::path::absolute(path).map_err(|source| OpenError::Device {
                        path: path.clone(),
                        source,
                    })?,
                    region_bytes: *region_bytes,
                },
                None => Placement::Segments {
                    segment_bytes: self.segment_bytes,
                },
            },
            retain: Retain::All,
            prepare: self.prepare,
            generation: manifest.next_generation,
            first_lsn: next_lsn,
            identity: manifest.identity(),
        };
        let info = GenerationInfo {
            records,
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

fn write(manifest: &Manifest, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    manifest
        .write(disk, dir)
        .map_err(|source| OpenError::Device {
            path: Manifest::path(dir),
            source,
        })
}

/// Removes the files that a kill has left which came while a disk was tried or measured in the directory.
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

/// Fails if another program has begun a generation since this manifest was read.
fn check_writer(manifest: &Manifest, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let path = Manifest::path(dir);
    match manifest.is_still_ours(disk, dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::AnotherWriter { path }),
        Err(source) => Err(OpenError::Device { path, source }),
    }
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<DirLock, OpenError> {
    disk.lock_dir(dir).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => OpenError::InUse {
            dir: dir.to_owned(),
        },
        _ => failed(dir, source),
    })
}

/// The directory of the database could not be used.
fn failed(dir: &Path, source: io::Error) -> OpenError {
    let dir = dir.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing { dir },
        _ => OpenError::Device { path: dir, source },
    }
}

/// A number that no other database has.
fn new_identity() -> u128 {
    // The standard library's hash keys come from the operating system's random numbers.
    let random = || u128::from(RandomState::new().hash_one(0));
    random() << 64 | random()
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use namiki_platform::disk::SimDisk;

    #[test]
    fn what_an_interrupted_creation_leaves_is_no_obstacle_and_other_files_are() {
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
    fn a_database_whose_stamps_are_used_up_can_still_be_read() {
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
