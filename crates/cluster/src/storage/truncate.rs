//! Truncation of the log behind a durable image.
//!
//! ```text
//!   image at S durable          the caller's part: file and directory
//!   base record                 in a new segment of stream 0: S and its term
//!   names                       of payloads that no entry above S needs leave the index
//!   manifest                    without the generations, and with the beginnings, of what goes
//!   files                       are removed
//! ```
//! Each step is durable before the next one begins, and a crash between two of them leaves a
//! directory that opens to the same state. The rest is made up for by the next truncation, and
//! files that no manifest names by the next opening.
//!
//! - Stream 0 keeps the segments from the one with the record of entry S on (`base.rs`).
//! - A file of payloads goes if every payload in it is of an entry through S, or of a term below
//!   that of entry S. A payload of entry S's term or a later one without an entry was perhaps sealed
//!   by the current leader and not proposed yet, and stays (`payload_index.rs`).
//! - Of the generation that is written, the first files of each stream go, but for the current one.
//!   An earlier generation goes as a whole.

use std::path::PathBuf;

use namiki_log::remove_unneeded;
use namiki_platform::Generation;

use super::base::RaftHead;
use super::error::StoreError;
use super::log_suffix::LogPosition;
use super::manifest::Manifest;
use super::payload_index::PayloadIndex;
use super::raft_record::{Base, Snapshot};
use super::store::NodeStore;

/// The effect of a truncation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truncated {
    /// Number of removed files.
    pub files: u64,
    /// Their lengths.
    pub bytes: u64,
    /// Files that could not be removed. They do no harm; the next opening tries again.
    pub left: Vec<PathBuf>,
}

impl NodeStore {
    /// Truncates the log: an image of the entries through the snapshot's position *is durable*, and
    /// every later opening gets that snapshot or a later one ([`StoreOptions::snapshot`]). All
    /// entries through it are committed and applied here.
    ///
    /// It may be repeated, as after an error or a crash; a snapshot before the last one has no
    /// effect. Takes some writes and syncs: not for Raft's thread. Other calls go on meanwhile,
    /// but appends of Raft's records wait for two syncs of stream 0.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::TooLong`] and [`StoreError::Device`]: it may be
    /// repeated. [`StoreError::FailedLog`], [`StoreError::Closed`]. A file that cannot be removed is
    /// no error.
    ///
    /// # Panics
    /// If the snapshot ends above the log.
    ///
    /// [`StoreOptions::snapshot`]: super::StoreOptions::snapshot
    pub fn truncate_to(&self, snapshot: &Snapshot) -> Result<Truncated, StoreError> {
        let mut held = self.held.lock();
        let Some((manifest, _)) = &mut *held else {
            let dir = self.dir.clone();
            return Err(StoreError::Closed { dir });
        };
        // Another image is installed, which need not go as far.
        let is_switched = manifest.tables != self.tables;
        if is_switched || !self.begin_segment(snapshot)? {
            return Ok(Truncated::default());
        }
        self.drop_names();
        let truncated = self.remove_files(manifest)?;
        self.head.lock().forget_segments();
        Ok(truncated)
    }

    /// Makes a base record of this snapshot durable, unless there is one. Returns whether it is the
    /// last snapshot.
    fn begin_segment(&self, snapshot: &Snapshot) -> Result<bool, StoreError> {
        let position = snapshot.position;
        let of_log = |error| StoreError::of_log(&self.dir, error);
        let needs_record = |head: &RaftHead| {
            position.index > head.base.snapshot.position.index || !head.has_record()
        };
        let (before, needs) = {
            let head = self.head.lock();
            (head.base.snapshot.position, needs_record(&head))
        };
        if position.index < before.index || position.index == 0 {
            return Ok(false);
        }
        assert!(
            position.index > before.index || position.term == before.term,
            "a snapshot at {position:?}, and one at {before:?}"
        );
        if needs {
            // Without the lock, because making a file takes a while, and so do many payloads: those
            // of the snapshot are known.
            self.raft_stream().prepare_file().map_err(of_log)?;
            let earlier = self.head.lock().base.clone();
            let through = if position.index > before.index {
                payloads_through(&self.payloads, &earlier, position)
            } else {
                earlier.payloads_through
            };
            let mut head = self.head.lock();
            let last = head.base.last;
            assert!(
                position.index <= last.index,
                "a snapshot at {position:?} ends above the log, at {last:?}"
            );
            self.raft_stream().begin_file().map_err(of_log)?;
            let earlier = head.base.clone();
            if position.index > before.index {
                head.base.snapshot.clone_from(snapshot);
            }
            head.base.payloads_through = through;
            if let Err(error) = self.append_base(&mut head) {
                head.base = earlier;
                return Err(error);
            }
        }
        // An earlier call may have appended the record, and failed.
        self.flush_raft()?;
        Ok(true)
    }

    /// Drops the names of payloads that no entry above the snapshot needs.
    fn drop_names(&self) {
        let head = self.head.lock();
        let (position, through) = (
            head.base.snapshot.position,
            head.base.payloads_through.clone(),
        );
        drop(head);
        self.payloads.truncate(position, &through);
    }

    fn remove_files(&self, manifest: &mut Manifest) -> Result<Truncated, StoreError> {
        let of_log = |error| StoreError::of_log(&self.dir, error);
        // First, because the frames of the files before that are in the index by now.
        let streams = usize::from(self.identity.workers) + 1;
        let last = (self.log)
            .recyclable_before(&vec![u64::MAX; streams])
            .map_err(of_log)?;
        let last = |stream: usize| last.streams.get(stream).map_or(1, |it| it.file_number);
        let needed = self.head.lock().first_needed();
        let mut first = Vec::with_capacity(streams);
        first.push(match needed {
            Some((generation, file_number)) if generation == self.generation => file_number,
            _ => 1,
        });
        let payloads = self.payloads.first_files(self.generation);
        first.extend(payloads.map(|first| first.unwrap_or(u64::MAX)));
        for (stream, first) in first.iter_mut().enumerate() {
            *first = last(stream).min(*first);
        }
        let start = self.log.recyclable_before(&first).map_err(of_log)?;

        let mut next = manifest.clone();
        next.generations.retain(|info| {
            info.generation == self.generation
                || needed.is_none_or(|(first, _)| info.generation >= first)
                || self
                    .payloads
                    .first_files(info.generation)
                    .any(|it| it.is_some())
        });
        if let Some(current) = next.generations.last_mut() {
            current.begin_at(&start);
        }
        if next != *manifest {
            next.write(&*self.disk, &self.dir)?;
            *manifest = next;
        }
        let removed = self.log.recycle(&start, Generation(0), 0).map_err(of_log)?;
        let earlier = remove_unneeded(&*self.budget, &self.log_dir, &manifest.generations);
        self.files.close();
        let failed = removed.failed.into_iter().chain(earlier.failed);
        Ok(Truncated {
            files: removed.files + earlier.files,
            bytes: removed.bytes + earlier.bytes,
            left: failed.map(|(path, _)| path).collect(),
        })
    }
}

/// Of each worker, the last payload of the snapshot's term that is in the snapshot, behind an
/// earlier one.
pub(super) fn payloads_through(
    payloads: &PayloadIndex,
    earlier: &Base,
    position: LogPosition,
) -> Vec<u64> {
    let is_same_term = earlier.snapshot.position.term == position.term;
    let before = if is_same_term {
        &earlier.payloads_through[..]
    } else {
        &[]
    };
    payloads.payloads_through(position, before)
}
