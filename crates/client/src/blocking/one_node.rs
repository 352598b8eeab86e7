//! Questions to one node, whichever role it has. Each has a connection of its own.

use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::channel::{frame_of, hello};
use crate::error::{ClientError, ConnectionError};
use crate::protocol::{NodeStatus, Request, Response};
use crate::security::Security;

/// What a node is in the cluster, and how far its log is.
///
/// # Errors
/// [`ClientError::Node`] if it does not answer in time.
pub fn status(
    address: &str,
    security: &Security,
    timeout: Duration,
) -> Result<NodeStatus, ClientError> {
    status_by(address, &Request::Status, security, timeout)
}

/// As [`status`], with a hash of the node's tables and sessions: it looks at every row.
///
/// # Errors
/// [`ClientError::Node`] if it does not answer in time.
pub fn state_hash(
    address: &str,
    security: &Security,
    timeout: Duration,
) -> Result<NodeStatus, ClientError> {
    status_by(address, &Request::StateHash, security, timeout)
}

fn status_by(
    address: &str,
    request: &Request,
    security: &Security,
    timeout: Duration,
) -> Result<NodeStatus, ClientError> {
    match ask(address, request, security, timeout)? {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(address, &other)),
    }
}

/// For tests of failures: has a node send nothing to these others and ignore what comes from them. No nodes: all links are whole again.
///
/// # Errors
/// [`ClientError::Node`] if it does not answer in time, or is not configured to allow it.
pub fn cut_links(
    address: &str,
    nodes: Vec<u64>,
    security: &Security,
    timeout: Duration,
) -> Result<(), ClientError> {
    match ask(address, &Request::CutLinks { nodes }, security, timeout)? {
        Response::LinksCut { .. } => Ok(()),
        other => Err(unexpected(address, &other)),
    }
}

fn unexpected(address: &str, response: &Response) -> ClientError {
    let why = match response {
        Response::Refused { reason, .. } => reason.clone(),
        other => format!("it says {other:?}"),
    };
    ClientError::Node {
        address: address.to_owned(),
        why,
    }
}

fn ask(
    address: &str,
    request: &Request,
    security: &Security,
    timeout: Duration,
) -> Result<Response, ClientError> {
    let failed = |error: ConnectionError| ClientError::Node {
        address: address.to_owned(),
        why: error.to_string(),
    };
    let deadline = Instant::now() + timeout;
    let mut connection = Connection::open(address, security, timeout).map_err(failed)?;
    for frame in [hello(), frame_of(request)] {
        connection.send(&frame).map_err(failed)?;
    }
    while let Some(response) = connection.receive(deadline).map_err(failed)? {
        if !matches!(response, Response::Welcome { .. }) {
            return Ok(response);
        }
    }
    Err(ClientError::Node {
        address: address.to_owned(),
        why: format!("no answer within {} ms", timeout.as_millis()),
    })
}
