//! Raft's messages as bytes.
//!
//! This codec checks every length before it uses it: bytes from the network never reach raft-rs's
//! protobuf parser. It also checks conditions that raft-rs takes for granted and would panic
//! without: entries without gaps, terms that do not fall, kinds that a peer may send.

use bytes::Bytes;
use raft::eraftpb::{Entry, Message, MessageType};
use serde::{Deserialize, Serialize};

use super::entry_codec::{BodyError, body_bytes, decode_body, raft_entry};
#[cfg(feature = "hostile-bytes")]
use super::entry_codec::{from_raft, to_raft};
#[cfg(feature = "hostile-bytes")]
use crate::entry::{EntryBody, PayloadRef};
#[cfg(feature = "hostile-bytes")]
use crate::membership::MembershipChange;
use crate::network::NodeId;

/// The reason for which a message was dropped.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum MessageError {
    /// It cannot be decoded.
    #[error("the bytes are not a Raft message")]
    Undecodable,
    /// Nodes do not send messages of this kind to each other.
    #[error("message kind {0} is not sent between nodes")]
    Kind(u8),
    /// It comes from another node than its connection, or is meant for another.
    #[error("the message is from node {from} to node {to}")]
    Misdirected { from: u64, to: u64 },
    /// Its entries are not consecutive.
    #[error("entries after {after} have gaps, falling terms, or no meaning")]
    Entries { after: u64 },
    /// An entry is of a later version of the program.
    #[error("entry {index} has version {version}")]
    LaterEntry { index: u64, version: u8 },
    /// A read, or the answer to one, has another context or a term.
    #[error("a read has a context of {length} bytes in term {term}")]
    Read { length: usize, term: u64 },
}

/// The starts between which a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Starts {
    /// The sender's.
    pub(super) of: u64,
    /// The receiver's, as the sender knows it.
    pub(super) to: u64,
}

/// The starts, and the fields of raft-rs's `Message` that nodes use.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    starts: Starts,
    kind: u8,
    to: u64,
    from: u64,
    term: u64,
    log_term: u64,
    index: u64,
    commit: u64,
    commit_term: u64,
    reject: bool,
    reject_hint: u64,
    priority: i64,
    /// Of a read: the data of its entry, which has no index.
    #[serde(borrow)]
    context: &'a [u8],
    #[serde(borrow)]
    entries: Vec<WireEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireEntry<'a> {
    term: u64,
    is_membership: bool,
    #[serde(borrow)]
    data: &'a [u8],
}

/// # Panics
/// If its entries are not consecutive: the bytes do not contain their indexes.
pub(super) fn encode(starts: Starts, message: &Message) -> Bytes {
    let (mut context, mut entries) = (&message.context, &*message.entries);
    if is_read(message.get_msg_type())
        && let [entry] = entries
    {
        (context, entries) = (&entry.data, &[]);
    }
    for (at, entry) in entries.iter().enumerate() {
        let distance = entry.index.wrapping_sub(message.index);
        assert_eq!(distance, 1 + at as u64, "an append without gaps");
    }
    let entries = entries.iter().map(|entry| {
        let (is_membership, data) = body_bytes(entry);
        WireEntry {
            term: entry.term,
            is_membership,
            data,
        }
    });
    let wire = Wire {
        starts,
        kind: message.get_msg_type() as u8,
        to: message.to,
        from: message.from,
        term: message.term,
        log_term: message.log_term,
        index: message.index,
        commit: message.commit,
        commit_term: message.commit_term,
        reject: message.reject,
        reject_hint: message.reject_hint,
        priority: message.priority,
        context,
        entries: entries.collect(),
    };
    let mut bytes =
        postcard::to_stdvec(&wire).expect("a message has no type that cannot be encoded");
    // It may wait in a lane's queue, which counts its length.
    bytes.shrink_to_fit();
    bytes.into()
}

/// Bytes of the context of a read (`reads.rs`).
const READ_CONTEXT_BYTES: usize = 24;

/// Whether it asks for a read, or answers that.
fn is_read(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::MsgReadIndex | MessageType::MsgReadIndexResp
    )
}

/// The kinds that nodes send to each other. Snapshots are not among them yet; proposals and
/// transfers begin on the leader.
const KINDS: &[MessageType] = &[
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
];

pub(super) fn decode(
    from: NodeId,
    to: NodeId,
    bytes: &[u8],
) -> Result<(Starts, Message), MessageError> {
    let wire: Wire<'_> = postcard::from_bytes(bytes).map_err(|_| MessageError::Undecodable)?;
    let kind = (KINDS.iter().find(|kind| **kind as u8 == wire.kind))
        .ok_or(MessageError::Kind(wire.kind))?;
    if (wire.from, wire.to) != (from.to_raft(), to.to_raft()) {
        return Err(MessageError::Misdirected {
            from: wire.from,
            to: wire.to,
        });
    }
    let is_append = *kind == MessageType::MsgAppend;
    let after = wire.index;
    let no_entries = MessageError::Entries { after };
    let overflows = after.checked_add(wire.entries.len() as u64).is_none();
    let is_misplaced = !is_append && !wire.entries.is_empty();
    if overflows || is_misplaced || is_append && wire.log_term > wire.term {
        return Err(no_entries);
    }
    let mut message = Message::default();
    message.set_msg_type(*kind);
    let mut term = wire.log_term;
    let mut entries = Vec::with_capacity(wire.entries.len());
    for (at, wired) in wire.entries.iter().enumerate() {
        let falls = wired.term < term || wired.term > wire.term;
        let index = after + 1 + at as u64;
        match decode_body(wired.is_membership, wired.data) {
            Ok(_) if !falls => {}
            Err(BodyError::Later { version }) if !falls => {
                return Err(MessageError::LaterEntry { index, version });
            }
            _ => return Err(no_entries),
        }
        term = wired.term;
        let body = Bytes::copy_from_slice(wired.data);
        entries.push(raft_entry(index, term, wired.is_membership, body));
    }
    message.to = wire.to;
    message.from = wire.from;
    message.term = wire.term;
    message.log_term = wire.log_term;
    message.index = wire.index;
    message.commit = wire.commit;
    message.commit_term = wire.commit_term;
    message.reject = wire.reject;
    message.reject_hint = wire.reject_hint;
    message.priority = wire.priority;
    let context = Bytes::copy_from_slice(wire.context);
    if is_read(*kind) {
        // raft-rs takes a message without a term for one of this node.
        let has_term = *kind == MessageType::MsgReadIndexResp;
        if context.len() != READ_CONTEXT_BYTES || has_term != (wire.term > 0) {
            return Err(MessageError::Read {
                length: context.len(),
                term: wire.term,
            });
        }
        let entry = Entry {
            data: context,
            ..Entry::default()
        };
        entries.push(entry);
    } else {
        message.context = context;
    }
    message.entries = entries.into();
    Ok((wire.starts, message))
}

/// For tests with hostile bytes: decodes a message, asserts that encoding it yields the same bytes,
/// and decodes its entries.
///
/// # Errors
/// The reason for which it is dropped.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn look_at_message(from: NodeId, to: NodeId, bytes: &[u8]) -> Result<(), MessageError> {
    let (starts, message) = decode(from, to, bytes)?;
    let again = decode(from, to, &encode(starts, &message));
    assert_eq!(again.as_ref(), Ok(&(starts, message.clone())));
    if is_read(message.get_msg_type()) {
        return Ok(());
    }
    for entry in &message.entries {
        from_raft(entry).expect("a message with an entry of another kind is dropped");
    }
    Ok(())
}

/// For tests with hostile bytes: one message of each kind, one of them with entries.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn messages(from: NodeId, to: NodeId, payload: PayloadRef) -> Vec<Bytes> {
    let change = MembershipChange::Promote { node: from }.encode();
    let bodies = [
        EntryBody::Empty,
        EntryBody::Group(payload),
        EntryBody::Control(Bytes::from_static(b"control")),
        EntryBody::Membership(change),
    ];
    let of_kind = |kind: &MessageType| {
        let mut message = Message::default();
        message.set_msg_type(*kind);
        (message.from, message.to) = (from.to_raft(), to.to_raft());
        (message.term, message.log_term, message.index) = (7, 6, 40);
        if *kind == MessageType::MsgAppend {
            let entries = (41..).zip(&bodies);
            let entries = entries.map(|(index, body)| to_raft(index, 7, body));
            message.entries = entries.collect::<Vec<_>>().into();
        } else if is_read(*kind) {
            let entry = Entry {
                data: vec![7; READ_CONTEXT_BYTES].into(),
                ..Entry::default()
            };
            message.entries = vec![entry].into();
            if *kind == MessageType::MsgReadIndex {
                message.term = 0;
            }
        }
        encode(Starts { of: 11, to: 12 }, &message)
    };
    KINDS.iter().map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use raft::eraftpb::EntryType;

    use super::super::entry_codec::encode_body;
    use super::*;
    use crate::entry::EntryBody;
    use crate::membership::MembershipChange;

    const STARTS: Starts = Starts { of: 11, to: 12 };

    fn append() -> Message {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        (message.from, message.to, message.term) = (1, 2, 7);
        (message.index, message.log_term, message.commit) = (40, 6, 39);
        let mut entry = Entry::default();
        (entry.index, entry.term) = (41, 7);
        message.entries = vec![entry].into();
        message
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let message = append();
        assert_eq!(
            decode(
                NodeId::first(1),
                NodeId::first(2),
                &encode(STARTS, &message)
            ),
            Ok((STARTS, message))
        );
    }

    #[test]
    fn a_change_of_membership_comes_back_in_its_context() {
        let node = NodeId::new(3, 2);
        let change = MembershipChange::Promote { node }.encode();
        let mut message = append();
        message.entries[0].set_entry_type(EntryType::EntryConfChangeV2);
        let context = encode_body(&EntryBody::Membership(change));
        message.entries[0].context = context.clone();
        let decoded = |message: &Message| {
            let bytes = encode(STARTS, message);
            decode(NodeId::first(1), NodeId::first(2), &bytes)
        };
        assert_eq!(decoded(&message), Ok((STARTS, message.clone())));
        message.entries[0].context = context.slice(..2);
        assert_eq!(decoded(&message), Err(MessageError::Entries { after: 40 }));
    }

    #[test]
    fn a_read_comes_back_with_its_context() {
        let decoded = |message: &Message| {
            let bytes = encode(STARTS, message);
            let decoded = decode(NodeId::first(1), NodeId::first(2), &bytes);
            decoded.map(|(_, message)| message)
        };
        for (kind, term) in [
            (MessageType::MsgReadIndex, 0),
            (MessageType::MsgReadIndexResp, 7),
        ] {
            let mut message = Message::default();
            message.set_msg_type(kind);
            (message.from, message.to, message.term) = (1, 2, term);
            message.index = 40;
            let entry = Entry {
                data: vec![9; READ_CONTEXT_BYTES].into(),
                ..Entry::default()
            };
            message.entries = vec![entry].into();
            assert_eq!(decoded(&message), Ok(message.clone()));
            message.term = 7 - term;
            let length = READ_CONTEXT_BYTES;
            let other_term = MessageError::Read {
                length,
                term: 7 - term,
            };
            assert_eq!(decoded(&message), Err(other_term));
            message.term = term;
            message.entries[0].data = vec![9; 8].into();
            let short = MessageError::Read { length: 8, term };
            assert_eq!(decoded(&message), Err(short));
        }
    }

    #[test]
    fn messages_that_would_break_raft_are_refused() {
        let refused = |change: fn(&mut Message)| {
            let mut message = append();
            change(&mut message);
            let bytes = encode(STARTS, &message);
            decode(NodeId::first(1), NodeId::first(2), &bytes).expect_err("it is refused")
        };
        assert_eq!(
            refused(|it| it.entries[0].term = 5),
            MessageError::Entries { after: 40 }
        );
        assert_eq!(
            refused(|it| it.entries[0].term = 8),
            MessageError::Entries { after: 40 }
        );
        let overflowing = |it: &mut Message| {
            it.index = u64::MAX;
            it.entries[0].index = 0;
        };
        assert_eq!(
            refused(overflowing),
            MessageError::Entries { after: u64::MAX }
        );
        assert_eq!(
            refused(|it| it.from = 3),
            MessageError::Misdirected { from: 3, to: 2 }
        );
        assert_eq!(
            refused(|it| it.set_msg_type(MessageType::MsgHup)),
            MessageError::Kind(0)
        );
        assert_eq!(
            refused(|it| it.set_msg_type(MessageType::MsgSnapshot)),
            MessageError::Kind(7)
        );
    }

    #[test]
    fn no_prefix_of_a_message_is_one() {
        let whole = encode(STARTS, &append());
        for length in 0..whole.len() {
            assert_eq!(
                decode(NodeId::first(1), NodeId::first(2), &whole[..length]),
                Err(MessageError::Undecodable)
            );
        }
    }
}
