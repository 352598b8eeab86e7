//! Errors of a client.

use std::io;

use namiki_data::debug_as_sentence;

use crate::protocol::{FrameError, PROTOCOL_VERSION, SessionId, SessionLimit};

debug_as_sentence!(ClientError);

/// The reason for which a call has failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No addresses were passed.
    #[error("no node address was passed; pass at least one")]
    NoAddress,
    /// The options name an impossible cluster number.
    #[error(
        "0 is not the number of a cluster; name the cluster's own number in the options, or none"
    )]
    NoCluster,
    /// No leader answered in time. It is safe to ask again.
    #[error(
        "no leader answered in time: {last}; ask again, or check that a majority of the nodes runs"
    )]
    Unavailable {
        /// The last problem that occurred.
        last: String,
    },
    /// No leader of the cluster answered in time. A node at one of the addresses belongs to another
    /// cluster; no request was sent to it.
    #[error(
        "{address} belongs to cluster {found:032x}, not to cluster {expected:032x}: its nodes have moved, or another cluster uses their \
         addresses; connect with the current addresses of the cluster, or with a new client if the other cluster is meant"
    )]
    OtherCluster {
        /// The address.
        address: String,
        /// The cluster that the client belongs to.
        expected: u128,
        /// The cluster at the address.
        found: u128,
    },
    /// No node that speaks this client's version of the protocol answered in time. No request was sent
    /// to the one at the address.
    #[error(
        "{address} speaks version {node} of the protocol, and this client version {client}; upgrade {}",
        older(*.node, *.client)
    )]
    OtherVersion {
        /// The address.
        address: String,
        /// The node's version.
        node: u16,
        /// The client's version.
        client: u16,
    },
    /// It is not yet known whether the commands of this group were executed. Wait for the group
    /// again, now or later, in the same session.
    #[error(
        "the outcome of group {group} is unknown: {last}; wait for the group again; it is not executed twice"
    )]
    OutcomeUnknown {
        /// The group.
        group: u64,
        /// The last problem that occurred.
        last: String,
    },
    /// The session was closed. Groups that are not answered may have been executed.
    #[error("session {} no longer exists; open another one", .session.0)]
    NoSuchSession {
        /// The session.
        session: SessionId,
    },
    /// The session was resumed by another process since, or by this one under its token. Groups
    /// without an answer may have been executed.
    #[error(
        "session {} was resumed by another process since, so it accepts no groups from here; that process can ask for \
         the outcomes of earlier groups, and this one may resume the session again",
        .session.0
    )]
    SessionTaken {
        /// The session.
        session: SessionId,
    },
    /// A token was issued by another cluster.
    #[error(
        "the session is of cluster {expected:032x}, and this client is of cluster {found:032x}; resume it with a client of its cluster"
    )]
    SessionElsewhere {
        /// The cluster of the token.
        expected: u128,
        /// The cluster of the client.
        found: u128,
    },
    /// The group is in flight in this session: its outcomes come by waiting for it.
    #[error("group {group} is in flight in this session; wait for it")]
    GroupInFlight {
        /// The group.
        group: u64,
    },
    /// Only groups that an earlier holder of the session has numbered are submitted again by their
    /// numbers.
    #[error(
        "group {group} was not numbered before the session was resumed; submit its commands as a new group"
    )]
    NoEarlierGroup {
        /// The group.
        group: u64,
    },
    /// No node that was asked has applied enough of the log in time.
    #[error(
        "{address} has applied the log through entry {applied}, and the read needs entry {wanted}; read again later, or from the leader"
    )]
    Behind {
        /// The node that was asked last.
        address: String,
        /// The last entry that it has applied.
        applied: u64,
        /// The entry that the read needs.
        wanted: u64,
    },
    /// There are too many sessions. None was opened, and none was closed for it.
    #[error("no session was opened: {limit}, its limit; close sessions that are no longer used")]
    TooManySessions {
        /// The limit that is reached.
        limit: SessionLimit,
    },
    /// A node has refused the request and did not execute it.
    #[error("refused: {reason}")]
    Refused {
        /// The reason, and what to do.
        reason: String,
    },
    /// No group of this session with this number is in flight: its results were taken already.
    #[error(
        "the results of group {group} were taken already, or the group belongs to another session"
    )]
    NoSuchGroup {
        /// The group.
        group: u64,
    },
    /// The request cannot be sent.
    #[error(transparent)]
    Request(#[from] FrameError),
    /// A node that was asked by its address does not answer.
    #[error("{address} does not answer: {why}")]
    Node {
        /// Its address.
        address: String,
        /// The reason.
        why: String,
    },
    /// A node that was asked by its address has refused the request and did not execute it.
    #[error("{address} refuses: {reason}")]
    NodeRefused {
        /// Its address.
        address: String,
        /// The reason, and what to do.
        reason: String,
    },
}

/// The side to upgrade.
fn older(node: u16, client: u16) -> &'static str {
    if client < node {
        "the program with this client"
    } else {
        "the node"
    }
}

impl ClientError {
    /// The error for a node that speaks another version than this client.
    pub(crate) fn other_version(address: String, node: u16) -> Self {
        let client = PROTOCOL_VERSION;
        Self::OtherVersion {
            address,
            node,
            client,
        }
    }
}

/// The reason for which a connection is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error(transparent)]
    Nonsense(#[from] FrameError),
    #[error("a message of {0} bytes is longer than any message")]
    TooLong(usize),
    #[error("the name has no address")]
    NoSuchName,
    #[error("it speaks TLS; configure a certificate for this client")]
    SpeaksTls,
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Handshake(#[from] crate::tls::HandshakeError),
    #[error("it takes too long")]
    Late,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `main` prints it.
    #[test]
    fn the_debug_form_is_a_sentence() {
        let error = ClientError::NoAddress;
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}
