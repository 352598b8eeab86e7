//! Conversion between raft-rs's entries and the node's.

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType};

use crate::entry::{ENTRY_VERSION, EntryBody, LogEntry};
use crate::membership::MembershipChange;

/// Why bytes are not the body of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// The entry is of a later version of the program.
    Later { version: u8 },
    /// The bytes have no meaning.
    Invalid,
}

/// The bytes of a body: its version, and then the body. None for [`EntryBody::Empty`], which raft-rs makes.
pub(super) fn encode_body(body: &EntryBody) -> Bytes {
    let bytes = match body {
        EntryBody::Empty => return Bytes::new(),
        EntryBody::Membership(bytes) => [&[ENTRY_VERSION], &bytes[..]].concat(),
        body => postcard::to_extend(body, vec![ENTRY_VERSION])
            .expect("a body has no type that cannot be encoded"),
    };
    bytes.into()
}

/// Decodes a body.
pub(super) fn decode_body(is_membership: bool, data: &[u8]) -> Result<EntryBody, BodyError> {
    let (version, body) = match data {
        [] if is_membership => return Err(BodyError::Invalid),
        [] => return Ok(EntryBody::Empty),
        [version, body @ ..] => (*version, body),
    };
    match version {
        ENTRY_VERSION => {}
        0 => return Err(BodyError::Invalid),
        version => return Err(BodyError::Later { version }),
    }
    if is_membership {
        MembershipChange::decode(body).ok_or(BodyError::Invalid)?;
        return Ok(EntryBody::Membership(Bytes::copy_from_slice(body)));
    }
    match postcard::from_bytes(body) {
        Ok(body @ (EntryBody::Group(_) | EntryBody::Control(_))) => Ok(body),
        _ => Err(BodyError::Invalid),
    }
}

/// To raft-rs's form.
pub(super) fn to_raft(index: u64, term: u64, body: &EntryBody) -> Entry {
    let is_membership = matches!(body, EntryBody::Membership(_));
    raft_entry(index, term, is_membership, encode_body(body))
}

/// To raft-rs's form, from the bytes of a body. A change of membership is in the entry's context:
/// its data is raft-rs's own encoding, which is read when it is proposed and never again.
pub(super) fn raft_entry(index: u64, term: u64, is_membership: bool, body: Bytes) -> Entry {
    let mut entry = Entry::default();
    (entry.index, entry.term) = (index, term);
    if is_membership {
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        entry.context = body;
    } else {
        entry.data = body;
    }
    entry
}

/// The bytes of an entry's body, and whether it is a change of membership.
pub(super) fn body_bytes(entry: &Entry) -> (bool, &Bytes) {
    match entry.get_entry_type() {
        EntryType::EntryConfChangeV2 => (true, &entry.context),
        _ => (false, &entry.data),
    }
}

/// To the node's form. `None` if the entry is not a valid one of this cluster.
pub(super) fn from_raft(entry: &Entry) -> Option<LogEntry> {
    let (is_membership, body) = body_bytes(entry);
    Some(LogEntry {
        index: entry.index,
        term: entry.term,
        body: decode_body(is_membership, body).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{PayloadName, PayloadRef};

    /// What nodes of this version say to each other for ever.
    #[test]
    fn bodies_have_these_bytes() {
        let name = PayloadName {
            term: 7,
            worker: 3,
            number: 300,
        };
        let payload = PayloadRef {
            name,
            length: 5,
            digest: 6,
        };
        for (body, bytes) in [
            (EntryBody::Empty, &[][..]),
            (EntryBody::Group(payload), &[1, 1, 7, 3, 0xac, 2, 5, 6]),
            (
                EntryBody::Control(Bytes::from_static(b"abc")),
                &[1, 3, 3, b'a', b'b', b'c'],
            ),
        ] {
            assert_eq!(encode_body(&body), bytes);
            assert_eq!(decode_body(false, bytes), Ok(body));
        }
        let node = crate::network::NodeId::first(3);
        let promote = MembershipChange::Promote { node }.encode();
        let body = EntryBody::Membership(promote.clone());
        assert_eq!(encode_body(&body), [&[1], &promote[..]].concat());
        assert_eq!(decode_body(true, &encode_body(&body)), Ok(body));
    }

    #[test]
    fn a_body_of_a_later_version_is_told_from_nonsense() {
        let body = EntryBody::Control(Bytes::from_static(b"abc"));
        let mut bytes = encode_body(&body).to_vec();
        bytes[0] = 2;
        for is_membership in [false, true] {
            let found = decode_body(is_membership, &bytes);
            assert_eq!(found, Err(BodyError::Later { version: 2 }));
        }
        bytes[0] = 0;
        assert_eq!(decode_body(false, &bytes), Err(BodyError::Invalid));
        assert_eq!(decode_body(false, &[1, 9]), Err(BodyError::Invalid));
        assert_eq!(decode_body(true, &[]), Err(BodyError::Invalid));
    }
}
