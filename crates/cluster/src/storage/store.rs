//! The storage of a node: appends and reads. `open.rs` opens it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use namiki_log::{Entry, Log, Stream, log_file_path};
use namiki_platform::disk::{DirLock, Disk, read_unaligned};
use namiki_platform::{Epoch, Generation, Stamp, WorkerId};
use parking_lot::Mutex;

use super::base::RaftHead;
use super::error::StoreError;
use super::log_budget::LogBudget;
use super::manifest::Manifest;
use super::node_identity::NodeIdentity;
use super::open_files::OpenFiles;
use super::payload_index::{BufferedPayloads, PAYLOAD_HEADER_BYTES, PayloadIndex, PayloadPlace};
use super::raft_record::RaftRecord;
use super::read_ahead::{COPY_BYTES_MAX, ReadAhead};
use super::tables_folder::TablesFolder;
use crate::entry::{EntryBody, LogEntry, PayloadName, PayloadRef};

/// The stream of Raft's own records. Payloads of worker w are in stream 1 + w.
pub(super) const RAFT_STREAM: WorkerId = WorkerId(0);

/// A node's durable storage. One thread appends to a stream and flushes it: one for Raft's records, one for the payloads
/// of each worker. Any thread reads.
pub struct NodeStore {
    pub(super) dir: PathBuf,
    pub(super) log_dir: PathBuf,
    pub(super) identity: NodeIdentity,
    /// Where the tables of this opening are.
    pub(super) tables: TablesFolder,
    /// The generation of the log that is written.
    pub(super) generation: Generation,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) budget: Arc<LogBudget>,
    // Before the lock, so that it is dropped first.
    pub(super) log: Arc<Log<BufferedPayloads>>,
    pub(super) payloads: Arc<PayloadIndex>,
    pub(super) files: OpenFiles,
    /// The state that the records of stream 0 add up to. Its lock orders them.
    pub(super) head: Mutex<RaftHead>,
    /// Whether the next record of stream 0 follows a base record.
    pub(super) has_base: AtomicBool,
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
        let mut head = self.head.lock();
        check_order(&head, records);
        let too_long = records.iter().map(RaftRecord::encoded_bytes).max();
        if let Some(bytes) = too_long.filter(|bytes| *bytes > bytes_max) {
            return Err(StoreError::TooLong { bytes, bytes_max });
        }
        if !records.is_empty() && !self.has_base() {
            self.append_base(&mut head)?;
        }
        let mut rest = records;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|record| {
                bytes += record.encoded_bytes();
                bytes <= bytes_max
            });
            let (now, later) = rest.split_at(fitting.count());
            self.append_together(stream, now, |_| {})?;
            for record in now {
                head.note(record);
                if let RaftRecord::Entry(entry) = record
                    && let EntryBody::Group(payload) = &entry.body
                {
                    self.payloads.note_entry(payload.name, entry.index);
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Whether stream 0 of the generation that is written has begun with a base record. Written
    /// under the lock of the head.
    pub(super) fn has_base(&self) -> bool {
        self.has_base.load(Ordering::Relaxed)
    }

    /// Appends a base record, under the lock of the head: a segment begins (`base.rs`, BR1).
    pub(super) fn append_base(&self, head: &mut RaftHead) -> Result<(), StoreError> {
        let base = head.next_base();
        let record = RaftRecord::Base(Box::new(base.clone()));
        let (bytes, bytes_max) = (
            record.encoded_bytes(),
            self.raft_stream().payload_bytes_max(),
        );
        if bytes > bytes_max {
            return Err(StoreError::TooLong { bytes, bytes_max });
        }
        let file_number = Arc::new(AtomicU64::new(0));
        let held = Arc::clone(&file_number);
        self.append_together(self.raft_stream(), &[record], |it| it.push_base(held))?;
        head.begin_segment(&base, (self.generation, file_number));
        self.has_base.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Appends records that fit into a buffer as one record of the log.
    fn append_together(
        &self,
        stream: &Stream<BufferedPayloads>,
        records: &[RaftRecord],
        hold: impl FnOnce(&mut BufferedPayloads),
    ) -> Result<(), StoreError> {
        let bytes = records.iter().map(RaftRecord::encoded_bytes).sum();
        let term = records.iter().map(RaftRecord::term).max().unwrap_or(0);
        let encode = |into: &mut [u8], _| {
            records.iter().fold(into, |out, record| record.encode(out));
        };
        stream
            .append(Entry::Part, stamp(term), Epoch(0), bytes, encode, hold)
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
        let is_missing = || StoreError::NoSuchPayload {
            dir: self.dir.clone(),
            name,
        };
        let (payload, place) = self.payloads.get(name).ok_or_else(is_missing)?;
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
        let read = self.read_from(name, place, length);
        let is_whole = read.as_ref().is_ok_and(|bytes| payload.matches(bytes));
        if !is_whole && self.payloads.get(name).is_none() {
            // It was truncated in the meantime.
            return Err(is_missing());
        }
        let bytes = read?;
        if !is_whole {
            return Err(StoreError::DamagedPayload {
                name,
                path: self.file_of(name, place),
                offset_bytes: place.offset.into(),
            });
        }
        stretch.put(place, bytes.clone());
        Ok(bytes)
    }

    /// The file of a durable payload, and its offset there.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn place_of(&self, name: PayloadName) -> Option<(PathBuf, u64)> {
        let (_, place) = self.payloads.get(name)?;
        place.map(|place| (self.file_of(name, place), place.offset.into()))
    }

    /// The last entry that stream 0 says to be persisted.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn recorded_persisted(&self) -> u64 {
        self.head.lock().base.persisted
    }

    /// Forgets the place of a payload that cannot be read back, so that it can be appended again.
    pub(crate) fn forget_damaged(&self, payload: &PayloadRef) {
        self.payloads.forget_place(payload);
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

    /// Whether the log may grow by two files for each stream, stream 0 included: a leader with less
    /// room accepts no more commands.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.budget.has_room()
    }

    /// Lets the log exceed its limit by a file, a quarter at most together: the payload of the next entry does not fit, and no image
    /// makes room.
    pub(crate) fn exceed_limit(&self) {
        self.budget.exceed();
    }

    /// The bytes that the log's files may grow by before it has no [room](Self::has_room); 0 without room.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.budget.free()
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

    /// Bytes that were written to the log since this opening, padding included.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.log.counters().frame_bytes
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

    pub(super) fn raft_stream(&self) -> &Stream<BufferedPayloads> {
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

/// Panics if a record does not follow the ones before.
fn check_order(head: &RaftHead, records: &[RaftRecord]) {
    let first = head.base.snapshot.position.index + 1;
    records.iter().fold(head.last_index(), |last, record| {
        let (from, last_then) = match record {
            RaftRecord::Entry(LogEntry { index, .. }) => (*index, *index),
            RaftRecord::Truncate { from } => (*from, last.min(from.saturating_sub(1))),
            RaftRecord::Base(_) => panic!("only the storage writes base records"),
            _ => return last,
        };
        assert!(
            (first..=last + 1).contains(&from),
            "{record:?} comes after index {last}, and the log begins at {first}"
        );
        last_then
    });
}
