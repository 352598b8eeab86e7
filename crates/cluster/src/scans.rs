//! What reads many rows of a node: in a view, and on a thread of its own, while later entries are applied.

use namiki::replica::ReplicaView;
use namiki_client::protocol::{NodeStatus, Response};

use crate::network::ConnectionId;
use crate::shared::Shared;

/// A scan that is to be made.
#[derive(Debug)]
pub(crate) enum Scan {
    /// The hash of the state at the entry of the view.
    StateHash {
        connection: ConnectionId,
        /// The status then.
        status: Box<NodeStatus>,
        view: ReplicaView,
        /// The hash of the sessions then.
        sessions: u128,
    },
}

/// Makes the queued scans.
pub(crate) fn run_scans(shared: &Shared, scans: impl IntoIterator<Item = Scan>) {
    for scan in scans {
        match scan {
            Scan::StateHash {
                connection,
                mut status,
                view,
                sessions,
            } => {
                let answer = match view.state_hash() {
                    Ok(tables) => {
                        status.state_hash = Some(tables.wrapping_add(sessions));
                        Response::Status(status)
                    }
                    Err(error) => Response::Refused {
                        request: 0,
                        reason: error.to_string(),
                    },
                };
                shared.hashes.end();
                shared.network.reply(connection, answer);
            }
        }
    }
}
