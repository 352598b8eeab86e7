//! The commands that wait for a worker: sessions take turns, and the commands of a session keep their
//! order (deficit round robin, with a command as the unit).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::vec::IntoIter;

use namiki_client::protocol::SessionId;

use crate::group_in_flight::GroupInFlight;

type Part = (Arc<GroupInFlight>, IntoIter<u32>);

/// Waiting commands.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    sessions: HashMap<SessionId, VecDeque<Part>>,
    /// Every session in `sessions`, with the number of commands that it had in this turn. The first
    /// one has its turn.
    turns: VecDeque<(SessionId, usize)>,
}

impl Backlog {
    /// Adds commands behind the others of their session.
    pub(super) fn push(&mut self, group: Arc<GroupInFlight>, commands: Vec<u32>) {
        let session = group.session;
        let parts = self.sessions.entry(session).or_insert_with(|| {
            self.turns.push_back((session, 0));
            VecDeque::new()
        });
        parts.push_back((group, commands.into_iter()));
    }

    /// Takes the first commands of the session that has its turn. The caller puts the rest back.
    pub(super) fn next(&mut self) -> Option<Part> {
        let (session, _) = self.turns.front()?;
        self.sessions.get_mut(session)?.pop_front()
    }

    /// Puts the rest of a part back after `executed` of its commands. `turn`: number of commands
    /// after which the turn of its session ends.
    pub(super) fn put_back(
        &mut self,
        group: Arc<GroupInFlight>,
        rest: IntoIter<u32>,
        executed: usize,
        turn: usize,
    ) {
        let session = group.session;
        let Some(parts) = self.sessions.get_mut(&session) else {
            return;
        };
        if rest.len() > 0 {
            parts.push_front((group, rest));
        }
        let is_empty = parts.is_empty();
        if let Some((_, before)) = self.turns.front_mut() {
            *before += executed;
            if !is_empty && *before < turn {
                return;
            }
        }
        self.turns.pop_front();
        if is_empty {
            self.sessions.remove(&session);
        } else {
            self.turns.push_back((session, 0));
        }
    }

    pub(super) fn clear(&mut self) {
        self.sessions.clear();
        self.turns.clear();
    }
}

#[cfg(test)]
mod tests {
    use namiki_client::protocol::Command;

    use super::*;
    use crate::network::ConnectionId;

    fn group(session: u64, number: u64, commands: usize) -> Arc<GroupInFlight> {
        let command = Command::Transfer {
            table: 1,
            from: 1,
            to: 2,
            amount: 1,
        };
        let (session, connection) = (SessionId(session), ConnectionId(1));
        let commands = vec![command; commands];
        let group = GroupInFlight::new(
            session,
            number,
            0,
            1,
            commands,
            0,
            Vec::new(),
            0,
            connection,
        );
        Arc::new(group)
    }

    #[test]
    fn sessions_take_turns_and_keep_their_order() {
        let mut backlog = Backlog::default();
        for (session, number, commands) in [(1, 1, 5), (1, 2, 1), (2, 1, 1), (3, 1, 3)] {
            let group = group(session, number, commands);
            let indexes = (0..commands as u32).collect();
            backlog.push(group, indexes);
        }
        let mut order = Vec::new();
        while let Some((group, mut commands)) = backlog.next() {
            let executed = commands.by_ref().take(2).count();
            order.push((group.session.0, group.group, executed));
            backlog.put_back(group, commands, executed, 2);
        }
        let expected = [
            (1, 1, 2),
            (2, 1, 1),
            (3, 1, 2),
            (1, 1, 2),
            (3, 1, 1),
            (1, 1, 1),
            (1, 2, 1),
        ];
        assert_eq!(order, expected);
        assert!(backlog.sessions.is_empty() && backlog.turns.is_empty());
    }
}
