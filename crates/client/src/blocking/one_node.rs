//! Requests to one node, in any role. Each uses a connection of its own.
//!
//! Only these options apply: the cluster, the security, and the `timeout`, which covers the
//! connection and the answer.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::channel::{frame_of, hello};
use crate::error::{ClientError, ConnectionError};
use crate::options::{ClientOptions, later};
use crate::protocol::{NodeStatus, PROTOCOL_VERSION, Request, Response, SessionEntry, SessionId};

/// Backoff before a request is sent again to a node that is busy.
const BUSY_BACKOFF: Duration = Duration::from_millis(20);

/// The role of a node in the cluster, and the state of its log.
///
/// # Errors
/// [`ClientError::Node`] if it does not answer in time. [`ClientError::OtherCluster`] if it belongs
/// to another cluster than the options name.
pub fn status(address: &str, options: &ClientOptions) -> Result<NodeStatus, ClientError> {
    status_by(address, &Request::Status, options)
}

/// As [`status`], with a hash of the node's tables and sessions: it reads every row.
///
/// # Errors
/// As [`status`]. [`ClientError::NodeRefused`] if the node has no tables, or is busy with another hash.
pub fn state_hash(address: &str, options: &ClientOptions) -> Result<NodeStatus, ClientError> {
    status_by(address, &Request::StateHash { at: None }, options)
}

/// A node's answer to a request for the hash of its state at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAt {
    /// The hash of its rows and sessions after that entry.
    Entry {
        /// The node's number.
        node: u64,
        /// The hash.
        hash: u128,
    },
    /// The node has applied later entries: the state is gone.
    Passed {
        /// The last one.
        applied: u64,
    },
    /// The node has not applied the entry within a second.
    Behind {
        /// The last one that it has applied.
        applied: u64,
    },
}

/// As [`state_hash`], of the state after one entry of the log: so nodes can be compared while commands go on, see
/// [`states_at_one_entry`](super::states_at_one_entry).
///
/// # Errors
/// As [`status`].
pub fn state_hash_at(
    address: &str,
    lsn: u64,
    options: &ClientOptions,
) -> Result<HashAt, ClientError> {
    match ask(address, &Request::StateHash { at: Some(lsn) }, options)? {
        Response::Status(status) if status.applied_lsn == lsn => {
            let node = status.node;
            let hash = status.state_hash;
            hash.map(|hash| HashAt::Entry { node, hash })
                .ok_or_else(|| unexpected(address, &Response::Status(status)))
        }
        Response::EntryPassed { applied } => Ok(HashAt::Passed { applied }),
        Response::Behind { applied, .. } => Ok(HashAt::Behind { applied }),
        other => Err(unexpected(address, &other)),
    }
}

fn status_by(
    address: &str,
    request: &Request,
    options: &ClientOptions,
) -> Result<NodeStatus, ClientError> {
    match ask(address, request, options)? {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(address, &other)),
    }
}

/// For failure tests: makes a node send nothing to these nodes and ignore their messages. With no
/// nodes, all links are healed.
///
/// # Errors
/// As [`status`]. [`ClientError::NodeRefused`] if the node is not configured to allow it.
pub fn cut_links(
    address: &str,
    nodes: Vec<u64>,
    options: &ClientOptions,
) -> Result<(), ClientError> {
    match ask(address, &Request::CutLinks { nodes }, options)? {
        Response::LinksCut { .. } => Ok(()),
        other => Err(unexpected(address, &other)),
    }
}

/// The open sessions of a cluster, in the order of their numbers. Only the leader knows how long each was not used.
///
/// # Errors
/// As [`status`]. [`ClientError::Node`] also if the node does not lead.
pub fn sessions(address: &str, options: &ClientOptions) -> Result<Vec<SessionEntry>, ClientError> {
    let mut node = OneNode::connect(address, options)?;
    let mut found = BTreeMap::new();
    let mut after = (0, SessionId(0));
    loop {
        let response = node.ask(&Request::Sessions { after }, options.timeout)?;
        let Response::Sessions { sessions, has_more } = response else {
            return Err(unexpected(address, &response));
        };
        let last = sessions.last().map(|it| (it.used, it.session));
        // One that is used in between comes again.
        found.extend(sessions.into_iter().map(|it| (it.session, it)));
        match last {
            Some(last) if has_more => after = last,
            _ => return Ok(found.into_values().collect()),
        }
    }
}

/// Closes a session that was [listed](sessions): the leader forgets it, and what became of its groups. A process that holds it gets
/// [`ClientError::NoSuchSession`]. Returns false, and nothing was closed, if it was resumed since it was listed.
///
/// # Errors
/// As [`sessions`]. Also if it is used all the time.
pub fn close_session(
    address: &str,
    listed: &SessionEntry,
    options: &ClientOptions,
) -> Result<bool, ClientError> {
    let request = Request::CloseSession {
        session: listed.session,
        fence: listed.fence,
    };
    match ask(address, &request, options)? {
        Response::SessionClosed { .. } => Ok(true),
        Response::SessionTaken { .. } => Ok(false),
        other => Err(unexpected(address, &other)),
    }
}

pub(super) fn unexpected(address: &str, response: &Response) -> ClientError {
    let address = address.to_owned();
    match response {
        Response::Refused { reason, .. } => ClientError::NodeRefused {
            address,
            reason: reason.clone(),
        },
        Response::Busy { .. } => ClientError::NodeRefused {
            address,
            reason: "it is busy with such a request; ask again later".to_owned(),
        },
        other => ClientError::Node {
            address,
            why: format!("it answers {other:?}"),
        },
    }
}

fn ask(address: &str, request: &Request, options: &ClientOptions) -> Result<Response, ClientError> {
    OneNode::connect(address, options)?.ask(request, options.timeout)
}

/// A connection to one node.
pub(super) struct OneNode {
    address: String,
    cluster: Option<u128>,
    connection: Connection,
}

impl OneNode {
    pub(super) fn connect(address: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        options.check()?;
        let address = address.to_owned();
        let opened = Connection::open(&address, &options.security, options.timeout);
        let opened = opened.and_then(|mut connection| {
            connection.send(&hello(options.cluster))?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Ok(Self {
                address,
                cluster: options.cluster,
                connection,
            }),
            Err(error) => Err(failed(&address, &error)),
        }
    }

    /// Sends a request, and waits for the answer. One request at a time.
    pub(super) fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
    ) -> Result<Response, ClientError> {
        let deadline = later(Instant::now(), timeout);
        let Self {
            address,
            cluster,
            connection,
        } = self;
        let failed = |error: ConnectionError| failed(address, &error);
        connection.send(&frame_of(request)).map_err(failed)?;
        while let Some(response) = connection.receive(deadline).map_err(failed)? {
            match (response, *cluster) {
                (Response::Welcome { version, .. }, _) if version != PROTOCOL_VERSION => {
                    return Err(ClientError::other_version(address.clone(), version));
                }
                (
                    Response::Welcome { cluster: found, .. }
                    | Response::OtherCluster { cluster: found },
                    Some(expected),
                ) if found != expected => {
                    return Err(ClientError::OtherCluster {
                        address: address.clone(),
                        expected,
                        found,
                    });
                }
                // No answer: a node also sends the addresses when they change.
                (Response::Welcome { .. } | Response::Nodes { .. }, _) => {}
                // It works for another client, or has just done so.
                (Response::Busy { .. }, _) if Instant::now() + BUSY_BACKOFF < deadline => {
                    thread::sleep(BUSY_BACKOFF);
                    connection.send(&frame_of(request)).map_err(failed)?;
                }
                (response, _) => return Ok(response),
            }
        }
        Err(ClientError::Node {
            address: address.clone(),
            why: format!("no answer within {} ms", timeout.as_millis()),
        })
    }
}

fn failed(address: &str, error: &ConnectionError) -> ClientError {
    ClientError::Node {
        address: address.to_owned(),
        why: error.to_string(),
    }
}
