//! What the driver is told, and what it wants done.

use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::Role;

use super::members::ReplaceRefusal;
use crate::entry::{EntryBody, LogEntry, PayloadRef};
use crate::membership::Membership;
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

/// A request to read, chosen by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReadId(pub(crate) u64);

/// What has happened.
#[derive(Clone, Debug)]
pub(crate) enum RaftEvent {
    /// Time has passed.
    Tick,
    /// So far the tables are.
    Applied(u64),
    /// A node has sent a message.
    Message(NodeId, Bytes),
    /// A payload has arrived, or was sealed here. It is not durable yet.
    PayloadReceived(PayloadRef),
    /// These payloads are durable.
    PayloadsDurable(Vec<PayloadRef>),
    /// Every batch of records through this one is durable.
    BatchDurable(u64),
    /// This is to become an entry.
    Propose(EntryBody),
    /// A caller wants to read.
    ReadIndex(ReadId),
    /// A node cannot be reached.
    Unreachable(NodeId),
    /// Leadership should go to another node.
    HandOver,
    /// This node is to take the place of the one of its number. A leader answers by [`RaftEffect::MembersDurable`] or
    /// [`RaftEffect::NotReplaced`].
    Replace(NodeId),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum RaftEffect {
    /// Send this.
    Send(NodeId, PeerMessage),
    /// Append these to stream 0, then make them durable, and say so by [`RaftEvent::BatchDurable`]. In order.
    AppendRaft {
        /// Which batch.
        batch: u64,
        /// Its records.
        records: Vec<RaftRecord>,
    },
    /// These are committed, in the order of their indexes. Each comes once in the life of the process.
    Committed(Vec<LogEntry>),
    /// This node was elected. It may execute commands when it has applied its own first entry, which is empty and of this term.
    Elected {
        /// The term.
        term: u64,
    },
    /// This node does not lead any more.
    Deposed,
    /// A read after this entry is applied sees everything that was acknowledged before it was asked for.
    ReadReady(ReadId, u64),
    /// The state that others may look at.
    View(RaftView),
    /// These are the members from now on. It comes before the entry that has made them so.
    Members(Arc<Membership>),
    /// This node knows after a restart, too, that these are the members.
    MembersDurable(Vec<NodeId>),
    /// This node does not become a member, or not now.
    NotReplaced(NodeId, ReplaceRefusal),
}

/// What others may know of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RaftView {
    /// The role: [`Role::TakingOffice`] is told apart from [`Role::Leader`] by the applier only.
    pub(crate) role: Role,
    /// The term.
    pub(crate) term: u64,
    /// The leader, if one is known.
    pub(crate) leader: Option<NodeId>,
    /// The last entry.
    pub(crate) last: u64,
    /// The last that is persisted.
    pub(crate) persisted: u64,
    /// The last that is committed.
    pub(crate) committed: u64,
    /// Messages that were refused, because they make no sense.
    pub(crate) refused: u64,
    /// Of a leader: how far each node's log matches.
    pub(crate) matched: Vec<(NodeId, u64)>,
}
