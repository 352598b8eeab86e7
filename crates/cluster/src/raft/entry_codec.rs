//! Entries as raft-rs holds them, and as the node does.

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType};

use crate::entry::{EntryBody, LogEntry};

/// The bytes of a body; empty for [`EntryBody::Empty`], as raft-rs has it.
pub(super) fn encode_body(body: &EntryBody) -> Bytes {
    match body {
        EntryBody::Empty => Bytes::new(),
        // A change of membership is raft-rs's own encoding.
        EntryBody::Membership(bytes) => bytes.clone(),
        body => postcard::to_stdvec(body)
            .expect("a body has no type that cannot be encoded")
            .into(),
    }
}

/// The body that these bytes stand for. Nothing if there is none.
pub(super) fn decode_body(is_membership: bool, data: &[u8]) -> Option<EntryBody> {
    if is_membership {
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

/// For raft-rs.
pub(super) fn to_raft(index: u64, term: u64, body: &EntryBody) -> Entry {
    let mut entry = Entry::default();
    if matches!(body, EntryBody::Membership(_)) {
        entry.set_entry_type(EntryType::EntryConfChangeV2);
    }
    entry.index = index;
    entry.term = term;
    entry.data = encode_body(body);
    entry
}

/// For the node. Nothing if the entry is none of ours.
pub(super) fn from_raft(entry: &Entry) -> Option<LogEntry> {
    let is_membership = match entry.get_entry_type() {
        EntryType::EntryNormal => false,
        EntryType::EntryConfChangeV2 => true,
        EntryType::EntryConfChange => return None,
    };
    Some(LogEntry {
        index: entry.index,
        term: entry.term,
        body: decode_body(is_membership, &entry.data)?,
    })
}
