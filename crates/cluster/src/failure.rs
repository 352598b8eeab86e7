//! The reasons for which a node stops.

use std::fmt;

use crate::entry::{ENTRY_VERSION, PayloadRef};
use crate::network::NodeId;
use crate::payload::PayloadError;
use crate::raft::RaftError;
use crate::session::SessionError;
use crate::storage::StoreError;

/// A node cannot continue. Everything that it has acknowledged is on its disk; the other nodes
/// continue without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeFailure {
    /// The disk failed. The contents of the disk after a failed write are unknown: start the node
    /// again once the cause is removed.
    #[error("{doing} failed; start the node again when the cause is removed")]
    Storage {
        /// The operation of the node.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<StoreError>,
    },
    /// The tables of the node could not be opened or read. The cause's own remedy is that of a
    /// database that stands alone.
    #[error(
        "{doing} failed; start the node again when the cause is removed; put back no files of a backup: if the cause is damage, replace the node"
    )]
    Database {
        /// The operation of the node.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No failure: the tables of another node have taken the place of this one's, and it has to start again with them.
    #[error(
        "the tables have been replaced by an image of another node, through entry {index}: start the node again"
    )]
    ImageInstalled {
        /// The last entry in the image.
        index: u64,
    },
    /// The image of the tables is damaged, as was found when they came into memory. A start that waits for them goes on without
    /// tables, and installs an image of another node.
    #[error(
        "the tables of the directory are damaged: start the node again, and it installs an image of another one"
    )]
    TablesDamaged {
        /// The cause.
        #[source]
        source: namiki::Error,
    },
    /// The node was removed from the cluster, or another directory has its number.
    #[error(
        "node {node} is no member of the cluster any more: it was removed, or its number has another directory; this directory cannot \
         return, and may be deleted; namiki node init --join makes one for a new member"
    )]
    Gone {
        /// The node.
        node: NodeId,
    },
    /// Payloads of the only node are damaged or missing.
    #[error(
        "{count} payloads of the log are damaged or missing, and there is no other node that has them: begin a new cluster with a backup"
    )]
    PayloadsLost {
        /// Their number.
        count: usize,
    },
    /// Raft cannot start.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// A thread of the node has panicked; its message is in the log of the process.
    #[error("a thread of the node has panicked: report its message, and start the node again")]
    Panicked,
    /// Nodes of one number began with different backups, or some without.
    #[error(
        "this node began with another backup than {node}, or one of both without: create all nodes of a new cluster with the same backup, \
         and under a new number; remove the directory of each node that has the wrong one, and create it again"
    )]
    OtherBackup {
        /// The other node.
        node: NodeId,
    },
    /// Another node has sent an entry of a later version of the program.
    #[error(
        "entry {index} has version {version}, and this program knows entries of version {ENTRY_VERSION}: upgrade this node to the version \
         of the others, and start it again"
    )]
    LaterEntry {
        /// The entry.
        index: u64,
        /// Its version.
        version: u8,
    },
    /// This program does not know the meaning of an entry.
    #[error("entry {index} has no meaning for this version of the program: update it")]
    UnknownEntry {
        /// The entry.
        index: u64,
    },
    /// A committed entry cannot be applied.
    #[error("entry {index} is committed and cannot be applied; replace the node: {cause}")]
    NotApplied {
        /// The entry.
        index: u64,
        /// The reason.
        cause: String,
    },
    /// The leader has another entry in the place of one that is committed here. Disks of other nodes
    /// went back to an earlier state, or this one's did.
    #[error(
        "entry {index} is committed here with term {own_term}, and the leader of term {term} has it with term {leader_term}: disks have \
         lost acknowledged data; keep the directories of all nodes, and find the disk that went back before you replace a node"
    )]
    Contradicted {
        /// The entry.
        index: u64,
        /// Its term here.
        own_term: u64,
        /// The leader's term.
        term: u64,
        /// The entry's term in the leader's log.
        leader_term: u64,
    },
    /// A payload does not match its entry, although it is what was written: another one has its name.
    #[error(
        "the payload {payload:?} of entry {index} is another one on this node's disk; replace the node"
    )]
    Damaged {
        /// The entry.
        index: u64,
        /// The payload.
        payload: PayloadRef,
    },
}

impl NodeFailure {
    pub(crate) fn storage(doing: &'static str, source: StoreError) -> Self {
        let source = Box::new(source);
        Self::Storage { doing, source }
    }

    pub(crate) fn database(
        doing: &'static str,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let source = Box::new(source);
        Self::Database { doing, source }
    }

    pub(crate) fn unknown_entry(index: u64) -> Self {
        Self::UnknownEntry { index }
    }

    pub(crate) fn damaged(index: u64, payload: PayloadRef) -> Self {
        Self::Damaged { index, payload }
    }

    pub(crate) fn invalid(index: u64, error: PayloadError) -> Self {
        Self::not_applied(index, error)
    }

    pub(crate) fn contradiction(index: u64, error: SessionError) -> Self {
        Self::not_applied(index, error)
    }

    pub(crate) fn not_created(index: u64, error: impl fmt::Display) -> Self {
        Self::not_applied(index, error)
    }

    pub(crate) fn not_applied(index: u64, error: impl fmt::Display) -> Self {
        let cause = error.to_string();
        Self::NotApplied { index, cause }
    }
}
