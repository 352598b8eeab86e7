//! Sessions: exactly-once execution of commands.
//!
//! A session has groups of commands (the paper's TxGrp), numbered by the client, and each command
//! of a group has one outcome, for ever. Payloads contain the outcomes together with the changes.
//! So every node knows them, and a new leader answers a repeated group instead of executing it
//! again.
//!
//! The table depends only on the log, not on a clock: nodes that have applied the same entries have
//! the same table.
//!
//! # Invariants
//! - E1. A command has at most one outcome: [`SessionTable::apply`] refuses a second one of a group
//!   that is not acknowledged; E3 protects the others before they are executed.
//! - E2. Outcomes of a group are kept until the client acknowledges them, or its session is
//!   evicted: if there are [`SESSIONS_MAX`], a new session replaces the least recently used one, in
//!   the order of the log.
//! - E3. A group up to and including the last acknowledged one is [`KnownGroup::Forgotten`], never
//!   [`KnownGroup::Outcomes`]: a group without outcomes is new, and is executed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use namiki_client::protocol::{Outcome, SessionId};
use namiki_platform::hash::hash_of;

use crate::payload::Section;

/// Largest number of sessions. The same on all nodes.
pub(crate) const SESSIONS_MAX: usize = 100_000;

/// Stands for "no outcome yet".
const NONE: u8 = u8::MAX;

/// The reason for which an entry cannot be applied: the log contradicts itself, so the node has to
/// stop.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// A command would have a second outcome.
    #[error("command {index} of group {group} of session {} is in the log twice", session.0)]
    Twice {
        /// The session.
        session: SessionId,
        /// The group.
        group: u64,
        /// The command.
        index: u32,
    },
    /// A command is beyond its group.
    #[error("command {index} of group {group} of session {} is beyond its group", session.0)]
    Beyond {
        /// The session.
        session: SessionId,
        /// The group.
        group: u64,
        /// The command.
        index: u32,
    },
}

/// The recorded state of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnownGroup {
    /// The client has acknowledged the outcomes: they are forgotten.
    Forgotten,
    /// The known outcomes, one for each command; [`None`] for the others. Empty before the first
    /// one.
    Outcomes(Vec<Option<Outcome>>),
}

#[derive(Debug, Default)]
struct Session {
    nonce: u128,
    /// The last entry in which it occurs.
    used: u64,
    acknowledged_through: u64,
    groups: BTreeMap<u64, Vec<u8>>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    sessions: HashMap<SessionId, Session>,
    by_nonce: HashMap<u128, SessionId>,
    /// By their last entry. An entry may use several.
    by_use: BTreeSet<(u64, SessionId)>,
}

impl SessionTable {
    /// Opens a session; its number is the index of the entry that opens it. The same nonce again gives the same session.
    pub(crate) fn open(&mut self, index: u64, nonce: u128) -> SessionId {
        if let Some(known) = self.by_nonce.get(&nonce) {
            return *known;
        }
        if self.sessions.len() >= SESSIONS_MAX
            && let Some((_, oldest)) = self.by_use.first().copied()
        {
            self.close(oldest);
        }
        let id = SessionId(index);
        self.by_nonce.insert(nonce, id);
        self.by_use.insert((index, id));
        let session = Session {
            nonce,
            used: index,
            ..Session::default()
        };
        self.sessions.insert(id, session);
        id
    }

    /// Closes a session.
    pub(crate) fn close(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.by_nonce.remove(&session.nonce);
            self.by_use.remove(&(session.used, id));
        }
    }

    /// Number of sessions.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Number of groups of a session with outcomes that its client has not acknowledged.
    #[must_use]
    pub(crate) fn unacknowledged(&self, id: SessionId) -> usize {
        self.sessions.get(&id).map_or(0, |it| it.groups.len())
    }

    /// The recorded state of a group; `None` if the session does not exist.
    #[must_use]
    pub(crate) fn group(&self, id: SessionId, group: u64) -> Option<KnownGroup> {
        let session = self.sessions.get(&id)?;
        if group <= session.acknowledged_through {
            return Some(KnownGroup::Forgotten);
        }
        let outcomes = session.groups.get(&group).map(Vec::as_slice);
        let outcomes = outcomes.unwrap_or_default().iter();
        Some(KnownGroup::Outcomes(
            outcomes.map(|byte| Outcome::from_byte(*byte)).collect(),
        ))
    }

    /// Records the outcomes of a section of entry `entry`. A section of a session that was closed
    /// in between has no effect.
    ///
    /// # Errors
    /// [`SessionError`] (E1).
    pub(crate) fn apply(&mut self, entry: u64, section: &Section<'_>) -> Result<(), SessionError> {
        let Some(session) = self.sessions.get_mut(&section.session) else {
            return Ok(());
        };
        if session.used != entry {
            self.by_use.remove(&(session.used, section.session));
            self.by_use.insert((entry, section.session));
            session.used = entry;
        }
        let group = section.group;
        if group <= session.acknowledged_through {
            // The client has acknowledged a group in flight, so it does not request the outcomes.
            return Ok(());
        }
        let outcomes = session.groups.entry(group).or_default();
        if outcomes.is_empty() {
            outcomes.resize(section.commands as usize, NONE);
        }
        for (index, outcome) in section.outcomes() {
            let error = match outcomes.get_mut(index as usize) {
                Some(known) if *known == NONE => {
                    *known = outcome;
                    continue;
                }
                Some(_) => SessionError::Twice {
                    session: section.session,
                    group,
                    index,
                },
                None => SessionError::Beyond {
                    session: section.session,
                    group,
                    index,
                },
            };
            return Err(error);
        }
        if section.acknowledged_through > session.acknowledged_through {
            session.acknowledged_through = section.acknowledged_through;
            session.groups = session
                .groups
                .split_off(&(section.acknowledged_through + 1));
        }
        Ok(())
    }

    /// A hash of the table, the same on every node that has applied the same entries.
    #[must_use]
    pub(crate) fn state_hash(&self) -> u128 {
        let mut sum = 0_u128;
        for (id, session) in &self.sessions {
            let mut bytes = Vec::new();
            bytes.extend(id.0.to_le_bytes());
            bytes.extend(session.nonce.to_le_bytes());
            bytes.extend(session.used.to_le_bytes());
            bytes.extend(session.acknowledged_through.to_le_bytes());
            for (group, outcomes) in &session.groups {
                bytes.extend(group.to_le_bytes());
                bytes.extend((outcomes.len() as u64).to_le_bytes());
                bytes.extend(outcomes);
            }
            let half = |seed| u128::from(hash_of(seed, &bytes));
            sum = sum.wrapping_add(half(1) << 64 | half(2));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Payload, PayloadBuilder};

    fn apply(
        table: &mut SessionTable,
        id: SessionId,
        group: u64,
        acknowledged_through: u64,
        outcomes: &[(u32, Outcome)],
    ) -> Result<(), SessionError> {
        let (mut builder, mut bytes) = (PayloadBuilder::default(), Vec::new());
        builder.section(id, group, acknowledged_through, 3, outcomes);
        builder.finish(&mut bytes);
        let payload = Payload::read(&bytes).expect("it was just built");
        table.apply(10, &payload.sections[0])
    }

    #[test]
    fn a_second_outcome_of_a_command_is_refused() {
        let mut table = SessionTable::default();
        let id = table.open(7, 1);
        assert_eq!(table.open(8, 1), id);
        apply(
            &mut table,
            id,
            1,
            0,
            &[(0, Outcome::Done), (2, Outcome::Invalid)],
        )
        .expect("once");
        let known = vec![Some(Outcome::Done), None, Some(Outcome::Invalid)];
        assert_eq!(table.group(id, 1), Some(KnownGroup::Outcomes(known)));
        let twice = SessionError::Twice {
            session: id,
            group: 1,
            index: 2,
        };
        assert_eq!(
            apply(&mut table, id, 1, 0, &[(2, Outcome::Done)]),
            Err(twice)
        );
    }

    #[test]
    fn the_session_used_longest_ago_makes_room() {
        let mut table = SessionTable::default();
        for index in 1..=SESSIONS_MAX as u64 {
            table.open(index, u128::from(index));
        }
        let (mut builder, mut bytes) = (PayloadBuilder::default(), Vec::new());
        builder.section(SessionId(1), 1, 0, 1, &[(0, Outcome::Done)]);
        builder.finish(&mut bytes);
        let payload = Payload::read(&bytes).expect("it was just built");
        let entry = SESSIONS_MAX as u64 + 1;
        table.apply(entry, &payload.sections[0]).expect("once");
        table.open(entry + 1, 0);
        assert!(table.group(SessionId(1), 1).is_some());
        assert!(table.group(SessionId(2), 1).is_none());
        assert_eq!(table.sessions.len(), SESSIONS_MAX);
        assert_eq!(table.by_use.len(), SESSIONS_MAX);
        assert_eq!(table.by_nonce.len(), SESSIONS_MAX);
    }

    #[test]
    fn outcomes_are_forgotten_once_acknowledged() {
        let mut table = SessionTable::default();
        let id = table.open(7, 1);
        apply(&mut table, id, 1, 0, &[(0, Outcome::Done)]).expect("once");
        let before = table.state_hash();
        apply(&mut table, id, 2, 1, &[(0, Outcome::Done)]).expect("once");
        assert_eq!(table.group(id, 1), Some(KnownGroup::Forgotten));
        assert_ne!(table.state_hash(), before);
        table.close(id);
        assert!(table.sessions.is_empty() && table.group(id, 2).is_none());
        assert_eq!(apply(&mut table, id, 3, 0, &[(0, Outcome::Done)]), Ok(()));
    }
}
