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
    /// Creates a table, unless one of this name exists.
    CreateTable { name: String, eight_byte_keys: bool },
    /// Opens a session of a client, unless one with this nonce exists, or the limits are reached.
    /// The limits are the leader's; they are in the entry so that every node decides alike.
    OpenSession {
        nonce: u128,
        client: ClientName,
        limits: SessionLimits,
    },
    /// Drops a table, if there is one of this number.
    DropTable { table: u32 },
    /// Drops a table, if there is one of this number, and creates another one in its place, with its name and its kind of keys,
    /// under the next number.
    ClearTable { table: u32 },
    /// Hands a session to another holder, unless this attempt has done so: this entry is its new
    /// fence.
    ResumeSession {
        session: SessionId,
        nonce: u128,
        attempt: u128,
    },
    /// Closes a session, unless another holder has resumed it since.
    CloseSession { session: SessionId, fence: u64 },
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
        match postcard::take_from_bytes(bytes) {
            Ok((control, [])) => Some(control),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each_kind() -> Vec<Control> {
        let session = SessionId(7);
        vec![
            Control::CreateTable {
                name: "a".to_owned(),
                eight_byte_keys: true,
            },
            Control::OpenSession {
                nonce: 300,
                client: ClientName::of_address([10, 0, 0, 1].into()),
                limits: SessionLimits::default(),
            },
            Control::DropTable { table: 3 },
            Control::ClearTable { table: 300 },
            Control::ResumeSession {
                session,
                nonce: 300,
                attempt: 1,
            },
            Control::CloseSession { session, fence: 9 },
        ]
    }

    #[test]
    fn every_entry_comes_back_and_its_parts_are_no_entries() {
        for control in one_of_each_kind() {
            let bytes = control.encode();
            assert_eq!(Control::decode(&bytes), Some(control));
            for length in 0..bytes.len() {
                assert_eq!(Control::decode(&bytes[..length]), None);
            }
            assert_eq!(Control::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Control::decode(&[6, 7, 9]), None, "an unknown kind");
    }
}
