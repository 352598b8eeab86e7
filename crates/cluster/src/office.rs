//! The requests that a leader has in flight for its clients.
//!
//! A node is in office from the moment at which it has applied its own first entry, and so the whole log of its predecessors, until it is
//! deposed. Only in office does it look up sessions and accept requests.
//!
//! Requests in flight when leadership ends are answered "outcome unknown": they may or may not be
//! in the log of the next leader.
//!
//! # Fairness
//! Each limit is shared by connections with a dynamic threshold: a connection may have as much under
//! way as is left for all. So n connections that ask without end leave the (n + 1)-th part of the
//! limit free for others. Reads are confirmed in batches, which take a request of each connection
//! in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use namiki_client::protocol::{Command, MemberChange, SessionId};

use crate::control::Control;
use crate::fair_share::is_share;
use crate::group_in_flight::{GroupInFlight, WAITING_MAX};
use crate::network::ConnectionId;
use crate::read_queue::ReadQueue;
use crate::refusal::Refusal;
use crate::session::Resumed;

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct Office {
    /// The term, while the node is in office.
    pub(crate) term: Option<u64>,
    pub(crate) groups: BTreeMap<(SessionId, u64), Arc<GroupInFlight>>,
    /// Of all groups.
    in_flight: InFlight,
    /// Of the groups of each connection that has some.
    by_connection: BTreeMap<ConnectionId, InFlight>,
    control: BTreeMap<Control, WaitingForEntry>,
    /// Connections in `control`, each as often as it waits.
    pub(crate) control_waiting: usize,
    /// Requested changes of the members.
    pub(crate) member_changes: BTreeMap<MemberChange, Vec<ConnectionId>>,
    pub(crate) reads: ReadQueue,
    /// Sessions that are being closed, if they still have these fences: no group of theirs is accepted (E5 of `session.rs`).
    closing: BTreeSet<(SessionId, u64)>,
    /// Clients that have resumed a session while groups of earlier holders are in flight.
    resuming: BTreeMap<SessionId, Vec<(ConnectionId, Resumed)>>,
}

/// Connections that wait for an entry without a payload. An entry answers only requests that came before it was proposed:
/// to a leader that was replaced without noticing it, an entry may be under way that is committed long since, and undone by
/// a later one.
#[derive(Debug, Default)]
struct WaitingForEntry {
    /// Those that the entry under way answers.
    proposed: Vec<ConnectionId>,
    /// Those that came later: there is another entry for them.
    later: Vec<ConnectionId>,
}

/// Commands of groups under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) commands: usize,
    /// Their size in memory.
    pub(crate) bytes: usize,
}

impl InFlight {
    fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Self) {
        self.commands -= other.commands;
        self.bytes -= other.bytes;
    }
}

impl Office {
    /// Whether a connection may add a group, within limits on all.
    pub(crate) fn has_room(&self, connection: ConnectionId, more: InFlight, max: InFlight) -> bool {
        let total = self.in_flight;
        let own = self.by_connection.get(&connection);
        let own = own.copied().unwrap_or_default();
        // A lone group may be as long as the limit.
        own == InFlight::default()
            && total == InFlight::default()
            && more.commands <= max.commands
            && more.bytes <= max.bytes
            || is_share(own.commands, more.commands, total.commands, max.commands)
                && is_share(own.bytes, more.bytes, total.bytes, max.bytes)
    }

    /// Number of commands of all groups.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.in_flight.commands
    }

    /// Adds a group.
    pub(crate) fn begin(&mut self, group: &Arc<GroupInFlight>) {
        let key = (group.session, group.group);
        self.groups.insert(key, Arc::clone(group));
        let size = in_flight(group);
        self.in_flight.add(size);
        self.by_connection.entry(group.owner).or_default().add(size);
    }

    /// A group is answered. Returns the clients that have resumed its session, if it was the last one
    /// in flight.
    #[must_use]
    pub(crate) fn finish(&mut self, group: &GroupInFlight) -> Vec<(ConnectionId, Resumed)> {
        let session = group.session;
        if self.groups.remove(&(session, group.group)).is_none() {
            return Vec::new();
        }
        let size = in_flight(group);
        self.in_flight.remove(size);
        if let Some(own) = self.by_connection.get_mut(&group.owner) {
            own.remove(size);
            if *own == InFlight::default() {
                self.by_connection.remove(&group.owner);
            }
        }
        if self.resuming.is_empty() || self.has_groups_of(session) {
            return Vec::new();
        }
        self.resuming.remove(&session).unwrap_or_default()
    }

    fn has_groups_of(&self, session: SessionId) -> bool {
        let mut groups = self.groups.range((session, 0)..=(session, u64::MAX));
        groups.next().is_some()
    }

    /// A session is to be closed by an entry. Returns false if groups are in flight: it is not closed now.
    #[must_use]
    pub(crate) fn begin_close(&mut self, session: SessionId, fence: u64) -> bool {
        let may_close = !self.has_groups_of(session);
        if may_close {
            self.closing.insert((session, fence));
        }
        may_close
    }

    /// Whether an entry that closes the session is on its way.
    pub(crate) fn is_closing(&self, session: SessionId) -> bool {
        let mut closing = self.closing.range((session, 0)..=(session, u64::MAX));
        closing.next().is_some()
    }

    /// The entry that closes a session is applied. It may have been resumed before.
    pub(crate) fn end_close(&mut self, session: SessionId, fence: u64) {
        self.closing.remove(&(session, fence));
    }

    /// Clients have resumed a session: no group with an earlier fence is accepted any more. Returns
    /// false if groups are in flight, which are waited for.
    pub(crate) fn resume(
        &mut self,
        session: SessionId,
        connections: &[ConnectionId],
        resumed: Resumed,
    ) -> bool {
        if !self.has_groups_of(session) {
            return true;
        }
        let waiting = self.resuming.entry(session).or_default();
        waiting.extend(connections.iter().map(|it| (*it, resumed)));
        let more = waiting.len().saturating_sub(WAITING_MAX);
        waiting.drain(..more);
        false
    }

    /// Has a connection wait for a control entry. Returns whether the entry is to be proposed.
    #[must_use]
    pub(crate) fn wait_for(&mut self, control: Control, connection: ConnectionId) -> bool {
        self.control_waiting += 1;
        let waiting = self.control.entry(control).or_default();
        let is_first = waiting.proposed.is_empty();
        let queue = if is_first {
            &mut waiting.proposed
        } else {
            &mut waiting.later
        };
        queue.push(connection);
        is_first
    }

    /// Whether one of the commands touches a table with a drop under way.
    pub(crate) fn is_dropping(&self, commands: &[Command]) -> bool {
        let drops = self.control.keys().filter_map(|control| match control {
            Control::DropTable { table } | Control::ClearTable { table } => Some(*table),
            _ => None,
        });
        let dropped: Vec<u32> = drops.collect();
        let touches = |command: &Command| match command {
            Command::Transfer { table, .. } => dropped.contains(table),
            Command::Write(write) => {
                let conditions = write.conditions.iter().map(|it| it.table);
                let mut tables = conditions.chain(write.rows.iter().map(|it| it.0));
                tables.any(|table| dropped.contains(&table))
            }
        };
        !dropped.is_empty() && commands.iter().any(touches)
    }

    /// Takes the connections that a control entry answers. Also returns whether it is to be proposed again, for others.
    #[must_use]
    pub(crate) fn take_waiting(&mut self, control: &Control) -> (Vec<ConnectionId>, bool) {
        let Some(waiting) = self.control.get_mut(control) else {
            return (Vec::new(), false);
        };
        let later = std::mem::take(&mut waiting.later);
        let answered = std::mem::replace(&mut waiting.proposed, later);
        self.control_waiting -= answered.len();
        let is_again = !waiting.proposed.is_empty();
        if !is_again {
            self.control.remove(control);
        }
        (answered, is_again)
    }

    /// Ends the office. Returns the responses for the clients.
    pub(crate) fn leave(&mut self) -> Vec<(ConnectionId, Refusal)> {
        self.term = None;
        self.in_flight = InFlight::default();
        self.by_connection.clear();
        self.control_waiting = 0;
        self.closing.clear();
        let mut refusals = Vec::new();
        for ((session, number), group) in std::mem::take(&mut self.groups) {
            for connection in group.take_connections() {
                let group = number;
                refusals.push((connection, Refusal::OutcomeUnknown { session, group }));
            }
        }
        // These requests are idempotent.
        let not_leader = |request| Refusal::NotLeader {
            request,
            leader: None,
        };
        let control = std::mem::take(&mut self.control).into_values();
        let control = control.flat_map(|it| it.proposed.into_iter().chain(it.later));
        let member_changes = std::mem::take(&mut self.member_changes).into_values();
        let resuming = std::mem::take(&mut self.resuming).into_values().flatten();
        let resuming = resuming.map(|(connection, _)| connection);
        let control = control.chain(member_changes.flatten()).chain(resuming);
        refusals.extend(control.map(|connection| (connection, not_leader(0))));
        let reads = self.reads.take_all().into_iter();
        refusals.extend(reads.map(|read| (read.connection, not_leader(read.request))));
        refusals
    }
}

fn in_flight(group: &GroupInFlight) -> InFlight {
    InFlight {
        commands: group.commands.len(),
        bytes: group.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that another process has resumed is closed by its new fence, while an entry with the earlier one is on its way.
    #[test]
    fn a_session_is_closing_until_each_entry_is_applied() {
        let mut office = Office::default();
        let session = SessionId(7);
        assert!(office.begin_close(session, 7) && office.begin_close(session, 9));
        office.end_close(session, 7);
        assert!(office.is_closing(session) && !office.is_closing(SessionId(8)));
        office.end_close(session, 9);
        assert!(!office.is_closing(session));
    }

    /// A leader may have been replaced without noticing it: then the entry is committed already, and the table may have been
    /// created and dropped again.
    #[test]
    fn an_entry_answers_only_requests_before_it() {
        let mut office = Office::default();
        let drop = || Control::DropTable { table: 7 };
        let wait =
            |office: &mut Office, connection| office.wait_for(drop(), ConnectionId(connection));
        let transfer = |table| {
            [Command::Transfer {
                table,
                from: 1,
                to: 2,
                amount: 1,
            }]
        };
        assert!(!office.is_dropping(&transfer(7)));
        assert!(wait(&mut office, 1));
        assert!(office.is_dropping(&transfer(7)) && !office.is_dropping(&transfer(8)));
        assert!(!wait(&mut office, 2) && !wait(&mut office, 3));
        let first = office.take_waiting(&drop());
        assert_eq!(first, (vec![ConnectionId(1)], true));
        assert!(!wait(&mut office, 4));
        let second = office.take_waiting(&drop());
        assert_eq!(second, (vec![ConnectionId(2), ConnectionId(3)], true));
        let third = office.take_waiting(&drop());
        assert_eq!(third, (vec![ConnectionId(4)], false));
        assert_eq!(office.take_waiting(&drop()), (Vec::new(), false));
        assert_eq!(office.control_waiting, 0);
        let clear = Control::ClearTable { table: 9 };
        assert!(office.wait_for(clear.clone(), ConnectionId(1)));
        assert!(office.is_dropping(&transfer(9)));
        assert_eq!(office.take_waiting(&clear).0.len(), 1);
        assert!(wait(&mut office, 5) && !wait(&mut office, 6));
        assert_eq!(office.leave().len(), 2);
    }
}
