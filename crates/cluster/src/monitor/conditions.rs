//! States of a node that an operator must act on, each with its remedy.
//!
//! This file only names them; `warnings.rs` decides when they are logged.

use std::time::Duration;

use namiki_client::protocol::Role;

use super::observation::{Observation, ObservedPeer};
use crate::flow_control::Pace;
use crate::log_space::LOG_REMEDY;
use crate::raft::LAG_MAX;

/// Part of the disk below which its free room is a warning, in percent.
const DISK_FREE_PERCENT: u64 = 5;
/// Free room below which it is an error: a few log files.
const DISK_FREE_BYTES_MIN: u64 = 512 << 20;
/// Part of the log's limit above which its length is a warning, in percent.
const LOG_PERCENT: u64 = 80;
/// Shortest flush that is slow.
const FLUSH_SLOW: Duration = Duration::from_millis(100);
/// Delay of the observer's thread from which the process counts as stopped.
const STALL: Duration = Duration::from_millis(500);
/// Difference between the system's clock and the monotonic one, from one observation to the next,
/// from which the clock counts as set.
const CLOCK_STEP: Duration = Duration::from_secs(10);
/// Rest of a certificate's validity from which it is an error. (It is a warning before: `tls.rs` of
/// the transport.)
const CERTIFICATE_LEFT: Duration = Duration::from_secs(7 * 86_400);

/// The subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Leader,
    Peer(u64),
    FollowerLag(u64),
    Applying,
    Forgotten,
    MissingPayloads,
    TablesLost,
    DamagedPayload,
    Disk,
    LogLimit,
    /// Writes wait.
    NoRoom,
    /// Commands are held back for lack of room on other nodes.
    CommandsHeldBack,
    Flush,
    Pause,
    Clock,
    SessionsRefused,
    Certificate,
}

/// How bad a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Warning,
    Error,
}

/// A state that an operator must act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) subject: Subject,
    pub(crate) severity: Severity,
    /// What is the case, and what to do.
    pub(crate) text: String,
}

/// What has happened since the observation before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    /// The longest flush, and the stream that it was of.
    pub(crate) longest_flush: (Duration, usize),
    /// Payloads on this disk that were found damaged.
    pub(crate) damaged_payloads: u64,
    /// Requests for sessions that were refused because of a limit on them.
    pub(crate) sessions_refused: u64,
    /// The delay of the observer's thread.
    pub(crate) pause: Duration,
    /// By how much the system's clock was set, in either direction.
    pub(crate) clock_step: Duration,
    /// The system's clock, in seconds of the Unix time.
    pub(crate) unix_s: u64,
}

impl Subject {
    /// Time for which a condition must last before it is logged. What ends by itself within this
    /// time is no concern of an operator.
    pub(crate) fn log_after(self, election_timeout: Duration) -> Duration {
        let seconds = Duration::from_secs;
        match self {
            // An election takes a few timeouts.
            Self::Leader => (8 * election_timeout).max(seconds(2)),
            // Images make room.
            Self::NoRoom | Self::CommandsHeldBack => seconds(2),
            Self::Peer(_) | Self::Applying => seconds(10).max(8 * election_timeout),
            Self::FollowerLag(_) => seconds(30),
            Self::Forgotten
            | Self::MissingPayloads
            | Self::TablesLost
            | Self::DamagedPayload
            | Self::Disk
            | Self::LogLimit
            | Self::Flush
            | Self::Pause
            | Self::Clock
            | Self::SessionsRefused
            | Self::Certificate => Duration::ZERO,
        }
    }

    /// Shortest time between two lines about it.
    pub(crate) fn lines_apart(self) -> Duration {
        Duration::from_secs(match self {
            Self::DamagedPayload
            | Self::Flush
            | Self::Pause
            | Self::Clock
            | Self::SessionsRefused => 60,
            Self::Leader
            | Self::Peer(_)
            | Self::FollowerLag(_)
            | Self::Applying
            | Self::NoRoom
            | Self::CommandsHeldBack
            | Self::Forgotten
            | Self::MissingPayloads
            | Self::TablesLost => 600,
            // These last for days.
            Self::Disk | Self::LogLimit | Self::Certificate => 3600,
        })
    }

    /// Whether it happens at one time, instead of lasting.
    pub(crate) fn is_event(self) -> bool {
        matches!(
            self,
            Self::DamagedPayload | Self::Flush | Self::Pause | Self::Clock | Self::SessionsRefused
        )
    }

    /// The sentence for the end of a condition that was logged.
    pub(crate) fn ended(self) -> String {
        match self {
            Self::Leader => "a leader is known again".to_owned(),
            Self::Peer(node) => format!("node {node} is reached again"),
            Self::FollowerLag(node) => format!("node {node} has caught up"),
            Self::Applying => "the committed entries are applied again".to_owned(),
            Self::Forgotten => {
                "the node has recovered the lost part of its log, and participates again".to_owned()
            }
            Self::MissingPayloads => {
                "the missing payloads were restored: the node participates again".to_owned()
            }
            Self::TablesLost => "the node has tables again".to_owned(),
            Self::Disk => "the disk has room again".to_owned(),
            Self::LogLimit => "the log has room again".to_owned(),
            Self::NoRoom => "there is room again: what waited for it is on the disk".to_owned(),
            Self::CommandsHeldBack => {
                "a majority of the nodes has room again: commands are accepted as they come"
                    .to_owned()
            }
            Self::Certificate => "the certificate was replaced".to_owned(),
            Self::DamagedPayload
            | Self::Flush
            | Self::Pause
            | Self::Clock
            | Self::SessionsRefused => String::new(),
        }
    }
}

/// The conditions that hold now.
pub(crate) fn conditions(
    node: &Observation,
    happened: &Happened,
    election_timeout: Duration,
) -> Vec<Condition> {
    let mut found = Found(Vec::new());
    if node.is_stopping || node.failure.is_some() {
        return found.0;
    }
    leader(node, &mut found);
    for peer in &node.peers {
        reach(node, peer, &mut found);
        follower(node, peer, &mut found);
    }
    // A node without tables applies nothing, and says so below.
    if node.unapplied() > LAG_MAX && !node.tables_lost {
        found.warn(
            Subject::Applying,
            format!(
                "{} committed entries are not applied yet: after a restart this is the replay of the log, otherwise the load is more than this \
                 machine can apply; until then the node leads only if no other can",
                node.unapplied()
            ),
        );
    }
    forgotten(node, &mut found);
    payloads(node, happened, &mut found);
    room(node, &mut found);
    timing(happened, election_timeout, &mut found);
    sessions(node, happened, &mut found);
    certificate(node, happened, &mut found);
    found.0
}

struct Found(Vec<Condition>);

impl Found {
    fn warn(&mut self, subject: Subject, text: String) {
        self.add(subject, Severity::Warning, text);
    }

    fn error(&mut self, subject: Subject, text: String) {
        self.add(subject, Severity::Error, text);
    }

    fn add(&mut self, subject: Subject, severity: Severity, text: String) {
        self.0.push(Condition {
            subject,
            severity,
            text,
        });
    }
}

fn leader(node: &Observation, found: &mut Found) {
    // A node that lacks payloads, or waits for answers, does not take part, and says so below.
    let waits = node.start.may_have_forgotten && node.start.is_silent;
    if node.leader.is_some() || node.missing_payloads > 0 || waits {
        return;
    }
    if !node.votes {
        let number = node.node.number();
        return found.warn(
            Subject::Leader,
            format!(
                "this node does not vote, and no leader sends it the log: if it is new, admit it by namiki cluster add {number}, or replace {number} if \
                 it is a replacement; otherwise repair the links to the others"
            ),
        );
    }
    let (reached, voters) = node.voters();
    let text = if 2 * reached > voters {
        "no leader was elected, although a majority is reached: compare election_timeout_ms with ten round trips between the nodes, and read \
         the logs of the others"
            .to_owned()
    } else {
        format!(
            "the majority is lost: this node reaches {reached} of {voters} voters, itself included, and nothing is committed; start the other \
             nodes, or repair the links to them"
        )
    };
    found.error(Subject::Leader, text);
}

fn reach(node: &Observation, peer: &ObservedPeer, found: &mut Found) {
    let (number, own) = (peer.node.number(), node.node.number());
    let connections = &peer.connections;
    if !connections.is_reached {
        found.warn(
            Subject::Peer(number),
            format!(
                "node {number} is not reached at {}: start it, or repair the link; if its directory is lost, run namiki cluster replace {number}; if it is gone for good, namiki cluster \
                 remove {number}",
                connections.address
            ),
        );
    } else if connections.lanes_up < connections.lanes {
        found.warn(
            Subject::Peer(number),
            format!(
                "only {} of {} connections to node {number} are up: compare `workers` and the firewall between nodes {own} and {number}",
                connections.lanes_up, connections.lanes
            ),
        );
    }
}

fn follower(node: &Observation, peer: &ObservedPeer, found: &mut Found) {
    let Some(matched) = peer.matched else {
        return;
    };
    let behind = node.committed.saturating_sub(matched);
    if peer.connections.is_reached && behind > LAG_MAX {
        let number = peer.node.number();
        found.warn(
            Subject::FollowerLag(number),
            format!(
                "node {number} lags by {behind} committed entries: read its log; if the number does not fall, its disk or its link is too slow \
                 for the load"
            ),
        );
    }
}

fn forgotten(node: &Observation, found: &mut Found) {
    if !node.start.may_have_forgotten {
        return;
    }
    let number = node.node.number();
    let state = if node.start.is_silent {
        format!(
            "it neither votes nor acknowledges before all other voters have answered, and {} have not: start those that are down; if one is lost \
             for good, replace it, or else replace this node by namiki cluster replace {number}",
            node.start.awaited
        )
    } else {
        "all other voters have answered, and it gets from the leader what it lacks".to_owned()
    };
    found.error(
        Subject::Forgotten,
        format!(
            "the log on this disk was damaged, so the node may have forgotten votes and acknowledgements: {state}; check the disk"
        ),
    );
}

fn payloads(node: &Observation, happened: &Happened, found: &mut Found) {
    if node.missing_payloads > 0 {
        found.error(
            Subject::MissingPayloads,
            format!(
                "{} payloads of the log are damaged or missing on this disk: the node gets them, or an image of the tables, from the others, \
                 and until then neither votes nor acknowledges; check the disk; if the number does not fall, start the nodes that are down",
                node.missing_payloads
            ),
        );
    }
    if node.tables_lost {
        found.error(
            Subject::TablesLost,
            "the tables of the directory could not be used: the node copies an image of another node, and until then applies nothing, answers \
             no reads and does not lead; check the disk; if this lasts, start the nodes that are down"
                .to_owned(),
        );
    }
    if happened.damaged_payloads > 0 {
        found.error(
            Subject::DamagedPayload,
            format!(
                "{} payloads on this disk could not be read or failed their check: the disk loses data, and the node gets it from the others; \
                 check the disk, and move the node to another one if this happens again",
                happened.damaged_payloads
            ),
        );
    }
}

fn room(node: &Observation, found: &mut Found) {
    if let Some(disk) = node.disk {
        let text = format!(
            "the disk of the directory has {} MiB left of {} MiB: free room, or move the node to a larger disk; a node without room waits, and neither votes nor acknowledges",
            disk.free_bytes >> 20,
            disk.total_bytes >> 20
        );
        if disk.free_bytes < DISK_FREE_BYTES_MIN {
            found.error(Subject::Disk, text);
        } else if disk.free_bytes / DISK_FREE_PERCENT < disk.total_bytes / 100 {
            found.warn(Subject::Disk, text);
        }
    }
    if node.waits_for_room {
        found.error(
            Subject::NoRoom,
            "the log or the disk is full: writes wait, and the node acknowledges nothing until there is room; it goes on by itself then. Free \
             room on the disk; if the log has reached log_bytes_max, look for WARN \"cannot write an image\""
                .to_owned(),
        );
    }
    commands_held_back(node, found);
    let Some(bytes_max) = node.log_bytes_max else {
        return;
    };
    let lengths = format!(
        "the log has {} MiB of at most {} MiB",
        node.log_bytes >> 20,
        bytes_max >> 20
    );
    let copiers: Vec<String> = node.keeps_log_for.iter().map(u64::to_string).collect();
    let remedy = if copiers.is_empty() {
        LOG_REMEDY
    } else {
        &format!(
            "it is kept while nodes copy an image of the tables ({}), and truncated when they follow. If this happens often, raise \
             log_bytes_max on every node and restart them one by one",
            copiers.join(", ")
        )
    };
    if !node.log_has_room {
        let effect = if node.role == Role::Leader {
            "commands are refused"
        } else {
            "as the leader, this node would refuse commands"
        };
        found.error(
            Subject::LogLimit,
            format!("{lengths}, and {effect}: {remedy}"),
        );
    } else if node.log_bytes / LOG_PERCENT > bytes_max / 100 {
        found.warn(
            Subject::LogLimit,
            format!("{lengths}, at which a leader refuses commands: {remedy}"),
        );
    }
}

/// The room of the other voters, for a leader.
fn commands_held_back(node: &Observation, found: &mut Found) {
    let effect = match node.pace {
        Pace::Open => return,
        Pace::Slowed => "commands are accepted slowly",
        Pace::Refused => "commands are refused",
    };
    let peers = node.peers.iter().filter(|peer| peer.votes);
    let without: Vec<String> = peers
        .filter(|peer| peer.log_space.is_none_or(|space| space.is_low))
        .map(|peer| match peer.log_space {
            Some(space) => format!(
                "node {} has {} MiB",
                peer.node.number(),
                space.usable_bytes >> 20
            ),
            None => format!("node {} does not tell", peer.node.number()),
        })
        .collect();
    // Its own lack of room is said elsewhere.
    if without.is_empty() {
        return;
    }
    let text = format!(
        "{effect}, because the logs of too few nodes have room ({}): images of the tables make some; if this lasts, raise log_bytes_max on \
         every node, free room on their disks, or start those that are down",
        without.join(", ")
    );
    match node.pace {
        Pace::Refused => found.error(Subject::CommandsHeldBack, text),
        _ => found.warn(Subject::CommandsHeldBack, text),
    }
}

fn timing(happened: &Happened, election_timeout: Duration, found: &mut Found) {
    let (longest, stream) = happened.longest_flush;
    if longest >= (election_timeout / 2).max(FLUSH_SLOW) {
        found.warn(
            Subject::Flush,
            format!(
                "the disk took {} ms to make stream {stream} of the log durable: every commit waits for it, and a leader slower than an election \
                 timeout hands over; look for other programs on this disk, or use a faster one",
                longest.as_millis()
            ),
        );
    }
    if happened.pause >= election_timeout.max(STALL) {
        found.warn(
            Subject::Pause,
            format!(
                "this process did not run for {} ms, longer than the election timeout: it was stopped, or the machine has too few processors or \
                 too little memory",
                happened.pause.as_millis()
            ),
        );
    }
    if happened.clock_step >= CLOCK_STEP {
        found.warn(
            Subject::Clock,
            format!(
                "the system's clock was set by {} s, or the machine was suspended: certificates are checked by this clock, so keep it right by NTP",
                happened.clock_step.as_secs()
            ),
        );
    }
}

fn sessions(node: &Observation, happened: &Happened, found: &mut Found) {
    if happened.sessions_refused > 0 {
        found.warn(
            Subject::SessionsRefused,
            format!(
                "{} requests for sessions were refused because of a limit (open sessions: {}): close those that are not used (a client that ends without \
                 closing its session leaves it open), or raise client_sessions_max or sessions_max on every node",
                happened.sessions_refused, node.sessions
            ),
        );
    }
}

fn certificate(node: &Observation, happened: &Happened, found: &mut Found) {
    let Some(expires_s) = node.certificate_expires_s else {
        return;
    };
    let left_s = expires_s.saturating_sub(happened.unix_s);
    let state = match left_s {
        0 => "has expired".to_owned(),
        _ if left_s <= CERTIFICATE_LEFT.as_secs() => format!("expires in {} h", left_s / 3600),
        _ => return,
    };
    found.error(
        Subject::Certificate,
        format!(
            "the certificate {state}, after which new connections are refused: put a new certificate and key in place of the files of [tls]"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::super::observation::tests::healthy;
    use super::*;
    use crate::log_space::LogSpace;

    const TIMEOUT: Duration = Duration::from_millis(300);

    fn found(change: impl FnOnce(&mut Observation, &mut Happened)) -> Vec<Condition> {
        let (mut node, mut happened) = (healthy(), Happened::default());
        change(&mut node, &mut happened);
        conditions(&node, &happened, TIMEOUT)
    }

    /// The only condition.
    fn only(
        change: impl FnOnce(&mut Observation, &mut Happened),
        subject: Subject,
        severity: Severity,
        says: &str,
    ) {
        let found = found(change);
        let [condition] = &found[..] else {
            panic!("{subject:?}: {found:?}");
        };
        assert_eq!((condition.subject, condition.severity), (subject, severity));
        assert!(condition.text.contains(says), "{says}: {}", condition.text);
    }

    #[test]
    fn a_healthy_node_has_none() {
        assert_eq!(found(|_, _| {}), []);
    }

    #[test]
    fn a_lost_majority_is_told_from_a_failed_election() {
        only(
            |node, _| node.leader = None,
            Subject::Leader,
            Severity::Error,
            "a majority is reached",
        );
        let lost = found(|node, _| {
            node.leader = None;
            for peer in &mut node.peers {
                peer.connections.is_reached = false;
            }
        });
        assert!(lost[0].text.contains("reaches 1 of 3"), "{lost:?}");
        let subjects: Vec<_> = lost.iter().map(|it| it.subject).collect();
        assert_eq!(
            subjects,
            [Subject::Leader, Subject::Peer(2), Subject::Peer(3)]
        );
    }

    #[test]
    fn a_replacement_waits_to_be_admitted() {
        only(
            |node, _| (node.leader, node.votes) = (None, false),
            Subject::Leader,
            Severity::Warning,
            "admit it by namiki cluster add 1, or replace 1",
        );
    }

    #[test]
    fn each_state_has_its_severity_and_remedy() {
        use Severity::{Error, Warning};
        only(
            |node, _| node.peers[0].connections.lanes_up = 3,
            Subject::Peer(2),
            Warning,
            "only 3 of 4",
        );
        only(
            |node, _| {
                (node.committed, node.applied) = (5000, 5000);
                node.peers[1].matched = Some(3000);
                node.peers[0].matched = Some(5000);
            },
            Subject::FollowerLag(3),
            Warning,
            "lags by 2000",
        );
        only(
            |node, _| {
                node.committed = 5000;
                for peer in &mut node.peers {
                    peer.matched = Some(5000);
                }
            },
            Subject::Applying,
            Warning,
            "4990 committed",
        );
        only(
            |node, _| (node.leader, node.missing_payloads) = (None, 7),
            Subject::MissingPayloads,
            Error,
            "start the nodes that are down",
        );
        only(
            |node, _| {
                (node.tables_lost, node.committed) = (true, node.applied + LAG_MAX + 1);
                node.peers.iter_mut().for_each(|peer| peer.matched = None);
            },
            Subject::TablesLost,
            Error,
            "copies an image of another node",
        );
        only(
            |node, _| {
                node.leader = None;
                (node.start.may_have_forgotten, node.start.is_silent) = (true, true);
                node.start.awaited = 2;
            },
            Subject::Forgotten,
            Error,
            "2 have not: start those that are down",
        );
        only(
            |node, _| node.start.may_have_forgotten = true,
            Subject::Forgotten,
            Error,
            "gets from the leader",
        );
        only(
            |_, happened| happened.damaged_payloads = 1,
            Subject::DamagedPayload,
            Error,
            "check the disk",
        );
        only(
            |_, happened| happened.longest_flush = (TIMEOUT, 2),
            Subject::Flush,
            Warning,
            "300 ms to make stream 2",
        );
        only(
            |_, happened| happened.pause = Duration::from_secs(3),
            Subject::Pause,
            Warning,
            "3000 ms",
        );
        for (unix_s, says) in [
            (39 * 86_400, "expires in 24 h"),
            (41 * 86_400, "has expired"),
        ] {
            only(
                |_, happened| happened.unix_s = unix_s,
                Subject::Certificate,
                Error,
                says,
            );
        }
        only(
            |_, happened| happened.sessions_refused = 3,
            Subject::SessionsRefused,
            Warning,
            "3 requests for sessions were refused because of a limit (open sessions: 1)",
        );
        only(
            |_, happened| happened.clock_step = Duration::from_secs(60),
            Subject::Clock,
            Warning,
            "set by 60 s",
        );
    }

    #[test]
    fn commands_that_are_held_back_name_the_nodes() {
        use Severity::{Error, Warning};
        let full = |pace, space: Option<LogSpace>| {
            move |node: &mut Observation, _: &mut Happened| {
                node.pace = pace;
                node.peers[1].log_space = space;
                node.peers[0].log_space = Some(LogSpace {
                    usable_bytes: 1 << 30,
                    is_low: false,
                });
            }
        };
        let low = Some(LogSpace {
            usable_bytes: 5 << 20,
            is_low: true,
        });
        only(
            full(Pace::Slowed, low),
            Subject::CommandsHeldBack,
            Warning,
            "(node 3 has 5 MiB)",
        );
        only(
            full(Pace::Refused, None),
            Subject::CommandsHeldBack,
            Error,
            "(node 3 does not tell)",
        );
        only(
            |node, _| node.waits_for_room = true,
            Subject::NoRoom,
            Error,
            "goes on by itself",
        );
    }

    #[test]
    fn room_is_a_warning_before_it_is_an_error() {
        use Severity::{Error, Warning};
        let disk = |free_bytes| {
            move |node: &mut Observation, _: &mut Happened| {
                if let Some(disk) = &mut node.disk {
                    disk.free_bytes = free_bytes;
                }
            }
        };
        only(disk(9 << 30), Subject::Disk, Warning, "9216 MiB left");
        only(disk(100 << 20), Subject::Disk, Error, "100 MiB left");
        assert_eq!(found(disk(11 << 30)), []);
        only(
            |node, _| node.log_bytes = 60 << 30,
            Subject::LogLimit,
            Warning,
            "images of the tables truncate the log",
        );
        only(
            |node, _| node.log_has_room = false,
            Subject::LogLimit,
            Error,
            "commands are refused: images of the tables truncate the log",
        );
        only(
            |node, _| {
                node.log_has_room = false;
                node.keeps_log_for = vec![3];
            },
            Subject::LogLimit,
            Error,
            "commands are refused: it is kept while nodes copy an image of the tables (3)",
        );
    }
}
