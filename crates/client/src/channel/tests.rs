//! The channel under simulated time.

use super::*;
use crate::protocol::{NodeStatus, Outcome, SessionId};

const SILENCE: Duration = Duration::from_millis(100);
const CLUSTER: u128 = 7;

fn welcome(cluster: u128) -> Response {
    welcome_of(PROTOCOL_VERSION, cluster)
}

fn welcome_of(version: u16, cluster: u128) -> Response {
    Response::Welcome {
        version,
        cluster,
        node: 1,
        group_commands_max: 10,
        addresses: Vec::new(),
    }
}

struct Rig {
    channel: Channel,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let now = Instant::now();
        let addresses = vec!["a".to_owned(), "b".to_owned()];
        let options = ClientOptions {
            silence: SILENCE,
            ..ClientOptions::default()
        };
        Self {
            channel: Channel::new(addresses, options, Target::Leader, SeenLsn::default(), now),
            now,
        }
    }

    fn later(&mut self, wait: Duration) {
        self.now += wait;
    }

    fn step(&mut self) -> Step {
        self.channel.step(self.now)
    }

    /// Skips pauses and closes connections until the next connect step.
    fn connect(&mut self) -> String {
        loop {
            match self.step() {
                Step::Pause(until) => self.now = until,
                Step::Connect(address) => return address,
                Step::Close => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Brings a connection to the point at which requests are sent.
    fn ready(&mut self) -> String {
        let address = self.connect();
        self.channel.connected(self.now);
        assert_eq!(
            self.step(),
            Step::Send(hello(self.channel.options().cluster))
        );
        self.receive(welcome(CLUSTER));
        assert!(self.channel.is_ready());
        address
    }

    fn receive(&mut self, response: Response) {
        self.channel.received(response, self.now);
    }

    fn ask(&mut self, group: u8) {
        self.channel
            .exchange
            .ask(Key::Group(group.into()), vec![group]);
    }

    /// Asks to create a table. The frame stands for the request.
    fn create(&mut self, name: &str, frame: u8) {
        let request = Request::CreateTable {
            name: name.to_owned(),
            eight_byte_keys: true,
        };
        (self.channel.exchange).ask_control(request, vec![frame]);
    }

    fn table(&mut self, name: &str, table: u32) {
        self.receive(Response::Table {
            name: name.to_owned(),
            table,
            lsn: 1,
        });
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Step::Send(frame) = self.step() {
            sent.push(frame[0]);
        }
        sent
    }

    fn results(&mut self, group: u64) {
        self.receive(Response::Results {
            session: SessionId(1),
            group,
            outcomes: vec![Outcome::Done],
            lsn: group,
        });
    }

    fn not_leader(&mut self, leader: Option<&str>) {
        self.receive(Response::NotLeader {
            request: 1,
            leader: leader.map(|address| (2, address.to_owned())),
        });
    }
}

#[test]
fn several_groups_are_in_flight_and_answered_in_any_order() {
    let mut rig = Rig::new();
    assert_eq!(rig.ready(), "a");
    rig.ask(1);
    rig.ask(2);
    assert_eq!(rig.sent(), [1, 2]);
    rig.results(2);
    assert!(rig.channel.exchange.is_answered(Key::Group(2)));
    assert!(!rig.channel.exchange.is_answered(Key::Group(1)));
    rig.results(1);
    assert_eq!(rig.channel.exchange.groups_in_flight(), 0);
}

#[test]
fn the_named_leader_gets_everything_unanswered() {
    let mut rig = Rig::new();
    rig.ready();
    for group in 1..=3 {
        rig.ask(group);
    }
    rig.sent();
    rig.results(2);
    rig.not_leader(Some("c"));
    assert_eq!(rig.step(), Step::Close);
    assert_eq!(rig.ready(), "c");
    assert_eq!(rig.sent(), [1, 3]);
}

#[test]
fn without_a_named_leader_the_next_address_is_tried() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.sent();
    rig.not_leader(None);
    assert_eq!(rig.ready(), "b");
    assert_eq!(rig.sent(), [1]);
    rig.not_leader(Some(""));
    assert_eq!(rig.ready(), "a");
}

#[test]
fn a_lost_connection_is_replaced_and_requests_repeated() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.sent();
    rig.channel.broken(rig.now, &ConnectionError::Closed);
    assert!(rig.channel.last().contains("closed"));
    assert_eq!(rig.connect(), "b");
    rig.channel.broken(rig.now, &ConnectionError::Closed);
    assert_eq!(rig.ready(), "a");
    assert_eq!(rig.sent(), [1]);
}

#[test]
fn an_unknown_outcome_is_asked_for_again() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.sent();
    rig.receive(Response::OutcomeUnknown {
        session: SessionId(1),
        group: 1,
    });
    assert!(rig.sent().is_empty());
    rig.later(BACKOFF);
    assert_eq!(rig.sent(), [1]);
    rig.not_leader(Some("b"));
    assert_eq!(rig.ready(), "b");
    assert_eq!(rig.sent(), [1]);
    rig.results(1);
    let outcomes = Answer::Outcomes(vec![Outcome::Done]);
    assert_eq!(rig.channel.exchange.take(Key::Group(1)), Some(outcomes));
}

#[test]
fn a_busy_node_is_asked_again_later() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.ask(2);
    rig.sent();
    rig.receive(Response::Busy { request: 2 });
    assert!(rig.sent().is_empty());
    rig.later(BACKOFF);
    assert_eq!(rig.sent(), [2]);
}

#[test]
fn a_silent_node_is_asked_once_and_then_left() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.sent();
    rig.later(SILENCE);
    assert_eq!(rig.step(), Step::Send(frame_of(&Request::Status)));
    let Step::Receive(until) = rig.step() else {
        panic!()
    };
    assert_eq!(until, rig.now + SILENCE);
    rig.later(SILENCE);
    assert_eq!(rig.step(), Step::Close);
    assert_eq!(rig.ready(), "b");
}

#[test]
fn a_stopped_leader_that_others_name_is_not_waited_for() {
    let mut rig = Rig::new();
    assert_eq!(rig.ready(), "a");
    rig.ask(1);
    rig.sent();
    for _ in 0..2 {
        rig.later(SILENCE);
        rig.step();
    }
    assert_eq!(rig.ready(), "b");
    // It has not noticed yet.
    rig.not_leader(Some("a"));
    assert_eq!(rig.ready(), "b");
}

#[test]
fn a_node_that_does_not_say_welcome_is_left_soon() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), "a");
    rig.channel.connected(rig.now);
    assert_eq!(rig.step(), Step::Send(hello(None)));
    rig.later(2 * SILENCE);
    assert_eq!(rig.step(), Step::Close);
    assert_eq!(rig.connect(), "b");
}

#[test]
fn a_slow_leader_that_is_alive_is_kept() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.sent();
    let status = |role| {
        let status = NodeStatus {
            incarnation: 1,
            members: Vec::new(),
            removed: Vec::new(),
            founders: Vec::new(),
            backup: None,
            node: 1,
            role,
            term: 1,
            leader: None,
            last_lsn: 0,
            persisted_lsn: 0,
            committed_lsn: 0,
            applied_lsn: 0,
            commands_applied: 0,
            log_bytes: 0,
            log_bytes_max: None,
            missing_payloads: 0,
            may_have_forgotten: false,
            waits_for_room: false,
            tables_lost: false,
            version: String::new(),
            refused_messages: 0,
            matched: vec![],
            state_hash: None,
        };
        Response::Status(Box::new(status))
    };
    for _ in 0..10 {
        rig.later(SILENCE);
        assert_eq!(rig.step(), Step::Send(frame_of(&Request::Status)));
        rig.receive(status(Role::Leader));
        assert!(matches!(rig.step(), Step::Receive(_)));
    }
    assert!(rig.channel.last().contains("it leads"));
    rig.later(SILENCE);
    rig.step();
    rig.receive(status(Role::Follower));
    assert_eq!(rig.step(), Step::Close);
}

#[test]
fn silence_counts_only_while_an_answer_is_owed() {
    let mut rig = Rig::new();
    rig.ready();
    rig.later(SILENCE * 100);
    assert!(matches!(rig.step(), Step::Receive(_)));
    rig.ask(1);
    assert_eq!(rig.sent(), [1]);
    assert!(matches!(rig.step(), Step::Receive(_)));
}

#[test]
fn a_refusal_answers_the_request_that_it_names() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.ask(2);
    rig.sent();
    let reason = "too long".to_owned();
    rig.receive(Response::Refused { request: 2, reason });
    let refused = Answer::Refused("too long".to_owned());
    assert_eq!(rig.channel.exchange.take(Key::Group(2)), Some(refused));
    assert!(!rig.channel.exchange.is_answered(Key::Group(1)));
}

#[test]
fn a_session_that_is_gone_answers_all_its_groups() {
    let mut rig = Rig::new();
    rig.ready();
    rig.ask(1);
    rig.ask(2);
    rig.sent();
    let session = SessionId(9);
    rig.receive(Response::NoSuchSession { session });
    for group in [1, 2] {
        let answer = rig.channel.exchange.take(Key::Group(group));
        assert_eq!(answer, Some(Answer::NoSuchSession(session)));
    }
}

#[test]
fn a_node_of_another_version_is_left() {
    let mut rig = Rig::new();
    rig.connect();
    rig.channel.connected(rig.now);
    rig.step();
    rig.receive(Response::Refused {
        request: 0,
        reason: "another version".to_owned(),
    });
    assert_eq!(rig.step(), Step::Close);
    assert!(rig.channel.last().contains("another version"));
    assert_eq!(rig.ready(), "b");
}

#[test]
fn a_client_stays_at_the_cluster_that_it_found_first() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), "a");
    rig.channel.connected(rig.now);
    assert_eq!(rig.step(), Step::Send(hello(None)));
    rig.receive(welcome(CLUSTER));
    rig.ask(1);
    assert_eq!(rig.sent(), [1]);
    // The node ends, and another cluster takes its address. It refuses, or sends a welcome
    // nevertheless.
    let others = [Response::OtherCluster { cluster: 8 }, welcome(8)];
    for other in others {
        rig.channel.broken(rig.now, &ConnectionError::Closed);
        rig.connect();
        rig.channel.connected(rig.now);
        assert_eq!(rig.step(), Step::Send(hello(Some(CLUSTER))));
        rig.receive(other);
        assert!(!rig.channel.is_ready());
        let error = rig.channel.unavailable();
        let is_other = matches!(
            error,
            ClientError::OtherCluster {
                expected: CLUSTER,
                found: 8,
                ..
            }
        );
        assert!(is_other, "{error}");
        assert_eq!(rig.step(), Step::Close);
    }
    // The old cluster is at another address.
    rig.ready();
    assert_eq!(rig.sent(), [1]);
    let error = rig.channel.unavailable();
    assert!(matches!(error, ClientError::Unavailable { .. }), "{error}");
}

#[test]
fn a_named_cluster_is_insisted_on_from_the_start() {
    let now = Instant::now();
    let options = ClientOptions {
        cluster: Some(CLUSTER),
        ..ClientOptions::default()
    };
    let addresses = vec!["a".to_owned()];
    let seen = SeenLsn::default();
    let mut channel = Channel::new(addresses, options, Target::Leader, seen, now);
    assert_eq!(channel.step(now), Step::Connect("a".to_owned()));
    channel.connected(now);
    assert_eq!(channel.step(now), Step::Send(hello(Some(CLUSTER))));
    channel.received(welcome(8), now);
    assert!(!channel.is_ready());
}

/// The call has timed out, or was cancelled. Both requests have the same name here, so the name alone does not tell them apart.
#[test]
fn a_late_answer_is_none_of_the_next_control_request() {
    for times_out in [true, false] {
        let mut rig = Rig::new();
        assert_eq!(rig.ready(), "a");
        rig.create("accounts", 1);
        assert_eq!(rig.sent(), [1]);
        if times_out {
            rig.channel.exchange.forget(Key::Control);
        }
        rig.create("accounts", 2);
        rig.table("accounts", 7);
        assert_eq!(rig.channel.exchange.take(Key::Control), None);
        assert_eq!(rig.step(), Step::Close);
        // The same node: it has not failed.
        assert_eq!(rig.ready(), "a");
        assert_eq!(rig.sent(), [2]);
        rig.table("accounts", 8);
        let answer = rig.channel.exchange.take(Key::Control);
        assert_eq!(answer, Some(Answer::Table(8)));
    }
}

#[test]
fn an_answer_with_another_name_is_ignored() {
    let mut rig = Rig::new();
    rig.ready();
    rig.create("accounts", 1);
    rig.sent();
    rig.table("notes", 7);
    rig.receive(Response::TableDropped {
        table: 7,
        existed: true,
        lsn: 1,
    });
    assert!(!rig.channel.exchange.is_answered(Key::Control));
    rig.table("accounts", 8);
    let answer = rig.channel.exchange.take(Key::Control);
    assert_eq!(answer, Some(Answer::Table(8)));
}

#[test]
fn a_connection_that_owes_nothing_is_kept() {
    let mut rig = Rig::new();
    rig.ready();
    // It was answered, or will be sent again, or was never sent.
    rig.create("accounts", 1);
    rig.sent();
    rig.table("accounts", 7);
    rig.create("notes", 2);
    assert_eq!(rig.sent(), [2]);
    rig.receive(Response::Busy { request: 0 });
    rig.create("notes", 3);
    rig.create("notes", 4);
    assert_eq!(rig.sent(), [4]);
    // Reads have numbers.
    rig.channel.exchange.ask(Key::read(1), vec![5]);
    assert_eq!(rig.sent(), [5]);
    rig.channel.exchange.forget(Key::read(1));
    rig.table("notes", 8);
    let answer = rig.channel.exchange.take(Key::Control);
    assert_eq!(answer, Some(Answer::Table(8)));
    assert!(rig.channel.is_ready());
}

#[test]
fn a_welcome_of_another_version_is_refused() {
    let own = PROTOCOL_VERSION;
    for (version, upgrade) in [(own - 1, "the node"), (own + 1, "the program")] {
        let mut rig = Rig::new();
        rig.connect();
        rig.channel.connected(rig.now);
        rig.step();
        rig.receive(welcome_of(version, CLUSTER));
        assert!(!rig.channel.is_ready());
        let error = rig.channel.unavailable();
        let is_other = matches!(
            &error,
            ClientError::OtherVersion { address, node, client }
                if address == "a" && *node == version && *client == own
        );
        assert!(is_other, "{error}");
        let says = format!("upgrade {upgrade}");
        assert!(error.to_string().contains(&says), "{error}");
        assert_eq!(rig.step(), Step::Close);
        // The next one speaks this version.
        assert_eq!(rig.ready(), "b");
        let error = rig.channel.unavailable();
        assert!(matches!(error, ClientError::Unavailable { .. }), "{error}");
    }
}

#[test]
fn the_longest_times_are_no_overflow() {
    let now = Instant::now();
    let options = ClientOptions {
        timeout: Duration::MAX,
        connect_timeout: Duration::MAX,
        silence: Duration::MAX,
        ..ClientOptions::default()
    };
    let addresses = vec!["a".to_owned()];
    let seen = SeenLsn::default();
    let mut channel = Channel::new(addresses, options, Target::Leader, seen, now);
    assert_eq!(channel.step(now), Step::Connect("a".to_owned()));
    channel.connected(now);
    assert_eq!(channel.step(now), Step::Send(hello(None)));
    assert!(matches!(channel.step(now), Step::Receive(_)));
    channel.received(welcome(CLUSTER), now);
    assert!(matches!(channel.step(now), Step::Receive(_)));
    channel.exchange.ask(Key::Group(1), vec![1]);
    assert!(matches!(channel.step(now), Step::Send(_)));
    assert!(matches!(channel.step(now), Step::Receive(_)));
}
