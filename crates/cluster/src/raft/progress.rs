//! Progress in the records of stream 0: through which entries the log is committed and persisted.
//!
//! A restart uses what is recorded: a payload that is missing at or below the recorded persisted index is damage, and an entry above
//! it without its payload is cut off. While other records follow, progress needs no write of its own.

use super::driver::RaftDriver;
use crate::fault_injection::Fault;
use crate::storage::RaftRecord;

impl RaftDriver {
    /// Piggybacks progress, which need not be durable at any given time, on records that must be;
    /// before them, so that later entries lower it.
    pub(super) fn record_progress(&mut self, records: &mut Vec<RaftRecord>) {
        let log = &self.raft.raft.raft_log;
        let persisted = log.persisted;
        let mut commit = log.committed.min(persisted);
        if self.planted.has(Fault::KeepCommitBeyondCut) {
            commit = log.committed;
        }
        if persisted > self.recorded_persisted {
            records.insert(0, RaftRecord::Persisted { index: persisted });
        }
        self.recorded_persisted = persisted;
        self.unrecorded_ticks = 0;
        if commit > self.recorded_commit {
            self.recorded_commit = commit;
            records.insert(0, RaftRecord::Commit { index: commit });
        }
    }

    /// Appends progress in a batch of its own, if there is any. At a start it covers all entries that were recovered. Later
    /// batches become durable after this one, so no acknowledgement is sent before.
    pub(super) fn append_progress(&mut self) {
        let mut records = Vec::new();
        self.record_progress(&mut records);
        if !records.is_empty() {
            self.append(records);
        }
    }

    /// Records the persisted index if no other record has come for a while: without it, a payload that the disk damages could not
    /// be told from one that was never durable.
    pub(super) fn record_progress_when_idle(&mut self) {
        self.unrecorded_ticks += 1;
        let has_progress = self.raft.raft.raft_log.persisted > self.recorded_persisted;
        if has_progress && self.unrecorded_ticks > self.election_ticks {
            self.append_progress();
        }
    }

    /// Records the commit index, through the entry before the change, together with the change
    /// (Z1).
    pub(super) fn record_commit_before(&mut self, change: u64, records: &mut Vec<RaftRecord>) {
        let index = self.raft.raft.raft_log.committed.min(change - 1);
        if index > self.recorded_commit {
            self.recorded_commit = index;
            records.push(RaftRecord::Commit { index });
        }
    }
}
