//! Options of reads: how recent their answers are, and the node that gives them.

/// How recent the state is that a read sees. Every read sees the state after some entry of the log,
/// never a part of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Everything that was acknowledged to any client before the read began. A node that does not
    /// lead asks the leader how far it has to have applied the log. Without a leader no such read is
    /// answered.
    #[default]
    Strong,
    /// Everything that this client and its sessions have seen: results of their commands, rows that
    /// they have read. A node that lags behind is waited for, or left for another one, unless it was
    /// chosen by its [address](ReadNode::Address). See [`Client::seen`](crate::Client::seen).
    Session,
    /// The node answers at once from the state that it has applied, which may be old. The answer has the LSN of that state. A node that
    /// has started answers from its last image before it applies the log behind it, so an answer may be older than an earlier one
    /// of the same node.
    Stale,
}

/// The node that answers a read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadNode {
    /// The leader, which the client follows.
    #[default]
    Leader,
    /// Any of the client's addresses, as long as it answers. Clients begin with different ones.
    Any,
    /// The node at this address, and no other: one that is near, or one that is spared for long scans.
    Address(String),
}

/// Options of reads. Default: strong, from the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// How recent the answer is.
    pub consistency: Consistency,
    /// The node that gives it.
    pub node: ReadNode,
}
