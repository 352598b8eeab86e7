//! The messages of the start inquiry as bytes. Like Raft's, they are checked before anything uses
//! them.

use std::num::NonZeroU128;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::membership::{MEMBERS_MAX, Membership};
use crate::network::NodeId;

/// The end of a log. A later term comes after any index of an earlier one, as in Raft's comparison
/// of logs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(super) struct LogEnd {
    /// The term of the last entry.
    pub(super) term: u64,
    /// The last entry.
    pub(super) index: u64,
}

/// The contents of a node's disk when it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AtStart {
    /// Its term.
    pub(super) term: u64,
    /// Its last entry.
    pub(super) last: u64,
}

impl AtStart {
    /// Whether it is the state of a node that has never taken part in anything.
    pub(super) fn is_blank(self) -> bool {
        self == Self::default()
    }
}

/// A message between two starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartMessage {
    /// The sender's start.
    pub(super) start: u64,
    /// The receiver's start; 0: the sender does not know it.
    pub(super) to: u64,
    /// The backup that the sender's cluster began with.
    pub(super) backup: Option<NonZeroU128>,
    pub(super) body: StartBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StartBody {
    /// A node has started, and wants to be noted.
    Hello,
    /// The start that returns this number first is noted.
    Ticket(u64),
    /// Asks to note the start.
    Note { ticket: u64, had: AtStart },
    /// The start is noted.
    Noted {
        /// The sender has never taken part in anything.
        is_blank: bool,
        /// The last entry that the sender knows to be committed.
        committed: LogEnd,
        members: Membership,
    },
    /// Asks for the state now.
    Ask { round: u64 },
    /// The state now: the term, the last entry, durable or not, the members, and those to come.
    Answer {
        round: u64,
        term: u64,
        last: LogEnd,
        members: Membership,
        /// The voters once all changes in the sender's log are committed.
        next_voters: Vec<NodeId>,
    },
}

impl StartMessage {
    pub(super) fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("a message has no type that cannot be encoded")
            .into()
    }

    /// The message of these bytes, if they are one that a node sends.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (message, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        let is_sound = match &message.body {
            StartBody::Answer {
                term,
                last,
                members,
                next_voters,
                ..
            } => last.term <= *term && members.is_sound() && next_voters.len() <= MEMBERS_MAX,
            StartBody::Noted { members, .. } => members.is_sound(),
            _ => true,
        };
        (rest.is_empty() && message.start != 0 && is_sound).then_some(message)
    }
}

/// For tests with hostile bytes: decodes a message, and asserts that encoding it yields the same
/// message.
///
/// # Errors
/// The bytes are not a message.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn look_at_start_message(bytes: &[u8]) -> Result<(), &'static str> {
    let message = StartMessage::decode(bytes).ok_or("the bytes are not of a start")?;
    assert_eq!(
        StartMessage::decode(&message.encode()).as_ref(),
        Some(&message)
    );
    Ok(())
}

/// For tests with hostile bytes: one message of each kind.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn start_messages(members: &Membership) -> Vec<Bytes> {
    let had = AtStart { term: 6, last: 40 };
    let bodies = [
        StartBody::Hello,
        StartBody::Ticket(9),
        StartBody::Note { ticket: 9, had },
        StartBody::Noted {
            is_blank: false,
            committed: LogEnd { term: 5, index: 38 },
            members: members.clone(),
        },
        StartBody::Ask { round: 1 },
        StartBody::Answer {
            round: 1,
            term: 7,
            last: LogEnd { term: 6, index: 41 },
            members: members.clone(),
            next_voters: members.voters().collect(),
        },
    ];
    let message = |body| StartMessage {
        start: 11,
        to: 12,
        backup: None,
        body,
    };
    bodies.map(|body| message(body).encode()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NodeId;

    fn answer(members: Membership, last_term: u64) -> StartMessage {
        StartMessage {
            start: 1,
            to: 2,
            backup: None,
            body: StartBody::Answer {
                round: 1,
                term: 3,
                last: LogEnd {
                    term: last_term,
                    index: 9,
                },
                members,
                next_voters: Vec::new(),
            },
        }
    }

    #[test]
    fn messages_without_meaning_are_refused() {
        let members = Membership::new(&[NodeId::first(1), NodeId::first(2)]);
        let good = answer(members.clone(), 3);
        let bytes = good.encode();
        assert_eq!(StartMessage::decode(&bytes), Some(good.clone()));
        for length in 0..bytes.len() {
            assert_eq!(StartMessage::decode(&bytes[..length]), None);
        }
        assert_eq!(
            StartMessage::decode(&[&bytes[..], &[0]].concat()),
            None,
            "longer"
        );
        for bad in [
            answer(members, 4),
            answer(Membership::default(), 3),
            StartMessage { start: 0, ..good },
        ] {
            assert_eq!(StartMessage::decode(&bad.encode()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_later_term_is_a_later_end() {
        let end = |term, index| LogEnd { term, index };
        assert!(end(2, 1) > end(1, 9) && end(2, 2) > end(2, 1));
    }
}
