//! Why a client was not answered as it hoped.

use std::io;

use crate::error_sentence::debug_as_sentence;
use crate::protocol::{FrameError, SessionId};

debug_as_sentence!(ClientError);

/// Why there is no answer, or another one than hoped for.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No addresses were passed.
    #[error("no address of a node was passed; pass that of at least one")]
    NoAddress,
    /// The options name a cluster that cannot be.
    #[error("no cluster has the number 0; name the cluster's own number in the options, or none")]
    NoCluster,
    /// No leader answered in time. What was asked for changes nothing if it is asked for again.
    #[error(
        "no leader answered in time: {last}; ask again, or look whether a majority of the nodes runs"
    )]
    Unavailable {
        /// What was met last.
        last: String,
    },
    /// No leader of the cluster answered in time, and at one of the addresses is a node of another cluster, which was not asked for anything.
    #[error(
        "{address} belongs to cluster {found:032x}, not to cluster {expected:032x}: its nodes have moved, or another cluster has taken their \
         addresses; connect with the addresses that the cluster has now, or with a new client if the other one is meant"
    )]
    OtherCluster {
        /// The address.
        address: String,
        /// The cluster that the client belongs to.
        expected: u128,
        /// The one that is there.
        found: u128,
    },
    /// It is not known whether the commands of this group were executed, and it will be: wait for the group again, or ask again later in
    /// the same session.
    #[error(
        "the outcome of group {group} is not known: {last}; wait for the group again, it is not executed twice"
    )]
    OutcomeUnknown {
        /// The group.
        group: u64,
        /// What was met last.
        last: String,
    },
    /// The session was closed, or has expired. Groups that are not answered may have been executed.
    #[error("there is no session {} any more; open another one", .session.0)]
    NoSuchSession {
        /// The session.
        session: SessionId,
    },
    /// A node has refused what was asked for, and has not done it.
    #[error("refused: {reason}")]
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// The group is none of this session that is waited for: its results were taken already.
    #[error("the results of group {group} were taken already, or it is another session's")]
    NoSuchGroup {
        /// The group.
        group: u64,
    },
    /// What is asked for cannot be sent.
    #[error(transparent)]
    Request(#[from] FrameError),
    /// One node, which was asked by its address, does not answer.
    #[error("{address} does not answer: {why}")]
    Node {
        /// Its address.
        address: String,
        /// Why.
        why: String,
    },
}

/// Why a connection is of no use any more.
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
    #[cfg(any(feature = "async", feature = "tls"))]
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
