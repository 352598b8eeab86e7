//! Events between the parts of a node.

use std::sync::Arc;
use std::time::Instant;

use namiki::replica::{DroppedTable, ReplicaView};
use namiki_client::protocol::{NodeStatus, ScanRange};

use crate::entry::{LogEntry, PayloadRef};
use crate::group_in_flight::GroupInFlight;
use crate::image_message::ImageMessage;
use crate::network::{ConnectionId, NodeId};
use crate::raft::ReadId;
use crate::storage::{RaftRecord, Snapshot};

/// Events for the applier.
#[derive(Debug)]
pub(crate) enum ApplierEvent {
    /// These are committed, as this node knows since that moment.
    Committed(Vec<LogEntry>, Instant),
    /// This node was elected.
    Elected(u64),
    /// This node is no longer the leader.
    Deposed,
    /// A read may be answered once this entry is applied.
    ReadReady(ReadId, u64),
    /// Reads that the node answers in any role can be answered.
    NodeReads,
    /// The tables are in memory, or cannot be loaded.
    TablesLoaded(Result<(), namiki::Error>),
    /// The rows that were [read from the image](Scan::Keys) are answered.
    ImageRead,
    /// A client asks for the state's hash.
    StateHash(ConnectionId),
    /// A client asks for the hash at an entry that may be applied already.
    HashRequested,
    /// The checkpointer wants a view of the next moment.
    OpenImageView {
        /// Also if no entry was applied since the last image.
        again: bool,
    },
    /// The damaged payloads that it waits for are on the disk again.
    PayloadsRestored,
}

/// A request of another node that is answered from the disk.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// It lacks payloads.
    Payloads(Vec<PayloadRef>),
    /// It lacks entries that are truncated.
    Offer,
    /// It has lost data that is in images above an entry, and all of it in those through another.
    Ask { above: u64, through: u64 },
    /// It copies an image, and lacks a file from an offset on.
    ImageFile { image: u128, file: u32, offset: u64 },
}

/// Events for a worker.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// The node leads in this term from now on, or does not lead any more.
    Office(Option<u64>),
    /// Commands of a client's group are assigned to this worker.
    Commands(Arc<GroupInFlight>, Vec<u32>),
    /// Locks were released.
    Released,
}

/// Records for stream 0.
#[derive(Debug)]
pub(crate) struct RaftWrite {
    pub(crate) batch: u64,
    pub(crate) records: Vec<RaftRecord>,
}

/// Rows that a client wants to read.
#[derive(Debug)]
pub(crate) struct KeysRead {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    /// Table and key.
    pub(crate) keys: Vec<(u32, Vec<u8>)>,
}

/// A scan that is to be made.
#[derive(Debug)]
pub(crate) enum Scan {
    /// The hash of the state at the entry of the view.
    StateHash {
        connection: ConnectionId,
        /// The status then.
        status: Box<NodeStatus>,
        view: ReplicaView,
        /// The hash of the sessions then.
        sessions: u128,
    },
    /// Rows by their keys at the entry of the view, while the tables are not in memory. [`ApplierEvent::ImageRead`] reports the
    /// end.
    Keys {
        reads: Vec<KeysRead>,
        view: ReplicaView,
    },
    /// The rows of a range at the entry of the view.
    Rows {
        connection: ConnectionId,
        request: u64,
        range: ScanRange,
        view: ReplicaView,
    },
    /// A part of a file of an image.
    ImageFile {
        connection: ConnectionId,
        image: u128,
        file: u32,
        offset: u64,
    },
    /// The memory of a dropped table is freed, which takes long if it is large.
    Free(DroppedTable),
}

/// An event for the checkpointer.
#[derive(Debug)]
pub(crate) enum ImageEvent {
    /// Looks whether an image is due, each time that an interval has passed.
    Look,
    /// The same at once: the log is without room.
    NoRoom,
    /// An image is due now: another node needs it, or a file of the last one is damaged.
    Wanted,
    /// The view that was asked for; `None`: no entry was applied since the last image, and it is not to be written again.
    View(Option<Box<ViewForImage>>),
    /// A client wants an image as of now.
    Backup(ConnectionId),
    /// The node may have forgotten promises before this start, and does not any more.
    Remembered,
}

/// The state of one entry.
#[derive(Debug)]
pub(crate) struct ViewForImage {
    pub(crate) view: ReplicaView,
    /// That entry, and its members.
    pub(crate) snapshot: Snapshot,
}

/// An event for the receiver.
#[derive(Debug)]
pub(crate) enum CopyEvent {
    /// Some time has passed; only while there is something to wait for.
    Tick,
    /// A node has sent this.
    Message(NodeId, ImageMessage),
}
