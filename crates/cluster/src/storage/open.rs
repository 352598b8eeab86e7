//! Creating and opening a node's directory.
//!
//! ```text
//!   lock the directory → read the manifest → read the log, and harden its tail → create the next
//!   generation of the log → seal the old one and announce the new one (one replacement of the
//!   manifest) → make the cut durable, if there was one
//! ```
//! A crash or an error before the manifest is replaced leaves everything as it was, and one before the cut is durable
//! leaves a log that is cut at the same entry again. The new manifest also notes what was lost (`forgotten.rs`).

use std::io;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU128};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki::replica::{ImageCopy, ImageCopyError, Replica};
use namiki::{Database, OpenError};
use namiki_log::{
    CutRule, Group, Log, LogConfig, Placement, Prepare, ReadError, Retain, remove_unneeded,
    stream_dirs,
};
use namiki_platform::disk::{DirLock, Disk, FileKind, PROBE_FILES, PROFILE_FILES, guarded};
use parking_lot::Mutex;

use super::error::StoreError;
use super::log_budget::LogBudget;
use super::manifest::Manifest;
use super::node_identity::NodeIdentity;
use super::open_files::OpenFiles;
use super::raft_record::{RaftRecord, Snapshot};
use super::recovery::{self, LogDamage, Replayed};
use super::store::{NodeStore, RAFT_STREAM};
use super::truncate::payloads_through;
use crate::entry::{LogEntry, PayloadRef};
use crate::fault_injection::{Fault, FaultInjection};
use crate::membership::Membership;
use crate::network::NodeId;

/// The unit of the lengths of log files.
const LOG_BLOCK_BYTES: u64 = 4096;

/// Options for opening a node's storage. All of them may differ at every opening.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Length of the log's longest files; shorter if two of them for each stream would be more than
    /// a quarter of `max_log_bytes`. An opening begins a short one for each stream that is written,
    /// with room for one log buffer, and each file is up to twice as long as the one before.
    pub log_file_bytes: u64,
    /// Length of a log buffer, of which each stream has two: at least the longest payload and a hundred bytes of headers.
    pub buffer_bytes: usize,
    /// The thread on which files are prepared.
    pub prepare: Prepare,
    /// Limit on the total length of the log's files, beyond which payloads are refused; Raft's own
    /// records are always accepted. `None`: limited only by the disk.
    pub max_log_bytes: Option<u64>,
    /// The durable image that the node starts from; the default: none. It is not before the last
    /// one with which the log was truncated.
    pub snapshot: Snapshot,
    /// Whether the node's tables are in memory when an opening returns. Otherwise they come in the background: the node votes
    /// before it has them.
    pub loads_tables: bool,
    /// A fault, in simulations.
    pub planted: FaultInjection,
}

impl Default for StoreOptions {
    /// Files of 16 MiB, buffers of 2 MiB, no limit.
    fn default() -> Self {
        Self {
            log_file_bytes: 16 << 20,
            buffer_bytes: 2 << 20,
            prepare: Prepare::Background,
            max_log_bytes: None,
            snapshot: Snapshot::default(),
            loads_tables: true,
            planted: FaultInjection::default(),
        }
    }
}

/// The state that an opening has recovered. All of it is durable.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The node.
    pub identity: NodeIdentity,
    /// The backup that the node's cluster began with.
    pub backup: Option<NonZeroU128>,
    /// The voters that the cluster began with.
    pub founders: Vec<NodeId>,
    /// The current term.
    pub term: u64,
    /// The node that has this one's vote in the term, or 0.
    pub vote: u64,
    /// The image that the log continues: [`StoreOptions::snapshot`]. Its members are those of the
    /// last truncation if that was at the same entry.
    pub snapshot: Snapshot,
    /// The log is truncated through this entry: that of the image or an earlier one.
    pub truncated: u64,
    /// All entries through this index are committed. Never beyond the last entry.
    pub commit: u64,
    /// The persisted index that the log records: missing data at or below it is damage. Never beyond the last entry.
    pub persisted: u64,
    /// The entries, from the one behind the snapshot, without gaps.
    pub entries: Vec<LogEntry>,
    /// Payloads of persisted entries that are missing or corrupt: damage. Until they have been
    /// fetched and appended, the node must neither vote nor acknowledge.
    pub missing: Vec<PayloadRef>,
    /// Damage to the log's payloads, as far as it was found: what was there is absent.
    pub damage: Vec<LogDamage>,
    /// What the node may have forgotten of its votes and acknowledgements, at this opening or an earlier one: it must not speak
    /// before all other voters have answered. When it has what they know, [`NodeStore::note_remembered`] is to be called.
    pub forgotten: Option<String>,
    /// The damage to stream 0 that this opening has found: what followed is cut off.
    pub raft_damage: Option<Arc<ReadError>>,
    /// The tables of the node cannot be used. `snapshot` is that of the last truncation, so the log is whole, and an image
    /// at `snapshot` or above it has to be installed.
    pub tables_lost: bool,
}

/// The state of the tables in a directory, for the opening of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TablesFound {
    /// They have [`StoreOptions::snapshot`], which the log has to continue.
    Whole,
    /// The same, but if the log does not continue that, they are lost.
    PerhapsOld,
    /// They cannot be read.
    Lost,
}

impl NodeStore {
    /// Creates the directory of a new node, durably.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], [`StoreError::InUse`], [`StoreError::InvalidOptions`], or the
    /// disk's own. After a crash or an error it can be created again.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: &NodeIdentity,
        voters: &[NodeId],
    ) -> Result<(), StoreError> {
        Self::create_with_tables(disk, dir, identity, voters, None, |_, _| Ok(()))
    }

    /// The same, with the tables that `fill` makes in a folder. The directory is a node's when they are durable; after an error
    /// or a crash it is to be removed.
    ///
    /// # Errors
    /// As [`NodeStore::create`]; the error of `fill`.
    pub(crate) fn create_with_tables<E: From<StoreError>>(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: &NodeIdentity,
        voters: &[NodeId],
        backup: Option<NonZeroU128>,
        fill: impl FnOnce(&Arc<dyn Disk>, &Path) -> Result<(), E>,
    ) -> Result<(), E> {
        if identity.workers == 0 || identity.workers == u16::MAX {
            let why = format!("a node cannot have {} workers", identity.workers);
            return Err(StoreError::InvalidOptions { why }.into());
        }
        let dir = &*absolute(dir)?;
        disk.create_dir_all(dir)
            .map_err(|source| StoreError::device("creating", dir, source))?;
        // Before the lock, which would leave a file in it.
        check_empty(&*disk, dir)?;
        let lock = lock(&*disk, dir)?;
        let disk = guarded(disk, &lock);
        check_empty(&*disk, dir)?;
        let manifest = Manifest::new(identity, voters, backup);
        fill(&disk, &manifest.tables.path(dir))?;
        Ok(manifest.write(&*disk, dir)?)
    }

    /// The identity of a directory's node. Changes nothing, and needs no lock.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::DamagedManifest`], [`StoreError::OtherFormat`], or the disk's own.
    pub fn identity_of(disk: &dyn Disk, dir: &Path) -> Result<NodeIdentity, StoreError> {
        Ok(read_manifest(disk, dir)?.identity())
    }

    /// Fails unless a directory belongs to the node of that number, in that cluster. Changes nothing, and needs no lock.
    ///
    /// # Errors
    /// [`StoreError::WrongNode`], and as [`NodeStore::identity_of`].
    pub fn check_identity(
        disk: &dyn Disk,
        dir: &Path,
        cluster: u128,
        node: NodeId,
    ) -> Result<NodeIdentity, StoreError> {
        let found = Self::identity_of(disk, dir)?;
        if (found.cluster, found.node.number()) != (cluster, node.number()) {
            return Err(StoreError::WrongNode {
                dir: dir.to_owned(),
                found,
                cluster,
                node,
            });
        }
        Ok(found)
    }

    /// Opens the directory of a node without tables, and reads its log.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::InUse`], [`StoreError::DamagedManifest`], [`StoreError::OtherFormat`],
    /// [`StoreError::UnreadableLog`], [`StoreError::SenselessLog`], [`StoreError::InvalidOptions`],
    /// [`StoreError::SnapshotLost`], [`StoreError::DiskFull`], or the disk's own.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<(Self, Recovered), StoreError> {
        NodeDir::lock(disk, dir)?.open_log(options, TablesFound::Whole)
    }
}

/// The directory of a node, held by this process.
pub(crate) struct NodeDir {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    lock: DirLock,
}

impl NodeDir {
    /// Takes the directory.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::InUse`], [`StoreError::DamagedManifest`], [`StoreError::OtherFormat`], or the
    /// disk's own.
    pub(crate) fn lock(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, StoreError> {
        let dir = absolute(dir)?;
        // Before the lock, which would leave a file in it.
        read_manifest(&*disk, &dir)?;
        let lock = lock(&*disk, &dir)?;
        let disk = guarded(disk, &lock);
        let manifest = read_manifest(&*disk, &dir)?;
        Ok(Self {
            dir,
            disk,
            manifest,
            lock,
        })
    }

    /// The identity of the directory's node.
    pub(crate) fn identity(&self) -> NodeIdentity {
        self.manifest.identity()
    }

    /// Opens the tables of the node, as of their last image.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open_replica(&self, options: &StoreOptions) -> Result<Replica, OpenError> {
        let builder = Database::builder().disk(Arc::clone(&self.disk));
        let folder = self.manifest.tables.path(&self.dir);
        if options.loads_tables {
            Replica::open(builder, folder)
        } else {
            Replica::open_unloaded(builder, folder)
        }
    }

    /// Removes the tables that an installed image has replaced.
    ///
    /// # Errors
    /// The disk's own; it may be repeated.
    pub(crate) fn remove_superseded_tables(&self) -> Result<(), ImageCopyError> {
        let folder = self.manifest.tables.other().path(&self.dir);
        ImageCopy::remove_replica(&*self.disk, &folder)
    }

    /// Reads the log, and begins the next generation.
    ///
    /// # Errors
    /// [`StoreError::UnreadableLog`], [`StoreError::SenselessLog`], [`StoreError::InvalidOptions`],
    /// [`StoreError::SnapshotLost`], [`StoreError::DiskFull`], or the disk's own. Nothing that the node has is lost by a
    /// failed opening.
    pub(crate) fn open_log(
        self,
        options: StoreOptions,
        tables: TablesFound,
    ) -> Result<(NodeStore, Recovered), StoreError> {
        let Self {
            dir,
            disk,
            mut manifest,
            lock,
        } = self;
        let dir = &*dir;
        let log_dir = log_dir(dir);
        let identity = manifest.identity();
        let config = log_config(&options, &manifest)?;

        let Replayed {
            mut raft,
            payloads,
            seal,
            raft_damage,
            damage,
        } = recovery::replay(&disk, dir, &log_dir, &manifest, options.planted)?;
        let earlier = raft.head.base.clone();
        let truncated = earlier.snapshot.clone();
        let is_old = truncated.position.index > options.snapshot.position.index;
        let tables_lost = match tables {
            TablesFound::Whole => false,
            TablesFound::PerhapsOld => is_old,
            TablesFound::Lost => true,
        };
        let snapshot = if tables_lost {
            &truncated
        } else {
            &options.snapshot
        };
        let truncated = raft.head.base.snapshot.position.index;
        let ends_old_log = (raft.begin_at(snapshot))
            .map_err(|why| why.in_error(dir, options.snapshot.position))?;
        let position = raft.head.base.snapshot.position;
        if position.index > earlier.snapshot.position.index {
            raft.head.base.payloads_through = payloads_through(&payloads, &earlier, position);
        }
        payloads.truncate(position, &raft.head.base.payloads_through);
        let has = |payload: &PayloadRef| {
            if options.planted.has(Fault::OpenWithoutCut) {
                return true;
            }
            let found = payloads.get(payload.name);
            found.is_some_and(|(found, _)| found == *payload)
        };
        let may_be_damaged = |payload: &PayloadRef| {
            let worker = payload.name.worker;
            damage.iter().any(|damage| damage.worker == worker)
        };
        let cut = raft.cut(has, may_be_damaged);

        if let Some(last) = manifest.generations.last_mut()
            && last.seal.is_none()
        {
            last.seal = seal;
        }
        let mut found = None;
        if let Some(raft_damage) = raft_damage {
            let last = raft.entries.last();
            let base = &raft.head.base;
            let is_alone = Membership::is_alone(
                (&base.snapshot.members, &manifest.voters),
                (base.commit, raft.entries.iter()),
            );
            if is_alone {
                return Err(StoreError::ForgottenAlone {
                    dir: dir.to_owned(),
                    last,
                    source: raft_damage.error,
                });
            }
            manifest.forget_behind(&raft_damage, last);
            found = Some(Arc::new(raft_damage.error));
        }
        manifest.forget_tail(&cut, damage.first().map(|damage| &*damage.first));
        manifest
            .generations
            .retain(|info| !recovery::holds_nothing(info));
        let budget = Arc::new(LogBudget::new(
            Arc::clone(&disk),
            stream_dir(&log_dir, RAFT_STREAM.0),
            u64::from(identity.workers) + 1,
            file_bytes(&config),
            log_files(&*disk, &log_dir, identity.workers)?,
        ));
        let generation = config.generation;
        manifest.next_generation = generation.next();
        let announced = config.generation_info(CutRule::Stamp);
        let log = Log::create(Arc::clone(&budget) as Arc<dyn Disk>, &log_dir, config)
            .map_err(|source| StoreError::of_log(dir, source))?;
        manifest.generations.push(announced);
        manifest.write(&*disk, dir)?;
        let tables = manifest.tables;
        // What remains is removed by the next opening.
        drop(remove_unneeded(&*budget, &log_dir, &manifest.generations));

        let base = &raft.head.base;
        let recovered = Recovered {
            identity,
            backup: manifest.backup(),
            founders: manifest.voters.clone(),
            term: base.term,
            vote: base.vote,
            snapshot: base.snapshot.clone(),
            truncated,
            commit: base.commit,
            persisted: base.persisted,
            entries: raft.entries.iter().cloned().collect(),
            missing: cut.missing,
            damage,
            forgotten: manifest.forgotten.clone(),
            raft_damage: found,
            tables_lost,
        };
        let store = NodeStore {
            dir: dir.to_owned(),
            log_dir,
            identity,
            tables,
            generation,
            disk,
            budget,
            log,
            payloads: Arc::new(payloads),
            files: OpenFiles::new(),
            head: Mutex::new(raft.head),
            has_base: AtomicBool::new(false),
            held: Mutex::new(Some((manifest, lock))),
        };
        if ends_old_log {
            store.append_base(&mut store.head.lock())?;
            store.flush_raft()?;
        }
        if let Some(from) = cut.from {
            // A payload that arrives later must not restore entries that were cut off.
            store.append_raft(&[RaftRecord::Truncate { from }])?;
            store.flush_raft()?;
        }
        store
            .budget
            .limit(options.max_log_bytes.unwrap_or(u64::MAX));
        Ok((store, recovered))
    }
}

/// The absolute path, by the current working directory: the process may change it.
fn absolute(dir: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(dir).map_err(|source| StoreError::device("finding", dir, source))
}

fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

fn stream_dir(log_dir: &Path, stream: u16) -> PathBuf {
    log_dir.join(format!("{stream:04}"))
}

fn log_config(options: &StoreOptions, manifest: &Manifest) -> Result<LogConfig, StoreError> {
    let invalid = |why: String| StoreError::InvalidOptions { why };
    if options.log_file_bytes > u32::MAX.into() {
        let why = format!(
            "log_file_bytes is {}, and 4 GiB is too long",
            options.log_file_bytes
        );
        return Err(invalid(why));
    }
    let identity = manifest.identity();
    let streams = NonZeroU16::MIN.saturating_add(identity.workers);
    let block = LOG_BLOCK_BYTES;
    // One buffer, and the file's header.
    let first = (options.buffer_bytes.max(1) as u64).next_multiple_of(block) + block;
    let most = options.max_log_bytes.unwrap_or(u64::MAX) / (8 * u64::from(streams.get()));
    let longest = options
        .log_file_bytes
        .min((most / block * block).max(first));
    let config = LogConfig {
        streams,
        // The caller flushes.
        group: Group::Count(NonZeroU32::MIN),
        group_wait_max: Duration::MAX,
        buffer_bytes: options.buffer_bytes,
        placement: Placement::Files {
            log_file_bytes: longest,
        },
        first_file_bytes: Some(first),
        retain: Retain::UntilRecycled,
        prepare: options.prepare,
        ..LogConfig::new(identity.log_identity(), manifest.next_generation)
    };
    config.check().map_err(|error| invalid(error.to_string()))?;
    Ok(config)
}

fn read_manifest(disk: &dyn Disk, dir: &Path) -> Result<Manifest, StoreError> {
    if let Some(manifest) = Manifest::read(disk, dir)? {
        return Ok(manifest);
    }
    if has_log(disk, dir)? {
        return Err(StoreError::DamagedManifest {
            path: Manifest::path(dir),
            why: "it is missing, although there is a log".to_owned(),
        });
    }
    Err(StoreError::Empty {
        dir: dir.to_owned(),
    })
}

/// Whether the directory has a log but no manifest.
fn has_log(disk: &dyn Disk, dir: &Path) -> Result<bool, StoreError> {
    let log_dir = log_dir(dir);
    let failed = |source| StoreError::device("listing", &log_dir, source);
    for (_, stream) in stream_dirs(disk, &log_dir, 0).map_err(failed)? {
        if !disk.list(&stream).map_err(failed)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_empty(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let files = disk
        .list(dir)
        .map_err(|source| StoreError::device("listing", dir, source))?;
    // Leftovers of a killed process that probed the disk, and the entries of a file system at its
    // root.
    let counts_as_nothing = |name: &str, kind| {
        name.starts_with(PROBE_FILES)
            || name.starts_with(PROFILE_FILES)
            || (kind == FileKind::Directory && name == "lost+found")
    };
    let holds_something = files.iter().any(|file| {
        let name = file.path.file_name().unwrap_or_default();
        !counts_as_nothing(&name.to_string_lossy(), file.kind)
    });
    if holds_something || has_log(disk, dir)? {
        return Err(StoreError::NotEmpty {
            dir: dir.to_owned(),
        });
    }
    Ok(())
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<DirLock, StoreError> {
    disk.lock_dir(dir).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => StoreError::InUse {
            dir: dir.to_owned(),
        },
        _ => StoreError::device("locking", dir, source),
    })
}

/// Lengths of the log's shortest and longest files.
fn file_bytes(config: &LogConfig) -> (u64, u64) {
    let Placement::Files { log_file_bytes } = config.placement else {
        unreachable!("a node's log is in files")
    };
    let first = config.first_file_bytes.unwrap_or(log_file_bytes);
    (first, log_file_bytes)
}

/// The files of all generations, with their lengths.
fn log_files(
    disk: &dyn Disk,
    log_dir: &Path,
    workers: u16,
) -> Result<Vec<(PathBuf, u64)>, StoreError> {
    let mut found = Vec::new();
    for stream in 0..=workers {
        let dir = stream_dir(log_dir, stream);
        match disk.list(&dir) {
            Ok(files) => found.extend(files.into_iter().map(|file| (file.path, file.len_bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::device("listing", &dir, error)),
        }
    }
    Ok(found)
}
