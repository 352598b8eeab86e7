//! A client's group of commands (TxGrp) between its arrival and its answer.

use namiki_client::protocol::{Command, Outcome, SessionId};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::network::ConnectionId;

/// Largest number of connections that wait for one group. Only a client that connects again and
/// again has several; the oldest are closed.
pub(crate) const WAITING_MAX: usize = 16;

/// Its commands, and their outcomes so far. The commands are spread over workers, and so over
/// several log groups.
#[derive(Debug)]
pub(crate) struct GroupInFlight {
    pub(crate) session: SessionId,
    pub(crate) group: u64,
    pub(crate) acknowledged_through: u64,
    /// The connection: the group takes a part of its share of the limits.
    pub(crate) owner: ConnectionId,
    /// The term of the leader that accepted it: no other term executes it.
    pub(crate) term: u64,
    pub(crate) commands: Vec<Command>,
    /// Their size in memory.
    pub(crate) bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    outcomes: Vec<Option<Outcome>>,
    missing: usize,
    /// The last entry with outcomes of it that was applied here.
    lsn: u64,
    /// The connections that wait for the answer.
    connections: SmallVec<[ConnectionId; 1]>,
}

/// The answer that completes a group.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) connections: SmallVec<[ConnectionId; 1]>,
    pub(crate) outcomes: Vec<Outcome>,
    /// The last entry with some of them.
    pub(crate) lsn: u64,
}

impl GroupInFlight {
    /// `bytes`: the commands' size in memory. `known`: outcomes that an earlier leader has committed,
    /// or nothing; `known_lsn`: an entry that is not before theirs.
    #[expect(clippy::too_many_arguments, reason = "each is a field of the request")]
    pub(crate) fn new(
        session: SessionId,
        group: u64,
        acknowledged_through: u64,
        term: u64,
        commands: Vec<Command>,
        bytes: usize,
        mut known: Vec<Option<Outcome>>,
        known_lsn: u64,
        connection: ConnectionId,
    ) -> Self {
        known.resize(commands.len(), None);
        let missing = known.iter().filter(|it| it.is_none()).count();
        Self {
            session,
            group,
            acknowledged_through,
            owner: connection,
            term,
            commands,
            bytes,
            state: Mutex::new(State {
                outcomes: known,
                missing,
                lsn: known_lsn,
                connections: SmallVec::from_elem(connection, 1),
            }),
        }
    }

    /// The commands without an outcome.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let state = self.state.lock();
        let all = state.outcomes.iter().enumerate();
        all.filter(|(_, it)| it.is_none())
            .map(|(index, _)| index as u32)
            .collect()
    }

    /// Adds a connection for the answer. Returns the outcomes and their last entry if the other connections are being
    /// answered just now.
    pub(crate) fn join(&self, connection: ConnectionId) -> Option<(Vec<Outcome>, u64)> {
        let mut state = self.state.lock();
        if state.missing == 0 {
            let outcomes = state.outcomes.iter().flatten().copied();
            return Some((outcomes.collect(), state.lsn));
        }
        if !state.connections.contains(&connection) {
            if state.connections.len() >= WAITING_MAX {
                state.connections.remove(0);
            }
            state.connections.push(connection);
        }
        None
    }

    /// Records the outcomes of commands that are committed and applied by entry `lsn`. Returns the answer if they were the
    /// last ones.
    pub(crate) fn complete(&self, outcomes: &[(u32, Outcome)], lsn: u64) -> Option<Answer> {
        let mut state = self.state.lock();
        state.lsn = state.lsn.max(lsn);
        for (index, outcome) in outcomes {
            let before = state.outcomes[*index as usize].replace(*outcome);
            state.missing -= usize::from(before.is_none());
        }
        (state.missing == 0).then(|| Answer {
            outcomes: state.outcomes.iter().flatten().copied().collect(),
            connections: std::mem::take(&mut state.connections),
            lsn: state.lsn,
        })
    }

    /// Takes the waiting connections, for an answer of another kind.
    pub(crate) fn take_connections(&self) -> SmallVec<[ConnectionId; 1]> {
        std::mem::take(&mut self.state.lock().connections)
    }
}
