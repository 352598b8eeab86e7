//! Invariants that are checked at every step of a simulation.

use std::collections::{HashMap, HashSet};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use namiki::TableId;
use namiki::replica::ReplicaView;
use namiki_client::protocol::{Command, Outcome, Role, ScanRange, SessionId, TableEntry};

use super::client::Floor;
use super::model::{KeyedRows, Model};
use super::session_model::SessionModel;
use crate::control::Control;
use crate::entry::{EntryBody, LogEntry, PayloadRef};
use crate::membership::Membership;
use crate::network::NodeId;
use crate::payload::Payload;
use crate::raft::RaftView;
use crate::shared::Shared;

/// A command: session, group, index.
type CommandId = (SessionId, u64, u32);

/// The observed state of the cluster as a whole.
#[derive(Default)]
pub(super) struct Checks {
    /// The latest members that some node has applied.
    members: Membership,
    /// All, by the number of changes that led to them.
    all_members: HashMap<u64, Membership>,
    leaders: HashMap<u64, NodeId>,
    pub(super) leader_changes: usize,
    /// Entries that some node has applied, from index 1.
    log: Vec<LogEntry>,
    /// The LSN and outcome of every command in it.
    pub(super) commands: HashMap<CommandId, (u64, Outcome)>,
    /// The commands that clients have sent.
    pub(super) sent: HashMap<(SessionId, u64), Vec<Command>>,
    pub(super) model: Model,
    pub(super) sessions: SessionModel,
    /// The state's hash, by the number of applied entries.
    hashes: HashMap<u64, u128>,
    /// What clients know.
    pub(super) done: Floor,
    pub(super) acknowledged: usize,
    /// Commands of which a client was told that they are not executed, and which it does not send
    /// again.
    pub(super) given_up: HashSet<CommandId>,
    /// Number of times that a client has asked for the fate of an earlier holder's group.
    pub(super) fates: usize,
    pub(super) reads: usize,
    pub(super) scans: usize,
}

impl Checks {
    pub(super) fn new(voters: &[NodeId]) -> Self {
        Self {
            members: Membership::new(voters),
            ..Self::default()
        }
    }

    /// A node has applied these members. Returns whether it is the first to do so.
    pub(super) fn members(&mut self, node: NodeId, members: &Membership) -> Result<bool, String> {
        let is_first = members.changes() > self.members.changes();
        if is_first {
            self.members = members.clone();
        }
        let known = self.all_members.entry(members.changes());
        let known = known.or_insert_with(|| members.clone());
        if known != members {
            return Err(format!("node {node} has {members:?}, and others {known:?}"));
        }
        Ok(is_first)
    }

    pub(super) fn latest_members(&self) -> &Membership {
        &self.members
    }

    /// Number of nodes that have replaced lost ones.
    pub(super) fn replacements(&self) -> usize {
        let incarnations = self.members.nodes().map(|it| it.incarnation() - 1);
        incarnations.sum::<u64>() as usize
    }

    /// A node's state has changed.
    pub(super) fn view(&mut self, node: NodeId, view: &RaftView) -> Result<(), String> {
        if view.role != Role::TakingOffice {
            return Ok(());
        }
        match self.leaders.insert(view.term, node) {
            Some(before) if before != node => Err(format!(
                "nodes {before} and {node} both lead in term {}",
                view.term
            )),
            Some(_) => Ok(()),
            None => {
                self.leader_changes += 1;
                Ok(())
            }
        }
    }

    /// Number of entries that are known to be applied.
    pub(super) fn applied(&self) -> u64 {
        self.log.len() as u64
    }

    /// A node has applied an entry.
    pub(super) fn apply(
        &mut self,
        node: NodeId,
        entry: LogEntry,
        payload: impl FnOnce(&PayloadRef) -> Option<Bytes>,
    ) -> Result<(), String> {
        if let Some(known) = self.log.get(entry.index as usize - 1) {
            if *known != entry {
                return Err(format!(
                    "node {node} has applied {entry:?}, another {known:?}"
                ));
            }
            return Ok(());
        }
        if entry.index != self.applied() + 1 {
            return Err(format!(
                "entry {} was applied before the one before",
                entry.index
            ));
        }
        match &entry.body {
            EntryBody::Group(reference) => {
                let bytes = payload(reference);
                let bytes = bytes.ok_or("an entry was applied whose payload no node has")?;
                self.apply_group(entry.index, &bytes)?;
            }
            EntryBody::Control(bytes) => {
                let control = Control::decode(bytes).ok_or("an entry cannot be decoded")?;
                self.model.control(entry.index, &control);
                self.sessions.control(entry.index, &control)?;
            }
            EntryBody::Empty | EntryBody::Membership(_) => {}
        }
        self.log.push(entry);
        Ok(())
    }

    fn apply_group(&mut self, lsn: u64, bytes: &[u8]) -> Result<(), String> {
        let payload = Payload::read(bytes).map_err(|error| error.to_string())?;
        let mut done = Vec::new();
        for section in &payload.sections {
            let (session, group) = (section.session, section.group);
            let sent = self.sent.get(&(session, group));
            let sent =
                sent.ok_or_else(|| format!("group {group} of {session:?} was never sent"))?;
            for (index, outcome) in section.outcomes() {
                let outcome = Outcome::from_byte(outcome).ok_or("no such outcome")?;
                let id = (session, group, index);
                if self.given_up.contains(&id) {
                    return Err(format!(
                        "{id:?} is in entry {lsn}, and a client was told that it is not executed"
                    ));
                }
                if let Some((before, _)) = self.commands.insert(id, (lsn, outcome)) {
                    return Err(format!("{id:?} is in entry {before} and in entry {lsn}"));
                }
                if outcome == Outcome::Done {
                    done.push(&sent[index as usize]);
                }
            }
        }
        self.model.group(lsn, done.into_iter())
    }

    /// Checks the hash of a node's state after `applied` entries.
    pub(super) fn state(&mut self, node: NodeId, applied: u64, hash: u128) -> Result<(), String> {
        let known = *self.hashes.entry(applied).or_insert(hash);
        if known == hash {
            return Ok(());
        }
        Err(format!(
            "node {node} differs from another after entry {applied}"
        ))
    }

    /// Checks the sessions of a node.
    pub(super) fn sessions_of(&self, node: NodeId, shared: &Shared) -> Result<(), String> {
        let checked = (self.sessions).check(shared.applied(), &shared.sessions.lock());
        checked.map_err(|why| format!("node {node} has {why}"))
    }

    /// Checks the rows of a node that has applied `applied` entries.
    pub(super) fn rows(
        &self,
        node: NodeId,
        view: &ReplicaView,
        applied: u64,
    ) -> Result<(), String> {
        let tables = self.model.tables_at(applied);
        let expected = tables.iter().map(|it| (it.table, it.name.as_str()));
        if !view.tables().map(|(id, name)| (id.0, name)).eq(expected) {
            return Err(format!("node {node} has other tables than {tables:?}"));
        }
        for TableEntry { table, .. } in tables {
            let mut rows = KeyedRows::new();
            let all = (Bound::Unbounded, Bound::Unbounded);
            let scanned = view.scan(TableId(table), all, |key, value, _| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            });
            scanned.map_err(|error| error.to_string())?;
            let range = ScanRange {
                table,
                ..ScanRange::default()
            };
            let expected = self.model.range(&range, applied)?;
            if rows != expected {
                return Err(format!(
                    "node {node} has {rows:?} in table {table} after entry {applied}, not {expected:?}"
                ));
            }
        }
        Ok(())
    }
}
