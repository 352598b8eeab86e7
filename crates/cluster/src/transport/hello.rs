//! The handshake of a connection between nodes: the hello of the node that dials, and the answer of
//! the other.
//!
//! ```text
//! Hello   magic u32, version u16, cluster u128, from u64, to u64, lane (u8, u16), workers u16, founders u64
//! Answer  magic u32, version u16, code u8, node u64                             code 0: welcome
//! ```
//! Nodes are named by number and incarnation. One that was removed or replaced is refused, if the other knows
//! that part of the log. A later incarnation than the known member's is welcome: the other is behind.
//!
//! Both are frames of a fixed size, so an unauthenticated peer cannot make a node allocate. A refused node keeps
//! dialling: the refusal may be the other's mistake, which may be repaired. Only one that is no member any more ends.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::network::NodeId;
use crate::transport::frame::{FrameKind, IncomingFrame, OutgoingFrame};
use crate::transport::lane::Lane;

/// Magic number of hello and answer.
const MAGIC: u32 = 0x4e4d_4b50;
/// Version of the protocol. Every incompatible change raises it.
const VERSION: u16 = 4;
const HELLO_BYTES: usize = 4 + 2 + 16 + 8 + 8 + 3 + 2 + 8;
const ANSWER_BYTES: usize = 4 + 2 + 1 + 8;
/// The longest frame that is accepted instead of a hello or an answer, after its length.
pub(super) const HELLO_FRAME_BYTES_MAX: usize = 128;

/// The hello: the node that dials, and the node that it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) cluster: u128,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) lane: Lane,
    pub(super) workers: u16,
    pub(super) founders: u64,
}

/// What a node knows of one that dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A member, or a later incarnation of one.
    Admitted,
    /// It is not a member, as far as is known.
    Unknown,
    /// It was a member, and never will be one again.
    Gone,
}

/// The reason for which a node is refused. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub(super) enum Refusal {
    /// The bytes are not a hello.
    #[error("it does not speak the protocol of nodes; is this the address for clients?")]
    NoHello = 1,
    /// Another version of the protocol.
    #[error("it speaks another version of the protocol; run the same version on all nodes")]
    Version = 2,
    /// Another cluster.
    #[error("it belongs to another cluster; compare the key `cluster` of both configurations")]
    Cluster = 3,
    /// Another node was expected.
    #[error("another node was expected at this address; compare the addresses of [[member]]")]
    NotMe = 4,
    /// The node that dials is not a member.
    #[error("the node that dialled is no member of the cluster yet: add it by namiki cluster add")]
    UnknownNode = 5,
    /// The number of workers differs.
    #[error("the number of workers differs; it is the same on all nodes of a cluster")]
    Workers = 6,
    /// The node that dials was removed or replaced.
    #[error(
        "the node that dialled was removed from the cluster, or another directory has its number: stop it"
    )]
    Gone = 7,
    /// The lane does not exist.
    #[error("the lane does not exist")]
    Lane = 8,
    /// The link is cut, for a test.
    #[error("the link is cut")]
    Cut = 9,
    /// Another incarnation of the node was expected.
    #[error(
        "the node at this address runs on another directory than was dialled; one of the two is old: if the node was replaced and does not \
         vote yet, this passes, otherwise replace it"
    )]
    OtherIncarnation = 10,
    /// The nodes were made for different members.
    #[error(
        "the directories of the two nodes were made for clusters that begin with different members: compare the [[member]] of both \
         configurations, and make the directory of the one that is wrong anew; a node that joins a cluster is made by namiki node init --join"
    )]
    Founders = 11,
    /// The certificate is not that of the node that dials.
    #[error(
        "the certificate of the node that dialled is not for its number and cluster; issue one with the name \
         node-NUMBER.CLUSTER.namiki"
    )]
    Certificate = 20,
    /// The bytes are those of TLS.
    #[error("it speaks TLS, and the other node does not; configure [tls] on all nodes, or on none")]
    SpeaksTls = 21,
}

impl Refusal {
    /// The refusal if another node was expected than the one at the address.
    fn of_other(meant: NodeId, found: NodeId) -> Self {
        if meant.number() == found.number() {
            Self::OtherIncarnation
        } else {
            Self::NotMe
        }
    }

    fn from_code(code: u8) -> Self {
        let all = [
            Self::Version,
            Self::Cluster,
            Self::NotMe,
            Self::UnknownNode,
            Self::Workers,
            Self::Gone,
            Self::Founders,
            Self::Lane,
            Self::Cut,
            Self::OtherIncarnation,
            Self::Certificate,
            Self::SpeaksTls,
        ];
        let known = all.into_iter().find(|refusal| *refusal as u8 == code);
        known.unwrap_or(Self::NoHello)
    }
}

impl Hello {
    pub(super) fn to_frame(self) -> OutgoingFrame {
        let mut body = BytesMut::with_capacity(HELLO_BYTES);
        body.put_u32_le(MAGIC);
        body.put_u16_le(VERSION);
        body.put_u128_le(self.cluster);
        body.put_u64_le(self.from.to_raft());
        body.put_u64_le(self.to.to_raft());
        let (kind, worker) = self.lane.to_wire();
        body.put_u8(kind);
        body.put_u16_le(worker);
        body.put_u16_le(self.workers);
        body.put_u64_le(self.founders);
        OutgoingFrame::of_body(FrameKind::Hello, body.freeze())
    }

    /// Reads the cluster and the nodes of a hello, and compares them with the expected ones.
    ///
    /// `standing` returns what is known of a node.
    pub(super) fn check(
        frame: IncomingFrame,
        own: &Identity,
        standing: impl Fn(NodeId) -> Standing,
    ) -> Result<(NodeId, Lane), Refusal> {
        let mut body = frame.body;
        let is_hello = frame.kind == FrameKind::Hello as u8 && body.len() >= 6;
        if !is_hello || body.get_u32_le() != MAGIC {
            return Err(Refusal::NoHello);
        }
        if body.get_u16_le() != VERSION {
            return Err(Refusal::Version);
        }
        if body.len() != HELLO_BYTES - 6 {
            return Err(Refusal::NoHello);
        }
        if body.get_u128_le() != own.cluster {
            return Err(Refusal::Cluster);
        }
        let from = NodeId::from_raft(body.get_u64_le());
        let to = NodeId::from_raft(body.get_u64_le());
        if to != own.node {
            return Err(Refusal::of_other(to, own.node));
        }
        let (kind, worker) = (body.get_u8(), body.get_u16_le());
        if body.get_u16_le() != own.workers {
            return Err(Refusal::Workers);
        }
        if body.get_u64_le() != own.founders {
            return Err(Refusal::Founders);
        }
        match standing(from) {
            Standing::Unknown => return Err(Refusal::UnknownNode),
            Standing::Gone => return Err(Refusal::Gone),
            Standing::Admitted => {}
        }
        let lane = Lane::from_wire(kind, worker, own.workers);
        Ok((from, lane.ok_or(Refusal::Lane)?))
    }
}

/// A node's identity for other nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) cluster: u128,
    pub(super) node: NodeId,
    pub(super) workers: u16,
    pub(super) founders: u64,
}

impl Identity {
    /// The answer to a hello.
    pub(super) fn answer(&self, refusal: Option<Refusal>) -> OutgoingFrame {
        let mut body = BytesMut::with_capacity(ANSWER_BYTES);
        body.put_u32_le(MAGIC);
        body.put_u16_le(VERSION);
        body.put_u8(refusal.map_or(0, |refusal| refusal as u8));
        body.put_u64_le(self.node.to_raft());
        OutgoingFrame::of_body(FrameKind::Answer, body.freeze())
    }
}

/// Whether the answer is a welcome of the node `to`.
pub(super) fn check_answer(frame: IncomingFrame, to: NodeId) -> Result<(), Refusal> {
    let mut body: Bytes = frame.body;
    let is_answer = frame.kind == FrameKind::Answer as u8 && body.len() == ANSWER_BYTES;
    if !is_answer || body.get_u32_le() != MAGIC {
        return Err(Refusal::NoHello);
    }
    let version = body.get_u16_le();
    match body.get_u8() {
        0 if version != VERSION => Err(Refusal::Version),
        0 => match NodeId::from_raft(body.get_u64_le()) {
            found if found == to => Ok(()),
            found => Err(Refusal::of_other(to, found)),
        },
        code => Err(Refusal::from_code(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Identity = Identity {
        cluster: 7,
        node: NodeId::new(2, 5),
        workers: 4,
        founders: 6,
    };
    const HELLO: Hello = Hello {
        cluster: 7,
        from: NodeId::new(1, 3),
        to: NodeId::new(2, 5),
        lane: Lane::Payloads(3),
        workers: 4,
        founders: 6,
    };

    fn incoming(frame: &OutgoingFrame) -> IncomingFrame {
        let mut bytes = BytesMut::from(&frame.head()[4..]);
        bytes.extend_from_slice(frame.body());
        assert!(bytes.len() <= HELLO_FRAME_BYTES_MAX);
        IncomingFrame::of(bytes.freeze())
    }

    fn checked(hello: Hello) -> Result<(NodeId, Lane), Refusal> {
        let standing = |node: NodeId| match node.number() {
            1 if node.incarnation() < 3 => Standing::Gone,
            1 => Standing::Admitted,
            _ => Standing::Unknown,
        };
        Hello::check(incoming(&hello.to_frame()), &OWN, standing)
    }

    #[test]
    fn a_member_is_welcome() {
        assert_eq!(checked(HELLO), Ok((NodeId::new(1, 3), Lane::Payloads(3))));
        let answer = incoming(&OWN.answer(None));
        assert_eq!(check_answer(answer, NodeId::new(2, 5)), Ok(()));
    }

    #[test]
    fn a_later_incarnation_than_the_known_one_is_welcome() {
        let from = NodeId::new(1, 4);
        let welcome = checked(Hello { from, ..HELLO });
        assert_eq!(welcome, Ok((from, Lane::Payloads(3))));
    }

    #[test]
    fn every_difference_has_its_refusal() {
        let (from, to) = (NodeId::first(9), NodeId::first(3));
        let refused = [
            (
                Hello {
                    cluster: 8,
                    ..HELLO
                },
                Refusal::Cluster,
            ),
            (Hello { to, ..HELLO }, Refusal::NotMe),
            (Hello { from, ..HELLO }, Refusal::UnknownNode),
            (
                Hello {
                    workers: 5,
                    ..HELLO
                },
                Refusal::Workers,
            ),
            (
                Hello {
                    from: NodeId::new(1, 2),
                    ..HELLO
                },
                Refusal::Gone,
            ),
            (
                Hello {
                    founders: 5,
                    ..HELLO
                },
                Refusal::Founders,
            ),
            (
                Hello {
                    to: NodeId::new(2, 4),
                    ..HELLO
                },
                Refusal::OtherIncarnation,
            ),
            (
                Hello {
                    lane: Lane::Payloads(4),
                    ..HELLO
                },
                Refusal::Lane,
            ),
        ];
        for (hello, refusal) in refused {
            assert_eq!(checked(hello), Err(refusal));
            let answer = incoming(&OWN.answer(Some(refusal)));
            assert_eq!(check_answer(answer, NodeId::new(2, 5)), Err(refusal));
        }
    }

    #[test]
    fn another_node_than_the_dialled_one_is_refused() {
        let answer = || incoming(&OWN.answer(None));
        let refused = check_answer(answer(), NodeId::first(1));
        assert_eq!(refused, Err(Refusal::NotMe));
        let refused = check_answer(answer(), NodeId::new(2, 4));
        assert_eq!(refused, Err(Refusal::OtherIncarnation));
    }

    #[test]
    fn other_bytes_are_no_hello() {
        let whole = HELLO.to_frame();
        for length in 0..whole.body().len() {
            let frame = IncomingFrame {
                kind: FrameKind::Hello as u8,
                body: whole.body().slice(..length),
            };
            let refused = Hello::check(frame, &OWN, |_| Standing::Admitted);
            assert_eq!(refused, Err(Refusal::NoHello));
        }
        let mut bytes = BytesMut::from(&whole.body()[..]);
        bytes[4] = 9;
        let frame = IncomingFrame {
            kind: FrameKind::Hello as u8,
            body: bytes.freeze(),
        };
        let refused = Hello::check(frame, &OWN, |_| Standing::Admitted);
        assert_eq!(refused, Err(Refusal::Version));
    }
}
