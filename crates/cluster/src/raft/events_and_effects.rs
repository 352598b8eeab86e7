//! Events and effects of the driver.

use std::sync::Arc;

use bytes::Bytes;
use namiki_client::protocol::{MemberChange, Role};

use super::members::ChangeRefusal;
use crate::entry::{EntryBody, LogEntry, PayloadRef};
use crate::membership::Membership;
use crate::network::{NodeId, PeerMessage};
use crate::storage::RaftRecord;

/// Id of a read request, chosen by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReadId(pub(crate) u64);

impl ReadId {
    /// Ids above this one are of reads that a node answers in any role; others are the leader's.
    pub(crate) const FIRST_OF_NODE: Self = Self(1 << 63);

    pub(crate) fn is_of_node(self) -> bool {
        self > Self::FIRST_OF_NODE
    }
}

/// Byte limit of the messages and requests that wait to be handled.
pub(crate) const RAFT_BYTES_MAX: usize = 64 << 20;
/// Size of a short one when it waits.
pub(crate) const RAFT_MESSAGE_BYTES: usize = 128;

/// An event.
#[derive(Clone, Debug)]
pub(crate) enum RaftEvent {
    /// Time has passed.
    Tick,
    /// The tables are applied through this entry.
    Applied(u64),
    /// The tables are in memory.
    TablesLoaded,
    /// A node has sent a message.
    Message(NodeId, Bytes),
    /// A node has sent a message of a start inquiry.
    Start(NodeId, Bytes),
    /// A payload has arrived, or was sealed here. It is not durable yet.
    PayloadReceived(PayloadRef),
    /// These payloads are durable.
    PayloadsDurable(Vec<PayloadRef>),
    /// A payload of a committed entry cannot be read back from the disk, which has forgotten it.
    PayloadDamaged(PayloadRef),
    /// Every batch of records through this one is durable.
    BatchDurable(u64),
    /// Propose this as an entry.
    Propose(EntryBody),
    /// A caller wants a linearizable read. It may have no effect: a caller that is not the leader
    /// repeats it.
    ReadIndex(ReadId),
    /// A node cannot be reached.
    Unreachable(NodeId),
    /// Leadership should be transferred to this node, or to the one that is best prepared.
    HandOver(Option<NodeId>),
    /// The log is truncated through this entry: a durable image has it. The entries leave memory;
    /// those that are not handed out yet stay.
    Truncated(u64),
    /// The members are to be changed. A leader answers by
    /// [`RaftEffect::MembersDurable`] or [`RaftEffect::MembersNotChanged`].
    ChangeMembers(MemberChange),
}

/// An effect to be executed.
#[derive(Clone, Debug)]
pub(crate) enum RaftEffect {
    /// Send this.
    Send(NodeId, PeerMessage),
    /// Append these to stream 0, make them durable, and then report [`RaftEvent::BatchDurable`]. In
    /// order.
    AppendRaft {
        /// The batch's number.
        batch: u64,
        /// Its records.
        records: Vec<RaftRecord>,
    },
    /// These are committed, in the order of their indexes. Each is handed out once in the life of
    /// the process.
    Committed(Vec<LogEntry>),
    /// This node was elected. It may execute commands when it has applied its own first entry, which is empty and of this term.
    Elected {
        /// The term.
        term: u64,
    },
    /// This node is no longer the leader.
    Deposed,
    /// A read after this entry is applied sees everything that was acknowledged before the read was
    /// requested.
    ReadReady(ReadId, u64),
    /// The published state.
    View(RaftView),
    /// These are the members from now on. This precedes the entry that has changed them.
    Members(Arc<Membership>),
    /// These members are durable: this node knows them after a restart, too.
    MembersDurable(Arc<Membership>),
    /// For a leader: this node needs entries that are truncated, so it needs an image. Repeated every
    /// election timeout while that is so.
    NeedsSnapshot(NodeId),
    /// Ask this node for an image: nodes do not send data that this one has lost, perhaps because they have it in their
    /// images. One through this entry has all of it. Repeated every election timeout while that is so.
    AskForImage(NodeId, u64),
    /// Payloads are [damaged](RaftEvent::PayloadDamaged), and no other node is a member: they are lost.
    PayloadsLost {
        /// Their number.
        count: usize,
    },
    /// The payloads that were [damaged](RaftEvent::PayloadDamaged) are durable again.
    PayloadsRestored,
    /// This change is not made, or not now.
    MembersNotChanged(MemberChange, ChangeRefusal),
    /// These are the newest members that are known, by the own log or by other nodes: they are dialled, and accepted.
    NewestMembers(Arc<Membership>),
    /// This node was removed, or another directory has its number.
    Gone,
    /// The node may have forgotten promises before this start, and now has all that the others know of them.
    Remembered,
    /// This start goes on without the answers of these voters.
    StartedWithout(Vec<NodeId>),
    /// For a leader: a node has started without entries that it has acknowledged to this leader.
    WentBack {
        /// The node.
        node: NodeId,
        /// The last entry that it had acknowledged.
        matched: u64,
        /// Its last entry now.
        last: u64,
    },
    /// This node has not spoken yet, and its cluster began with another backup than that one's. It must stop.
    OtherBackup(NodeId),
    /// A node has sent an entry of a later version of the program. This one must stop.
    LaterEntry {
        /// The entry.
        index: u64,
        /// Its version.
        version: u8,
    },
    /// The leader has another entry in the place of a committed one of this node, which must stop.
    Contradicted {
        /// The leader's term.
        term: u64,
        /// The entry.
        index: u64,
        /// Its term here.
        own_term: u64,
        /// Its term in the leader's log.
        leader_term: u64,
    },
}

/// The published state of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StartView {
    /// The node has not heard from all others yet, and is silent.
    pub(crate) is_silent: bool,
    /// Voters that had not answered when the node went on.
    pub(crate) without: u64,
    /// Its log has not reached the last entries of the others as of its start: it does not ask for
    /// votes.
    pub(crate) is_below_floor: bool,
    /// It may have forgotten votes and acknowledgements: no start goes on without the answers of all.
    pub(crate) may_have_forgotten: bool,
    /// Other voters that a silent node waits for.
    pub(crate) awaited: u64,
}

/// The published state of Raft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RaftView {
    /// The role: only the applier distinguishes [`Role::TakingOffice`] from [`Role::Leader`].
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
    /// Invalid messages that were refused.
    pub(crate) refused: u64,
    /// Payloads that were persisted and are damaged or gone. Until they are restored, the node does
    /// not participate.
    pub(crate) missing: u64,
    /// For a leader: the last matching entry of each node's log.
    pub(crate) matched: Vec<(NodeId, u64)>,
    /// The state of this start.
    pub(crate) start: StartView,
}
