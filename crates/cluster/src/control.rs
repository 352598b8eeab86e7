//! Entries that concern all workers: sessions and tables. They have no payload.

use bytes::Bytes;
use namiki_client::protocol::SessionId;
use serde::{Deserialize, Serialize};

use crate::network::ClientName;

/// A change that no group of commands makes. It is idempotent.
///
/// The order of the variants is their encoding: new ones come last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Opens a session, unless one with this nonce exists. Only logs of versions before 0.1 have
    /// this entry: it evicts another session if there are too many.
    OpenSession { nonce: u128 },
    /// Closes a session. Only logs of versions before 0.1 have this entry: it does not say which of
    /// its holders closes it.
    CloseSession { session: SessionId },
    /// Creates a table, unless one of this name exists.
    CreateTable { name: String, eight_byte_keys: bool },
    /// Opens a session of a client, unless one with this nonce exists, or the limits are reached.
    /// The limits are the leader's; they are in the entry so that every node decides alike.
    OpenClientSession {
        nonce: u128,
        client: ClientName,
        limits: SessionLimits,
    },
    /// Drops a table, if there is one of this number.
    DropTable { table: u32 },
    /// Hands a session to another holder, unless this attempt has done so: this entry is its new
    /// fence.
    ResumeSession {
        session: SessionId,
        nonce: u128,
        attempt: u128,
    },
    /// Closes a session, unless another holder has resumed it since.
    CloseHeldSession { session: SessionId, fence: u64 },
}

/// Largest numbers of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionLimits {
    /// Sessions of all clients. Default 100,000.
    pub all: u32,
    /// Sessions of one client. Default 10,000.
    pub client: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            all: 100_000,
            client: 10_000,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the first version has written.
    #[test]
    fn entries_of_the_first_version_are_decoded() {
        let open = Control::OpenSession { nonce: 300 };
        assert_eq!(Control::decode(&[0, 0xac, 2]), Some(open));
        let session = SessionId(7);
        let close = Control::CloseSession { session };
        assert_eq!(Control::decode(&[1, 7]), Some(close));
        let create = Control::CreateTable {
            name: "a".to_owned(),
            eight_byte_keys: true,
        };
        assert_eq!(Control::decode(&[2, 1, b'a', 1]), Some(create));
    }

    #[test]
    fn a_resumption_comes_back_from_its_entry() {
        let resume = Control::ResumeSession {
            session: SessionId(7),
            nonce: 300,
            attempt: 1,
        };
        assert_eq!(Control::decode(&resume.encode()), Some(resume));
        let session = SessionId(7);
        let close = Control::CloseHeldSession { session, fence: 9 };
        assert_eq!(Control::decode(&[6, 7, 9]), Some(close));
    }

    #[test]
    fn a_client_and_limits_are_in_the_entry() {
        let control = Control::OpenClientSession {
            nonce: 300,
            client: ClientName::of_address([10, 0, 0, 1].into()),
            limits: SessionLimits::default(),
        };
        assert_eq!(Control::decode(&control.encode()), Some(control));
    }
}
