//! Entries of the Raft log, and the payloads that they name.
//!
//! The LSN of a group of commands is its entry's index.
//!
//! Paper: raft-pwal §3.2

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The version of entries: of their bodies, of the payloads that they name, and of what applying them does. An incompatible change
/// of any of these raises it. It stands in each entry, on the disk and between nodes; only the empty one of a new leader has none. A
/// node stops at an entry of a later version before it takes it into its log.
pub const ENTRY_VERSION: u8 = 1;

/// A payload's name in the cluster. It is unique: a leader of a term numbers what each of its workers seals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PayloadName {
    /// The term of the leader that sealed it.
    pub term: u64,
    /// The worker that filled it, which determines its stream.
    pub worker: u16,
    /// Its sequence number among the worker's payloads of the term, from 1.
    pub number: u64,
}

/// An entry's reference to its payload, with the means to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PayloadRef {
    /// Its name.
    pub name: PayloadName,
    /// Its length in bytes.
    pub length: u32,
    /// CRC-32C of its bytes.
    pub digest: u32,
}

impl PayloadRef {
    /// Makes the reference to these bytes.
    ///
    /// # Panics
    /// If there are 4 GiB of them.
    #[must_use]
    pub fn of(name: PayloadName, payload: &[u8]) -> Self {
        Self {
            name,
            length: u32::try_from(payload.len()).expect("a group is shorter than 4 GiB"),
            digest: crc32c::crc32c(payload),
        }
    }

    /// Whether these bytes are the referenced payload.
    #[must_use]
    pub fn matches(&self, payload: &[u8]) -> bool {
        payload.len() == self.length as usize && crc32c::crc32c(payload) == self.digest
    }
}

/// The body of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryBody {
    /// Nothing: the first entry of a leader.
    Empty,
    /// The changes of a group of commands are to be applied.
    Group(PayloadRef),
    /// A change of membership, in the adapter's encoding.
    Membership(Bytes),
    /// A change that concerns all workers: tables and sessions, in the encoding of `control.rs`.
    Control(Bytes),
}

/// An entry of the Raft log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its index, from 1: the LSN.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// Its body.
    pub body: EntryBody,
}
