//! Entries that concern all workers: sessions and tables. They have no payload.

use bytes::Bytes;
use namiki_client::protocol::SessionId;
use serde::{Deserialize, Serialize};

/// A change that no group of commands makes. It is idempotent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Opens a session, unless one with this nonce exists.
    OpenSession { nonce: u128 },
    /// Closes a session.
    CloseSession { session: SessionId },
    /// Creates a table, unless one of this name exists.
    CreateTable { name: String, eight_byte_keys: bool },
}

impl Control {
    pub(crate) fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("a control entry has no type that cannot be encoded")
            .into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
