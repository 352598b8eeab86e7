//! Recovery of a node's log: its entries, and the places of its payloads.
//!
//! An entry counts if its record in stream 0 and its payload are both on the disk. Stream 0 is read in order:
//!
//! ```text
//!   E1 E2 E3 E4 │ commit 4 │ E3' │ persisted 3 │ truncate 3 │ …
//!   1 2 3 4                  1 2 3'  (3)         1 2  (persisted 2, committed at most 2)
//! ```
//! - An entry at index i voids every entry at and above i, and lowers the persisted index to i − 1. A truncation does
//!   the same without an entry.
//! - *Cut.* The log ends before the first entry above the persisted index that lacks its payload:
//!   it is missing, or does not match its digest. Entry and payload were not acknowledged. At or
//!   below the persisted index the payload once was durable, so its loss is damage: the entry
//!   stays, and the payload is listed as missing.
//! - The commit index is lowered to the last entry: a node may learn of a commit before it has the entry.
//!
//! Data that is read at the end of a stream may not be durable, if the process was killed but the
//! machine did not fail. So the tail is hardened before any of it is used: see
//! [`namiki_log::harden_tail`].
//!
//! Media damage to frames behind the last record of a persisted index cannot be distinguished from
//! a torn tail.

use std::path::Path;
use std::sync::Arc;

use namiki_log::{
    Frame, GenerationEnd, GenerationInfo, StreamReader, check_all_announced, harden_tail,
};
use namiki_platform::bytes::u64_at;
use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

use super::error::StoreError;
use super::manifest::Manifest;
use super::payload_index::{PAYLOAD_HEADER_BYTES, PayloadIndex};
use super::raft_record::RaftRecord;
use crate::entry::{EntryBody, LogEntry, PayloadName, PayloadRef};
use crate::fault_injection::{Fault, FaultInjection};

/// The replayed contents of the log.
pub(super) struct Replayed {
    pub(super) raft: RaftState,
    pub(super) payloads: PayloadIndex,
    /// The end of the last generation, if it was not sealed.
    pub(super) seal: Option<GenerationEnd>,
}

/// The state that results from Raft's records.
#[derive(Debug, Default)]
pub(super) struct RaftState {
    pub(super) term: u64,
    pub(super) vote: u64,
    pub(super) commit: u64,
    pub(super) persisted: u64,
    /// From index 1, without gaps.
    pub(super) entries: Vec<LogEntry>,
    planted: FaultInjection,
}

/// The result of [`RaftState::cut`].
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// Entries from this index on were cut off.
    pub(super) from: Option<u64>,
    pub(super) missing: Vec<PayloadRef>,
}

impl RaftState {
    fn last_index(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Applies the next record of stream 0.
    fn take(&mut self, record: RaftRecord) -> Result<(), String> {
        match record {
            RaftRecord::Vote { term, vote } => (self.term, self.vote) = (term, vote),
            RaftRecord::Commit { index } => self.commit = index,
            RaftRecord::Persisted { index } => self.persisted = index,
            RaftRecord::Truncate { from } => {
                self.void(from)?;
                self.commit = self.commit.min(from - 1);
            }
            RaftRecord::Entry(entry) => {
                self.void(entry.index)?;
                let at = (entry.index - 1) as usize;
                match self.entries.get_mut(at) {
                    // Only with an injected fault.
                    Some(voided) => *voided = entry,
                    None => self.entries.push(entry),
                }
            }
        }
        Ok(())
    }

    /// Voids the entries at and above an index.
    fn void(&mut self, from: u64) -> Result<(), String> {
        let last = self.last_index();
        if from == 0 || from > last + 1 {
            return Err(format!("index {from} comes after {last}"));
        }
        if self.planted.has(Fault::IgnoreTruncations) && from <= last {
            return Ok(());
        }
        self.entries.truncate((from - 1) as usize);
        if !self.planted.has(Fault::KeepPersisted) {
            self.persisted = self.persisted.min(from - 1);
        }
        Ok(())
    }

    /// Cuts the log at the first entry that lacks its payload and was not persisted, and lowers
    /// indexes beyond the cut.
    pub(super) fn cut(&mut self, has: impl Fn(&PayloadRef) -> bool) -> Cut {
        let mut cut = Cut::default();
        for entry in &self.entries {
            if let EntryBody::Group(payload) = &entry.body
                && !has(payload)
            {
                if entry.index > self.persisted {
                    cut.from = Some(entry.index);
                    break;
                }
                cut.missing.push(*payload);
            }
        }
        if let Some(from) = cut.from {
            self.entries.truncate((from - 1) as usize);
        }
        self.persisted = self.persisted.min(self.last_index());
        if !self.planted.has(Fault::KeepCommitBeyondCut) {
            self.commit = self.commit.min(self.last_index());
        }
        cut
    }
}

/// Reads all generations of the manifest.
pub(super) fn replay(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    log_dir: &Path,
    manifest: &Manifest,
    planted: FaultInjection,
) -> Result<Replayed, StoreError> {
    let identity = manifest.identity();
    let unreadable = |source| StoreError::UnreadableLog {
        dir: dir.to_owned(),
        source,
    };
    check_all_announced(
        &**disk,
        log_dir,
        identity.log_identity(),
        &manifest.generations,
        manifest.next_generation,
    )
    .map_err(unreadable)?;
    let mut raft = RaftState {
        planted,
        ..RaftState::default()
    };
    let payloads = PayloadIndex::new(identity.workers);
    let mut seal = None;
    for info in &manifest.generations {
        let mut ends = Vec::new();
        for stream in 0..info.streams {
            let reader = StreamReader::open(
                Arc::clone(disk),
                log_dir,
                identity.log_identity(),
                info,
                WorkerId(stream),
            );
            let mut reader = reader.map_err(unreadable)?;
            while let Some(frame) = reader.next_frame().map_err(unreadable)? {
                let taken = match stream.checked_sub(1) {
                    None => take_raft(&mut raft, &frame),
                    Some(worker) => take_payloads(&payloads, worker, &frame),
                };
                taken.map_err(|why| StoreError::SenselessLog {
                    dir: dir.to_owned(),
                    stream,
                    generation: info.generation,
                    sequence: frame.header.sequence,
                    why,
                })?;
            }
            ends.push(reader.end());
        }
        if info.seal.is_none() {
            for (worker, end) in (0..).map(WorkerId).zip(&ends) {
                harden_tail(disk, log_dir, info, worker, end).map_err(unreadable)?;
            }
            seal = Some(GenerationEnd {
                last_sequences: ends.iter().map(|end| end.last_sequence).collect(),
                last_lsn: Lsn(0),
                durable_epoch: Epoch(0),
                max_stamp: ends
                    .iter()
                    .map(|end| end.max_stamp)
                    .max()
                    .unwrap_or(Stamp(0)),
            });
        }
    }
    Ok(Replayed {
        raft,
        payloads,
        seal,
    })
}

/// Whether a generation is known to have no frames at all.
pub(super) fn holds_nothing(info: &GenerationInfo) -> bool {
    let seal = info.seal.as_ref();
    seal.is_some_and(|seal| seal.last_sequences.iter().all(|last| *last == 0))
}

fn take_raft(raft: &mut RaftState, frame: &Frame<'_>) -> Result<(), String> {
    for record in frame.records() {
        let mut rest = record.payload;
        while !rest.is_empty() {
            let (record, behind) = RaftRecord::decode(rest)?;
            raft.take(record)?;
            rest = behind;
        }
    }
    Ok(())
}

fn take_payloads(index: &PayloadIndex, worker: u16, frame: &Frame<'_>) -> Result<(), String> {
    let mut payloads = Vec::with_capacity(frame.header.records as usize);
    for record in frame.records() {
        let Some((header, payload)) = record.payload.split_at_checked(PAYLOAD_HEADER_BYTES) else {
            return Err("a payload has no name".to_owned());
        };
        let name = PayloadName {
            term: u64_at(header, 0),
            worker,
            number: u64_at(header, 8),
        };
        let payload = PayloadRef::of(name, payload);
        index.buffer(&payload);
        payloads.push(payload);
    }
    index.place(&payloads, &frame.position);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(index: u64, term: u64) -> LogEntry {
        let name = PayloadName {
            term,
            worker: 0,
            number: index,
        };
        let payload = PayloadRef::of(name, &index.to_le_bytes());
        LogEntry {
            index,
            term,
            body: EntryBody::Group(payload),
        }
    }

    /// The state that a restart recovers from these records, with this rule broken and the payloads
    /// of the second term missing.
    fn recovered(fault: Option<Fault>, records: Vec<RaftRecord>) -> (RaftState, Cut) {
        let mut raft = RaftState {
            planted: FaultInjection::of(fault),
            ..RaftState::default()
        };
        for record in records {
            raft.take(record).expect("no gap");
        }
        let cut = raft.cut(|payload| payload.name.term == 1);
        (raft, cut)
    }

    /// An entry of another leader replaces a persisted one, and the crash comes before its payload.
    #[test]
    fn an_entry_lowers_the_persisted_index_below_it() {
        let records = || {
            let mut records: Vec<_> = (1..=3).map(|at| RaftRecord::Entry(group(at, 1))).collect();
            records.push(RaftRecord::Persisted { index: 3 });
            records.push(RaftRecord::Entry(group(2, 2)));
            records
        };
        let (raft, cut) = recovered(None, records());
        assert_eq!((raft.persisted, raft.last_index()), (1, 1));
        assert_eq!((cut.from, cut.missing.len()), (Some(2), 0));
        // Mistaken for damage.
        let (_, cut) = recovered(Some(Fault::KeepPersisted), records());
        assert_eq!((cut.from, cut.missing.len()), (None, 1));
        let (raft, _) = recovered(Some(Fault::IgnoreTruncations), records());
        assert_eq!(raft.last_index(), 3);
    }

    #[test]
    fn what_is_cut_off_is_not_committed() {
        let records = || {
            let entries = [group(1, 1), group(2, 2)].map(RaftRecord::Entry);
            let mut records = Vec::from(entries);
            records.push(RaftRecord::Commit { index: 2 });
            records
        };
        let (raft, cut) = recovered(None, records());
        assert_eq!((raft.commit, cut.from), (1, Some(2)));
        let (raft, _) = recovered(Some(Fault::KeepCommitBeyondCut), records());
        assert_eq!((raft.commit, raft.last_index()), (2, 1));
    }
}
