//! The Raft log in memory, from which raft-rs reads entries.
//!
//! All entries are kept, each in a few words: the log is not truncated yet. The node's storage
//! makes them durable.

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::entry_codec::to_raft;
use crate::entry::{EntryBody, LogEntry};

/// Entries from index 1.
pub(super) struct EntryLog {
    entries: Vec<(u64, EntryBody)>,
    hard_state: HardState,
    membership: ConfState,
}

impl EntryLog {
    pub(super) fn new(
        entries: Vec<LogEntry>,
        hard_state: HardState,
        membership: ConfState,
    ) -> Self {
        let entries = entries.into_iter().map(|it| (it.term, it.body)).collect();
        Self {
            entries,
            hard_state,
            membership,
        }
    }

    /// Puts an entry at its index; entries at and above it are removed.
    ///
    /// # Panics
    /// If there is a gap before it.
    pub(super) fn put(&mut self, entry: &LogEntry) {
        let before = (entry.index - 1) as usize;
        assert!(
            before <= self.entries.len(),
            "entry {} follows {}",
            entry.index,
            self.entries.len()
        );
        self.entries.truncate(before);
        self.entries.push((entry.term, entry.body.clone()));
    }

    pub(super) fn last(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn get(&self, index: u64) -> Option<LogEntry> {
        let (term, body) = self.entries.get(index.checked_sub(1)? as usize)?;
        Some(LogEntry {
            index,
            term: *term,
            body: body.clone(),
        })
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
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in low..high.min(self.last() + 1) {
            let (term, body) = &self.entries[(index - 1) as usize];
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
        match index {
            0 => Ok(0),
            index => match self.entries.get((index - 1) as usize) {
                Some((term, _)) => Ok(*term),
                None => Err(raft::Error::Store(StorageError::Unavailable)),
            },
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, _: u64, _: u64) -> raft::Result<Snapshot> {
        // Never requested: the log begins at 1.
        Err(raft::Error::Store(
            StorageError::SnapshotTemporarilyUnavailable,
        ))
    }
}
