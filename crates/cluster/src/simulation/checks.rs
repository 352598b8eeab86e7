//! Invariants that are checked at every step of a simulation.

use std::collections::{BTreeMap, HashMap, HashSet};

use namiki_client::protocol::{Command, Outcome, Role, SessionId};

use super::client::Answered;
use crate::entry::{EntryBody, LogEntry};
use crate::membership::Membership;
use crate::network::NodeId;
use crate::payload::Payload;
use crate::raft::RaftView;

/// A command: session, group, index.
type CommandId = (SessionId, u64, u32);

/// The observed state of the cluster as a whole.
#[derive(Default)]
pub(super) struct Checks {
    /// The latest members that some node has applied.
    members: Membership,
    leaders: HashMap<u64, NodeId>,
    pub(super) leader_changes: usize,
    /// Entries that some node has applied, from index 1.
    log: Vec<LogEntry>,
    /// The LSN and outcome of every command in it.
    commands: HashMap<CommandId, (u64, Outcome)>,
    /// The commands that clients have sent.
    pub(super) sent: HashMap<(SessionId, u64), Vec<Command>>,
    /// Balances after each entry that changed some.
    balances: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// The state's hash, by the number of applied entries.
    hashes: HashMap<u64, u128>,
    /// The LSN of the last command that was acknowledged to a client.
    pub(super) acknowledged_lsn: u64,
    pub(super) acknowledged: usize,
    /// Commands of which a client was told that they are not executed, and which it does not send
    /// again.
    given_up: HashSet<CommandId>,
    /// Number of times that a client has asked for the fate of an earlier holder's group.
    pub(super) fates: usize,
    pub(super) reads: usize,
}

impl Checks {
    pub(super) fn new(voters: &[NodeId]) -> Self {
        Self {
            members: Membership::new(voters),
            ..Self::default()
        }
    }

    /// A node has applied these members. Returns whether it is the first to do so.
    pub(super) fn members(&mut self, members: &Membership) -> bool {
        let is_first = members.changes() > self.members.changes();
        if is_first {
            self.members = members.clone();
        }
        is_first
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
        payload: impl FnOnce() -> Option<Vec<u8>>,
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
        if let EntryBody::Group(_) = &entry.body {
            let bytes = payload().ok_or("a node has applied a payload that it does not have")?;
            self.apply_group(entry.index, &bytes)?;
        }
        self.log.push(entry);
        Ok(())
    }

    fn apply_group(&mut self, lsn: u64, bytes: &[u8]) -> Result<(), String> {
        let payload = Payload::read(bytes).map_err(|error| error.to_string())?;
        let last = self.balances.last_key_value();
        let mut balances = last.map_or_else(BTreeMap::new, |(_, it)| it.clone());
        // Balances may be overdrawn between commands of one group here: their order is not in the payload.
        let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
        for section in &payload.sections {
            let (session, group) = (section.session, section.group);
            let sent = self.sent.get(&(session, group)).cloned();
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
                if outcome != Outcome::Done {
                    continue;
                }
                match &sent[index as usize] {
                    Command::Transfer {
                        from, to, amount, ..
                    } => {
                        *changes.entry(*from).or_default() -= i128::from(*amount);
                        *changes.entry(*to).or_default() += i128::from(*amount);
                    }
                    Command::Write(write) => {
                        for (_, key, value) in &write.rows {
                            let number = |bytes: &[u8]| bytes.try_into().ok();
                            let account = number(key).map(u64::from_be_bytes);
                            let value = value.as_deref().and_then(number).map(u64::from_le_bytes);
                            let (Some(account), Some(value)) = (account, value) else {
                                return Err("a row is no account".to_owned());
                            };
                            balances.insert(account, value);
                        }
                    }
                }
            }
        }
        for (account, change) in changes {
            let balance = balances.entry(account).or_default();
            let after = i128::from(*balance) + change;
            *balance = u64::try_from(after)
                .map_err(|_| format!("entry {lsn} leaves account {account} with {after}"))?;
        }
        self.balances.insert(lsn, balances);
        Ok(())
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

    /// Checks an answer to a client.
    pub(super) fn answered(&mut self, answered: Answered) -> Result<(), String> {
        match answered {
            Answered::Group {
                session,
                group,
                commands,
                outcomes,
                lsn: seen,
                floor,
            } => {
                if commands.len() != outcomes.len() {
                    return Err(format!("group {group} has {} outcomes", outcomes.len()));
                }
                for (index, outcome) in outcomes.iter().enumerate() {
                    let id = (session, group, index as u32);
                    let Some((lsn, applied)) = self.commands.get(&id) else {
                        return Err(format!("{id:?} was acknowledged and is not committed"));
                    };
                    if applied != outcome {
                        return Err(format!(
                            "{id:?} is {applied:?}, its client was told {outcome:?}"
                        ));
                    }
                    if *lsn <= floor {
                        return Err(format!(
                            "{id:?} is in entry {lsn}, begun when {floor} was done"
                        ));
                    }
                    if *lsn > seen {
                        return Err(format!(
                            "{id:?} is in entry {lsn}, its client was told {seen}"
                        ));
                    }
                    self.acknowledged_lsn = self.acknowledged_lsn.max(*lsn);
                }
                self.acknowledged += outcomes.len();
            }
            Answered::Fate {
                session,
                group,
                outcomes,
                is_given_up,
            } => {
                let commands = self.sent.get(&(session, group)).map_or(0, Vec::len);
                for index in 0..commands as u32 {
                    let id = (session, group, index);
                    let known = self.commands.get(&id).map(|(_, outcome)| *outcome);
                    let told = match &outcomes {
                        // Another holder has acknowledged them, perhaps without knowing of them.
                        None => continue,
                        Some(told) => told.get(index as usize).copied().flatten(),
                    };
                    if told != known {
                        return Err(format!(
                            "{id:?} is {known:?}, the next holder was told {told:?}"
                        ));
                    }
                    if told.is_none() && is_given_up {
                        self.given_up.insert(id);
                    }
                }
                self.fates += 1;
            }
            Answered::Rows { lsn, values, floor } => {
                if lsn < floor {
                    return Err(format!(
                        "a read saw entry {lsn}, begun when {floor} was done"
                    ));
                }
                let state = self.balances.range(..=lsn).next_back();
                let empty = BTreeMap::new();
                let balances = state.map_or(&empty, |(_, it)| it);
                for (account, value) in values.iter().enumerate() {
                    let value = value.as_deref().and_then(|it| it.try_into().ok());
                    let value = value.map(u64::from_le_bytes);
                    let expected = balances.get(&(account as u64)).copied();
                    if value != expected {
                        return Err(format!(
                            "account {account} was read as {value:?} after entry {lsn}, it has {expected:?}"
                        ));
                    }
                }
                self.reads += 1;
            }
        }
        Ok(())
    }

    /// Number of accounts.
    pub(super) fn accounts(&self) -> u64 {
        let last = self.balances.last_key_value();
        last.map_or(0, |(_, balances)| balances.len() as u64)
    }

    /// The balances after the last entry.
    pub(super) fn sum(&self) -> Option<u64> {
        let (_, balances) = self.balances.last_key_value()?;
        Some(balances.values().sum())
    }
}
