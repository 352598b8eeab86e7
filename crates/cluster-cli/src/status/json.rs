//! The state of a cluster for programs. Names in it do not change.

use serde::Serialize;

use super::look::{Seen, earlier, leader};
use super::table::{rate, role_text};

#[derive(Serialize)]
struct Cluster<'a> {
    healthy: bool,
    /// Sentences, for people.
    problems: &'a [String],
    /// Its number.
    leader: Option<u64>,
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    node: Option<u64>,
    address: &'a str,
    reachable: bool,
    /// Why it is not.
    error: Option<&'a str>,
    #[serde(flatten)]
    state: Option<State<'a>>,
}

#[derive(Serialize)]
struct State<'a> {
    incarnation: u64,
    version: &'a str,
    role: &'static str,
    term: u64,
    leader: Option<u64>,
    last_index: u64,
    persisted_index: u64,
    committed_index: u64,
    applied_index: u64,
    /// Committed entries that it has not applied.
    lag: u64,
    commands_applied: u64,
    commands_per_second: Option<u64>,
    log_bytes: u64,
    log_bytes_max: Option<u64>,
    missing_payloads: u64,
    may_have_forgotten: bool,
    waits_for_room: bool,
    refused_messages: u64,
}

/// One object, on several lines.
pub(super) fn text(before: &[Seen], now: &[Seen], problems: &[String]) -> String {
    let statuses = now.iter().filter_map(Seen::status);
    let committed = statuses.map(|it| it.committed_lsn).max().unwrap_or(0);
    let nodes = now.iter().map(|seen| Node {
        node: seen.number(),
        address: &seen.site.address,
        reachable: seen.answer.is_ok(),
        error: seen.answer.as_ref().err().map(String::as_str),
        state: seen.status().map(|status| State {
            incarnation: status.incarnation,
            version: &status.version,
            role: role_text(status.role),
            term: status.term,
            leader: status.leader,
            last_index: status.last_lsn,
            persisted_index: status.persisted_lsn,
            committed_index: status.committed_lsn,
            applied_index: status.applied_lsn,
            lag: committed.saturating_sub(status.applied_lsn),
            commands_applied: status.commands_applied,
            commands_per_second: earlier(before, seen).and_then(|before| rate(before, seen)),
            log_bytes: status.log_bytes,
            log_bytes_max: status.log_bytes_max,
            missing_payloads: status.missing_payloads,
            may_have_forgotten: status.may_have_forgotten,
            waits_for_room: status.waits_for_room,
            refused_messages: status.refused_messages,
        }),
    });
    let cluster = Cluster {
        healthy: problems.is_empty(),
        problems,
        leader: leader(now).map(|status| status.node),
        nodes: nodes.collect(),
    };
    let text = serde_json::to_string_pretty(&cluster);
    text.expect("maps have only strings as keys") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::health::tests::healthy;
    use super::*;

    #[test]
    fn a_node_without_an_answer_has_no_state() {
        let mut seen = healthy();
        seen[2].answer = Err("it does not run".to_owned());
        let text = text(&healthy(), &seen, &["problem".to_owned()]);
        let json: serde_json::Value = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(json["healthy"], false);
        assert_eq!(json["leader"], 1);
        assert_eq!(json["nodes"][0]["role"], "leader");
        assert_eq!(json["nodes"][1]["applied_index"], 9);
        assert_eq!(json["nodes"][2]["error"], "it does not run");
        assert_eq!(json["nodes"][2]["term"], serde_json::Value::Null);
    }
}
