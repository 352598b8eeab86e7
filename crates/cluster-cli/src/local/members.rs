//! `namiki cluster add`, `remove` and `move`: members join a cluster that serves, leave it, and get
//! other addresses.
//!
//! ```text
//! new directory ──> the node runs ──> the leader admits it as a learner ──> it catches up ──> it votes
//! ```
//! Every step can be repeated, so the same command completes an interrupted addition.

use std::path::Path;
use std::time::Duration;

use namiki_client::ClientOptions;
use namiki_client::protocol::{MemberChange, NodeAddresses};
use namiki_cluster::config::NodeConfig;

use super::layout::{LocalCluster, move_aside};
use super::promotion::take_in;
use super::{end, start_node};
use crate::failure::{Failure, print};
use crate::node::{Members, NewDirectory, init, options_of, read_config, running_node};
use crate::status::ProcessState;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Adds a node to a cluster on this machine; `None`: with the next number.
pub(super) fn add_local(dir: &Path, number: Option<u64>) -> Result<(), Failure> {
    let cluster = LocalCluster::open(dir)?;
    let leader = cluster.members(0)?.leader()?;
    let votes = |number: u64| (leader.members.iter()).any(|it| it.node == number && it.votes);
    // One of an earlier addition that was interrupted, or the next one.
    let unfinished = cluster.nodes.iter().find(|node| !votes(node.id));
    let last = cluster.nodes.iter().map(|node| node.id).max().unwrap_or(0);
    let number = number.unwrap_or(unfinished.map_or(last + 1, |node| node.id));
    if votes(number) {
        return Err(Failure::IsMember { node: number });
    }
    let cluster = match cluster.node(number) {
        Ok(_) => cluster,
        Err(_) => cluster.with_node(number)?,
    };
    let node = cluster.node(number)?;
    let mut members = cluster.members(number)?;
    let member = leader.members.iter().find(|it| it.node == number);
    let directory = match member {
        Some(member) => NewDirectory {
            incarnation: member.incarnation,
            founders: leader.founders.clone(),
            backup: leader.backup,
        },
        None => members.joining_directory()?,
    };
    if !node.config.directory.exists() && member.is_none() {
        init(&node.config, &directory)?;
    }
    if node.process()? == ProcessState::Down {
        start_node(&cluster, node)?;
        cluster.set_cuts(&cluster.cuts()?)?;
    }
    let change = MemberChange::Add {
        node: number,
        incarnation: directory.incarnation,
        addresses: addresses_of(&node.config, number)?,
    };
    take_in(&mut members, &change, directory.incarnation, || {
        node.check_runs()
    })
}

/// Adds a node on another machine, where it runs.
pub(super) fn add_remote(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    let mut members = Members::find(&config, number, &options)?;
    let running = running_node(&config, number, &options)?;
    let leader = members.leader()?;
    if (running.founders, running.backup) != (leader.founders, leader.backup) {
        return Err(Failure::OtherFounders { node: number });
    }
    let incarnation = running.incarnation;
    let change = MemberChange::Add {
        node: number,
        incarnation,
        addresses: addresses_of(&config, number)?,
    };
    take_in(&mut members, &change, incarnation, || Ok(()))
}

/// Removes a node from a cluster on this machine, and ends it.
pub(super) fn remove_local(cluster: &LocalCluster, number: u64) -> Result<(), Failure> {
    let node = cluster.node(number)?;
    remove(&mut cluster.members(number)?)?;
    // It is told by the others, if they reach it.
    end(node)?;
    let aside = move_aside(&node.dir, "removed")?;
    print(&format!(
        "node {number} is no member any more; its folder is {}, and may be deleted\n",
        aside.display()
    ))
}

/// Removes a node on another machine.
pub(super) fn remove_remote(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    remove(&mut Members::find(&config, number, &options)?)?;
    print(&format!(
        "node {number} is no member any more, and stops; its directory may be deleted\n"
    ))
}

fn remove(members: &mut Members) -> Result<(), Failure> {
    let leader = members.leader()?;
    // It may have been removed by an interrupted command.
    match members.find_member(&leader) {
        Some(member) => members.change(&MemberChange::Remove {
            node: member.node,
            incarnation: member.incarnation,
        }),
        None if members.was_removed(&leader) => Ok(()),
        None => Err(members.no_node()),
    }
}

/// Writes the addresses of a node in a configuration into the log.
pub(super) fn move_remote(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    let mut members = Members::find(&config, number, &options)?;
    let addresses = addresses_of(&config, number)?;
    let NodeAddresses { peer, client } = addresses.clone();
    members.change(&MemberChange::Move {
        node: number,
        addresses,
    })?;
    print(&format!(
        "node {number} is at {peer} for nodes, and at {client} for clients\n"
    ))
}

fn configured(path: &Path) -> Result<(NodeConfig, ClientOptions), Failure> {
    let config = read_config(path)?;
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..options_of(&config)?
    };
    Ok((config, options))
}

fn addresses_of(config: &NodeConfig, number: u64) -> Result<NodeAddresses, Failure> {
    let mut members = config.members.iter();
    let member = members.find(|it| it.id.number() == number);
    let member = member.ok_or(Failure::NotListed { node: number })?;
    Ok(member.addresses())
}
