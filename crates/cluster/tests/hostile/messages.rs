//! Valid messages: the first messages of connections, written by hand for nodes, and requests of
//! clients.

use namiki_client::protocol::{
    Command, Condition, Freshness, MAGIC, PROTOCOL_VERSION, Request, SessionId, Write, encoded,
};
use namiki_platform::hash::hash_of;
use namiki_platform::seeded_random::Random;

use crate::cluster::{CLUSTER, NODES, WORKERS};

/// Magic number of a node's hello.
const NODE_MAGIC: u32 = 0x4e4d_4b50;
const NODE_VERSION: u16 = 4;

/// Kinds of frames between nodes.
const HELLO: u8 = 1;
pub(crate) const PING: u8 = 3;
pub(crate) const RAFT: u8 = 16;
pub(crate) const PAYLOAD: u8 = 17;
pub(crate) const FETCH_PAYLOADS: u8 = 18;
pub(crate) const FETCHED_PAYLOAD: u8 = 19;

/// Lanes in their wire format.
pub(crate) const LANES: [(u8, u16); 3] = [(0, 0), (1, 0), (2, 0)];

/// A frame between nodes.
pub(crate) fn node_frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(1 + body.len()).unwrap().to_le_bytes();
    [&length, &[kind][..], body].concat()
}

/// The hello of a node.
#[derive(Clone, Copy)]
pub(crate) struct NodeHello {
    pub(crate) magic: u32,
    pub(crate) version: u16,
    pub(crate) cluster: u128,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) lane: (u8, u16),
    pub(crate) workers: u16,
    pub(crate) founders: u64,
}

/// The hash of the members with which the cluster has begun.
fn founders() -> u64 {
    let numbers: Vec<u8> = (1..=NODES).flat_map(u64::to_le_bytes).collect();
    hash_of(3, &numbers)
}

/// A node in its wire format.
pub(crate) fn node(number: u64, incarnation: u64) -> u64 {
    (incarnation - 1) << 32 | number
}

impl NodeHello {
    /// The hello of a member on its first directory.
    pub(crate) fn to(to: u64, from: u64) -> Self {
        Self {
            magic: NODE_MAGIC,
            version: NODE_VERSION,
            cluster: CLUSTER,
            from: node(from, 1),
            to: node(to, 1),
            lane: LANES[0],
            workers: WORKERS,
            founders: founders(),
        }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut body = self.magic.to_le_bytes().to_vec();
        body.extend(self.version.to_le_bytes());
        body.extend(self.cluster.to_le_bytes());
        body.extend(self.from.to_le_bytes());
        body.extend(self.to.to_le_bytes());
        body.push(self.lane.0);
        body.extend(self.lane.1.to_le_bytes());
        body.extend(self.workers.to_le_bytes());
        body.extend(self.founders.to_le_bytes());
        node_frame(HELLO, &body)
    }
}

/// The hello of a client of this cluster.
pub(crate) fn client_hello() -> Vec<u8> {
    hello_of(MAGIC, PROTOCOL_VERSION, CLUSTER)
}

pub(crate) fn hello_of(magic: u32, version: u16, cluster: u128) -> Vec<u8> {
    let hello = Request::Hello {
        magic,
        version,
        cluster,
    };
    encoded(&hello).unwrap()
}

/// A request that does not change rows of other clients.
pub(crate) fn request(random: &mut Random) -> Vec<u8> {
    let session = SessionId(random.next_u64() | 1 << 40);
    let request = match random.below(11) {
        0 => Request::OpenSession {
            nonce: u128::from(random.next_u64()),
        },
        1 => Request::CloseSession {
            session,
            fence: session.0,
        },
        2 => Request::Submit {
            session,
            fence: session.0,
            group: 1 + random.below(100),
            acknowledged_through: 0,
            commands: vec![command(random); 1 + random.below(50) as usize],
        },
        3 => Request::Read {
            request: random.next_u64(),
            freshness: freshness(random),
            keys: vec![(random.below(9) as u32, vec![7; 8]); random.below(50) as usize],
        },
        4 => Request::ResumeSession {
            session,
            nonce: random.next_u64().into(),
            attempt: random.next_u64().into(),
        },
        5 => Request::Outcomes {
            request: random.next_u64(),
            session,
            fence: session.0,
            group: random.next_u64(),
        },
        6 => Request::CreateTable {
            name: "another".to_owned(),
            eight_byte_keys: false,
        },
        7 => Request::StateHash {
            at: random.chance(0.5).then(|| random.below(1000)),
        },
        // Of no table that there is.
        8 => Request::ClearTable {
            table: 1000 + random.below(9) as u32,
        },
        9 => Request::DropTable { table: 0 },
        _ => Request::Status,
    };
    encoded(&request).unwrap()
}

fn freshness(random: &mut Random) -> Freshness {
    match random.below(3) {
        0 => Freshness::Leader,
        1 => Freshness::Strong,
        _ => Freshness::AtLeast(random.below(1000)),
    }
}

fn command(random: &mut Random) -> Command {
    if random.chance(0.5) {
        return Command::Transfer {
            table: 99,
            from: random.next_u64(),
            to: random.next_u64(),
            amount: 5,
        };
    }
    Command::Write(Box::new(Write {
        conditions: vec![Condition {
            table: 99,
            key: vec![1; 20],
            value: Some(vec![2; 200]),
        }],
        rows: vec![(99, vec![1; 20], Some(vec![3; 200]))],
    }))
}
