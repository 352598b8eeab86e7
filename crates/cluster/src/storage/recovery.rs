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
//!   it is missing, or does not match its digest. Entry and payload were not acknowledged, unless a frame
//!   of the payload's stream is known to be damaged: the payload may have been in it, which is noted (`forgotten.rs`). At or
//!   below the persisted index the payload once was durable, so its loss is damage: the entry
//!   stays, and the payload is listed as missing.
//! - The commit index is lowered to the last entry: a node may learn of a commit before it has the entry.
//! - *Base records* (`base.rs`) stand for the segments before them, which may be gone. With a
//!   snapshot at entry S, what is recovered is the log above S, if stream 0 has entry S with the
//!   snapshot's term. Otherwise another node's snapshot was installed, and the log is that alone.
//!
//! Data that is read at the end of a stream may not be durable, if the process was killed but the
//! machine did not fail. So the tail is hardened before any of it is used: see
//! [`namiki_log::harden_tail`].
//!
//! *Damage is absence.* The reader of a payload stream goes on behind what it cannot read; nodes that
//! have its payloads send them. Stream 0 ends before the damage (`raft_stream.rs`).
//!
//! Media damage to the last frames of a stream cannot always be distinguished from a torn tail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use namiki_log::{
    Frame, GenerationEnd, GenerationInfo, ReadError, StreamEnd, StreamReader, check_all_announced,
    harden_tail,
};
use namiki_platform::bytes::u64_at;
use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

use super::base::RaftHead;
use super::error::StoreError;
use super::log_suffix::{LogPosition, LogSuffix};
use super::manifest::Manifest;
use super::payload_index::{PAYLOAD_HEADER_BYTES, PayloadIndex};
use super::raft_record::{Base, RaftRecord, RecordError, Snapshot};
use super::raft_stream::{self, RaftDamage, RaftStream};
use crate::entry::{EntryBody, LogEntry, PayloadName, PayloadRef};
use crate::fault_injection::{Fault, FaultInjection};

/// The replayed contents of the log.
pub(super) struct Replayed {
    pub(super) raft: RaftState,
    pub(super) payloads: PayloadIndex,
    /// The end of the last generation, if it was not sealed.
    pub(super) seal: Option<GenerationEnd>,
    /// Where stream 0 ends before its end.
    pub(super) raft_damage: Option<RaftDamage>,
    pub(super) damage: Vec<LogDamage>,
}

/// Damage to the payloads of one worker, in one generation of the log.
#[derive(Clone, Debug)]
pub struct LogDamage {
    /// The worker.
    pub worker: u16,
    /// The generation.
    pub generation: Generation,
    /// Frames that are known to be lost.
    pub frames: u64,
    /// The first place, and what is wrong there.
    pub first: Arc<ReadError>,
}

/// The state that results from Raft's records.
#[derive(Debug, Default)]
pub(super) struct RaftState {
    /// Term, vote and indexes, and the segments of stream 0.
    pub(super) head: RaftHead,
    pub(super) entries: LogSuffix<LogEntry>,
    /// Whether a record was read.
    has_begun: bool,
    planted: FaultInjection,
}

/// The reason that a log does not continue a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotContinued {
    /// Entries behind the snapshot are truncated, through this position.
    Truncated(LogPosition),
    /// The entry of this position has another term in the log.
    OtherTerm(LogPosition),
}

/// The result of [`RaftState::cut`].
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// Entries from this index on were cut off.
    pub(super) from: Option<u64>,
    /// They may have been acknowledged.
    pub(super) may_be_acknowledged: bool,
    pub(super) missing: Vec<PayloadRef>,
}

impl NotContinued {
    pub(super) fn in_error(self, dir: &Path, found: LogPosition) -> StoreError {
        let dir = dir.to_owned();
        match self {
            Self::Truncated(needed) => StoreError::SnapshotLost { dir, needed, found },
            Self::OtherTerm(needed) => StoreError::OtherSnapshot { dir, needed, found },
        }
    }
}

impl RaftState {
    fn new(planted: FaultInjection) -> Self {
        Self {
            entries: LogSuffix::new(LogPosition::default(), planted),
            planted,
            ..Self::default()
        }
    }

    /// Applies the next record of stream 0, which is in this file.
    fn take(&mut self, record: RaftRecord, place: (Generation, u64)) -> Result<(), String> {
        let persisted = self.head.base.persisted;
        let voids = match &record {
            RaftRecord::Base(base) => {
                self.take_base(base)?;
                let file_number = Arc::new(AtomicU64::new(place.1));
                self.head.begin_segment(base, (place.0, file_number));
                return Ok(());
            }
            RaftRecord::Truncate { from } => Some(self.void(*from)?),
            RaftRecord::Entry(entry) => {
                let voids = self.void(entry.index)?;
                match self.entries.get_mut(entry.index) {
                    // Only with an injected fault.
                    Some(voided) => *voided = entry.clone(),
                    None => self.entries.push(entry.clone()),
                }
                Some(voids)
            }
            _ => None,
        };
        self.has_begun = true;
        self.head.note(&record);
        if voids == Some(false) || voids.is_some() && self.planted.has(Fault::KeepPersisted) {
            self.head.base.persisted = persisted;
        }
        Ok(())
    }

    /// Voids the entries at and above an index. Returns whether it did, unless an injected fault
    /// prevents it.
    fn void(&mut self, from: u64) -> Result<bool, String> {
        let last = self.entries.last();
        if from <= self.head.base.snapshot.position.index || from > last + 1 {
            return Err(format!("index {from} comes after {last}"));
        }
        if self.planted.has(Fault::IgnoreTruncations) && from <= last {
            return Ok(false);
        }
        self.entries.void(from);
        Ok(true)
    }

    fn take_base(&mut self, base: &Base) -> Result<(), String> {
        let Base { last, snapshot, .. } = base;
        if !self.has_begun {
            // Earlier segments are gone.
            self.entries = LogSuffix::new(*last, self.planted);
            self.has_begun = true;
            return Ok(());
        }
        let own = self.entries.last();
        let is_other = |term| term != last.term;
        // A generation in between may be gone, while an earlier one has payloads that are needed:
        // nothing above the snapshot was in it.
        let has_gap = last.index > own;
        let ends_old_log =
            *last == snapshot.position && self.entries.term(last.index).is_some_and(is_other);
        if !has_gap && !ends_old_log {
            self.void(last.index + 1)?;
        }
        if has_gap || ends_old_log || self.entries.term(last.index).is_none() {
            self.entries = LogSuffix::new(*last, self.planted);
        }
        Ok(())
    }

    /// Begins the log behind a durable snapshot. Returns whether that ends the old log: stream 0
    /// does not have the snapshot's last entry.
    pub(super) fn begin_at(&mut self, snapshot: &Snapshot) -> Result<bool, NotContinued> {
        let position = snapshot.position;
        let base = &mut self.head.base;
        let truncated = base.snapshot.position;
        if truncated.index > position.index {
            return Err(NotContinued::Truncated(truncated));
        }
        if truncated.index == position.index && truncated.term != position.term {
            return Err(NotContinued::OtherTerm(truncated));
        }
        if position.index == 0 {
            return match self.entries.before() {
                LogPosition { index: 0, .. } => Ok(false),
                before => Err(NotContinued::Truncated(before)),
            };
        }
        if truncated.index < position.index {
            base.snapshot.clone_from(snapshot);
        }
        let ends_old_log = self.entries.term(position.index) != Some(position.term);
        if ends_old_log {
            self.entries = LogSuffix::new(position, self.planted);
            base.last = position;
            if position.term > base.term {
                (base.term, base.vote) = (position.term, 0);
            }
            (base.commit, base.persisted) = (position.index, position.index);
        } else {
            self.entries.truncate_through(position.index);
            base.commit = base.commit.max(position.index);
            base.persisted = base.persisted.max(position.index);
        }
        Ok(ends_old_log)
    }

    /// Cuts the log at the first entry that lacks its payload and is above the recorded persisted index, and lowers indexes beyond
    /// the cut. If the payload may have been in a damaged frame, what is cut off may have been acknowledged: the others know.
    pub(super) fn cut(
        &mut self,
        has: impl Fn(&PayloadRef) -> bool,
        may_be_damaged: impl Fn(&PayloadRef) -> bool,
    ) -> Cut {
        let mut cut = Cut::default();
        for entry in self.entries.iter() {
            if let EntryBody::Group(payload) = &entry.body
                && !has(payload)
            {
                if entry.index > self.head.base.persisted {
                    cut.from = Some(entry.index);
                    cut.may_be_acknowledged = may_be_damaged(payload);
                    break;
                }
                cut.missing.push(*payload);
            }
        }
        if let Some(from) = cut.from {
            self.entries.void(from);
        }
        let last = self.entries.last_position();
        let base = &mut self.head.base;
        base.last = last;
        base.persisted = base.persisted.min(last.index);
        if !self.planted.has(Fault::KeepCommitBeyondCut) {
            base.commit = base.commit.min(last.index);
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
    let mut raft = RaftState::new(planted);
    let payloads = PayloadIndex::new(identity.workers, planted);
    let mut seal = None;
    let (mut damage, mut raft_damage) = (Vec::new(), None);
    let refused = |frame: &Frame<'_>, refused| match refused {
        Refused::LaterEntry { index, version } => StoreError::LaterEntry {
            dir: dir.to_owned(),
            index,
            version,
        },
        Refused::Senseless(why) => StoreError::SenselessLog {
            dir: dir.to_owned(),
            stream: frame.position.worker.0,
            generation: frame.position.generation,
            sequence: frame.header.sequence,
            why,
        },
    };
    for info in &manifest.generations {
        let mut ends = vec![StreamEnd::default()];
        if raft_damage.is_none() && !raft_stream::is_cut_off(info) {
            let stream = RaftStream::new(disk, log_dir, identity.log_identity(), info);
            let mut take =
                |frame: &Frame<'_>| take_raft(&mut raft, frame).map_err(|why| refused(frame, why));
            (ends[0], raft_damage) = stream.read(&mut take, unreadable)?;
        }
        for worker in 0..identity.workers {
            let reader = StreamReader::open_skipping_damage(
                Arc::clone(disk),
                log_dir,
                identity.log_identity(),
                info,
                WorkerId(1 + worker),
            );
            let mut reader = reader.map_err(unreadable)?;
            while let Some(frame) = reader.next_frame().map_err(unreadable)? {
                take_payloads(&payloads, worker, &frame).map_err(|why| refused(&frame, why))?;
            }
            ends.push(reader.end());
            if let Some(skipped) = reader.take_skipped_damage() {
                damage.push(LogDamage {
                    worker,
                    generation: info.generation,
                    frames: skipped.frames,
                    first: Arc::new(skipped.first),
                });
            }
        }
        if info.seal.is_none() {
            let streams = (0..).map(WorkerId).zip(&ends);
            let hardens = !planted.has(Fault::RestartWithoutHardening);
            for (worker, end) in streams.filter(|_| hardens) {
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
    for entry in raft.entries.iter() {
        if let EntryBody::Group(payload) = &entry.body {
            payloads.note_entry(payload.name, entry.index);
        }
    }
    Ok(Replayed {
        raft,
        payloads,
        seal,
        raft_damage,
        damage,
    })
}

/// Whether a generation is known to have no frames at all.
pub(super) fn holds_nothing(info: &GenerationInfo) -> bool {
    let seal = info.seal.as_ref();
    seal.is_some_and(|seal| seal.last_sequences.iter().all(|last| *last == 0))
}

/// Why a frame is not taken.
enum Refused {
    LaterEntry { index: u64, version: u8 },
    Senseless(String),
}

impl From<RecordError> for Refused {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::LaterEntry { index, version } => Self::LaterEntry { index, version },
            RecordError::Invalid(why) => Self::Senseless(why.to_owned()),
        }
    }
}

fn take_raft(raft: &mut RaftState, frame: &Frame<'_>) -> Result<(), Refused> {
    let place = (frame.position.generation, frame.position.file_number);
    for record in frame.records() {
        let mut rest = record.payload;
        while !rest.is_empty() {
            let (record, behind) = RaftRecord::decode(rest)?;
            raft.take(record, place).map_err(Refused::Senseless)?;
            rest = behind;
        }
    }
    Ok(())
}

fn take_payloads(index: &PayloadIndex, worker: u16, frame: &Frame<'_>) -> Result<(), Refused> {
    let mut payloads = Vec::with_capacity(frame.header.records as usize);
    for record in frame.records() {
        let Some((header, payload)) = record.payload.split_at_checked(PAYLOAD_HEADER_BYTES) else {
            let why = "a payload has no name".to_owned();
            return Err(Refused::Senseless(why));
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
        let mut raft = RaftState::new(FaultInjection::of(fault));
        for record in records {
            raft.take(record, (Generation(1), 1)).expect("no gap");
        }
        let cut = raft.cut(|payload| payload.name.term == 1, |_| false);
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
        assert_eq!((raft.head.base.persisted, raft.entries.last()), (1, 1));
        assert_eq!((cut.from, cut.missing.len()), (Some(2), 0));
        // Mistaken for damage.
        let (_, cut) = recovered(Some(Fault::KeepPersisted), records());
        assert_eq!((cut.from, cut.missing.len()), (None, 1));
        let (raft, _) = recovered(Some(Fault::IgnoreTruncations), records());
        assert_eq!(raft.entries.last(), 3);
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
        assert_eq!((raft.head.base.commit, cut.from), (1, Some(2)));
        let (raft, _) = recovered(Some(Fault::KeepCommitBeyondCut), records());
        assert_eq!((raft.head.base.commit, raft.entries.last()), (2, 1));
    }
}
