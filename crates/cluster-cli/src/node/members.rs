//! Queries to a running cluster about its members, and changes of them.

use std::time::Duration;

use namiki_client::protocol::{MemberChange, MemberStatus, NodeStatus};
use namiki_client::{Client, ClientOptions, Security, status};
use namiki_cluster::config::{Member, NodeConfig};

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

/// The state of a node at its address in a configuration.
pub(crate) fn running_node(
    config: &NodeConfig,
    number: u64,
    options: &ClientOptions,
) -> Result<NodeStatus, Failure> {
    let mut members = config.members.iter();
    let member = members.find(|it| it.id.number() == number);
    let address = &member.ok_or(Failure::NotListed { node: number })?.client;
    let running = status(address, options)?;
    if running.node != number {
        return Err(Failure::OtherNode {
            address: address.clone(),
            expected: number,
            found: running.node,
        });
    }
    Ok(running)
}

/// The identity of a new directory.
pub(crate) struct NewDirectory {
    pub(crate) incarnation: u64,
    /// The numbers of the members with which the cluster began.
    pub(crate) founders: Vec<u64>,
    /// The backup with which it began.
    pub(crate) backup: Option<u128>,
}

impl NewDirectory {
    /// That of a node of a new cluster.
    pub(crate) fn of_new_cluster(config: &NodeConfig) -> Self {
        Self {
            incarnation: 1,
            founders: config.numbers(),
            backup: None,
        }
    }
}

/// The cluster of a node that becomes a member, or ceases to be one.
pub(crate) struct Members {
    node: u64,
    client: Client,
    /// Options of requests for the state of a node.
    options: ClientOptions,
}

impl Members {
    /// Connects to the cluster, at the nodes of a configuration: at the others first.
    pub(crate) fn find(
        config: &NodeConfig,
        node: u64,
        options: &ClientOptions,
    ) -> Result<Self, Failure> {
        let is_own = |it: &&Member| it.id.number() == node;
        let others = config.members.iter().filter(|it| !is_own(it));
        let all = others.chain(config.members.iter().filter(is_own));
        Self::at(all.map(|it| it.client.clone()), node, options)
    }

    /// Connects to the cluster, at these addresses of its nodes.
    pub(crate) fn at(
        addresses: impl IntoIterator<Item = String>,
        node: u64,
        options: &ClientOptions,
    ) -> Result<Self, Failure> {
        let within = |timeout| ClientOptions {
            timeout,
            ..options.clone()
        };
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

    /// The leader's record of the node, if it is a member.
    pub(crate) fn find_member(&self, leader: &NodeStatus) -> Option<MemberStatus> {
        let mut members = leader.members.iter();
        members.find(|it| it.node == self.node).cloned()
    }

    /// The leader's record of the node.
    pub(crate) fn member(&self, leader: &NodeStatus) -> Result<MemberStatus, Failure> {
        let member = self.find_member(leader);
        member.ok_or_else(|| self.no_node())
    }

    /// The failure if the cluster has no such node.
    pub(crate) fn no_node(&self) -> Failure {
        Failure::NoNode(self.node.to_string())
    }

    /// Whether the node was removed from the cluster.
    pub(crate) fn was_removed(&self, leader: &NodeStatus) -> bool {
        leader.removed.iter().any(|(node, _)| *node == self.node)
    }

    /// The next directory of the node, which is a member.
    pub(crate) fn next_directory(&mut self) -> Result<NewDirectory, Failure> {
        let leader = self.leader()?;
        Ok(NewDirectory {
            incarnation: self.member(&leader)?.incarnation + 1,
            founders: leader.founders,
            backup: leader.backup,
        })
    }

    /// The directory of the node, which is to become a member.
    pub(crate) fn joining_directory(&mut self) -> Result<NewDirectory, Failure> {
        let leader = self.leader()?;
        if self.find_member(&leader).is_some() {
            return Err(Failure::IsMember { node: self.node });
        }
        let mut removed = leader.removed.iter();
        let removed = removed.find(|(number, _)| *number == self.node);
        Ok(NewDirectory {
            incarnation: removed.map_or(1, |(_, incarnation)| incarnation + 1),
            founders: leader.founders,
            backup: leader.backup,
        })
    }

    /// Makes a change. Has no effect if it was made before.
    pub(crate) fn change(&mut self, change: &MemberChange) -> Result<(), Failure> {
        Ok(self.client.change_members(change)?)
    }
}
