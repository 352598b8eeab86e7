//! The Raft log in memory, from which raft-rs reads entries.
//!
//! It has the entries above a snapshot; the driver truncates it behind a durable image. The node's
//! storage makes them durable. An entry takes 48 bytes here, whatever its payload.

use std::cell::RefCell;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::entry_codec::to_raft;
use crate::entry::{EntryBody, LogEntry};
use crate::fault_injection::FaultInjection;
use crate::storage::{HasTerm, LogPosition, LogSuffix};

/// An entry without its index.
struct Kept {
    term: u64,
    body: EntryBody,
}

// What an entry costs, as the header says.
const _: () = assert!(size_of::<Kept>() <= 48);

impl HasTerm for Kept {
    fn term(&self) -> u64 {
        self.term
    }
}

/// The entries above a snapshot.
pub(super) struct EntryLog {
    entries: LogSuffix<Kept>,
    hard_state: HardState,
    membership: ConfState,
    /// Nodes that need entries which are truncated.
    behind: RefCell<Vec<u64>>,
}

impl EntryLog {
    /// The log behind `snapshot`, with these entries.
    pub(super) fn new(
        snapshot: LogPosition,
        entries: Vec<LogEntry>,
        hard_state: HardState,
        membership: ConfState,
        planted: FaultInjection,
    ) -> Self {
        let mut log = Self {
            entries: LogSuffix::new(snapshot, planted),
            hard_state,
            membership,
            behind: RefCell::default(),
        };
        entries.iter().for_each(|entry| log.put(entry));
        log
    }

    /// Puts an entry at its index; entries at and above it are removed.
    ///
    /// # Panics
    /// If there is a gap before it, or it is truncated.
    pub(super) fn put(&mut self, entry: &LogEntry) {
        let (first, last) = (self.entries.first(), self.last());
        assert!(
            (first..=last + 1).contains(&entry.index),
            "entry {} follows {last}, and the log begins at {first}",
            entry.index,
        );
        self.entries.void(entry.index);
        self.entries.push(Kept {
            term: entry.term,
            body: entry.body.clone(),
        });
    }

    pub(super) fn last(&self) -> u64 {
        self.entries.last()
    }

    /// The index of the first entry.
    pub(super) fn first(&self) -> u64 {
        self.entries.first()
    }

    pub(super) fn get(&self, index: u64) -> Option<LogEntry> {
        let Kept { term, body } = self.entries.get(index)?;
        Some(LogEntry {
            index,
            term: *term,
            body: body.clone(),
        })
    }

    /// What the entry of this index says.
    pub(super) fn body(&self, index: u64) -> Option<&EntryBody> {
        self.entries.get(index).map(|kept| &kept.body)
    }

    /// Truncates the beginning, through this entry.
    pub(super) fn truncate_through(&mut self, index: u64) {
        self.entries.truncate_through(index);
    }

    /// Takes the nodes that need entries which are truncated.
    pub(super) fn take_behind(&self) -> Vec<u64> {
        self.behind.take()
    }
}

impl Storage for EntryLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(
            self.hard_state.clone(),
            self.membership.clone(),
        ))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in low..high {
            let Some(Kept { term, body }) = self.entries.get(index) else {
                break;
            };
            let entry = to_raft(index, *term, body);
            // Close enough to raft-rs's own count.
            bytes += entry.data.len() as u64 + 16;
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.entries.term(index).ok_or_else(|| {
            raft::Error::Store(if index < self.first() {
                StorageError::Compacted
            } else {
                StorageError::Unavailable
            })
        })
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// raft-rs asks for a snapshot when a node needs a truncated entry, and again at that node's
    /// next answer. The driver reports the node; the image takes another way.
    fn snapshot(&self, _: u64, to: u64) -> raft::Result<Snapshot> {
        self.behind.borrow_mut().push(to);
        Err(raft::Error::Store(
            StorageError::SnapshotTemporarilyUnavailable,
        ))
    }
}
