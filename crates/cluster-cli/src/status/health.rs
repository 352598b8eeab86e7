//! What is wrong with a cluster, from two looks at it.

use namiki_client::protocol::{MemberStatus, NodeStatus};
use namiki_terminal::number_format::grouped;

use super::look::{Seen, latest, leader};

/// The last entry that a node knew to be committed.
fn committed(seen: &[Seen]) -> u64 {
    let statuses = seen.iter().filter_map(Seen::status);
    statuses.map(|it| it.committed_lsn).max().unwrap_or(0)
}

/// Whether waiting would not help: no election is possible or under way, and every node that answers
/// follows the leader and has applied what was committed before.
pub(super) fn is_settled(before: &[Seen], now: &[Seen]) -> bool {
    let committed = committed(before);
    let statuses = || now.iter().filter_map(Seen::status);
    let leader = leader(now).map(|status| status.node);
    let is_majority = 2 * statuses().count() > now.len();
    (leader.is_some() || !is_majority)
        && statuses().all(|it| it.leader == leader && it.applied_lsn >= committed)
}

/// The problems, as sentences; none if the cluster is healthy. The first look is late enough before
/// the second for a node that does not lag.
pub(super) fn problems(before: &[Seen], now: &[Seen]) -> Vec<String> {
    let mut problems = Vec::new();
    let members = members(now);
    let nodes = members.len().max(now.len());
    let leader = leader(now);
    if leader.is_none() {
        let answering = now.iter().filter_map(Seen::status).count();
        problems.push(format!(
            "no leader: {answering} of {nodes} nodes answer, and {} are needed; start those that are down",
            nodes / 2 + 1
        ));
    }
    for seen in now {
        match &seen.answer {
            Err(why) => problems.push(format!("{}: {why}", seen.name())),
            Ok(status) => of_node(status, &members, leader, committed(before), &mut problems),
        }
    }
    // Members without an address. An address without an answer may belong to one of them.
    let is_complete = now.iter().all(|seen| seen.number().is_some());
    for member in &members {
        if is_complete && now.iter().all(|seen| seen.number() != Some(member.node)) {
            problems.push(format!(
                "node {} was not asked: none of the addresses leads to it; name its address, too",
                member.node
            ));
        }
    }
    problems
}

/// The members, as the leader or else the node with the most recent log knows them.
fn members(seen: &[Seen]) -> Vec<MemberStatus> {
    latest(seen).map_or_else(Vec::new, |status| status.members.clone())
}

fn of_node(
    status: &NodeStatus,
    members: &[MemberStatus],
    leader: Option<&NodeStatus>,
    committed: u64,
    problems: &mut Vec<String>,
) {
    let number = status.node;
    match members.iter().find(|it| it.node == number) {
        None => {
            problems.push(format!(
                "node {number} is not a member of the cluster; namiki cluster add {number} makes it one, or stop it"
            ));
            return;
        }
        // It gets no log, so nothing else is a surprise.
        Some(member) if member.incarnation != status.incarnation => {
            problems.push(format!(
                "node {number} runs as incarnation {}, and the member is incarnation {}; namiki cluster replace {number} admits a replacement",
                status.incarnation, member.incarnation
            ));
            return;
        }
        Some(member) if !member.votes => problems.push(format!(
            "node {number} does not vote yet: it is a new member that catches up"
        )),
        Some(_) => {}
    }
    if let Some(leader) = leader
        && status.leader != Some(leader.node)
    {
        let knows = match status.leader {
            Some(other) => format!("follows node {other}"),
            None => "knows no leader".to_owned(),
        };
        problems.push(format!(
            "node {number} {knows}, and node {} leads: compare the links between them",
            leader.node
        ));
    }
    if status.missing_payloads > 0 {
        problems.push(format!(
            "node {number} lacks {} payloads of its log, fetches them, and does not participate until then; check its disk, and start the \
             nodes that are down, as they may have them",
            grouped(status.missing_payloads)
        ));
    }
    if status.tables_lost {
        problems.push(format!(
            "node {number} has no tables: those of its directory could not be used, and it applies nothing until it has copied an image of \
             another node"
        ));
    }
    if status.waits_for_room {
        problems.push(format!(
            "node {number} has no room: its log or its disk is full, and writes wait until there is some; free space on its disk, or read its \
             log for why no image of the tables makes room"
        ));
    }
    if status.may_have_forgotten {
        problems.push(format!(
            "node {number} may have forgotten votes and acknowledgements, because its log was damaged: it does not vote before all other \
             voters have answered, and it has what they have; start the nodes that are down, and check its disk"
        ));
    }
    if status.applied_lsn < committed && !status.tables_lost {
        problems.push(format!(
            "node {number} lags: it has applied {} of {} committed entries; if it does not catch up, compare its disk and its links with those of the \
             others",
            grouped(status.applied_lsn),
            grouped(committed)
        ));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use namiki_client::protocol::Role;

    use super::super::look::Site;
    use super::*;

    fn status(node: u64) -> NodeStatus {
        let member = |node| MemberStatus {
            node,
            incarnation: 1,
            votes: true,
            addresses: None,
        };
        NodeStatus {
            node,
            removed: Vec::new(),
            founders: vec![1, 2, 3],
            backup: None,
            incarnation: 1,
            members: (1..=3).map(member).collect(),
            role: if node == 1 {
                Role::Leader
            } else {
                Role::Follower
            },
            term: 2,
            leader: Some(1),
            last_lsn: 9,
            persisted_lsn: 9,
            committed_lsn: 9,
            applied_lsn: 9,
            commands_applied: 90,
            log_bytes: 1 << 20,
            log_bytes_max: Some(1 << 30),
            missing_payloads: 0,
            may_have_forgotten: false,
            waits_for_room: false,
            tables_lost: false,
            version: "0.1.0".to_owned(),
            refused_messages: 0,
            matched: Vec::new(),
            state_hash: None,
        }
    }

    /// Three healthy nodes.
    pub(crate) fn healthy() -> Vec<Seen> {
        let seen = |node: u64| Seen {
            site: Site::at(&format!("10.0.0.{node}:7500")),
            answer: Ok(status(node)),
            at: Instant::now(),
        };
        (1..=3).map(seen).collect()
    }

    fn found(change: impl FnOnce(&mut Vec<Seen>)) -> Vec<String> {
        let (before, mut now) = (healthy(), healthy());
        change(&mut now);
        problems(&before, &now)
    }

    fn of(seen: &mut Seen) -> &mut NodeStatus {
        seen.answer.as_mut().expect("it answers")
    }

    #[test]
    fn a_healthy_cluster_has_no_problems() {
        assert_eq!(found(|_| {}), [""; 0]);
    }

    #[test]
    fn each_problem_is_told() {
        let one = |change: fn(&mut Vec<Seen>), says: &str| {
            let found = found(change);
            assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
        };
        one(
            |it| of(&mut it[0]).role = Role::Candidate,
            "no leader: 3 of 3",
        );
        one(
            |it| it[1].answer = Err("why".to_owned()),
            "the node at 10.0.0.2:7500: why",
        );
        one(
            |it| of(&mut it[2]).applied_lsn = 8,
            "node 3 lags: it has applied 8 of 9",
        );
        one(|it| of(&mut it[2]).incarnation = 2, "runs as incarnation 2");
        one(
            |it| of(&mut it[0]).members[1].votes = false,
            "node 2 does not vote",
        );
        one(|it| of(&mut it[1]).missing_payloads = 4, "lacks 4 payloads");
        one(|it| of(&mut it[1]).waits_for_room = true, "has no room");
        one(
            |it| {
                let status = of(&mut it[1]);
                (status.tables_lost, status.applied_lsn) = (true, 0);
            },
            "node 2 has no tables",
        );
        one(
            |it| of(&mut it[1]).may_have_forgotten = true,
            "may have forgotten",
        );
        one(
            |it| of(&mut it[1]).leader = None,
            "node 2 knows no leader, and node 1 leads",
        );
        one(|it| drop(it.pop()), "node 3 was not asked");
    }

    #[test]
    fn an_election_under_way_is_waited_for() {
        let before = healthy();
        let settled = |change: fn(&mut Vec<Seen>)| {
            let mut now = healthy();
            change(&mut now);
            is_settled(&before, &now)
        };
        assert!(settled(|_| {}));
        assert!(settled(|it| it[1].answer = Err(String::new())));
        assert!(!settled(|it| of(&mut it[1]).leader = None));
        assert!(!settled(|it| of(&mut it[1]).applied_lsn = 8));
        let mut now = healthy();
        of(&mut now[0]).role = Role::Candidate;
        now.iter_mut().for_each(|seen| of(seen).leader = None);
        assert!(!is_settled(&before, &now));
        // Alone, a node elects no leader.
        now[1].answer = Err(String::new());
        now[2].answer = Err(String::new());
        assert!(is_settled(&before, &now));
    }

    #[test]
    fn the_last_leader_counts() {
        let mut seen = healthy();
        of(&mut seen[1]).role = Role::Leader;
        of(&mut seen[1]).term = 3;
        assert_eq!(leader(&seen).map(|it| it.node), Some(2));
    }
}
