//! Checks a node with a full disk: it waits for room and answers status requests, while the others serve.

use std::time::{Duration, Instant};

use namiki_client::protocol::{NodeStatus, Role};

use super::fault_context::FaultContext;
use crate::error::BenchError;
use crate::interrupt;

/// Time limit for a node to need room, and for the others to serve at the same time.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Commands that the leader had applied when the node first said that it waits.
#[derive(Debug, Default)]
struct Seen(Option<(u64, u64, u64)>);

impl Seen {
    /// Whether the node still waits, and another one has applied commands as the leader since it began to.
    fn look(&mut self, node: u64, statuses: &[NodeStatus]) -> bool {
        let waits = statuses
            .iter()
            .any(|it| it.node == node && it.waits_for_room);
        let leaders = statuses
            .iter()
            .filter(|it| it.role == Role::Leader && it.node != node);
        let leader = leaders.max_by_key(|it| it.term);
        let Some(leader) = leader.filter(|_| waits) else {
            self.0 = None;
            return false;
        };
        let (number, term, applied) = (leader.node, leader.term, leader.commands_applied);
        match self.0 {
            Some((before, then, from)) if (before, then) == (number, term) => applied > from,
            _ => {
                self.0 = Some((number, term, applied));
                false
            }
        }
    }
}

/// Waits until a node says that it waits for room and the others serve. Returns false if the run is over before: without
/// commands, no node needs room.
pub(super) fn wait_for_waiting_node(
    context: FaultContext<'_>,
    node: u64,
) -> Result<bool, BenchError> {
    let begin = Instant::now();
    let mut seen = Seen::default();
    loop {
        let statuses = context.cluster.statuses();
        if seen.look(node, &statuses) {
            return Ok(true);
        }
        if context.is_over() {
            return Ok(false);
        }
        if context.cluster.process_of(node).is_none() {
            let why = format!("node {node} has ended, and was to wait for room on its disk");
            return Err(BenchError::Check(why));
        }
        interrupt::check()?;
        if begin.elapsed() > TIMEOUT {
            let seconds = TIMEOUT.as_secs();
            return Err(BenchError::Check(format!(
                "the disk of node {node} is full, and for {seconds} s it has not said so while the others served: {statuses:?}"
            )));
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(node: u64, role: Role, waits_for_room: bool, commands_applied: u64) -> NodeStatus {
        NodeStatus {
            node,
            incarnation: 1,
            members: Vec::new(),
            removed: Vec::new(),
            founders: Vec::new(),
            role,
            term: 1,
            leader: None,
            last_lsn: 0,
            persisted_lsn: 0,
            committed_lsn: 0,
            applied_lsn: 0,
            commands_applied,
            log_bytes: 0,
            log_bytes_max: None,
            missing_payloads: 0,
            waits_for_room,
            tables_lost: false,
            backup: None,
            may_have_forgotten: false,
            version: String::new(),
            refused_messages: 0,
            matched: Vec::new(),
            state_hash: None,
        }
    }

    #[test]
    fn others_serve_while_the_node_waits() {
        let mut seen = Seen::default();
        let mut look = |waits, applied| {
            let statuses = [
                status(1, Role::Leader, false, applied),
                status(3, Role::Follower, waits, 0),
            ];
            seen.look(3, &statuses)
        };
        assert!(!look(false, 10));
        assert!(!look(true, 20), "the commands may be older than the wait");
        assert!(!look(true, 20), "nothing is served");
        assert!(!look(false, 30), "it does not wait any more");
        assert!(!look(true, 40));
        assert!(look(true, 41));
    }

    #[test]
    fn a_leader_without_room_does_not_count() {
        let mut seen = Seen::default();
        for applied in [1, 2, 3] {
            assert!(!seen.look(3, &[status(3, Role::Leader, true, applied)]));
        }
    }
}
