//! What the parts of a node tell each other.

use std::sync::Arc;

use crate::entry::LogEntry;
use crate::group_in_flight::GroupInFlight;
use crate::network::ConnectionId;
use crate::raft::ReadId;
use crate::storage::RaftRecord;

/// What the applier is told.
#[derive(Debug)]
pub(crate) enum ApplierEvent {
    /// These are committed.
    Committed(Vec<LogEntry>),
    /// This node was elected.
    Elected(u64),
    /// It leads no more.
    Deposed,
    /// A read may be answered once this entry is applied.
    ReadReady(ReadId, u64),
    /// A client asks for the state's hash.
    StateHash(ConnectionId),
}

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// The node leads in this term from now on, or does not lead.
    Office(Option<u64>),
    /// Commands of a client's group are this worker's.
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
