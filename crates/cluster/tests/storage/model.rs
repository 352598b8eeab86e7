//! Model of the state that a node's storage must recover after a crash, computed in the simplest
//! way.
//!
//! The model knows each call that appended Raft's records, each payload, and when flushes returned, all in numbers of
//! events of the simulated disk. After a crash there must be a number of calls, not fewer than were flushed and not
//! more than were made, that explains with its records what the opening found.

use std::collections::BTreeMap;

use namiki_cluster::storage::{LogPosition, NodeStore, RaftRecord, Recovered};
use namiki_cluster::{EntryBody, LogEntry, PayloadName, PayloadRef};

use crate::common::*;

/// The state that an opening has recovered, without the constant parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) term: u64,
    pub(crate) vote: u64,
    pub(crate) commit: u64,
    pub(crate) persisted: u64,
    pub(crate) entries: Vec<LogEntry>,
}

impl From<&Recovered> for Found {
    fn from(recovered: &Recovered) -> Self {
        Self {
            term: recovered.term,
            vote: recovered.vote,
            commit: recovered.commit,
            persisted: recovered.persisted,
            entries: recovered.entries.clone(),
        }
    }
}

/// No snapshot: everything counts.
const ALL: LogPosition = LogPosition { index: 0, term: 0 };

pub(crate) type Payloads = BTreeMap<PayloadName, PayloadRef>;

/// The state behind a snapshot that results from these records with these payloads, and the index
/// from which on entries were cut off.
pub(crate) fn outcome<'a>(
    records: impl IntoIterator<Item = &'a RaftRecord>,
    payloads: &Payloads,
    snapshot: LogPosition,
) -> (Found, Option<u64>) {
    let mut found = Found::default();
    let mut entries = BTreeMap::new();
    let mut committed = 0;
    for record in records {
        match record {
            RaftRecord::Base(_) => unreachable!("no test appends one"),
            RaftRecord::Vote { term, vote } => (found.term, found.vote) = (*term, *vote),
            RaftRecord::Commit { index } => committed = *index,
            RaftRecord::Persisted { index } => found.persisted = *index,
            RaftRecord::Truncate { from } => {
                entries.retain(|index, _| index < from);
                found.persisted = found.persisted.min(from - 1);
                committed = committed.min(from - 1);
            }
            RaftRecord::Entry(entry) => {
                entries.retain(|index, _| *index < entry.index);
                found.persisted = found.persisted.min(entry.index - 1);
                entries.insert(entry.index, entry.clone());
            }
        }
    }
    let is_whole = |entry: &LogEntry| match &entry.body {
        EntryBody::Group(payload) => payloads.get(&payload.name) == Some(payload),
        _ => true,
    };
    let LogPosition {
        index: through,
        term,
    } = snapshot;
    let its_term = entries
        .get(&through)
        .map_or(0, |entry: &LogEntry| entry.term);
    assert_eq!(its_term, term, "the log has the snapshot's last entry");
    let mut above = entries.range(through + 1..).map(|(_, entry)| entry);
    let cut = above.find(|entry| !is_whole(entry));
    let cut = cut.map(|entry| entry.index);
    if let Some(from) = cut {
        assert!(from > found.persisted, "the script persisted too much");
        entries.retain(|index, _| *index < from);
    }
    let last = entries.len() as u64;
    found.commit = committed.min(last).max(through);
    found.persisted = found.persisted.min(last).max(through);
    found.entries = entries.into_values().skip(through as usize).collect();
    (found, cut)
}

/// The data that is durable from some event on.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    event: usize,
    calls: usize,
    payloads: Payloads,
}

/// A life of a node: from one opening to the next.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// Events before the opening began.
    start: usize,
    /// The records that were durable then.
    base: Vec<RaftRecord>,
    /// The durable data, from the opening on.
    durable: Vec<Durable>,
    /// Calls, with the number of events before each.
    calls: Vec<(usize, Vec<RaftRecord>)>,
    payloads: Vec<(usize, PayloadRef)>,
}

impl Life {
    pub(crate) fn new(start: usize, base: Vec<RaftRecord>, payloads: Payloads) -> Self {
        Self {
            start,
            base,
            durable: vec![Durable {
                event: start,
                calls: 0,
                payloads,
            }],
            calls: Vec::new(),
            payloads: Vec::new(),
        }
    }

    fn last(&self) -> &Durable {
        self.durable.last().expect("the opening itself is one")
    }

    pub(crate) fn call(&mut self, event: usize, records: &[RaftRecord]) {
        self.calls.push((event, records.to_vec()));
    }

    pub(crate) fn payload(&mut self, event: usize, payload: PayloadRef) {
        self.payloads.push((event, payload));
    }

    pub(crate) fn flushed_raft(&mut self, event: usize) {
        let calls = self.calls.len();
        let durable = Durable {
            event,
            calls,
            ..self.last().clone()
        };
        self.durable.push(durable);
    }

    pub(crate) fn flushed_payloads(&mut self, event: usize, worker: u16) {
        let mut durable = self.last().clone();
        durable.event = event;
        let flushed = self.payloads.iter().map(|(_, payload)| *payload);
        let flushed = flushed.filter(|payload| payload.name.worker == worker);
        durable
            .payloads
            .extend(flushed.map(|payload| (payload.name, payload)));
        self.durable.push(durable);
    }

    /// The records of the base and of this number of calls.
    fn records(&self, calls: usize) -> impl Iterator<Item = &RaftRecord> {
        let calls = &self.calls[..calls];
        self.base
            .iter()
            .chain(calls.iter().flat_map(|(_, records)| records))
    }

    /// The state that results from all appended data, if no appended payload is missing.
    pub(crate) fn appended(&self) -> (Found, Payloads) {
        let mut payloads = self.last().payloads.clone();
        let appended = self.payloads.iter().map(|(_, payload)| *payload);
        payloads.extend(appended.map(|payload| (payload.name, payload)));
        (
            outcome(self.records(self.calls.len()), &payloads, ALL).0,
            payloads,
        )
    }

    /// The state that results from all durable data. It may be recorded as persisted only if all
    /// calls were flushed.
    pub(crate) fn flushed(&self) -> (Found, Payloads, bool) {
        let last = self.last();
        let found = outcome(self.records(last.calls), &last.payloads, ALL).0;
        (found, last.payloads.clone(), last.calls == self.calls.len())
    }

    /// Whether no entry above a snapshot needs a payload: it is of an earlier term, or no later in
    /// its term than one of the snapshot.
    fn is_superfluous(&self, name: PayloadName, snapshot: LogPosition) -> bool {
        let mut records = self.records(self.calls.len());
        let is_no_later = |record: &RaftRecord| match record {
            RaftRecord::Entry(LogEntry {
                index,
                body: EntryBody::Group(payload),
                ..
            }) => {
                let in_order = PayloadName {
                    number: name.number.max(payload.name.number),
                    ..name
                };
                *index <= snapshot.index && payload.name == in_order
            }
            _ => false,
        };
        name.term < snapshot.term || name.term == snapshot.term && records.any(is_no_later)
    }

    /// The index of the last entry that was appended, whatever its payload.
    pub(crate) fn last_index(&self) -> u64 {
        let all = self.records(self.calls.len());
        all.fold(0, |last, record| match record {
            RaftRecord::Entry(entry) => entry.index,
            RaftRecord::Truncate { from } => last.min(from - 1),
            _ => last,
        })
    }

    /// The process is killed, and the node opened again: the next life, and what its opening has to find.
    pub(crate) fn next(&self, event: usize, snapshot: LogPosition) -> (Self, Found) {
        let last = self.last();
        let mut base: Vec<_> = self.records(last.calls).cloned().collect();
        let (found, cut) = outcome(&base, &last.payloads, snapshot);
        base.extend(cut.map(|from| RaftRecord::Truncate { from }));
        (Self::new(event, base, last.payloads.clone()), found)
    }
}

/// All lives of a node, in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) lives: Vec<Life>,
    /// Every payload that was ever named.
    pub(crate) names: Payloads,
}

impl History {
    pub(crate) fn life(&mut self) -> &mut Life {
        self.lives.last_mut().expect("a node was opened")
    }

    /// Checks what an opening after a crash found: the disk is what a crash after `at` events left.
    pub(crate) fn check(&self, at: usize, store: &NodeStore, recovered: &Recovered, context: &str) {
        let life = self.lives.iter().rev().find(|life| life.start <= at);
        let life = life.expect("it was opened first");
        let durable = life.durable.iter().rev().find(|it| it.event <= at);
        let durable = durable.expect("the opening itself is one");
        let appended = life.calls.partition_point(|(event, _)| *event <= at);

        let mut kept = Payloads::new();
        for name in self.names.keys() {
            if let Some(payload) = store.payload(*name) {
                assert_eq!(payload.name, *name, "{context}");
                let read = store.read_payload(*name).unwrap();
                assert!(read == bytes_of(*name), "{context}: {name:?}");
                kept.insert(*name, payload);
            }
        }
        let snapshot = recovered.snapshot.position;
        for (name, payload) in &durable.payloads {
            let may_be_gone = || !kept.contains_key(name) && life.is_superfluous(*name, snapshot);
            assert!(
                kept.get(name) == Some(payload) || may_be_gone(),
                "{context}: {name:?} is lost"
            );
        }
        for name in kept.keys() {
            let mut appended = life.payloads.iter().filter(|(event, _)| *event <= at);
            let was_appended = appended.any(|(_, payload)| payload.name == *name);
            assert!(
                was_appended || durable.payloads.contains_key(name),
                "{context}: {name:?} was never appended"
            );
        }

        let found = Found::from(recovered);
        check_soundness(&found, recovered, &kept, context);
        let (flushed, _) = outcome(life.records(durable.calls), &durable.payloads, snapshot);
        assert!(
            found.term >= flushed.term
                && (found.term > flushed.term || [0, found.vote].contains(&flushed.vote)),
            "{context}: a vote was forgotten: {found:?}, {flushed:?}"
        );
        // Acknowledged entries that no later call has voided exist.
        let later = &life.calls[durable.calls..appended];
        let later = later.iter().flat_map(|(_, records)| records);
        let voided = later.filter_map(|record| match record {
            RaftRecord::Entry(LogEntry { index: from, .. }) | RaftRecord::Truncate { from } => {
                Some(*from)
            }
            _ => None,
        });
        let voided = voided.min().unwrap_or(u64::MAX);
        for entry in flushed.entries.iter().filter(|it| it.index < voided) {
            let there = found
                .entries
                .get((entry.index - snapshot.index) as usize - 1);
            assert_eq!(there, Some(entry), "{context}: lost");
        }
        let mut explained =
            (durable.calls..=appended).map(|calls| outcome(life.records(calls), &kept, snapshot).0);
        assert!(
            explained.any(|it| it == found),
            "{context}: nothing explains {found:#?}\n{:#?}",
            outcome(life.records(durable.calls), &kept, snapshot)
        );
    }
}

/// Checks that hold for every opening, independent of its history.
fn check_soundness(found: &Found, recovered: &Recovered, kept: &Payloads, context: &str) {
    assert_eq!(recovered.missing, [], "{context}");
    let first = recovered.snapshot.position.index + 1;
    let last = first - 1 + found.entries.len() as u64;
    assert!(found.commit <= last, "{context}: {found:?}");
    assert!(found.persisted <= last, "{context}: {found:?}");
    for (index, entry) in (first..).zip(&found.entries) {
        assert_eq!(entry.index, index, "{context}");
        if let EntryBody::Group(payload) = &entry.body {
            let there = kept.get(&payload.name);
            assert_eq!(there, Some(payload), "{context}: {entry:?} without payload");
        }
    }
}
