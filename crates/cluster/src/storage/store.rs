//! The storage of a node: appends and reads. `open.rs` opens it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use namiki_log::{Entry, Log, Stream, log_file_path};
use namiki_platform::disk::{DirLock, Disk, read_unaligned};
use namiki_platform::{Epoch, Stamp, WorkerId};
use parking_lot::Mutex;

use super::error::StoreError;
use super::log_budget::LogBudget;
use super::manifest::Manifest;
use super::node_identity::NodeIdentity;
use super::open_files::OpenFiles;
use super::payload_index::{BufferedPayloads, PAYLOAD_HEADER_BYTES, PayloadIndex, PayloadPlace};
use super::raft_record::RaftRecord;
use super::read_ahead::{COPY_BYTES_MAX, ReadAhead};
use crate::entry::{LogEntry, PayloadName, PayloadRef};

/// The stream of Raft's own records. Payloads of worker w are in stream 1 + w.
pub(super) const RAFT_STREAM: WorkerId = WorkerId(0);

/// A node's durable storage. One thread appends to a stream and flushes it: one for Raft's records, one for the payloads
/// of each worker. Any thread reads.
pub struct NodeStore {
    pub(super) dir: PathBuf,
    pub(super) log_dir: PathBuf,
    pub(super) identity: NodeIdentity,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) budget: Arc<LogBudget>,
    // Before the lock, so that it is dropped first.
    pub(super) log: Arc<Log<BufferedPayloads>>,
    pub(super) payloads: Arc<PayloadIndex>,
    pub(super) files: OpenFiles,
    /// Index of the last entry that was appended.
    pub(super) last_index: Mutex<u64>,
    /// Held until the storage is closed.
    pub(super) held: Mutex<Option<(Manifest, DirLock)>>,
}

impl NodeStore {
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
    /// [`StoreError::DiskFull`], after which nothing has changed; if the records do not fit into
    /// one buffer together, a prefix of them may have been appended. [`StoreError::TooLong`] for a
    /// record that does not fit alone, [`StoreError::FailedLog`], [`StoreError::Closed`].
    ///
    /// # Panics
    /// If an entry does not follow the last one, or voids an index that never existed.
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

    /// Makes Raft's records durable that were appended before the call.
    ///
    /// # Errors
    /// [`StoreError::FailedLog`]: data that was not durable is in doubt, and nothing more is
    /// accepted.
    pub fn flush_raft(&self) -> Result<(), StoreError> {
        self.flush(RAFT_STREAM)
    }

    /// Appends a payload to its worker's buffer. It is not durable yet. Has no effect if it was
    /// appended before.
    ///
    /// A payload of the same name with another digest replaces the one before: that one was
    /// damaged.
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

    /// Makes a worker's payloads durable that were appended before the call.
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
        self.read_payload_ahead(name, &mut ReadAhead::default())
    }

    /// Reads a durable payload back, with readahead if the reader is sequential.
    ///
    /// # Errors
    /// As [`NodeStore::read_payload`].
    pub fn read_payload_ahead(
        &self,
        name: PayloadName,
        ahead: &mut ReadAhead,
    ) -> Result<Bytes, StoreError> {
        let (payload, place) =
            self.payloads
                .get(name)
                .ok_or_else(|| StoreError::NoSuchPayload {
                    dir: self.dir.clone(),
                    name,
                })?;
        let place = place.ok_or(StoreError::NotDurable { name })?;
        let length = payload.length as usize;
        let stretch = ahead.of_worker(name.worker);
        if let Some(bytes) = stretch.get(place, length).filter(|it| payload.matches(it)) {
            return Ok(bytes);
        }
        let bytes_ahead = stretch.bytes_to_read(place, length);
        if bytes_ahead > length
            && let Ok(bytes) = self.read_from(name, place, bytes_ahead)
        {
            stretch.put(place, bytes);
            if let Some(bytes) = stretch.get(place, length).filter(|it| payload.matches(it)) {
                return Ok(bytes);
            }
        }
        // By itself: it may be intact although the bytes behind it cannot be read.
        let bytes = self.read_from(name, place, length)?;
        if !payload.matches(&bytes) {
            return Err(StoreError::DamagedPayload {
                name,
                path: self.file_of(name, place),
                offset_bytes: place.offset.into(),
            });
        }
        stretch.put(place, bytes.clone());
        Ok(bytes)
    }

    /// Reads from a place on; fewer bytes only at the end of the file.
    fn read_from(
        &self,
        name: PayloadName,
        place: PayloadPlace,
        length: usize,
    ) -> Result<Bytes, StoreError> {
        let path = || self.file_of(name, place);
        let failed = |source| StoreError::device("reading", &path(), source);
        let key = (place.generation, stream_of(name), place.file_number);
        let file = self.files.get(key, || self.disk.open(&path()));
        let file = file.map_err(failed)?;
        let read = read_unaligned(&*file, place.offset.into(), length).map_err(failed)?;
        Ok(if read.bytes().len() < COPY_BYTES_MAX {
            Bytes::copy_from_slice(read.bytes())
        } else {
            Bytes::from_owner(read)
        })
    }

    fn file_of(&self, name: PayloadName, place: PayloadPlace) -> PathBuf {
        log_file_path(
            &self.log_dir,
            place.generation,
            stream_of(name),
            place.file_number,
        )
    }

    /// Whether the log may grow by two files for each worker: a leader with less room accepts no
    /// more commands.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.budget.has_room(2 * u64::from(self.identity.workers))
    }

    /// Limit on the log's files together: [`u64::MAX`] without one.
    #[must_use]
    pub fn log_bytes_max(&self) -> u64 {
        self.budget.bytes_max()
    }

    /// Total length of the log's files.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.budget.bytes()
    }

    /// Makes everything durable, records the end of the log in the manifest, and releases the
    /// directory. Has no effect if it was closed before. Payloads can still be read.
    ///
    /// # Errors
    /// [`StoreError::FailedLog`], or the disk's own: the directory is released nevertheless, and
    /// the next opening finds all durable data.
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

/// The stream of a payload that is in the index.
fn stream_of(name: PayloadName) -> WorkerId {
    WorkerId(1 + name.worker)
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeStore")
            .field("dir", &self.dir)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
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
