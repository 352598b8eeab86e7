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
//! - E2. Outcomes of a group are kept until the client acknowledges them, or its session is closed.
//!   If a client, or all of them, have as many sessions as the entry allows, no session is opened:
//!   no client's session is evicted for another's.
//! - E3. A group up to and including the last acknowledged one is [`KnownGroup::Forgotten`], never
//!   [`KnownGroup::Outcomes`]: a group without outcomes is new, and is executed.
//! - E4. A session has one holder: the process that has opened it, or resumed it last. The entry that
//!   did so is its *fence* (a fencing token). A leader accepts groups only with the current fence, and
//!   reports a session as resumed when all groups that it had accepted with earlier ones are in the
//!   log. So from then on, what an earlier holder has sent is in the log or never will be. Numbers of
//!   groups of two holders differ. An attempt to resume it that was replaced by another one is spent: if
//!   its request comes again, it changes nothing.
//! - E5. A leader closes a session only while none of its groups is in flight, and accepts none until
//!   the closing entry is applied: no group is executed behind it, without a session that knows of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use namiki_client::protocol::{Outcome, SessionId, SessionLimit};
use namiki_platform::hash::hash_of;
use serde::{Deserialize, Serialize};

use crate::control::SessionLimits;
use crate::fair_share::is_share;
use crate::network::ClientName;
use crate::payload::Section;

mod listing;

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

/// The reason for which a session is not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeRefusal {
    /// It does not exist, or was opened under another nonce.
    NoSuchSession,
    /// Another attempt has resumed it since.
    Superseded,
    /// No numbers are left for further groups.
    NumbersUsedUp,
}

/// What a new holder of a session has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resumed {
    pub(crate) fence: u64,
    pub(crate) first_group: u64,
}

/// Bits of the groups of one holder. A holder begins two blocks of numbers behind the last group
/// in the log: groups in flight may be in the next block.
const HOLDER_BITS: u32 = 32;
/// Numbers above this one are not those of groups.
const GROUP_MAX: u64 = (1 << 62) - 1;
/// Attempts before the last one that a session remembers.
pub(crate) const ATTEMPTS_KEPT: usize = 8;

/// A session. An image has it as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    nonce: u128,
    /// The client that has opened it.
    client: ClientName,
    /// The last entry in which it occurs.
    used: u64,
    acknowledged_through: u64,
    /// The entry by which its holder has opened or resumed it (E4).
    fence: u64,
    /// The attempt that has resumed it last.
    attempt: u128,
    /// The attempts before it, the last one last.
    earlier_attempts: Vec<u128>,
    /// The holder's first group.
    first_group: u64,
    groups: BTreeMap<u64, Vec<u8>>,
    /// Outcomes in `groups`.
    #[serde(skip)]
    outcomes: usize,
}

impl Session {
    fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a session has no type that cannot be encoded")
    }

    /// The session of these bytes; `None` if they are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes::<Self>(bytes) {
            Ok((mut session, [])) => {
                session.outcomes = session.groups.values().map(Vec::len).sum();
                Some(session)
            }
            _ => None,
        }
    }
}

/// What the sessions of one client take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClientShare {
    sessions: u32,
    /// Outcomes that are kept.
    outcomes: usize,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    sessions: HashMap<SessionId, Session>,
    by_nonce: HashMap<u128, SessionId>,
    /// By their last entry. An entry may use several.
    by_use: BTreeSet<(u64, SessionId)>,
    /// The share of each client that has sessions.
    of_client: HashMap<ClientName, ClientShare>,
    /// Outcomes of all sessions.
    outcomes: usize,
    /// The entry through which the sessions are written as rows: those that are used later are not.
    written: u64,
    /// Sessions that are written, and were closed since.
    closed: Vec<SessionId>,
}

impl SessionTable {
    /// The sessions that were changed since the last call, encoded, and those that were closed. They are written as rows next.
    pub(crate) fn take_changed(&mut self) -> Vec<(SessionId, Option<Vec<u8>>)> {
        let closed = std::mem::take(&mut self.closed).into_iter();
        let mut rows: Vec<_> = closed.map(|id| (id, None)).collect();
        let since = (self.written.saturating_add(1), SessionId(0));
        for (_, id) in self.by_use.range(since..) {
            rows.push((*id, self.sessions.get(id).map(Session::encode)));
        }
        self.written = self.by_use.last().map_or(self.written, |(used, _)| *used);
        rows
    }

    /// Puts a session of an image back.
    pub(crate) fn put(&mut self, id: SessionId, session: Session) {
        self.by_nonce.insert(session.nonce, id);
        self.by_use.insert((session.used, id));
        let share = self.of_client.entry(session.client.clone()).or_default();
        share.sessions += 1;
        share.outcomes += session.outcomes;
        self.outcomes += session.outcomes;
        self.sessions.insert(id, session);
    }

    /// The sessions are those of the image at this entry.
    pub(crate) fn note_written(&mut self, entry: u64) {
        self.written = entry;
    }

    /// Opens a session of a client; its number is the index of the entry that opens it. The same
    /// nonce again gives the same session.
    ///
    /// # Errors
    /// The limit that is reached. Nothing has changed.
    pub(crate) fn open(
        &mut self,
        index: u64,
        nonce: u128,
        client: &ClientName,
        limits: SessionLimits,
    ) -> Result<SessionId, SessionLimit> {
        if let Some(known) = self.by_nonce.get(&nonce) {
            return Ok(*known);
        }
        self.check_limits(client, limits)?;
        let id = SessionId(index);
        let session = Session {
            nonce,
            client: client.clone(),
            used: index,
            acknowledged_through: 0,
            fence: index,
            attempt: 0,
            earlier_attempts: Vec::new(),
            first_group: 1,
            groups: BTreeMap::new(),
            outcomes: 0,
        };
        self.put(id, session);
        Ok(id)
    }

    /// Whether this session exists and was opened under this nonce.
    pub(crate) fn is_opened_by(&self, id: SessionId, nonce: u128) -> bool {
        self.sessions.get(&id).is_some_and(|it| it.nonce == nonce)
    }

    /// Whether a session of this nonce exists.
    pub(crate) fn has_nonce(&self, nonce: u128) -> bool {
        self.by_nonce.contains_key(&nonce)
    }

    /// Whether a client may open one session more.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn check_limits(
        &self,
        client: &ClientName,
        limits: SessionLimits,
    ) -> Result<(), SessionLimit> {
        let own = self.of_client.get(client).map_or(0, |it| it.sessions);
        if own >= limits.client {
            return Err(SessionLimit::Client(own.into()));
        }
        if self.sessions.len() >= limits.all as usize {
            return Err(SessionLimit::Cluster(self.sessions.len() as u64));
        }
        Ok(())
    }

    /// An injected fault: closes the least recently used session.
    pub(crate) fn evict(&mut self) {
        if let Some((_, oldest)) = self.by_use.first().copied() {
            self.close(oldest);
        }
    }

    /// An injected fault: sessions that are open do not count for the limit of their client.
    pub(crate) fn forget_counts(&mut self) {
        self.of_client.clear();
    }

    /// Closes all sessions.
    pub(crate) fn close_all(&mut self) {
        let all: Vec<SessionId> = self.sessions.keys().copied().collect();
        all.into_iter().for_each(|id| self.close(id));
    }

    /// Closes a session.
    pub(crate) fn close(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        self.by_nonce.remove(&session.nonce);
        self.by_use.remove(&(session.used, id));
        if id.0 <= self.written {
            self.closed.push(id);
        }
        self.outcomes -= session.outcomes;
        if let Some(share) = self.of_client.get_mut(&session.client) {
            share.sessions -= 1;
            share.outcomes -= session.outcomes;
            if share.sessions == 0 {
                self.of_client.remove(&session.client);
            }
        }
    }

    /// Closes a session if its holder has this fence. Returns whether there is no such session any
    /// more.
    pub(crate) fn close_held(&mut self, id: SessionId, fence: u64) -> bool {
        match self.fence(id) {
            Some(current) if current != fence => false,
            _ => {
                self.close(id);
                true
            }
        }
    }

    /// Hands a session to another holder by entry `index`. The same attempt again changes nothing: a request that was sent to
    /// two leaders may be in the log twice, and other attempts in between.
    ///
    /// # Errors
    /// [`ResumeRefusal`]. Nothing has changed.
    pub(crate) fn resume(
        &mut self,
        index: u64,
        id: SessionId,
        nonce: u128,
        attempt: u128,
    ) -> Result<Resumed, ResumeRefusal> {
        let session = self.sessions.get_mut(&id);
        let session = session.filter(|it| it.nonce == nonce);
        let session = session.ok_or(ResumeRefusal::NoSuchSession)?;
        if session.earlier_attempts.contains(&attempt) {
            return Err(ResumeRefusal::Superseded);
        }
        if session.fence == id.0 || session.attempt != attempt {
            let last = session.groups.last_key_value().map_or(0, |(last, _)| *last);
            let last = (last.max(session.acknowledged_through)).max(session.first_group);
            let first_group = ((last >> HOLDER_BITS) + 2) << HOLDER_BITS;
            if last > GROUP_MAX || first_group > GROUP_MAX {
                return Err(ResumeRefusal::NumbersUsedUp);
            }
            if session.fence != id.0 {
                let earlier = &mut session.earlier_attempts;
                earlier.drain(..(earlier.len() + 1).saturating_sub(ATTEMPTS_KEPT));
                earlier.push(session.attempt);
            }
            session.fence = index;
            session.attempt = attempt;
            session.first_group = first_group;
            self.by_use.remove(&(session.used, id));
            self.by_use.insert((index, id));
            session.used = index;
        }
        Ok(Resumed {
            fence: session.fence,
            first_group: session.first_group,
        })
    }

    /// The fence of a session; `None` if it does not exist.
    #[must_use]
    pub(crate) fn fence(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(&id).map(|it| it.fence)
    }

    /// The last acknowledged group of a session, and the groups with kept outcomes; `None` if the
    /// session does not exist.
    #[must_use]
    pub(crate) fn kept(&self, id: SessionId) -> Option<(u64, Vec<u64>)> {
        let session = self.sessions.get(&id)?;
        let groups = session.groups.keys().copied().collect();
        Some((session.acknowledged_through, groups))
    }

    /// The last entry in which a session occurs.
    #[must_use]
    pub(crate) fn used(&self, id: SessionId) -> u64 {
        self.sessions.get(&id).map_or(0, |it| it.used)
    }

    /// All sessions.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.keys().copied()
    }

    /// The number of sessions of each client that has some.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn of_clients(&self) -> impl Iterator<Item = (&ClientName, u32)> {
        self.of_client
            .iter()
            .map(|(client, count)| (client, count.sessions))
    }

    /// Number of sessions.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Outcomes of all sessions that are kept.
    #[must_use]
    pub(crate) fn outcomes(&self) -> usize {
        self.outcomes
    }

    /// Whether the client of a session may have this number of outcomes more, within a limit on all: as
    /// many as are left afterwards. All of its sessions count, so those that it has left behind take
    /// nothing from others.
    #[must_use]
    pub(crate) fn has_room_for_outcomes(&self, id: SessionId, more: usize, limit: usize) -> bool {
        let own = self
            .sessions
            .get(&id)
            .and_then(|it| self.of_client.get(&it.client));
        let own = own.map_or(0, |it| it.outcomes);
        is_share(own, more, self.outcomes, limit)
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
            // Exactly: they may be kept for a long time.
            *outcomes = vec![NONE; section.commands as usize];
            session.outcomes += outcomes.len();
            self.outcomes += outcomes.len();
            if let Some(share) = self.of_client.get_mut(&session.client) {
                share.outcomes += outcomes.len();
            }
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
            let kept = session
                .groups
                .split_off(&(section.acknowledged_through + 1));
            let acknowledged = std::mem::replace(&mut session.groups, kept);
            let forgotten = acknowledged.values().map(Vec::len).sum::<usize>();
            session.outcomes -= forgotten;
            self.outcomes -= forgotten;
            if let Some(share) = self.of_client.get_mut(&session.client) {
                share.outcomes -= forgotten;
            }
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
            bytes.extend(session.client.to_string().as_bytes());
            bytes.extend(session.used.to_le_bytes());
            bytes.extend(session.acknowledged_through.to_le_bytes());
            bytes.extend(session.fence.to_le_bytes());
            bytes.extend(session.attempt.to_le_bytes());
            for attempt in &session.earlier_attempts {
                bytes.extend(attempt.to_le_bytes());
            }
            bytes.extend(session.first_group.to_le_bytes());
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

    fn client(number: u8) -> ClientName {
        ClientName::of_address([10, 0, 0, number].into())
    }

    fn open(table: &mut SessionTable, index: u64, nonce: u128) -> Result<SessionId, SessionLimit> {
        table.open(index, nonce, &client(1), SessionLimits::default())
    }

    #[test]
    fn a_resumed_session_has_a_new_fence_and_new_numbers() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
        assert_eq!(table.fence(id), Some(7));
        apply(&mut table, id, 1, 0, &[(0, Outcome::Done)]).expect("once");
        let refused = Err(ResumeRefusal::NoSuchSession);
        assert_eq!(table.resume(11, id, 2, 5), refused, "another nonce");
        let resumed = table.resume(12, id, 1, 5).expect("it exists");
        let first_group = 2 << HOLDER_BITS;
        let fence = 12;
        assert_eq!(resumed, Resumed { fence, first_group });
        // The same attempt again.
        assert_eq!(table.resume(13, id, 1, 5), Ok(resumed));
        assert_eq!(table.kept(id), Some((0, vec![1])));
        // Another one, although no group was sent.
        let other = table.resume(14, id, 1, 6).expect("it exists");
        assert_eq!(other.fence, 14);
        assert!(other.first_group > resumed.first_group);
        assert!(!table.close_held(id, 12) && table.is_opened_by(id, 1));
        assert!(table.close_held(id, 14) && !table.is_opened_by(id, 1));
        assert_eq!(table.resume(15, id, 1, 6), refused);
        assert!(table.close_held(id, 14), "it is gone");
    }

    /// A request that was sent to two leaders is in the log twice, and another attempt in between.
    #[test]
    fn a_replaced_attempt_that_comes_again_changes_nothing() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
        let first = table.resume(11, id, 1, 100).expect("it exists");
        let second = table.resume(12, id, 1, 101).expect("it exists");
        let before = table.state_hash();
        let again = table.resume(13, id, 1, 100);
        assert_eq!(again, Err(ResumeRefusal::Superseded));
        assert_eq!(table.state_hash(), before);
        assert_eq!(table.fence(id), Some(second.fence));
        assert_ne!(first.fence, second.fence);
        // In an image, too.
        let row = table.sessions[&id].encode();
        let mut other = SessionTable::default();
        other.put(id, Session::decode(&row).expect("it was just written"));
        assert_eq!(other.resume(13, id, 1, 100), Err(ResumeRefusal::Superseded));
        for attempt in 102..200 {
            table.resume(14, id, 1, attempt).expect("it exists");
            let kept = table.sessions[&id].earlier_attempts.len();
            assert!(kept <= ATTEMPTS_KEPT, "{kept}");
        }
        let last = table.resume(15, id, 1, 200 - 1 - ATTEMPTS_KEPT as u128);
        assert_eq!(last, Err(ResumeRefusal::Superseded));
    }

    #[test]
    fn a_session_without_numbers_is_not_resumed() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
        apply(&mut table, id, GROUP_MAX, 0, &[(0, Outcome::Done)]).expect("once");
        let refused = Err(ResumeRefusal::NumbersUsedUp);
        assert_eq!(table.resume(11, id, 1, 5), refused);
        assert_eq!(table.fence(id), Some(7));
    }

    #[test]
    fn a_full_table_refuses_and_evicts_none() {
        let mut table = SessionTable::default();
        let limits = SessionLimits { all: 5, client: 3 };
        let mut nonce = 0;
        let mut open = |number| {
            nonce += 1;
            let opened = table.open(nonce as u64, nonce, &client(number), limits);
            opened.map(|id| id.0)
        };
        assert_eq!([open(1), open(1), open(1)], [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(open(1), Err(SessionLimit::Client(3)));
        assert_eq!([open(2), open(2)], [Ok(5), Ok(6)]);
        assert_eq!(open(3), Err(SessionLimit::Cluster(5)));
        // The same nonce still gives its session.
        assert_eq!(table.open(9, 1, &client(1), limits), Ok(SessionId(1)));
        for id in [1, 2, 3, 5, 6] {
            assert!(table.group(SessionId(id), 1).is_some());
        }
        table.close(SessionId(2));
        assert_eq!(table.open(10, 10, &client(1), limits), Ok(SessionId(10)));
        for id in [1, 3, 5, 6, 10] {
            table.close(SessionId(id));
        }
        assert!(table.of_client.is_empty() && table.by_nonce.is_empty());
    }

    #[test]
    fn kept_outcomes_are_shared_by_all_sessions() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
        assert!(table.has_room_for_outcomes(id, 5, 10));
        apply(&mut table, id, 1, 0, &[(0, Outcome::Done)]).expect("once");
        // Three are kept. With two more, five are left.
        assert!(table.has_room_for_outcomes(id, 2, 10));
        assert!(!table.has_room_for_outcomes(id, 3, 10));
        // Another session of this client has the same share, and another client its own.
        let same = open(&mut table, 8, 2).expect("there is room");
        assert!(!table.has_room_for_outcomes(same, 3, 10));
        let other = table.open(9, 3, &client(2), SessionLimits::default());
        assert!(table.has_room_for_outcomes(other.expect("there is room"), 3, 10));
        apply(&mut table, id, 2, 1, &[(0, Outcome::Done)]).expect("once");
        assert_eq!(table.outcomes, 3);
        table.close(id);
        assert_eq!(table.outcomes, 0);
    }

    #[test]
    fn a_second_outcome_of_a_command_is_refused() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
        assert_eq!(open(&mut table, 8, 1), Ok(id));
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

    /// Each time, the rows so far are a table that has the same hash.
    #[test]
    fn rows_that_changed_make_the_same_table() {
        let mut random = namiki_platform::seeded_random::Random::seeded(3);
        let mut table = SessionTable::default();
        let mut rows = HashMap::new();
        let mut entry = 0;
        for _ in 0..40 {
            for _ in 0..random.below(30) {
                entry += 1;
                let known = table.sessions.keys().copied().min_by_key(|id| id.0 % 7);
                match (random.below(6), known) {
                    (0, Some(id)) => table.close(id),
                    (1 | 2, Some(id)) => {
                        let group = 1 + random.below(4);
                        let (mut builder, mut bytes) = (PayloadBuilder::default(), Vec::new());
                        let acknowledged = random.below(group);
                        builder.section(id, group, acknowledged, 1, &[(0, Outcome::Done)]);
                        builder.finish(&mut bytes);
                        let payload = Payload::read(&bytes).expect("it was just built");
                        // A second outcome is refused.
                        let _ = table.apply(entry, &payload.sections[0]);
                    }
                    (5, Some(id)) => {
                        let nonce = table.sessions[&id].nonce;
                        let _ = table.resume(entry, id, nonce, entry.into());
                    }
                    _ => drop(open(&mut table, entry, entry.into())),
                }
            }
            for (id, row) in table.take_changed() {
                match row {
                    Some(row) => drop(rows.insert(id, row)),
                    None => drop(rows.remove(&id)),
                }
            }
            let mut again = SessionTable::default();
            for (id, row) in &rows {
                again.put(*id, Session::decode(row).expect("it was just written"));
            }
            assert_eq!(again.state_hash(), table.state_hash());
            assert_eq!((again.outcomes, again.len()), (table.outcomes, table.len()));
            assert_eq!(
                (again.by_use, again.of_client),
                (table.by_use.clone(), table.of_client.clone())
            );
        }
        assert!(table.take_changed().is_empty() && entry > 300 && !rows.is_empty());
    }

    #[test]
    fn outcomes_are_forgotten_once_acknowledged() {
        let mut table = SessionTable::default();
        let id = open(&mut table, 7, 1).expect("there is room");
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
