//! How patient a client is, to which cluster it belongs, and how its connections are protected.

use std::time::Duration;

use crate::error::ClientError;
use crate::security::Security;

/// Times and limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a call waits for its answer, whatever happens to connections and leaders meanwhile. Default 10 s.
    pub timeout: Duration,
    /// How long a connection may take. Default 1 s.
    pub connect_timeout: Duration,
    /// After this silence of a node that owes an answer it is asked whether it is alive, and after as much again another is tried: together
    /// about as long as an election takes. A new connection is left after as long as both. Default 200 ms.
    pub silence: Duration,
    /// Groups of a session that are not answered at the same time, at most. Default 8.
    pub window: usize,
    /// How connections are protected. Default: not at all.
    pub security: Security,
    /// The number of the cluster, which is not 0; nodes of others are left alone. Default: that of the first node that answers.
    pub cluster: Option<u128>,
}

impl ClientOptions {
    /// Fails if there can be no such cluster.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        // To a node, 0 means whichever cluster is there.
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
