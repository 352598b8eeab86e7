//! A node joins a cluster.

use std::path::Path;

use namiki_client::protocol::MemberChange;

use super::{add_and_wait, addresses_of, configured};
use crate::failure::Failure;
use crate::node::{Members, running_node};

/// Adds a node on another machine, where it runs.
pub(crate) fn add(number: u64, config: &Path) -> Result<(), Failure> {
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
    add_and_wait(&mut members, &change, incarnation, || Ok(()))
}
