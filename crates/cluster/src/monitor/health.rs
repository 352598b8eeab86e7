//! Whether a node is healthy: the answer of `/healthz`.

use super::observation::Observation;
use crate::raft::LAG_MAX;
use namiki_client::protocol::Role;

/// The reason for which a node is not healthy. A healthy node runs, knows a leader, and applies
/// what is committed to its tables.
pub(crate) fn why_unhealthy(node: &Observation) -> Option<String> {
    if let Some(failure) = &node.failure {
        return Some(format!("the node has stopped: {failure}"));
    }
    if node.is_stopping {
        return Some("the node stops".to_owned());
    }
    if node.missing_payloads > 0 {
        return Some(format!(
            "{} payloads of the log are damaged or missing here, and are being fetched",
            node.missing_payloads
        ));
    }
    if node.tables_lost {
        return Some(
            "the tables of the directory could not be used, and an image of another node is being copied"
                .to_owned(),
        );
    }
    if node.waits_for_room {
        return Some("the log or the disk is full here, and writes wait".to_owned());
    }
    if node.start.is_silent && node.votes {
        return Some("the node has started, and the other voters have not answered yet".to_owned());
    }
    if node.leader.is_none() {
        if !node.votes {
            return Some("no leader is known, and this node does not vote".to_owned());
        }
        let (reached, voters) = node.voters();
        return Some(format!(
            "no leader is known; {reached} of {voters} voters are reached, this node included"
        ));
    }
    if node.unapplied() > LAG_MAX {
        return Some(format!(
            "{} committed entries are not applied yet",
            node.unapplied()
        ));
    }
    if node.role == Role::TakingOffice {
        return Some("the node was elected, and does not accept commands yet".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::observation::tests::healthy;
    use super::*;
    use crate::network::NodeId;

    #[test]
    fn each_reason_is_told() {
        assert_eq!(why_unhealthy(&healthy()), None);
        type Change = fn(&mut Observation);
        let cases: [(Change, &str); 10] = [
            (|it| it.failure = Some("disk".into()), "stopped: disk"),
            (|it| it.is_stopping = true, "the node stops"),
            (|it| it.missing_payloads = 2, "2 payloads"),
            (|it| it.tables_lost = true, "the tables of the directory"),
            (|it| it.waits_for_room = true, "is full here"),
            (|it| it.start.is_silent = true, "have not answered yet"),
            (|it| it.leader = None, "no leader is known; 3 of 3"),
            (
                |it| (it.leader, it.votes) = (None, false),
                "this node does not vote",
            ),
            (|it| it.committed += LAG_MAX + 1, "1001 committed"),
            (|it| it.role = Role::TakingOffice, "was elected"),
        ];
        for (change, says) in cases {
            let mut node = healthy();
            change(&mut node);
            let why = why_unhealthy(&node).unwrap_or_default();
            assert!(why.contains(says), "{says}: {why}");
        }
    }

    #[test]
    fn a_follower_behind_by_few_entries_is_healthy() {
        let mut node = healthy();
        (node.role, node.leader) = (Role::Follower, Some(NodeId::first(2)));
        node.committed += LAG_MAX;
        assert_eq!(why_unhealthy(&node), None);
    }
}
