//! The client against nodes that follow a script.

mod groups;
mod one_node;
mod reads;
mod resumption;
mod states;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Client, Session, status};
use crate::protocol::{
    Command, MemberChange, Outcome, PROTOCOL_VERSION, Request, Response, SessionId, decode, encoded,
};
use crate::{ClientError, ClientOptions};

const WATCHDOG: Duration = Duration::from_secs(60);
const SESSION: SessionId = SessionId(4);
const CLUSTER: u128 = 7;

/// An address at which scripted nodes start and stop.
struct Address {
    listener: TcpListener,
    name: String,
}

impl Address {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        Self { listener, name }
    }

    /// Accepts a client and sends the welcome.
    fn accept(&self) -> Node {
        let (mut node, _) = self.meet();
        node.say(&Response::Welcome {
            version: PROTOCOL_VERSION,
            cluster: CLUSTER,
            node: 1,
            group_commands_max: 10,
            addresses: Vec::new(),
        });
        node
    }

    /// Accepts a client and returns the cluster that it names.
    fn meet(&self) -> (Node, u128) {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut node = Node(stream);
        match node.request() {
            Some(Request::Hello { cluster, .. }) => (node, cluster),
            other => panic!("{other:?}"),
        }
    }
}

struct Node(TcpStream);

impl Node {
    /// Nothing if the client has closed the connection.
    fn request(&mut self) -> Option<Request> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        Some(decode(&bytes).unwrap())
    }

    fn say(&mut self, response: &Response) {
        // A client that is gone does not receive it.
        let _ = self.0.write_all(&encoded(response).unwrap());
    }

    fn opens_session(&mut self) {
        let Some(Request::OpenSession { nonce }) = self.request() else {
            panic!("a session is opened first")
        };
        self.say(&Response::SessionOpened {
            nonce,
            session: SESSION,
        });
    }

    /// The number of the next group, and the number through which the client has acknowledged
    /// results.
    fn group(&mut self) -> (u64, u64) {
        match self.request() {
            Some(Request::Submit {
                session: SESSION,
                group,
                acknowledged_through,
                ..
            }) => (group, acknowledged_through),
            other => panic!("{other:?}"),
        }
    }

    fn results(&mut self, group: u64) {
        self.say(&Response::Results {
            session: SESSION,
            group,
            outcomes: vec![outcome_of(group)],
            lsn: group,
        });
    }

    fn not_leader(&mut self, leader: Option<&str>) {
        self.say(&Response::NotLeader {
            request: 0,
            leader: leader.map(|address| (2, address.to_owned())),
        });
    }
}

/// Makes results distinguishable.
fn outcome_of(group: u64) -> Outcome {
    Outcome::from_byte(u8::try_from(group % 4).unwrap()).unwrap()
}

fn script(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(run)
}

fn options() -> ClientOptions {
    ClientOptions {
        timeout: WATCHDOG,
        window: 3,
        ..ClientOptions::default()
    }
}

fn session_at(addresses: &[String], options: ClientOptions) -> Session {
    let client = Client::connect(addresses.to_vec(), options).unwrap();
    client.open_session().unwrap()
}

fn commands() -> Vec<Command> {
    vec![Command::Transfer {
        table: 1,
        from: 1,
        to: 2,
        amount: 3,
    }]
}

/// Takes the client's own connection, which is not used, and the session's.
fn accept_session(address: &Address) -> (Node, Node) {
    let client = address.accept();
    let mut session = address.accept();
    session.opens_session();
    (client, session)
}

#[test]
fn groups_are_pipelined_within_the_window() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let node = script(move || {
        let (_client, mut node) = accept_session(&address);
        assert_eq!(node.group(), (1, 0));
        assert_eq!(node.group(), (2, 0));
        assert_eq!(node.group(), (3, 0));
        node.results(1);
        // The program has not taken the results.
        assert_eq!(node.group(), (4, 0));
        for group in [3, 2, 4] {
            node.results(group);
        }
        assert_eq!(node.group(), (5, 4));
        node.results(5);
        assert!(matches!(
            node.request(),
            Some(Request::CloseSession {
                session: SESSION,
                fence: 4
            })
        ));
        node.say(&Response::SessionClosed { session: SESSION });
    });
    let mut session = session_at(&addresses, options());
    assert_eq!(session.id(), SESSION);
    let groups: Vec<_> = (0..4)
        .map(|_| session.submit(commands()).unwrap())
        .collect();
    for &group in groups.iter().rev() {
        let outcomes = session.wait(group).unwrap();
        assert_eq!(outcomes, [outcome_of(group.number())]);
    }
    assert_eq!(session.in_flight(), 0);
    let twice = session.wait(groups[0]);
    assert!(matches!(twice, Err(ClientError::NoSuchGroup { group: 1 })));
    let last = session.submit(commands()).unwrap();
    let deadline = std::time::Instant::now() + WATCHDOG;
    assert_eq!(session.next_answered(deadline), Some(last));
    session.close().unwrap();
    node.join().unwrap();
}

#[test]
fn a_new_leader_gets_the_groups_of_the_old() {
    let (old, new) = (Address::new(), Address::new());
    let addresses = [old.name.clone()];
    let nodes = script(move || {
        let (_client, mut node) = accept_session(&old);
        for group in 1..=3 {
            assert_eq!(node.group().0, group);
        }
        node.results(2);
        node.say(&Response::OutcomeUnknown {
            session: SESSION,
            group: 1,
        });
        assert_eq!(node.group().0, 1);
        node.not_leader(Some(&new.name));
        assert_eq!(node.request(), None);
        let mut node = new.accept();
        for group in [1, 3] {
            assert_eq!(node.group().0, group);
            node.results(group);
        }
    });
    let mut session = session_at(&addresses, options());
    let groups: Vec<_> = (0..3)
        .map(|_| session.submit(commands()).unwrap())
        .collect();
    for group in groups {
        let outcomes = session.wait(group).unwrap();
        assert_eq!(outcomes, [outcome_of(group.number())]);
    }
    nodes.join().unwrap();
}

#[test]
fn a_killed_leader_is_looked_for_elsewhere() {
    let (old, new) = (Address::new(), Address::new());
    let addresses = [old.name.clone(), new.name.clone()];
    let nodes = script(move || {
        let (client, mut node) = accept_session(&old);
        assert_eq!(node.group().0, 1);
        // Half of an answer.
        node.0.write_all(&[9, 0, 0, 0, 1]).unwrap();
        drop((old, client, node));
        let mut node = new.accept();
        assert_eq!(node.group().0, 1);
        node.results(1);
    });
    let mut session = session_at(&addresses, options());
    let group = session.submit(commands()).unwrap();
    assert_eq!(session.wait(group).unwrap(), [outcome_of(1)]);
    nodes.join().unwrap();
}

/// A node tells an idle client where the members are, and ends.
#[test]
fn an_idle_client_learns_from_a_gone_node() {
    let (first, second) = (Address::new(), Address::new());
    let (name, other) = (first.name.clone(), second.name.clone());
    let gone = script(move || {
        let mut node = first.accept();
        let Some(Request::Tables { request, .. }) = node.request() else {
            panic!("the tables are asked for")
        };
        node.say(&Response::Tables {
            request,
            tables: Vec::new(),
            lsn: 1,
        });
        node.say(&Response::Nodes {
            addresses: vec![other],
        });
    });
    let remaining = script(move || {
        let mut node = second.accept();
        let Some(Request::Tables { request, .. }) = node.request() else {
            panic!("the tables are asked for again")
        };
        node.say(&Response::Tables {
            request,
            tables: Vec::new(),
            lsn: 1,
        });
    });
    let mut client = Client::connect([name], options()).unwrap();
    assert!(client.tables().unwrap().is_empty());
    gone.join().unwrap();
    assert!(client.tables().unwrap().is_empty());
    remaining.join().unwrap();
}

/// A node tells a session where the members are, and ends without having read its groups.
#[test]
fn a_session_learns_from_a_killed_node() {
    let (old, new) = (Address::new(), Address::new());
    let addresses = [old.name.clone()];
    let (submitted, is_submitted) = channel();
    let (ended, has_ended) = channel();
    let nodes = script(move || {
        let (client, mut node) = accept_session(&old);
        is_submitted.recv().unwrap();
        node.say(&Response::Nodes {
            addresses: vec![new.name.clone()],
        });
        // The connection is reset, since there are unread bytes.
        drop((client, node, old));
        ended.send(()).unwrap();
        let mut node = new.accept();
        for group in 1..=2 {
            assert_eq!(node.group().0, group);
            node.results(group);
        }
    });
    let mut session = session_at(&addresses, options());
    let first = session.submit(commands()).unwrap();
    submitted.send(()).unwrap();
    has_ended.recv().unwrap();
    let second = session.submit(commands()).unwrap();
    for group in [first, second] {
        let outcomes = session.wait(group).unwrap();
        assert_eq!(outcomes, [outcome_of(group.number())]);
    }
    nodes.join().unwrap();
}

#[test]
fn an_unknown_outcome_is_said_and_can_be_asked_again() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let node = script(move || {
        let (_client, mut node) = accept_session(&address);
        assert_eq!(node.group().0, 1);
        goes_on.recv_timeout(WATCHDOG).unwrap();
        node.results(1);
    });
    let mut session = session_at(&addresses, options());
    let group = session.submit(commands()).unwrap();
    let unknown = session.wait_until(group, std::time::Instant::now());
    let is_unknown = matches!(unknown, Err(ClientError::OutcomeUnknown { group: 1, .. }));
    assert!(is_unknown, "{unknown:?}");
    go_on.send(()).unwrap();
    assert_eq!(session.wait(group).unwrap(), [outcome_of(1)]);
    node.join().unwrap();
}

#[test]
fn a_stopped_leader_is_left_for_another() {
    let (stopped, other) = (Address::new(), Address::new());
    let addresses = [stopped.name.clone(), other.name.clone()];
    // The test does not wait for it: a client that times out once more connects again.
    script(move || {
        let (_client, mut node) = accept_session(&stopped);
        assert_eq!(node.group().0, 1);
        // It falls silent, and its connection stays open.
        loop {
            let mut next = other.accept();
            while let Some(Request::Submit { group, .. }) = next.request() {
                next.results(group);
            }
        }
    });
    let silence = Duration::from_millis(20);
    let mut session = session_at(
        &addresses,
        ClientOptions {
            silence,
            ..options()
        },
    );
    let group = session.submit(commands()).unwrap();
    assert_eq!(session.wait(group).unwrap(), [outcome_of(1)]);
}

#[test]
fn refusals_and_lost_sessions_are_errors() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let node = script(move || {
        let (_client, mut node) = accept_session(&address);
        node.group();
        node.say(&Response::Refused {
            request: 1,
            reason: "too long".to_owned(),
        });
        node.group();
        node.say(&Response::NoSuchSession { session: SESSION });
    });
    let mut session = session_at(&addresses, options());
    let first = session.submit(commands()).unwrap();
    let refused = session.wait(first).unwrap_err();
    assert!(refused.to_string().contains("too long"));
    let second = session.submit(commands()).unwrap();
    let lost = session.wait(second);
    assert!(matches!(lost, Err(ClientError::NoSuchSession { .. })));
    node.join().unwrap();
}

#[test]
fn without_a_node_the_time_runs_out() {
    let address = Address::new();
    let name = address.name.clone();
    drop(address);
    let short = ClientOptions {
        timeout: Duration::from_millis(30),
        ..options()
    };
    let refused = Client::connect([name.clone()], short.clone()).unwrap_err();
    assert!(matches!(refused, ClientError::Unavailable { .. }));
    assert!(refused.to_string().contains(&name), "{refused}");
    let nothing = Client::connect(Vec::<String>::new(), short.clone());
    assert!(matches!(nothing, Err(ClientError::NoAddress)));
    let asked = status(&name, &short);
    assert!(matches!(asked, Err(ClientError::Node { .. })));
    // To nodes, 0 would mean any cluster.
    let none = ClientOptions {
        cluster: Some(0),
        ..short
    };
    let refused = Client::connect([name.clone()], none.clone());
    assert!(matches!(refused, Err(ClientError::NoCluster)));
    assert!(matches!(status(&name, &none), Err(ClientError::NoCluster)));
}

#[test]
fn member_changes_are_asked_for_until_a_leader_answers() {
    let replace = |node| MemberChange::Replace {
        node,
        incarnation: 2,
    };
    let (follower, leader) = (Address::new(), Address::new());
    let addresses = [follower.name.clone(), leader.name.clone()];
    let hint = leader.name.clone();
    let script = script(move || {
        let asked = Request::ChangeMembers(replace(3));
        let mut node = follower.accept();
        assert_eq!(node.request(), Some(asked.clone()));
        node.not_leader(Some(&hint));
        let mut node = leader.accept();
        assert_eq!(node.request(), Some(asked.clone()));
        // Another change is under way.
        node.say(&Response::Busy { request: 0 });
        assert_eq!(node.request(), Some(asked));
        node.say(&Response::MembersChanged(replace(3)));
        node.request();
        node.say(&Response::Refused {
            request: 0,
            reason: "node 1 leads".to_owned(),
        });
    });
    let mut client = Client::connect(addresses, options()).unwrap();
    client.change_members(&replace(3)).unwrap();
    let refused = client.change_members(&replace(1)).unwrap_err();
    assert!(matches!(refused, ClientError::Refused { reason } if reason == "node 1 leads"));
    drop(client);
    script.join().unwrap();
}

#[test]
fn a_cluster_at_a_reused_address_is_asked_for_nothing() {
    let address = Address::new();
    let name = address.name.clone();
    let node = script(move || {
        let (mut client, cluster) = address.meet();
        assert_eq!(cluster, 0, "the first node says which");
        client.say(&Response::Welcome {
            version: PROTOCOL_VERSION,
            cluster: CLUSTER,
            node: 1,
            group_commands_max: 10,
            addresses: Vec::new(),
        });
        let (mut node, cluster) = address.meet();
        assert_eq!(cluster, CLUSTER, "sessions belong to the client's cluster");
        node.say(&Response::Welcome {
            version: PROTOCOL_VERSION,
            cluster: CLUSTER,
            node: 1,
            group_commands_max: 10,
            addresses: Vec::new(),
        });
        node.opens_session();
        assert_eq!(node.group().0, 1);
        drop(node);
        let (mut node, cluster) = address.meet();
        assert_eq!(cluster, CLUSTER);
        node.say(&Response::OtherCluster { cluster: 8 });
        assert_eq!(node.request(), None);
        // Back again.
        let mut node = address.accept();
        assert_eq!(node.group().0, 1);
        node.results(1);
        let (mut node, cluster) = address.meet();
        assert_eq!(cluster, 9);
        node.say(&Response::OtherCluster { cluster: CLUSTER });
    });
    let mut session = session_at(std::slice::from_ref(&name), options());
    let group = session.submit(commands()).unwrap();
    assert_eq!(session.wait(group).unwrap(), [outcome_of(1)]);
    let named = ClientOptions {
        cluster: Some(9),
        ..options()
    };
    let refused = status(&name, &named).unwrap_err();
    let is_other = matches!(
        refused,
        ClientError::OtherCluster {
            expected: 9,
            found: CLUSTER,
            ..
        }
    );
    assert!(is_other, "{refused}");
    node.join().unwrap();
}
