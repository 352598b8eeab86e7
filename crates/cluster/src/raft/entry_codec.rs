//! Conversion between raft-rs's entries and the node's.

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType};

use crate::entry::{EntryBody, LogEntry};
use crate::membership::MembershipChange;

/// The bytes of a body; empty for [`EntryBody::Empty`], as raft-rs has it.
pub(super) fn encode_body(body: &EntryBody) -> Bytes {
    match body {
        EntryBody::Empty => Bytes::new(),
        EntryBody::Membership(bytes) => bytes.clone(),
        body => postcard::to_stdvec(body)
            .expect("a body has no type that cannot be encoded")
            .into(),
    }
}

/// Decodes a body. `None` if the bytes are not a valid one.
pub(super) fn decode_body(is_membership: bool, data: &[u8]) -> Option<EntryBody> {
    if is_membership {
        MembershipChange::decode(data)?;
        return Some(EntryBody::Membership(Bytes::copy_from_slice(data)));
    }
    if data.is_empty() {
        return Some(EntryBody::Empty);
    }
    match postcard::from_bytes(data) {
        Ok(body @ (EntryBody::Group(_) | EntryBody::Control(_))) => Some(body),
        _ => None,
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
        body: decode_body(is_membership, body)?,
    })
}
