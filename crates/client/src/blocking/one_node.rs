//! Requests to one node, in any role. Each uses a connection of its own.
//!
//! Only these options apply: the cluster, the security, and the `timeout`, which covers the
//! connection and the answer.

use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::channel::{frame_of, hello};
use crate::error::{ClientError, ConnectionError};
use crate::options::ClientOptions;
use crate::protocol::{NodeStatus, Request, Response};

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
/// As [`status`].
pub fn state_hash(address: &str, options: &ClientOptions) -> Result<NodeStatus, ClientError> {
    status_by(address, &Request::StateHash, options)
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
/// As [`status`]. [`ClientError::Node`] also if the node is not configured to allow it.
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

fn unexpected(address: &str, response: &Response) -> ClientError {
    let why = match response {
        Response::Refused { reason, .. } => reason.clone(),
        other => format!("it answers {other:?}"),
    };
    ClientError::Node {
        address: address.to_owned(),
        why,
    }
}

fn ask(address: &str, request: &Request, options: &ClientOptions) -> Result<Response, ClientError> {
    options.check()?;
    let failed = |error: ConnectionError| ClientError::Node {
        address: address.to_owned(),
        why: error.to_string(),
    };
    let deadline = Instant::now() + options.timeout;
    let connection = Connection::open(address, &options.security, options.timeout);
    let mut connection = connection.map_err(failed)?;
    for frame in [hello(options.cluster), frame_of(request)] {
        connection.send(&frame).map_err(failed)?;
    }
    while let Some(response) = connection.receive(deadline).map_err(failed)? {
        match (response, options.cluster) {
            (
                Response::Welcome { cluster: found, .. }
                | Response::OtherCluster { cluster: found },
                Some(expected),
            ) if found != expected => {
                return Err(ClientError::OtherCluster {
                    address: address.to_owned(),
                    expected,
                    found,
                });
            }
            (Response::Welcome { .. }, _) => {}
            // A hash is computed for another client, or was just now.
            (Response::Busy { .. }, _) if Instant::now() + BUSY_BACKOFF < deadline => {
                thread::sleep(BUSY_BACKOFF);
                connection.send(&frame_of(request)).map_err(failed)?;
            }
            (response, _) => return Ok(response),
        }
    }
    Err(ClientError::Node {
        address: address.to_owned(),
        why: format!("no answer within {} ms", options.timeout.as_millis()),
    })
}
