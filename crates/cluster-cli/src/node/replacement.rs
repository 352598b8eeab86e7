//! Queries to a running cluster about its members, for the replacement of a node.

use std::time::Duration;

use namiki_client::protocol::{MemberStatus, NodeStatus};
use namiki_client::{Client, ClientOptions, Security, status};
use namiki_cluster::config::NodeConfig;

use crate::failure::Failure;

/// Timeout of a leader's answer.
const TIMEOUT: Duration = Duration::from_secs(20);
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Client options of a node's operator: connects only to nodes of the same cluster, with the node's
/// own certificate.
pub(crate) fn options_of(config: &NodeConfig) -> Result<ClientOptions, Failure> {
    let security = match &config.tls {
        Some(tls) => Security::tls(tls)?,
        None => Security::Plain,
    };
    Ok(ClientOptions {
        security,
        cluster: Some(config.cluster),
        ..ClientOptions::default()
    })
}

/// The cluster of a node that is replaced.
pub(crate) struct Members {
    node: u64,
    client: Client,
    /// Options of requests for the state of a node.
    options: ClientOptions,
}

impl Members {
    /// Finds the cluster's leader.
    pub(crate) fn find(
        config: &NodeConfig,
        node: u64,
        options: &ClientOptions,
    ) -> Result<Self, Failure> {
        if config.members.iter().all(|it| it.id.number() != node) {
            return Err(Failure::NoNode(node.to_string()));
        }
        let others = config.members.iter().filter(|it| it.id.number() != node);
        let within = |timeout| ClientOptions {
            timeout,
            ..options.clone()
        };
        let addresses = others.map(|it| it.client.clone());
        Ok(Self {
            node,
            client: Client::connect(addresses, within(TIMEOUT))?,
            options: within(STATUS_TIMEOUT),
        })
    }

    /// The leader's status. A linearizable read comes first, so that no earlier change is missed:
    /// two directories of one incarnation would be mistaken for one another.
    pub(crate) fn leader(&mut self) -> Result<NodeStatus, Failure> {
        self.client.read(Vec::new())?;
        let address = self.client.leader().unwrap_or_default();
        Ok(status(address, &self.options)?)
    }

    /// The leader's record of the node.
    pub(crate) fn member(&self, leader: &NodeStatus) -> Result<MemberStatus, Failure> {
        let mut members = leader.members.iter();
        let member = members.find(|it| it.node == self.node).copied();
        member.ok_or_else(|| Failure::NoNode(self.node.to_string()))
    }

    /// The incarnation of the node's next directory.
    pub(crate) fn next_incarnation(&mut self) -> Result<u64, Failure> {
        let leader = self.leader()?;
        Ok(self.member(&leader)?.incarnation + 1)
    }

    /// Makes the directory of this incarnation a member. Has no effect if it is one.
    pub(crate) fn replace(&mut self, incarnation: u64) -> Result<(), Failure> {
        Ok(self.client.replace_node(self.node, incarnation)?)
    }
}
