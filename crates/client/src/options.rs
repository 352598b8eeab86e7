//! Options of a client: timeouts, its cluster, and the security of its connections.

use std::time::{Duration, Instant};

use crate::error::ClientError;
use crate::security::Security;

/// What stands for a time that no instant can express: some 30 years.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// The instant after a wait, which may be as long as a [`Duration`] can be.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from + wait.min(LONGEST)
}

/// Times and limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Timeout of a call, across connections and leaders; [`Duration::MAX`]: none. Default 10 s.
    pub timeout: Duration,
    /// Timeout of connecting. Default 1 s.
    pub connect_timeout: Duration,
    /// Silence after which a node that owes an answer is asked whether it is alive. After the same
    /// time again another node is tried; together that is about the length of an election. A new
    /// connection is given up after twice this time. Default 200 ms.
    pub silence: Duration,
    /// Largest number of unanswered groups of a session. Default 8.
    pub window: usize,
    /// Security of connections. Default: none.
    pub security: Security,
    /// The number of the cluster, which is not 0; nodes of other clusters are not used. Default:
    /// that of the first node that answers.
    pub cluster: Option<u128>,
}

impl ClientOptions {
    /// Fails if no cluster can have the number.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        // To a node, 0 means any cluster.
        match self.cluster {
            Some(0) => Err(ClientError::NoCluster),
            _ => Ok(()),
        }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(1),
            silence: Duration::from_millis(200),
            window: 8,
            security: Security::Plain,
            cluster: None,
        }
    }
}
