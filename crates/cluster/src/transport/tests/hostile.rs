//! Hostile bytes at the address for nodes, while two nodes continue to communicate.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use super::rig::*;
use crate::network::NodeId;
use crate::transport::frame::{FrameKind, OutgoingFrame};
use crate::transport::hello::Hello;
use crate::transport::lane::Lane;

pub(super) const HELLO: Hello = Hello {
    cluster: CLUSTER,
    from: NodeId::first(3),
    to: NodeId::first(1),
    lane: Lane::Control,
    workers: WORKERS,
    founders: 0,
};

pub(super) fn bytes_of(frame: &OutgoingFrame) -> Vec<u8> {
    [frame.head(), frame.body()].concat()
}

fn framed(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    let body = bytes::Bytes::copy_from_slice(body);
    bytes_of(&OutgoingFrame::of_body(kind, body))
}

/// The bytes that the node sends before it closes.
pub(super) fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the connection stays open: {error}"),
    }
}

pub(super) fn still_talks(one: &Node, two: &Node) {
    let still_there = raft("still there");
    assert_eq!(two.send_until_received(one, &still_there), still_there);
}

/// The code in an answer.
pub(super) fn code(answer: &[u8]) -> u8 {
    answer[4 + 1 + 6]
}

#[test]
fn unauthenticated_peers_are_refused_and_nodes_go_on() {
    let (one, two) = two_nodes(|_| {});
    let wrong_magic = {
        let mut bytes = bytes_of(&HELLO.to_frame());
        bytes[5] ^= 1;
        bytes
    };
    let wrong_version = {
        let mut bytes = bytes_of(&HELLO.to_frame());
        bytes[9] = 99;
        bytes
    };
    let hello = |hello: Hello| bytes_of(&hello.to_frame());
    let refused = [
        (vec![0xff; 4], 1),
        (b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(), 1),
        (framed(FrameKind::Raft, b"no hello"), 1),
        (wrong_magic, 1),
        (wrong_version, 2),
        (
            hello(Hello {
                cluster: 1,
                ..HELLO
            }),
            3,
        ),
        (
            hello(Hello {
                to: NodeId::first(2),
                ..HELLO
            }),
            4,
        ),
        (
            hello(Hello {
                from: NodeId::first(9),
                ..HELLO
            }),
            5,
        ),
        (
            hello(Hello {
                workers: 9,
                ..HELLO
            }),
            6,
        ),
        (
            hello(Hello {
                to: NodeId::new(1, 2),
                ..HELLO
            }),
            10,
        ),
    ];
    for (bytes, expected) in refused {
        let mut stream = dial(&one.peer_address);
        stream.write_all(&bytes).unwrap();
        let answer = rest(stream);
        // A reset may overtake the answer.
        assert!(answer.is_empty() || code(&answer) == expected, "{bytes:?}");
        still_talks(&one, &two);
    }
}

#[test]
fn garbage_after_a_hello_ends_the_connection() {
    let (one, two) = two_nodes(|_| {});
    let too_long = |bytes: u32| bytes.to_le_bytes().to_vec();
    let (control, lane, catch_up) = (Lane::Control, Lane::Payloads(1), Lane::CatchUp);
    let hostile = [
        (control, too_long(u32::MAX)),
        (control, too_long((1 << 20) + 2)),
        (lane, too_long((4 << 20) + 1000)),
        (control, vec![0; 4]),
        (control, framed(FrameKind::Hello, &[1; 43])),
        (control, framed(FrameKind::Payload, &[1; 40])),
        (lane, framed(FrameKind::Payload, &[1; 10])),
        (lane, framed(FrameKind::Payload, &[9; 40])),
        (lane, framed(FrameKind::Raft, &[])),
        (catch_up, framed(FrameKind::FetchPayloads, &[0xff; 40])),
        (catch_up, framed(FrameKind::FetchedPayload, &[7; 19])),
    ];
    for (lane, bytes) in hostile {
        let mut stream = dial(&one.peer_address);
        let hello = Hello { lane, ..HELLO };
        stream.write_all(&bytes_of(&hello.to_frame())).unwrap();
        let mut answer = [0; 20];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(code(&answer), 0);
        stream.write_all(&bytes).unwrap();
        rest(stream);
        still_talks(&one, &two);
    }
}

#[test]
fn a_half_frame_is_waited_for_no_longer_than_allowed() {
    let (one, two) = two_nodes(short_timeouts);
    let mut with_hello = bytes_of(&HELLO.to_frame());
    with_hello.extend_from_slice(&framed(FrameKind::Raft, &[1; 100])[..50]);
    let halves = [
        vec![],
        bytes_of(&HELLO.to_frame())[..20].to_vec(),
        with_hello,
    ];
    for bytes in halves {
        let mut stream = dial(&one.peer_address);
        stream.write_all(&bytes).unwrap();
        // The node ends it, not the test.
        rest(stream);
        still_talks(&one, &two);
    }
}

#[test]
fn unauthenticated_peers_beyond_the_limit_are_closed_at_once() {
    let (one, two) = two_nodes(|_| {});
    let waiting: Vec<_> = (0..8).map(|_| dial(&one.peer_address)).collect();
    for _ in 0..3 {
        rest(dial(&one.peer_address));
    }
    still_talks(&one, &two);
    drop(waiting);
}
