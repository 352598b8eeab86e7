//! Nodes of a cluster on this machine that join it and leave it.

use std::path::Path;

use namiki_client::protocol::MemberChange;

use super::layout::{LocalCluster, move_aside};
use super::{end, start_node};
use crate::failure::{Failure, print};
use crate::members::{add_and_wait, addresses_of, remove_member};
use crate::node::{NewDirectory, init};
use crate::status::ProcessState;

/// Adds a node to a cluster on this machine; `None`: with the next number.
pub(crate) fn add(dir: &Path, number: Option<u64>) -> Result<(), Failure> {
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
    add_and_wait(&mut members, &change, directory.incarnation, || {
        node.check_runs()
    })
}

/// Removes a node from a cluster on this machine, and ends it.
pub(crate) fn remove(cluster: &LocalCluster, number: u64) -> Result<(), Failure> {
    let node = cluster.node(number)?;
    remove_member(&mut cluster.members(number)?)?;
    // It is told by the others, if they reach it.
    end(node)?;
    let aside = move_aside(&node.dir, "removed")?;
    print(&format!(
        "node {number} is no member any more; its folder is {}, and may be deleted\n",
        aside.display()
    ))
}
