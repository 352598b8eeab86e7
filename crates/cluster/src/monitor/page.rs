//! The content of `/metrics`.

use namiki_client::protocol::Role;

use super::exposition::Exposition;
use super::health::why_unhealthy;
use super::observation::Observation;
use crate::flow_control::Pace;
use crate::metrics::{COUNTS, Metrics};

/// Values of the label `role`.
const ROLES: [(Role, &str); 5] = [
    (Role::Follower, "follower"),
    (Role::Candidate, "candidate"),
    (Role::TakingOffice, "taking_office"),
    (Role::Leader, "leader"),
    (Role::Learner, "learner"),
];

/// All metrics of a node.
pub(super) fn page(node: &Observation, metrics: &Metrics) -> String {
    let mut page = Exposition::default();
    identity(&mut page, node, metrics.began_s);
    raft(&mut page, node);
    peers(&mut page, node);
    commands(&mut page, node, metrics);
    for (count, name, help) in COUNTS {
        page.counter(name, help, metrics.count(count));
    }
    times(&mut page, metrics);
    resources(&mut page, node);
    page.into_text()
}

fn identity(page: &mut Exposition, node: &Observation, began_s: u64) {
    page.gauges("node_info", "This node and its program.")
        .sample(
            &[
                ("node", &node.node.number().to_string()),
                ("incarnation", &node.node.incarnation().to_string()),
                ("version", env!("CARGO_PKG_VERSION")),
            ],
            1,
        );
    let help = "When the process began, in seconds of the Unix time.";
    page.gauge("start_time_seconds", help, began_s);
    let help = "Whether the node runs, knows a leader and applies what is committed: /healthz answers 200.";
    page.gauge("healthy", help, u8::from(why_unhealthy(node).is_none()));
    let help = "Whether connections are encrypted and authenticated.";
    page.gauge("tls_enabled", help, u8::from(node.is_secured));
    if let Some(expires_s) = node.certificate_expires_s {
        let help = "When the certificate expires, in seconds of the Unix time.";
        page.gauge("certificate_expiry_timestamp_seconds", help, expires_s);
    }
}

fn raft(page: &mut Exposition, node: &Observation) {
    let mut roles = page.gauges("role", "1 for the role that the node has.");
    for (role, name) in ROLES {
        roles.sample(&[("role", name)], u8::from(role == node.role));
    }
    page.gauge("term", "The term of Raft.", node.term);
    let leader = node.leader.map_or(0, |leader| leader.number());
    let help = "Number of the leader that the node knows; 0: none.";
    page.gauge("leader", help, leader);
    let help = "Whether the node votes.";
    page.gauge("votes", help, u8::from(node.votes));
    for (name, help, index) in [
        ("last_index", "Last entry of the log.", node.last),
        ("persisted_index", "Last entry on the disk.", node.persisted),
        (
            "committed_index",
            "Last entry known to be committed.",
            node.committed,
        ),
        (
            "applied_index",
            "Last entry applied to the tables.",
            node.applied,
        ),
    ] {
        page.gauge(name, help, index);
    }
    let help = "Messages of other nodes that were refused.";
    page.counter("messages_refused", help, node.refused_messages);
    let help = "Whether the node has started, and is silent until the other voters have answered.";
    page.gauge("start_silent", help, u8::from(node.start.is_silent));
    let help = "Voters without whose answers this start has gone on.";
    page.gauge("start_unanswered", help, node.start.without);
    let help = "Whether the node may have forgotten votes and acknowledgements by damage to its log: it does not go on without the answers of all.";
    let may_have_forgotten = u8::from(node.start.may_have_forgotten);
    page.gauge("start_forgotten", help, may_have_forgotten);
    let help = "Payloads that are damaged or missing on this disk. Until they are restored, the node does not participate.";
    page.gauge("payloads_missing", help, node.missing_payloads);
    let help = "Whether the tables of the directory could not be used: until an image of another node is installed, nothing is applied or read.";
    page.gauge("without_tables", help, u8::from(node.tables_lost));
}

fn peers(page: &mut Exposition, node: &Observation) {
    let numbers: Vec<String> = node
        .peers
        .iter()
        .map(|peer| peer.node.number().to_string())
        .collect();
    let peers = || numbers.iter().zip(&node.peers);
    let help = "Whether the connection for Raft's messages to a node is up.";
    let mut family = page.gauges("peer_reachable", help);
    for (number, peer) in peers() {
        let is_reached = u8::from(peer.connections.is_reached);
        family.sample(&[("peer", number)], is_reached);
    }
    let mut family = page.gauges("peer_connections", "Connections to a node, by state.");
    for (number, peer) in peers() {
        let (up, all) = (peer.connections.lanes_up, peer.connections.lanes);
        family.sample(&[("peer", number), ("state", "up")], up);
        let down = all.saturating_sub(up);
        family.sample(&[("peer", number), ("state", "down")], down);
    }
    let help = "Messages to a node that were dropped for lack of room or of a connection.";
    let mut family = page.counters("peer_messages_dropped", help);
    for (number, peer) in peers() {
        family.sample(&[("peer", number)], peer.connections.dropped);
    }
    let help = "On a leader: the last entry of a node's log that matches its own.";
    let mut family = page.gauges("peer_matched_index", help);
    for (number, peer) in peers() {
        if let Some(matched) = peer.matched {
            family.sample(&[("peer", number)], matched);
        }
    }
    let help = "On a leader: bytes by which payloads may grow in the log of a node, without what is in reserve.";
    let mut family = page.gauges("peer_log_usable_bytes", help);
    for (number, peer) in peers() {
        if let Some(space) = peer.log_space {
            family.sample(&[("peer", number)], space.usable_bytes);
        }
    }
    let help = "On a leader: the committed entries that a node's log lacks.";
    let mut family = page.gauges("peer_lag_entries", help);
    for (number, peer) in peers() {
        if let Some(matched) = peer.matched {
            let lag = node.committed.saturating_sub(matched);
            family.sample(&[("peer", number)], lag);
        }
    }
}

fn commands(page: &mut Exposition, node: &Observation, metrics: &Metrics) {
    let help = "Commands applied to the tables since the process began.";
    page.counter("commands_applied", help, node.commands_applied);
    let help = "Commands of this leader's clients that are committed and answered, by outcome.";
    let mut family = page.counters("commands_answered", help);
    for (outcome, count) in metrics.outcomes() {
        family.sample(&[("outcome", outcome)], count);
    }
    let help = "Requests that were not executed, by reason.";
    let mut family = page.counters("requests_refused", help);
    for (reason, count) in metrics.refusals() {
        family.sample(&[("reason", reason)], count);
    }
    let help = "Commands that a leader has accepted and not answered.";
    page.gauge("commands_in_flight", help, node.commands_in_flight);
    let help = "Groups that a leader's worker has sealed and that are not applied yet.";
    let mut family = page.gauges("groups_in_flight", help);
    for (worker, count) in node.groups_in_flight.iter().enumerate() {
        family.sample(&[("worker", &worker.to_string())], *count);
    }
    page.gauge("sessions", "Open sessions.", node.sessions);
    let help = "Results of commands that are kept until their clients acknowledge them, or their sessions are closed.";
    page.gauge("results_kept", help, node.results_kept);
    page.gauge("clients", "Connections of clients.", node.clients);
}

fn times(page: &mut Exposition, metrics: &Metrics) {
    let help = "On a leader: from a group's sealing until a majority had it (committed) and until its clients were answered (answered).";
    let mut family = page.histograms("group_latency", help);
    for (stage, histogram) in [
        ("committed", &metrics.groups.committed),
        ("answered", &metrics.groups.answered),
    ] {
        family.histogram(&[("stage", stage)], &histogram.counts());
    }
    let help = "Time of a flush to the disk: stream 0 has the records of Raft, stream 1 + w the payloads of worker w.";
    let mut family = page.histograms("log_flush", help);
    for (stream, flushes) in metrics.flushes().iter().enumerate() {
        family.histogram(&[("stream", &stream.to_string())], &flushes.times.counts());
    }
}

fn resources(page: &mut Exposition, node: &Observation) {
    page.gauge("log_bytes", "Length of the log's files.", node.log_bytes);
    if let Some(bytes_max) = node.log_bytes_max {
        let help = "Limit on the length of the log's files.";
        page.gauge("log_limit_bytes", help, bytes_max);
        let help = "What is left of that limit, with what is in reserve.";
        let unused = bytes_max.saturating_sub(node.log_bytes);
        page.gauge("log_unused_bytes", help, unused);
    }
    let help = "Whether the log has room: without it, a leader refuses commands.";
    page.gauge("log_has_room", help, u8::from(node.log_has_room));
    let help = "On a leader: nodes that copy an image, for which the log above it is kept.";
    page.gauge("log_kept_for_nodes", help, node.keeps_log_for.len() as u64);
    let help = "Whether writes to the log wait, because it or the disk is full.";
    page.gauge("log_waits_for_room", help, u8::from(node.waits_for_room));
    let help = "On a leader: commands are accepted as they come (0), slowly (1) or not (2), by the room of the voters' logs.";
    let pace = match node.pace {
        Pace::Open => 0,
        Pace::Slowed => 1,
        Pace::Refused => 2,
    };
    page.gauge("commands_held_back", help, pace);
    let help = "Whether an image of the tables is being written.";
    page.gauge("image_in_progress", help, u8::from(node.writes_image));
    if let Some(disk) = node.disk {
        let help = "Free bytes of the file system with the directory.";
        page.gauge("disk_free_bytes", help, disk.free_bytes);
        page.gauge("disk_bytes", "All bytes of that.", disk.total_bytes);
    }
    let help = "Recent payloads that are kept in memory.";
    page.gauge("payload_cache_bytes", help, node.cache_bytes);
    let help = "Payloads in memory that wait for the disk.";
    page.gauge("payload_unwritten_bytes", help, node.unwritten_bytes);
    if let Some(bytes) = node.resident_bytes {
        page.gauge("resident_memory_bytes", "Memory of the process.", bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::observation::tests::healthy;
    use super::*;
    use crate::log_space::LogSpace;
    use crate::metrics::Count;

    #[test]
    fn a_leader_shows_its_followers_and_a_follower_does_not() {
        let metrics = Metrics::new(2);
        metrics.add(Count::Reads, 3);
        let mut node = healthy();
        node.committed = 12;
        (node.start.may_have_forgotten, node.tables_lost) = (true, true);
        (node.pace, node.waits_for_room) = (Pace::Refused, true);
        node.writes_image = true;
        node.peers[0].log_space = Some(LogSpace {
            usable_bytes: 77,
            is_low: true,
        });
        let text = page(&node, &metrics);
        for line in [
            "namiki_cluster_role{role=\"leader\"} 1",
            "namiki_cluster_role{role=\"follower\"} 0",
            "namiki_cluster_peer_lag_entries{peer=\"3\"} 2",
            "namiki_cluster_peer_connections{peer=\"2\",state=\"up\"} 4",
            "namiki_cluster_groups_in_flight{worker=\"1\"} 1",
            "namiki_cluster_log_flush_seconds_count{stream=\"2\"} 0",
            "namiki_cluster_reads_total 3",
            "namiki_cluster_healthy 0",
            "namiki_cluster_start_forgotten 1",
            "namiki_cluster_without_tables 1",
            "namiki_cluster_commands_held_back 2",
            "namiki_cluster_results_kept 9",
            "namiki_cluster_log_waits_for_room 1",
            "namiki_cluster_image_in_progress 1",
            "namiki_cluster_peer_log_usable_bytes{peer=\"2\"} 77",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        for peer in &mut node.peers {
            peer.matched = None;
        }
        node.log_bytes_max = None;
        let text = page(&node, &metrics);
        assert!(!text.contains("peer_lag_entries{"), "{text}");
        assert!(!text.contains("log_limit_bytes"), "{text}");
    }
}
