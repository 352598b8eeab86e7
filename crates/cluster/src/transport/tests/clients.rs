//! Connections of clients.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use namiki_client::protocol::{
    Command, DisconnectReason, MAGIC, Outcome, PROTOCOL_VERSION, Request, Response, SessionId,
    decode, encoded,
};

use super::rig::*;
use crate::network::ConnectionId;
use crate::transport::TransportSettings;

fn node(change: impl Fn(&mut TransportSettings)) -> Node {
    let mut settings = settings(1, vec![]);
    change(&mut settings);
    Node::start(listeners(), settings)
}

fn send(stream: &mut TcpStream, request: &Request) {
    stream.write_all(&encoded(request).unwrap()).unwrap();
}

/// The next response; `None` if the connection is closed.
fn receive(stream: &mut TcpStream) -> Option<Response> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
        Err(error) => panic!("{error}"),
    }
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes).unwrap();
    Some(decode(&bytes).unwrap())
}

fn connect(node: &Node) -> TcpStream {
    let mut stream = dial(&node.client_address);
    send(&mut stream, &CLIENT_HELLO);
    let welcome = Response::Welcome {
        version: PROTOCOL_VERSION,
        cluster: CLUSTER,
        node: 1,
        group_commands_max: 100,
        addresses: Vec::new(),
    };
    assert_eq!(receive(&mut stream), Some(welcome));
    stream
}

fn submit(commands: usize) -> Request {
    let command = Command::Transfer {
        table: 1,
        from: 2,
        to: 3,
        amount: 4,
    };
    Request::Submit {
        session: SessionId(5),
        fence: 5,
        group: 6,
        acknowledged_through: 0,
        commands: vec![command; commands],
    }
}

fn request_of(node: &Node) -> (ConnectionId, Request) {
    match node.next() {
        Event::Request(from, request) => (from, request),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_reach_the_node_and_replies_the_client() {
    let node = node(|_| {});
    let (mut first, mut second) = (connect(&node), connect(&node));
    send(&mut first, &submit(100));
    let (one, request) = request_of(&node);
    assert_eq!(request, submit(100));
    send(&mut second, &Request::Status);
    let (two, request) = request_of(&node);
    assert_eq!(request, Request::Status);
    let results = Response::Results {
        session: SessionId(5),
        group: 6,
        outcomes: vec![Outcome::Done; 100],
        lsn: 7,
    };
    node.network.reply(two, Response::Busy { request: 0 });
    node.network.reply(one, results.clone());
    assert_eq!(receive(&mut first), Some(results));
    assert_eq!(receive(&mut second), Some(Response::Busy { request: 0 }));
    drop(first);
    assert_eq!(node.next(), Event::Gone(one));
    // It has no effect.
    node.network.reply(one, Response::Busy { request: 0 });
    drop(second);
    assert_eq!(node.next(), Event::Gone(two));
    assert_eq!(node.running.clients(), 0);
}

#[test]
fn another_protocol_is_refused_with_a_sentence() {
    let node = node(|_| {});
    let (magic, version) = (MAGIC, PROTOCOL_VERSION + 1);
    let hello = |magic, version| Request::Hello {
        magic,
        version,
        cluster: CLUSTER,
    };
    for (hello, word) in [
        (hello(magic, version), "version"),
        (hello(1, PROTOCOL_VERSION), "hello"),
        (Request::Status, "hello"),
    ] {
        let mut stream = dial(&node.client_address);
        send(&mut stream, &hello);
        let Some(Response::Refused { reason, .. }) = receive(&mut stream) else {
            panic!("{hello:?}")
        };
        assert!(reason.contains(word), "{reason}");
        assert_eq!(receive(&mut stream), None);
    }
}

#[test]
fn a_client_of_another_cluster_is_told_and_left() {
    let node = node(|_| {});
    for (cluster, is_welcome) in [(0, true), (CLUSTER, true), (CLUSTER + 1, false)] {
        let mut stream = dial(&node.client_address);
        let (magic, version) = (MAGIC, PROTOCOL_VERSION);
        let hello = Request::Hello {
            magic,
            version,
            cluster,
        };
        send(&mut stream, &hello);
        let answer = receive(&mut stream).unwrap();
        if is_welcome {
            assert!(matches!(answer, Response::Welcome { .. }), "{answer:?}");
        } else {
            assert_eq!(answer, Response::OtherCluster { cluster: CLUSTER });
            assert_eq!(receive(&mut stream), None);
        }
    }
}

#[test]
fn a_group_beyond_the_limit_is_refused_undecoded() {
    let node = node(|_| {});
    let mut stream = connect(&node);
    send(&mut stream, &submit(101));
    let Some(Response::Refused { request, reason }) = receive(&mut stream) else {
        panic!()
    };
    assert_eq!(request, 6);
    assert!(reason.contains("101") && reason.contains("100"), "{reason}");
    // The connection continues.
    send(&mut stream, &Request::Status);
    assert_eq!(request_of(&node).1, Request::Status);
}

#[test]
fn hostile_bytes_end_only_their_connection() {
    let node = node(short_timeouts);
    let mut good = connect(&node);
    let hello = encoded(&CLIENT_HELLO).unwrap();
    let behind_hello = |bytes: &[u8]| [&hello[..], bytes].concat();
    let hostile = [
        vec![0xff; 64],
        // Longer than a hello may be.
        [&2000_u32.to_le_bytes()[..], &[0; 100]].concat(),
        // Never completed.
        vec![9, 0, 0],
        behind_hello(&[0xff; 8]),
        behind_hello(&[3, 0, 0, 0, 0xff, 0xff, 0xff]),
        behind_hello(&[0, 0, 0, 0]),
        behind_hello(&[100, 0, 0, 0, 1, 2]),
        behind_hello(&hello),
    ];
    for bytes in hostile {
        let mut stream = dial(&node.client_address);
        stream.write_all(&bytes).unwrap();
        // A welcome and a refusal, at most.
        let responses = std::iter::from_fn(|| receive(&mut stream)).count();
        assert!(responses <= 2);
        send(&mut good, &Request::Status);
        while !matches!(node.next(), Event::Request(_, Request::Status)) {}
    }
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let node = node(|settings| {
        settings.limits.client_response_bytes_max = 1 << 16;
    });
    let mut stream = connect(&node);
    send(&mut stream, &Request::Status);
    let (from, _) = request_of(&node);
    let results = Response::Results {
        session: SessionId(5),
        group: 6,
        outcomes: vec![Outcome::Done; 10_000],
        lsn: 7,
    };
    // More than the system buffers.
    for _ in 0..10_000 {
        node.network.reply(from, results.clone());
    }
    // If it reads at last, it is told why the connection ends.
    let mut last = None;
    while let Some(response) = receive(&mut stream) {
        last = Some(response);
    }
    let reason = DisconnectReason::NotReading;
    assert_eq!(last, Some(Response::Disconnected { reason }));
    assert_eq!(node.next(), Event::Gone(from));
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let node = node(|settings| settings.limits.client_connections_max = 2);
    let (_first, second) = (connect(&node), connect(&node));
    let mut third = dial(&node.client_address);
    send(&mut third, &CLIENT_HELLO);
    let Some(Response::Refused { reason, .. }) = receive(&mut third) else {
        panic!()
    };
    assert!(reason.contains("2 connections"), "{reason}");
    drop(second);
    wait_until(|| node.running.clients() == 1);
    connect(&node);
}

#[test]
fn a_client_is_told_the_leaders_address() {
    let (one, _two) = two_nodes(|_| {});
    let mut stream = dial(&one.client_address);
    send(&mut stream, &CLIENT_HELLO);
    receive(&mut stream);
    send(&mut stream, &Request::Status);
    let from = loop {
        if let Event::Request(from, _) = one.next() {
            break from;
        }
    };
    for (address, filled_in) in [("", "client-of-2"), ("known", "known")] {
        let not_leader = |address: &str| Response::NotLeader {
            request: 1,
            leader: Some((2, address.to_owned())),
        };
        one.network.reply(from, not_leader(address));
        assert_eq!(receive(&mut stream), Some(not_leader(filled_in)));
    }
}

#[test]
fn links_are_cut_only_where_that_is_allowed() {
    let node = node(|settings| settings.allow_cuts = false);
    let mut stream = connect(&node);
    send(&mut stream, &Request::CutLinks { nodes: vec![2] });
    let response = receive(&mut stream);
    assert!(matches!(response, Some(Response::Refused { .. })));
}
