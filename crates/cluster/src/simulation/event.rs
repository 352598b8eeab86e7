//! What happens in the simulated world, and its trace.

use namiki_client::protocol::{Request, Response};
use namiki_platform::hash::hash_of;

use super::back_plan::Step;
use super::node::Part;
use crate::network::{NodeId, PeerMessage};

/// Something that happens at a moment of virtual time.
pub(super) enum Event {
    Tick {
        node: usize,
        life: u64,
    },
    Run {
        node: usize,
        life: u64,
        part: Part,
    },
    Deliver {
        from: NodeId,
        to: NodeId,
        message: PeerMessage,
    },
    Request {
        client: usize,
        node: usize,
        request: Request,
    },
    Respond {
        client: usize,
        response: Response,
    },
    Client(usize),
    /// A client that opens and closes sessions acts.
    SessionUser(usize),
    Fault,
    /// All links are healed, and the isolated node crashes soon: while others overwrite its
    /// entries.
    Rejoin(usize),
    Restart(usize),
    /// A full disk has room again.
    Room(usize),
    /// A disk damages data.
    Damage,
    /// A disk is lost, if the cluster can tolerate that.
    LoseDisk(usize),
    /// The operator requests that this node become a member in the place of a lost one.
    AskToReplace(NodeId),
    /// The operator decides which node joins or leaves.
    ChangeMembers,
    /// The operator requests that this node become a member.
    AskToAdd(NodeId),
    /// The operator requests that this node be no member any more.
    AskToRemove(NodeId),
    /// The next step towards a disk that goes back, or from there.
    Back(Step),
}

impl Event {
    /// The hash of a trace that this event continues.
    pub(super) fn traced(&self, now_ns: u64, trace: u64) -> u64 {
        let (kind, numbers) = self.key();
        let words = [now_ns, kind, numbers[0], numbers[1]];
        let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        hash_of(trace, &bytes)
    }

    /// A number for each kind, and the nodes, clients or steps that it concerns.
    fn key(&self) -> (u64, [u64; 2]) {
        match self {
            Self::Tick { node, .. } => (0, [*node as u64, 0]),
            Self::Run { node, part, .. } => (1, [*node as u64, part.key()]),
            Self::Deliver { from, to, .. } => (2, [from.to_raft(), to.to_raft()]),
            Self::Request { client, node, .. } => (3, [*client as u64, *node as u64]),
            Self::Respond { client, .. } => (4, [*client as u64, 0]),
            Self::Client(client) => (5, [*client as u64, 0]),
            Self::Fault => (6, [0, 0]),
            Self::Rejoin(node) => (7, [*node as u64, 0]),
            Self::Restart(node) => (8, [*node as u64, 0]),
            Self::Room(node) => (9, [*node as u64, 0]),
            Self::Damage => (10, [0, 0]),
            Self::LoseDisk(node) => (11, [*node as u64, 0]),
            Self::AskToReplace(node) => (12, [node.to_raft(), 0]),
            Self::ChangeMembers => (13, [0, 0]),
            Self::AskToAdd(node) => (14, [node.to_raft(), 0]),
            Self::AskToRemove(node) => (15, [node.to_raft(), 0]),
            Self::SessionUser(user) => (17, [*user as u64, 0]),
            Self::Back(step) => (16, [*step as u64, 0]),
        }
    }
}
