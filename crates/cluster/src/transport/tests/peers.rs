//! Connections of genuine nodes.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use namiki_client::protocol::{PROTOCOL_VERSION, Request, Response, encoded};

use super::hostile::HELLO;
use super::rig::*;
use crate::membership::{Membership, MembershipChange};
use crate::network::{ClientName, ConnectionId, Inbox, NodeId, PeerMessage};
use crate::transport::hello::{Hello, Identity, Refusal};
use crate::transport::{Listeners, TransportError};

#[test]
fn messages_arrive_in_order_per_lane() {
    let (one, two) = two_nodes(|_| {});
    let rounds = 300;
    for number in 1..=rounds {
        // Short, middling, and longer than the buffers of a connection.
        let bytes = [10, 5000, 300_000][usize::try_from(number % 3).unwrap()];
        for worker in 0..WORKERS {
            one.network
                .send(NodeId::first(2), payload(worker, number, bytes));
        }
        one.network.send(NodeId::first(2), raft("heartbeat"));
    }
    let mut last = HashMap::new();
    let mut raft_messages = 0;
    for _ in 0..rounds * (1 + u64::from(WORKERS)) {
        let (from, message) = two.next_message();
        assert_eq!(from, NodeId::first(1));
        match message {
            PeerMessage::Raft(_) => raft_messages += 1,
            PeerMessage::Payload { payload, bytes } => {
                let name = payload.name;
                let before = last.insert(name.worker, name.number).unwrap_or(0);
                assert_eq!(name.number, before + 1, "worker {}", name.worker);
                let fill = name.number.to_le_bytes()[0];
                assert!(bytes.iter().all(|byte| *byte == fill));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(raft_messages, rounds);
    assert_eq!(one.running.dropped(NodeId::first(2)), 0);
}

#[test]
fn fetches_have_a_lane_in_each_direction() {
    let (one, two) = two_nodes(|_| {});
    let PeerMessage::Payload { payload, bytes } = payload(0, 7, 100_000) else {
        unreachable!()
    };
    let payloads = vec![payload];
    let fetch = PeerMessage::FetchPayloads { payloads };
    one.network.send(NodeId::first(2), fetch.clone());
    assert_eq!(two.next_message(), (NodeId::first(1), fetch));
    let fetched = PeerMessage::FetchedPayload {
        payload,
        bytes: Some(bytes),
    };
    two.network.send(NodeId::first(1), fetched.clone());
    assert_eq!(one.next_message(), (NodeId::first(2), fetched));
}

#[test]
fn a_restarted_node_is_dialled_again() {
    let (one, two) = two_nodes(|_| {});
    one.wait_for(&Event::Connected(NodeId::first(2)));
    let (peers, clients) = (two.peer_address.clone(), two.client_address.clone());
    two.running.stop().unwrap();
    one.wait_for(&Event::Disconnected(NodeId::first(2)));
    one.network.send(NodeId::first(2), raft("lost"));

    let listeners = Listeners::bind(&peers, &clients).unwrap();
    let two = Node::start(listeners, settings(2, vec![peer(1, &one.peer_address)]));
    one.wait_for(&Event::Connected(NodeId::first(2)));
    one.network.send(NodeId::first(2), raft("found"));
    assert_eq!(two.next_message(), (NodeId::first(1), raft("found")));
    assert_eq!(one.running.dropped(NodeId::first(2)), 1);
}

#[test]
fn a_delayed_lane_keeps_its_order() {
    let (one, two) = two_nodes(|settings| {
        settings.peers[0].delay = Duration::from_millis(3);
    });
    for number in 1..=500 {
        one.network.send(NodeId::first(2), payload(1, number, 2000));
    }
    for number in 1..=500 {
        assert_eq!(two.next_message().1, payload(1, number, 2000));
    }
}

#[test]
fn a_silent_node_is_disconnected() {
    // It sends a hello, and nothing more.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut own = settings(1, vec![peer(2, &address)]);
    own.timing.dead_after = Duration::from_millis(40);
    let node = Node::start(listeners(), own);
    let serving = std::thread::spawn(move || {
        let mut connections = Vec::new();
        let identity = Identity {
            cluster: CLUSTER,
            node: NodeId::first(2),
            workers: WORKERS,
            founders: 0,
        };
        for _ in 0..2 + WORKERS {
            let (mut stream, _) = silent.accept().unwrap();
            let mut hello = [0; 56];
            stream.read_exact(&mut hello).unwrap();
            let answer = identity.answer(None);
            stream.write_all(answer.head()).unwrap();
            stream.write_all(answer.body()).unwrap();
            connections.push(stream);
        }
        connections
    });
    node.wait_for(&Event::Connected(NodeId::first(2)));
    node.wait_for(&Event::Disconnected(NodeId::first(2)));
    drop(node);
    serving.join().unwrap();
}

#[test]
fn a_cut_link_carries_nothing_until_it_heals() {
    let (one, two) = two_nodes(short_timeouts);
    one.wait_for(&Event::Connected(NodeId::first(2)));
    two.wait_for(&Event::Connected(NodeId::first(1)));
    let mut client = dial(&one.client_address);
    client.write_all(&encoded(&CLIENT_HELLO).unwrap()).unwrap();
    let cut = |nodes| encoded(&Request::CutLinks { nodes }).unwrap();
    client.write_all(&cut(vec![2])).unwrap();
    // Node 1 sends nothing, so node 2 sees nothing of it either.
    one.wait_for(&Event::Disconnected(NodeId::first(2)));
    two.wait_for(&Event::Disconnected(NodeId::first(1)));
    one.network.send(NodeId::first(2), raft("cut"));
    two.network.send(NodeId::first(1), raft("cut"));

    client.write_all(&cut(vec![])).unwrap();
    let healed = raft("healed");
    assert_eq!(one.send_until_received(&two, &healed), healed);
    assert_eq!(two.send_until_received(&one, &healed), healed);
}

/// Node 2 after it has lost its directory and runs on its next one.
fn replaced(two: Node, one: &Node) -> Node {
    let (peers, clients) = (two.peer_address.clone(), two.client_address.clone());
    two.running.stop().unwrap();
    let listeners = Listeners::bind(&peers, &clients).unwrap();
    let mut settings = settings(2, vec![peer(1, &one.peer_address)]);
    settings.node = NodeId::new(2, 2);
    Node::start(listeners, settings)
}

fn members(nodes: &[NodeId]) -> Membership {
    Membership::new(nodes)
}

fn talk(one: &Node, two: &Node) {
    let hello = raft("hello");
    assert_eq!(one.send_until_received(two, &hello), hello);
    assert_eq!(two.send_until_received(one, &hello), hello);
}

#[test]
fn a_member_that_was_replaced_is_told() {
    let (one, two) = two_nodes(|_| {});
    let later = NodeId::new(2, 2);
    one.wait_for(&Event::Connected(NodeId::first(2)));
    one.network
        .set_members(&members(&[NodeId::first(1), later]));
    one.wait_for(&Event::Disconnected(NodeId::first(2)));
    two.wait_for(&Event::Removed(NodeId::first(1)));
    one.network.send(NodeId::first(2), raft("superseded"));
    assert_eq!(one.running.misdirected(), 1);
    let two = replaced(two, &one);
    one.wait_for(&Event::Connected(later));
    talk(&one, &two);
}

#[test]
fn a_node_that_is_behind_answers_later_incarnations() {
    let (one, two) = two_nodes(|_| {});
    let two = replaced(two, &one);
    // Node 1 has not heard of the replacement, and is dialled.
    one.wait_for(&Event::Connected(NodeId::new(2, 2)));
    talk(&one, &two);
    one.network
        .set_members(&members(&[NodeId::first(1), NodeId::new(2, 2)]));
    talk(&one, &two);
}

#[test]
fn a_member_that_was_removed_is_told() {
    let (one, two) = two_nodes(|_| {});
    one.wait_for(&Event::Connected(NodeId::first(2)));
    let mut left = members(&[NodeId::first(1), NodeId::first(2)]);
    let node = NodeId::first(2);
    left.apply(&MembershipChange::Remove { node });
    one.network.set_members(&left);
    one.wait_for(&Event::Disconnected(node));
    two.wait_for(&Event::Removed(NodeId::first(1)));
}

/// Neither has the other in its configuration.
#[test]
fn members_are_dialled_at_their_addresses_in_the_log() {
    let (one, three) = (listeners(), listeners());
    let address = |it: &Listeners| it.peers.local_addr().unwrap().to_string();
    let addresses = |it: &Listeners, node| peer(node, &address(it)).addresses;
    let moved = vec![
        (NodeId::first(1), addresses(&one, 1)),
        (NodeId::first(3), addresses(&three, 3)),
    ];
    let mut both = members(&[NodeId::first(1), NodeId::first(3)]);
    both.apply(&MembershipChange::Move { moved });
    let one = Node::start(one, settings(1, Vec::new()));
    let three = Node::start(three, settings(3, Vec::new()));
    one.network.set_members(&both);
    three.network.set_members(&both);
    talk(&one, &three);
    // Clients find it, too.
    let mut client = dial(&one.client_address);
    client.write_all(&encoded(&CLIENT_HELLO).unwrap()).unwrap();
    client
        .write_all(&encoded(&Request::Status).unwrap())
        .unwrap();
    let connection = loop {
        if let Event::Request(connection, _) = one.events.recv_timeout(WATCHDOG).unwrap() {
            break connection;
        }
    };
    let leader = |address: &str| Response::NotLeader {
        request: 0,
        leader: Some((3, address.to_owned())),
    };
    one.network.reply(connection, leader(""));
    let mut expected = encoded(&Response::Welcome {
        version: PROTOCOL_VERSION,
        cluster: CLUSTER,
        node: 1,
        group_commands_max: 100,
        addresses: vec!["client-of-1".to_owned(), "client-of-3".to_owned()],
    })
    .unwrap();
    expected.extend(encoded(&leader("client-of-3")).unwrap());
    let mut answers = vec![0; expected.len()];
    client.read_exact(&mut answers).unwrap();
    assert_eq!(answers, expected);
}

#[test]
fn a_directory_for_other_founders_is_refused() {
    let (first, second) = (listeners(), listeners());
    let address = |it: &Listeners| it.peers.local_addr().unwrap().to_string();
    let of_one = settings(1, vec![peer(2, &address(&second))]);
    let mut of_two = settings(2, vec![peer(1, &address(&first))]);
    of_two.founders = 1;
    let (one, two) = (Node::start(first, of_one), Node::start(second, of_two));
    let hello = Hello {
        to: NodeId::first(2),
        ..HELLO
    };
    let mut stream = dial(&two.peer_address);
    let frame = hello.to_frame();
    stream.write_all(frame.head()).unwrap();
    stream.write_all(frame.body()).unwrap();
    let identity = Identity {
        cluster: CLUSTER,
        node: NodeId::first(2),
        workers: WORKERS,
        founders: 1,
    };
    let expected = identity.answer(Some(Refusal::Founders));
    let expected = [expected.head(), &expected.body()[..]].concat();
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
    assert_eq!(one.running.lanes_up(NodeId::first(2)), 0);
}

#[test]
fn messages_to_nowhere_are_counted() {
    let (one, _two) = two_nodes(|_| {});
    one.network.send(NodeId::first(9), raft("no such node"));
    one.network.send(NodeId::first(2), payload(WORKERS, 1, 1));
    assert_eq!(one.running.misdirected(), 2);
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = Listeners::bind(&address, "127.0.0.1:0").unwrap_err();
    let sentence = refused.to_string();
    assert!(matches!(refused, TransportError::Listen { .. }));
    assert!(sentence.contains(&address) && sentence.contains("peer_listen"));
}

struct Panicking;

impl Inbox for Panicking {
    fn receive(&self, _: NodeId, _: PeerMessage) {
        panic!("this panic is part of the test");
    }
    fn connected(&self, _: NodeId) {}
    fn disconnected(&self, _: NodeId) {}
    fn request(&self, _: ConnectionId, _: &ClientName, _: Request) {}
    fn gone(&self, _: NodeId) {}
    fn client_gone(&self, _: ConnectionId) {}
}

#[test]
fn a_panicking_inbox_stops_the_transport() {
    let (first, second) = (listeners(), listeners());
    let address = |it: &Listeners| it.peers.local_addr().unwrap().to_string();
    let of_one = settings(1, vec![peer(2, &address(&second))]);
    let of_two = settings(2, vec![peer(1, &address(&first))]);
    let one = Node::start(first, of_one);
    let (_, events) = channel();
    let two = Node::start_with(second, of_two, Arc::new(Panicking), events);
    one.wait_for(&Event::Connected(NodeId::first(2)));
    one.network.send(NodeId::first(2), raft("panic"));
    wait_until(|| !two.running.is_running());
    assert!(matches!(two.running.stop(), Err(TransportError::Panicked)));
}
