//! The attacks: bytes that unauthenticated peers send.

use namiki_client::protocol::{MAGIC, PROTOCOL_VERSION, Request, Response, decode};
use namiki_platform::seeded_random::Random;

use crate::cluster::{CLUSTER, NODES};
use crate::links::{Link, rest};
use crate::messages::{
    FETCH_PAYLOADS, FETCHED_PAYLOAD, LANES, NodeHello, PAYLOAD, PING, RAFT, client_hello, hello_of,
    node, node_frame, request,
};

/// The attacked port, which determines the protocol of the answers.
#[derive(Clone, Copy)]
enum Port {
    Nodes,
    Clients,
}

/// Bytes for one connection.
pub(crate) struct Attack {
    port: Port,
    bytes: Vec<u8>,
    /// The node must not welcome the first message.
    is_refused: bool,
}

impl Attack {
    /// The same attack on a connection that the node must refuse.
    #[cfg(feature = "tls")]
    pub(crate) fn refused(self) -> Self {
        Self {
            is_refused: true,
            ..self
        }
    }

    /// Sends the bytes, in pieces or at once, and hangs up, orderly or not. If the node's answers
    /// are read, they must be valid.
    pub(crate) fn run(self, mut link: impl Link, random: &mut Random) {
        let piece = 1 << random.below(20);
        for piece in self.bytes.chunks(piece) {
            // It may be closed before everything is sent.
            if link.write_all(piece).and_then(|()| link.flush()).is_err() {
                break;
            }
        }
        if random.chance(0.2) {
            return;
        }
        link.finish();
        let said = rest(link);
        match self.port {
            Port::Nodes => self.check_node_answer(&said),
            Port::Clients => self.check_responses(&said),
        }
    }

    /// The first bytes, for messages.
    fn begin(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(80)]
    }

    fn check_node_answer(&self, said: &[u8]) {
        // The end of a connection may overtake the answer.
        let Some(answer) = said.get(..20) else {
            return;
        };
        assert_eq!((answer[0], answer[4]), (16, 2), "{answer:?}");
        assert!(
            !self.is_refused || answer[11] != 0,
            "{:?} was welcome",
            self.begin()
        );
    }

    fn check_responses(&self, said: &[u8]) {
        let mut rest = said;
        let mut is_first = true;
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some(message) = behind.get(..length) else {
                return;
            };
            let response: Response = decode(message).unwrap();
            let welcomes = matches!(response, Response::Welcome { .. });
            assert!(
                is_first || !welcomes,
                "{:?} was welcome twice",
                self.begin()
            );
            assert!(
                !self.is_refused || !welcomes,
                "{:?} was welcome",
                self.begin()
            );
            is_first = false;
            rest = &behind[length..];
        }
    }
}

/// Bytes of any kind.
fn noise(bytes_max: u64, random: &mut Random) -> Vec<u8> {
    let bytes = random.below(bytes_max);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// Corrupts a frame: its bits, its length, its end, or the number of its copies.
pub(crate) fn mutated(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    match random.below(6) {
        0 => {
            for _ in 0..1 + random.below(8) {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        1 => bytes.truncate(random.index(bytes.len())),
        2 => bytes.extend(noise(100, random)),
        3 => {
            let lengths = [0, 1, u32::MAX, 1 << 31, 64 << 20, 8 << 20, 1 << 20];
            let length = lengths[random.index(lengths.len())];
            bytes[..4].copy_from_slice(&length.to_le_bytes());
        }
        4 => bytes = bytes.repeat(1 + random.index(50)),
        _ => {
            let (from, to) = (random.index(bytes.len()), random.index(bytes.len()));
            bytes.swap(from, to);
        }
    }
    bytes
}

/// An attack on the port for clients.
pub(crate) fn on_clients(random: &mut Random) -> Attack {
    let of = |bytes, is_refused| Attack {
        port: Port::Clients,
        bytes,
        is_refused,
    };
    match random.below(6) {
        0 => of(noise(4096, random), false),
        1 => of(mutated(&client_hello(), random), false),
        2 => {
            let version = PROTOCOL_VERSION.wrapping_add(1 + random.below(1000) as u16);
            let wrong = [
                hello_of(MAGIC, version, CLUSTER),
                hello_of(MAGIC ^ 1, PROTOCOL_VERSION, CLUSTER),
                hello_of(MAGIC, PROTOCOL_VERSION, CLUSTER + 1),
                NodeHello::to(1, 2).bytes(),
                request(random),
            ];
            of(wrong[random.index(wrong.len())].clone(), true)
        }
        3 => {
            // A long message that continues for any time.
            let begun = (8_u32 << 20).to_le_bytes();
            let bytes = [client_hello(), begun.to_vec(), noise(200_000, random)].concat();
            of(bytes, false)
        }
        _ => {
            let mut bytes = client_hello();
            for _ in 0..random.below(20) {
                let harmed = mutated(&request(random), random);
                if !changes_members(&harmed) {
                    bytes.extend(harmed);
                }
            }
            of(bytes, false)
        }
    }
}

/// A valid request to change the members is not an attack.
fn changes_members(frame: &[u8]) -> bool {
    let message = frame.get(4..).map(decode::<Request>);
    matches!(message, Some(Ok(Request::ChangeMembers(_))))
}

/// An attack on this node's port for nodes.
pub(crate) fn on_nodes(to: u64, random: &mut Random) -> Attack {
    let from = 1 + (to + random.below(NODES - 1)) % NODES;
    of_node(from, to, random)
}

/// An attack on this node's port for nodes, by a peer that claims that number.
pub(crate) fn of_node(from: u64, to: u64, random: &mut Random) -> Attack {
    let of = |bytes, is_refused| Attack {
        port: Port::Nodes,
        bytes,
        is_refused,
    };
    let hello = NodeHello::to(to, from);
    match random.below(5) {
        0 => of(noise(4096, random), false),
        1 => of(mutated(&hello.bytes(), random), false),
        2 => {
            let wrong = [
                NodeHello {
                    magic: hello.magic ^ 1,
                    ..hello
                },
                NodeHello {
                    version: hello.version + 1,
                    ..hello
                },
                NodeHello {
                    cluster: 1,
                    ..hello
                },
                NodeHello {
                    to: node(to, 2),
                    ..hello
                },
                NodeHello {
                    from: node(9, 1),
                    ..hello
                },
                NodeHello {
                    lane: (7, 7),
                    ..hello
                },
                NodeHello {
                    workers: 60,
                    ..hello
                },
                NodeHello {
                    founders: 60,
                    ..hello
                },
            ];
            of(wrong[random.index(wrong.len())].bytes(), true)
        }
        _ => {
            // As the member itself, or as its replacement.
            let incarnation = 1 + random.below(3);
            let lane = LANES[random.index(LANES.len())];
            let from = match incarnation {
                1 => hello.from,
                later => node(from, later),
            };
            let mut bytes = NodeHello {
                from,
                lane,
                ..hello
            }
            .bytes();
            for _ in 0..random.below(20) {
                let frame = lane_frame(lane, random);
                let is_whole = random.chance(0.3);
                bytes.extend(if is_whole {
                    frame
                } else {
                    mutated(&frame, random)
                });
            }
            of(bytes, false)
        }
    }
}

/// A frame that belongs on a lane, with false contents.
fn lane_frame(lane: (u8, u16), random: &mut Random) -> Vec<u8> {
    let (mut which, junk) = (noise(27, random), noise(5000, random));
    which.resize(26, 0);
    match (lane.0, random.below(4)) {
        (_, 0) => node_frame(PING, &[]),
        (0, _) => node_frame(RAFT, &junk),
        (1, _) => node_frame(PAYLOAD, &[which, junk].concat()),
        (_, 1) => node_frame(FETCHED_PAYLOAD, &[which, vec![1], junk].concat()),
        _ => fetch(1 + random.index(100), random),
    }
}

/// Asks for payloads that do not exist.
fn fetch(payloads: usize, random: &mut Random) -> Vec<u8> {
    let mut body = u32::try_from(payloads).unwrap().to_le_bytes().to_vec();
    body.extend((0..payloads * 26).map(|_| random.next_u64() as u8));
    node_frame(FETCH_PAYLOADS, &body)
}

/// One frame repeatedly, from a node that claims to replace another.
pub(crate) struct Flood {
    hello: Vec<u8>,
    frame: Vec<u8>,
    times: usize,
}

impl Flood {
    /// Sends it as fast as the node reads.
    pub(crate) fn run(self, mut link: impl Link) {
        let mut sent = link.write_all(&self.hello);
        for _ in 0..self.times {
            sent = sent.and_then(|()| link.write_all(&self.frame));
        }
        link.finish();
        rest(link);
    }
}

/// A flood of each kind of frame, for one node.
pub(crate) fn floods(to: u64, random: &mut Random) -> Vec<Flood> {
    let long = vec![0xa5; 1 << 20];
    let floods = [
        (LANES[0], node_frame(RAFT, &long), 200),
        (LANES[0], node_frame(RAFT, &[1, 2, 3]), 50_000),
        (LANES[0], node_frame(PING, &[]), 10_000),
        (LANES[1], node_frame(PAYLOAD, &long), 200),
        (LANES[2], fetch(1024, random), 200),
        (LANES[2], node_frame(FETCHED_PAYLOAD, &long), 200),
    ];
    let floods = floods.into_iter().map(|(lane, frame, times)| {
        let hello = NodeHello {
            from: node(1 + to % NODES, 2),
            lane,
            ..NodeHello::to(to, 2)
        };
        Flood {
            hello: hello.bytes(),
            frame,
            times,
        }
    });
    floods.collect()
}
