//! The storage of a node: opening, appending, reading back.

use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namiki_log::{CutRule, Entry, Group, Log, LogConfig, Placement, Prepare, Stream, segment_path};
use namiki_platform::disk::{
    DirLock, Disk, FileKind, PROBE_FILES, PROFILE_FILES, guarded, read_unaligned,
};
use namiki_platform::{Epoch, Stamp, WorkerId};
use parking_lot::Mutex;

use super::error::StoreError;
use super::identity::NodeIdentity;
use super::log_budget::LogBudget;
use super::manifest::Manifest;
use super::open_files::OpenFiles;
use super::payload_index::{BufferedPayloads, PAYLOAD_HEADER_BYTES, PayloadIndex};
use super::raft_record::RaftRecord;
use super::recovery::{self, Replayed};
use crate::entry::{LogEntry, PayloadName, PayloadRef};
use crate::network::NodeId;
use crate::planted::{Fault, Planted};

/// The stream of Raft's own records. Payloads of worker w are in stream 1 + w.
const RAFT_STREAM: WorkerId = WorkerId(0);
/// Payloads from this length on are given out in the pages that they were read into.
const COPY_BYTES_MAX: usize = 4096;

/// How a node's storage is opened. All of it may differ at every opening.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Length of the log's files. An opening begins a new one for each stream that is written.
    pub segment_bytes: u64,
    /// Length of a log buffer, of which each stream has two: at least the longest payload and a hundred bytes of headers.
    pub buffer_bytes: usize,
    /// On which thread files are made ready.
    pub prepare: Prepare,
    /// How long the log's files may be together for another payload to be accepted; Raft's own records always are.
    /// Nothing: as long as the disk has space.
    pub max_log_bytes: Option<u64>,
    /// A fault, in simulations.
    pub planted: Planted,
}

impl Default for StoreOptions {
    /// Files of 16 MiB, buffers of 2 MiB, no limit.
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            buffer_bytes: 2 << 20,
            prepare: Prepare::Background,
            max_log_bytes: None,
            planted: Planted::default(),
        }
    }
}

/// What an opening found. All of it is durable.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The node.
    pub identity: NodeIdentity,
    /// The voters that the directory was created with.
    pub membership: Vec<NodeId>,
    /// The current term.
    pub term: u64,
    /// The node that has this one's vote in the term; 0 if none has.
    pub vote: u64,
    /// All entries through this index are committed. Never beyond the last entry.
    pub commit: u64,
    /// Through this index, what is missing is damage. Never beyond the last entry.
    pub persisted: u64,
    /// The entries, from index 1, without gaps.
    pub entries: Vec<LogEntry>,
    /// Payloads of entries that were persisted and are not there, or not as they should be: damage. Until they have
    /// been fetched and appended, the node must neither vote nor acknowledge.
    pub missing: Vec<PayloadRef>,
}

/// A node's durable storage. One thread appends to a stream and flushes it: one for Raft's records, one for the payloads
/// of each worker. Any thread reads.
pub struct NodeStore {
    dir: PathBuf,
    log_dir: PathBuf,
    identity: NodeIdentity,
    disk: Arc<dyn Disk>,
    budget: Arc<LogBudget>,
    // Before the lock, so that it is dropped first.
    log: Arc<Log<BufferedPayloads>>,
    payloads: Arc<PayloadIndex>,
    files: OpenFiles,
    /// Index of the last entry that was appended.
    last_index: Mutex<u64>,
    /// Until the storage is closed.
    held: Mutex<Option<(Manifest, DirLock)>>,
}

impl NodeStore {
    /// Creates the directory of a new node, durably.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], [`StoreError::InUse`], [`StoreError::InvalidOptions`], or the disk's own. Where a crash
    /// or an error came in between, it can be created again.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: &NodeIdentity,
        voters: &[NodeId],
    ) -> Result<(), StoreError> {
        if identity.workers == 0 || identity.workers == u16::MAX {
            let why = format!("a node cannot have {} workers", identity.workers);
            return Err(StoreError::InvalidOptions { why });
        }
        disk.create_dir_all(dir)
            .map_err(|source| StoreError::device("creating", dir, source))?;
        // Before it is locked, which would leave a file in it.
        check_empty(&*disk, dir)?;
        let lock = lock(&*disk, dir)?;
        let disk = guarded(disk, &lock);
        check_empty(&*disk, dir)?;
        Manifest::new(identity, voters).write(&*disk, dir)
    }

    /// Which node a directory belongs to. Changes nothing, and needs no lock.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::DamagedManifest`], [`StoreError::NewerManifest`], or the disk's own.
    pub fn identity_of(disk: &dyn Disk, dir: &Path) -> Result<NodeIdentity, StoreError> {
        Ok(read_manifest(disk, dir)?.identity())
    }

    /// Fails unless a directory belongs to that node of that cluster. Changes nothing, and needs no lock.
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
        if (found.cluster, found.node) != (cluster, node) {
            return Err(StoreError::WrongNode {
                dir: dir.to_owned(),
                found,
                cluster,
                node,
            });
        }
        Ok(found)
    }

    /// Opens the directory of a node, and reads its log.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::InUse`], [`StoreError::DamagedManifest`], [`StoreError::NewerManifest`],
    /// [`StoreError::UnreadableLog`], [`StoreError::SenselessLog`], [`StoreError::InvalidOptions`],
    /// [`StoreError::DiskFull`], or the disk's own. Nothing that the node has is lost by a failed opening.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<(Self, Recovered), StoreError> {
        // Before it is locked, which would leave a file in it.
        read_manifest(&*disk, dir)?;
        let lock = lock(&*disk, dir)?;
        let disk = guarded(disk, &lock);
        let mut manifest = read_manifest(&*disk, dir)?;
        let log_dir = log_dir(dir);
        let identity = manifest.identity();
        let config = log_config(&options, &manifest)?;

        let Replayed {
            mut raft,
            payloads,
            seal,
        } = recovery::replay(&disk, dir, &log_dir, &manifest, options.planted)?;
        let cut = raft.cut(|payload| {
            if options.planted.has(Fault::OpenWithoutCut) {
                return true;
            }
            let found = payloads.get(payload.name);
            found.is_some_and(|(found, _)| found == *payload)
        });

        if let Some(last) = manifest.generations.last_mut()
            && last.seal.is_none()
        {
            last.seal = seal;
        }
        manifest
            .generations
            .retain(|info| !recovery::holds_nothing(info));
        let budget = Arc::new(LogBudget::new(
            Arc::clone(&disk),
            stream_dir(&log_dir, RAFT_STREAM.0),
            options.segment_bytes,
            log_bytes(&*disk, &log_dir, identity.workers)?,
        ));
        manifest.next_generation = config.generation.next();
        let announced = config.generation_info(CutRule::Stamp);
        let log = Log::create(Arc::clone(&budget) as Arc<dyn Disk>, &log_dir, config)
            .map_err(|source| StoreError::of_log(dir, source))?;
        manifest.generations.push(announced);
        manifest.write(&*disk, dir)?;

        let recovered = Recovered {
            identity,
            membership: manifest.voters.clone(),
            term: raft.term,
            vote: raft.vote,
            commit: raft.commit,
            persisted: raft.persisted,
            entries: raft.entries,
            missing: cut.missing,
        };
        let store = Self {
            dir: dir.to_owned(),
            log_dir,
            identity,
            disk,
            budget,
            log,
            payloads: Arc::new(payloads),
            files: OpenFiles::new(),
            last_index: Mutex::new(recovered.entries.len() as u64),
            held: Mutex::new(Some((manifest, lock))),
        };
        if let Some(from) = cut.from {
            // A payload that comes later must not bring back what was cut off.
            store.append_raft(&[RaftRecord::Truncate { from }])?;
            store.flush_raft()?;
        }
        store
            .budget
            .limit(options.max_log_bytes.unwrap_or(u64::MAX));
        Ok((store, recovered))
    }

    /// The node.
    #[must_use]
    pub fn identity(&self) -> NodeIdentity {
        self.identity
    }

    /// The longest payload that can be appended.
    #[must_use]
    pub fn payload_bytes_max(&self) -> usize {
        self.raft_stream().payload_bytes_max() - PAYLOAD_HEADER_BYTES
    }

    /// Appends Raft's records, in this order, to a buffer. They are not durable yet.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], after which nothing has changed; of records that do not fit into one buffer together, some
    /// may have been appended, from the first on. [`StoreError::TooLong`] for a record that does not fit alone,
    /// [`StoreError::FailedLog`], [`StoreError::Closed`].
    ///
    /// # Panics
    /// If an entry does not follow the last one, or voids an index that never was.
    pub fn append_raft(&self, records: &[RaftRecord]) -> Result<(), StoreError> {
        let stream = self.raft_stream();
        let bytes_max = stream.payload_bytes_max();
        let mut last_index = self.last_index.lock();
        check_order(*last_index, records);
        let too_long = records.iter().map(RaftRecord::encoded_bytes).max();
        if let Some(bytes) = too_long.filter(|bytes| *bytes > bytes_max) {
            return Err(StoreError::TooLong { bytes, bytes_max });
        }
        let mut rest = records;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|record| {
                bytes += record.encoded_bytes();
                bytes <= bytes_max
            });
            let (now, later) = rest.split_at(fitting.count());
            self.append_together(stream, now)?;
            *last_index = last_index_after(*last_index, now);
            rest = later;
        }
        Ok(())
    }

    /// Appends records that fit into a buffer as one record of the log.
    fn append_together(
        &self,
        stream: &Stream<BufferedPayloads>,
        records: &[RaftRecord],
    ) -> Result<(), StoreError> {
        let bytes = records.iter().map(RaftRecord::encoded_bytes).sum();
        let term = records.iter().map(RaftRecord::term).max().unwrap_or(0);
        let encode = |into: &mut [u8], _| {
            records.iter().fold(into, |out, record| record.encode(out));
        };
        stream
            .append(Entry::Part, stamp(term), Epoch(0), bytes, encode, |_| {})
            .map(drop)
            .map_err(|error| StoreError::of_log(&self.dir, error))
    }

    /// Makes durable what was appended to Raft's records before the call.
    ///
    /// # Errors
    /// [`StoreError::FailedLog`]: what was not durable is in doubt, and nothing is accepted any more.
    pub fn flush_raft(&self) -> Result<(), StoreError> {
        self.flush(RAFT_STREAM)
    }

    /// Appends a payload to its worker's buffer. It is not durable yet. Without effect if it was appended before.
    ///
    /// A payload of the same name with another digest takes the place of the one before: that one was damaged.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] and [`StoreError::LogFull`], after which nothing has changed; [`StoreError::TooLong`],
    /// [`StoreError::NoSuchWorker`], [`StoreError::FailedLog`], [`StoreError::Closed`].
    pub fn append_payload(&self, payload: &PayloadRef, bytes: &[u8]) -> Result<(), StoreError> {
        debug_assert!(payload.matches(bytes), "{payload:?}");
        let PayloadName {
            term,
            worker,
            number,
        } = payload.name;
        let stream = self.payload_stream(worker)?;
        if self.payload(payload.name) == Some(*payload) {
            return Ok(());
        }
        let encode = |into: &mut [u8], _| {
            let (header, rest) = into.split_at_mut(PAYLOAD_HEADER_BYTES);
            header[..8].copy_from_slice(&term.to_le_bytes());
            header[8..].copy_from_slice(&number.to_le_bytes());
            rest.copy_from_slice(bytes);
        };
        let hold = |held: &mut BufferedPayloads| held.push(&self.payloads, *payload);
        let length = PAYLOAD_HEADER_BYTES + bytes.len();
        self.log
            .stream(stream)
            .append(Entry::Part, stamp(term), Epoch(0), length, encode, hold)
            .map(drop)
            .map_err(|error| StoreError::of_log(&self.dir, error))
    }

    /// Makes durable what was appended for a worker before the call.
    ///
    /// # Errors
    /// [`StoreError::NoSuchWorker`]; [`StoreError::FailedLog`], as [`NodeStore::flush_raft`].
    pub fn flush_payloads(&self, worker: u16) -> Result<(), StoreError> {
        let stream = self.payload_stream(worker)?;
        self.flush(stream)
    }

    /// The payload of that name, durable or not, if it was appended.
    #[must_use]
    pub fn payload(&self, name: PayloadName) -> Option<PayloadRef> {
        self.payloads.get(name).map(|(payload, _)| payload)
    }

    /// The payload of that name, if it is durable.
    #[must_use]
    pub fn durable_payload(&self, name: PayloadName) -> Option<PayloadRef> {
        let (payload, place) = self.payloads.get(name)?;
        place.map(|_| payload)
    }

    /// Reads a durable payload back.
    ///
    /// # Errors
    /// [`StoreError::NoSuchPayload`], [`StoreError::NotDurable`], [`StoreError::DamagedPayload`], or the disk's own.
    pub fn read_payload(&self, name: PayloadName) -> Result<Bytes, StoreError> {
        let dir = || self.dir.clone();
        let (payload, place) = self
            .payloads
            .get(name)
            .ok_or_else(|| StoreError::NoSuchPayload { dir: dir(), name })?;
        let place = place.ok_or(StoreError::NotDurable { name })?;
        let stream = WorkerId(1 + name.worker);
        let path = || segment_path(&self.log_dir, place.generation, stream, place.segment);
        let failed = |source| StoreError::device("reading", &path(), source);
        let key = (place.generation, stream, place.segment);
        let file = self.files.get(key, || self.disk.open(&path()));
        let file = file.map_err(failed)?;
        let read = read_unaligned(&*file, place.offset.into(), payload.length as usize);
        let read = read.map_err(failed)?;
        if !payload.matches(read.bytes()) {
            return Err(StoreError::DamagedPayload {
                name,
                path: path(),
                offset_bytes: place.offset.into(),
            });
        }
        Ok(if read.bytes().len() < COPY_BYTES_MAX {
            Bytes::copy_from_slice(read.bytes())
        } else {
            Bytes::from_owner(read)
        })
    }

    /// How long the log's files are together.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.budget.bytes()
    }

    /// Makes everything durable, notes in the manifest where the log ends, and releases the directory. Without effect if
    /// it was closed before. Payloads can still be read.
    ///
    /// # Errors
    /// [`StoreError::FailedLog`], or the disk's own: the directory is released all the same, and what was durable is
    /// found by the next opening.
    pub fn close(&self) -> Result<(), StoreError> {
        let Some((mut manifest, lock)) = self.held.lock().take() else {
            return Ok(());
        };
        let end = self
            .log
            .close()
            .map_err(|error| StoreError::of_log(&self.dir, error))?;
        if let Some(last) = manifest.generations.last_mut() {
            last.seal = Some(end);
        }
        let written = manifest.write(&*self.disk, &self.dir);
        drop(lock);
        written
    }

    fn flush(&self, stream: WorkerId) -> Result<(), StoreError> {
        self.log
            .stream(stream)
            .flush()
            .map_err(|error| StoreError::of_log(&self.dir, error))
    }

    fn raft_stream(&self) -> &Stream<BufferedPayloads> {
        self.log.stream(RAFT_STREAM)
    }

    fn payload_stream(&self, worker: u16) -> Result<WorkerId, StoreError> {
        let workers = self.identity.workers;
        if worker >= workers {
            return Err(StoreError::NoSuchWorker { worker, workers });
        }
        Ok(WorkerId(1 + worker))
    }
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeStore")
            .field("dir", &self.dir)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

fn stream_dir(log_dir: &Path, stream: u16) -> PathBuf {
    log_dir.join(format!("{stream:04}"))
}

/// A record's stamp: the largest term in it.
fn stamp(term: u64) -> Stamp {
    Stamp(term).min(Stamp::MAX)
}

/// The last index after these records.
fn last_index_after(last: u64, records: &[RaftRecord]) -> u64 {
    records.iter().fold(last, |last, record| match record {
        RaftRecord::Entry(entry) => entry.index,
        RaftRecord::Truncate { from } => last.min(from - 1),
        _ => last,
    })
}

/// Panics if a record does not follow the ones before.
fn check_order(last: u64, records: &[RaftRecord]) {
    records.iter().fold(last, |last, record| {
        if let RaftRecord::Entry(LogEntry { index: from, .. }) | RaftRecord::Truncate { from } =
            record
        {
            assert!(
                *from >= 1 && *from <= last + 1,
                "{record:?} comes after index {last}"
            );
        }
        last_index_after(last, std::slice::from_ref(record))
    });
}

fn log_config(options: &StoreOptions, manifest: &Manifest) -> Result<LogConfig, StoreError> {
    let invalid = |why: String| StoreError::InvalidOptions { why };
    if options.segment_bytes > u32::MAX.into() {
        let why = format!(
            "segment_bytes is {}, and 4 GiB is too long",
            options.segment_bytes
        );
        return Err(invalid(why));
    }
    let identity = manifest.identity();
    let config = LogConfig {
        streams: NonZeroU16::MIN.saturating_add(identity.workers),
        // The caller flushes.
        group: Group::Count(NonZeroU32::MIN),
        group_wait_max: Duration::MAX,
        buffer_bytes: options.buffer_bytes,
        placement: Placement::Segments {
            segment_bytes: options.segment_bytes,
        },
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
    if has_log(disk, dir) {
        return Err(StoreError::DamagedManifest {
            path: Manifest::path(dir),
            why: "it is missing, although there is a log".to_owned(),
        });
    }
    Err(StoreError::Empty {
        dir: dir.to_owned(),
    })
}

/// Whether there is a log without a manifest.
fn has_log(disk: &dyn Disk, dir: &Path) -> bool {
    let log_dir = log_dir(dir);
    let mut streams =
        (0..u16::MAX).map_while(|stream| disk.list(&stream_dir(&log_dir, stream)).ok());
    streams.any(|files| !files.is_empty())
}

fn check_empty(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let files = disk
        .list(dir)
        .map_err(|source| StoreError::device("listing", dir, source))?;
    // What a killed process leaves that tried out the disk, and what a file system keeps at its root.
    let counts_as_nothing = |name: &str, kind| {
        name.starts_with(PROBE_FILES)
            || name.starts_with(PROFILE_FILES)
            || (kind == FileKind::Directory && name == "lost+found")
    };
    let holds_something = files.iter().any(|file| {
        let name = file.path.file_name().unwrap_or_default();
        !counts_as_nothing(&name.to_string_lossy(), file.kind)
    });
    if holds_something || has_log(disk, dir) {
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

/// How long the files of all generations are together.
fn log_bytes(disk: &dyn Disk, log_dir: &Path, workers: u16) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for stream in 0..=workers {
        let dir = stream_dir(log_dir, stream);
        match disk.list(&dir) {
            Ok(files) => bytes += files.iter().map(|file| file.len_bytes).sum::<u64>(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::device("listing", &dir, error)),
        }
    }
    Ok(bytes)
}
